"""Pipelines over an S3 server behind a proxy that misbehaves: the same stream, and few bytes more than are read."""

import io
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_obstore.storage import ObstoreStorage

Fault = Callable[[int, str, str], str | None]


def options(endpoint: str) -> dict[str, Any]:
    return {
        "key": "kit-key-id",
        "secret": "kit-secret-key",
        "region": "us-east-1",
        "endpoint_url": endpoint,
        "client_options": {"timeout": "1s"},
    }


def filled(bucket: Any, url: str, rows_each: int = 500) -> tuple[list[str], int]:
    """Four Parquet files below ``url``; the texts in them, and how many bytes their column takes in the files."""
    draw = random.Random(7)
    texts, column_bytes = [], 0
    for part in range(4):
        rows = [f"{part}-{row} {draw.randbytes(300).hex()}" for row in range(rows_each)]
        other = [draw.randbytes(1000) for _ in rows]
        sink = io.BytesIO()
        pq.write_table(pa.table({"before": other, "text": rows, "after": other}), sink, row_group_size=rows_each // 5)
        bucket.put(f"{url}/part-{part}.parquet", sink.getvalue())
        meta = pq.ParquetFile(sink).metadata
        column_bytes += sum(meta.row_group(g).column(1).total_compressed_size for g in range(meta.num_row_groups))
        texts += rows
    return texts, column_bytes


def stream(url: str, endpoint: str, index_dir: Any, runner: str = "threads") -> list[str]:
    web = Dataset.from_path("web", url, columns=["text"], storage_options=options(endpoint), index_dir=index_dir)
    source = StaticMixtureWorkSource([web], {"web": 1}, chunk_size=64, seed=3, stop_after_passes=1)
    with Pipeline(source).batch(32, drop_last=False).options(runner=runner) as pipeline:
        return [text for batch in pipeline for text in batch["text"].to_pylist()]


def test_a_pass_over_one_column_transfers_little_more_than_that_column(
    bucket: Any, proxy: Any, folder_url: str, tmp_path: Any
) -> None:
    texts, column_bytes = filled(bucket, folder_url, rows_each=2000)
    expected = stream(folder_url, proxy.endpoint, tmp_path)
    first = proxy.body_bytes
    assert sorted(expected) == sorted(texts)
    assert stream(folder_url, proxy.endpoint, tmp_path) == expected
    second = proxy.body_bytes - first
    print(f"{column_bytes} bytes of a column: {first} transferred without an index, {second} with the one then saved")
    for transferred in (first, second):
        assert column_bytes <= transferred <= 1.2 * column_bytes


def test_worker_processes_read_the_same_stream(bucket: Any, folder_url: str, tmp_path: Any) -> None:
    filled(bucket, folder_url)
    expected = stream(folder_url, bucket.endpoint, tmp_path)
    assert stream(folder_url, bucket.endpoint, tmp_path, runner="processes") == expected


def every_tenth(fault: str) -> Fault:
    draw = random.Random(11)
    return lambda number, method, path: fault if draw.random() < 0.1 else None


def once_for_reads(fault: str) -> Fault:
    """The first read of a part, and of it alone."""
    seen: set[str] = set()

    def decide(number: int, method: str, path: str) -> str | None:
        if method != "GET" or ".parquet" not in path or seen:
            return None
        seen.add(path)
        return fault

    return decide


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda: every_tenth("down"), id="a-tenth-503"),
        pytest.param(lambda: every_tenth("busy"), id="a-tenth-429"),
        pytest.param(lambda: every_tenth("short"), id="a-tenth-short"),
        pytest.param(lambda: once_for_reads("stall"), id="one-stalls"),
        pytest.param(lambda: once_for_reads("expired"), id="token-expired-once"),
    ],
)
def test_faults_that_pass_do_not_change_the_stream(
    bucket: Any, proxy: Any, folder_url: str, tmp_path: Any, fault: Callable[[], Fault]
) -> None:
    filled(bucket, folder_url)
    expected = stream(folder_url, bucket.endpoint, tmp_path / "direct")
    proxy.fault = fault()
    assert stream(folder_url, proxy.endpoint, tmp_path / "faulty") == expected
    assert proxy.faults, "no fault was met"


@pytest.mark.parametrize(
    ("fault", "kind"),
    [("missing", FileNotFoundError), ("refused", PermissionError), ("short", OSError), ("stall", OSError)],
)
def test_one_failure_is_an_error_and_the_next_answer_counts(
    bucket: Any, proxy: Any, folder_url: str, fault: str, kind: type[OSError]
) -> None:
    url = f"{folder_url}/x"
    bucket.put(url, b"0123456789")
    storage = ObstoreStorage(**options(proxy.endpoint))
    proxy.fault = once(fault)
    with pytest.raises(OSError) as excinfo:
        storage.read_ranges(url, [(2, 6)])
    assert type(excinfo.value) is kind
    assert storage.read_ranges(url, [(2, 6)])[0].to_pybytes() == b"2345"


def once(fault: str) -> Fault:
    return lambda number, method, path: fault if number == 1 else None


def test_who_shows_no_credentials_is_refused(bucket: Any, folder_url: str) -> None:
    bucket.put(f"{folder_url}/x", b"0123456789")
    nobody = ObstoreStorage(anon=True, endpoint_url=bucket.endpoint, region="us-east-1")
    for call in (nobody.stat, nobody.list, lambda url: nobody.read_ranges(url, [(0, 1)])):
        with pytest.raises(PermissionError):
            call(f"{folder_url}/x")


def test_many_ranges_are_few_requests(bucket: Any, proxy: Any, folder_url: str) -> None:
    url = f"{folder_url}/x"
    content = random.Random(1).randbytes(400_000)
    bucket.put(url, content)
    ranges = [(start, start + 50) for start in range(0, 3000, 100)] + [(300_000, 300_100), (200_000, 200_001)]
    bodies = ObstoreStorage(**options(proxy.endpoint)).read_ranges(url, ranges)
    assert [body.to_pybytes() for body in bodies] == [content[start:stop] for start, stop in ranges]
    assert len(proxy.requests) == 3
    assert proxy.body_bytes == 2950 + 100 + 1
