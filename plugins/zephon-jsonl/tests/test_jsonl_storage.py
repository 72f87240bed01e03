"""How shards are fetched and decompressed: only what is needed, and never more than once without need."""

from __future__ import annotations

import gzip
import json
import os
from itertools import pairwise

import attrs
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zephon.errors import ShardError, StorageError
from zephon_jsonl import content, indexer, reader
from zephon_jsonl.layout import Layout

ROWS = [{"a": n, "text": "x" * (n % 50)} for n in range(2000)]
LINES = [json.dumps(row).encode() + b"\n" for row in ROWS]
TEXT = b"".join(LINES)
PACKERS = {"gzip": gzip.compress, "zstd": zstandard.compress}


@pytest.fixture(name="small_steps")
def _small_steps(monkeypatch):
    """Read and restart in steps that small files have many of."""
    monkeypatch.setattr(content, "CHUNK_BYTES", 512)
    monkeypatch.setattr(content, "_FEED", 64)
    monkeypatch.setattr(content.Content, "gap", 64)
    monkeypatch.setattr(content.CompressedContent, "gap", 512)
    monkeypatch.setattr(indexer, "_RESTART_BYTES", 1)


def packed(pack, cuts) -> bytes:
    """The text in several members, cut anywhere."""
    edges = [0, *sorted(cuts), len(TEXT)]
    return b"".join(pack(TEXT[start:stop]) for start, stop in pairwise(edges))


def covers(ranges, reads) -> bool:
    return all(any(start <= a and b <= stop for start, stop in ranges) for a, b in reads)


rows_strategy = st.lists(st.integers(0, len(ROWS) - 1), min_size=1, max_size=20, unique=True).map(sorted)


@given(reads=st.lists(rows_strategy, min_size=1, max_size=4), cuts=st.lists(st.integers(0, len(TEXT)), max_size=5))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("kind", ["plain", "gzip", "zstd"])
def test_any_reads_in_any_order_give_their_rows_from_the_ranges_announced(in_memory, small_steps, kind, reads, cuts):
    shard = in_memory(TEXT if kind == "plain" else packed(PACKERS[kind], cuts))
    opened = shard.open()
    for rows in reads:
        asked = np.array(rows, dtype=np.int64)
        ranges = opened.ranges(asked, None)
        assert (ranges[:, 0] < ranges[:, 1]).all()
        assert (ranges[1:, 0] > ranges[:-1, 1]).all()
        fresh = shard.open()
        shard.context.reads.clear()
        assert fresh.read(asked, None).to_pylist() == [ROWS[row] for row in rows]
        assert covers(ranges, shard.context.reads)
        assert opened.read(asked, None).to_pylist() == [ROWS[row] for row in rows]


def test_one_row_of_a_plain_file_elsewhere_costs_its_own_bytes(in_memory):
    shard = in_memory(TEXT)
    shard.context.reads.clear()
    assert shard.read([1234]).to_pylist() == [ROWS[1234]]
    start = sum(map(len, LINES[:1234]))
    assert shard.context.reads == [(start, start + len(LINES[1234]))]


def test_reading_no_rows_or_no_columns_fetches_nothing(in_memory):
    shard = in_memory(TEXT)
    shard.context.reads.clear()
    assert shard.read([]).num_rows == 0
    assert shard.read([3, 4], []).num_rows == 2
    assert shard.open().ranges(np.empty(0, dtype=np.int64), None).shape == (0, 2)
    assert shard.context.reads == []


@pytest.mark.parametrize("kind", PACKERS)
def test_reading_a_compressed_shard_forward_in_blocks_decompresses_it_once(in_memory, small_steps, kind):
    shard = in_memory(PACKERS[kind](TEXT))
    shard.context.reads.clear()
    opened = shard.open()
    rows = [opened.read(np.arange(start, start + 10), ["a"]).to_pylist() for start in range(0, len(ROWS), 10)]
    assert [row["a"] for block in rows for row in block] == list(range(len(ROWS)))
    edges = [0, *range(512, len(shard.context.data), 512), len(shard.context.data)]
    assert shard.context.reads == list(pairwise(edges))


@pytest.mark.parametrize("kind", PACKERS)
def test_each_member_is_a_unit_that_decodes_from_its_own_bytes(in_memory, small_steps, kind):
    # The second cut falls into a row: that row belongs to the unit it begins in.
    cuts = [len(b"".join(LINES[:700])), len(b"".join(LINES[:1500])) + 3]
    shard = in_memory(packed(PACKERS[kind], cuts))
    assert shard.index.units.tolist() == [0, 700, 1501, 2000]
    members = Layout.from_blob(shard.index.blob).restart_stored
    shard.context.reads.clear()
    assert shard.read(range(700, 1400)).to_pylist() == ROWS[700:1400]
    assert min(start for start, _ in shard.context.reads) == members[1]
    assert max(stop for _, stop in shard.context.reads) <= members[2]


def test_short_members_share_a_unit(in_memory):
    assert in_memory(packed(gzip.compress, range(0, len(TEXT), 1000))).index.units.tolist() == [0, len(ROWS)]


def test_any_row_of_a_plain_file_is_a_unit_of_its_own(in_memory):
    assert in_memory(TEXT).index.units is None


def test_going_back_begins_at_the_nearest_member_not_at_the_start(in_memory, small_steps):
    shard = in_memory(packed(gzip.compress, [len(b"".join(LINES[:1000]))]))
    opened = shard.open()
    opened.read(np.array([1900]), None)
    shard.context.reads.clear()
    assert opened.read(np.array([1001]), None).to_pylist() == [ROWS[1001]]
    assert shard.context.reads[0][0] == Layout.from_blob(shard.index.blob).restart_stored[1]


def test_a_cursor_survives_a_store_that_did_not_answer(in_memory, small_steps, monkeypatch):
    shard = in_memory(gzip.compress(TEXT))
    opened = shard.open()
    opened.read(np.array([10]), None)
    with monkeypatch.context() as patch:

        def fails(url, ranges):
            raise StorageError("no answer", code="storage-timeout")

        patch.setattr(shard.context, "read_ranges", fails)
        with pytest.raises(StorageError):
            opened.read(np.array([1900]), None)
    assert opened.read(np.array([1900]), None).to_pylist() == [ROWS[1900]]


def test_padding_and_frames_that_hold_no_content_are_passed_over(in_memory):
    skippable = (0x184D2A5E).to_bytes(4, "little") + (5).to_bytes(4, "little") + b"hello"
    half = len(TEXT) // 2
    for data in (
        gzip.compress(TEXT) + b"\0" * 100_000,
        gzip.compress(TEXT[:half]) + b"\0" * 512 + gzip.compress(b"") + gzip.compress(TEXT[half:]),
        skippable + zstandard.compress(TEXT[:half]) + skippable + zstandard.compress(TEXT[half:]) + skippable,
    ):
        assert in_memory(data).read().to_pylist() == ROWS


@pytest.mark.parametrize("kind", PACKERS)
@pytest.mark.parametrize("missing", [1, 10, 200])
def test_a_truncated_archive_is_refused_when_it_is_indexed(in_memory, kind, missing):
    with pytest.raises(ShardError) as error:
        in_memory(PACKERS[kind](TEXT)[:-missing])
    assert error.value.code == "shard-truncated"


def test_a_damaged_archive_is_refused_when_it_is_indexed(in_memory):
    good = gzip.compress(TEXT)
    for data in (good[:500] + b"\xff" * 50 + good[550:], good + b"garbage", zstandard.compress(TEXT) + b"garbage"):
        with pytest.raises(ShardError) as error:
            in_memory(data)
        assert error.value.code == "shard-corrupt"


@pytest.mark.parametrize("head", [b"PAR1....", "{}".encode("utf-16"), b"\xfd7zXZ\0", b"BZh91AY"])
def test_what_holds_no_lines_of_text_is_refused_when_it_is_indexed(in_memory, head):
    with pytest.raises(ShardError) as error:
        in_memory(head)
    assert error.value.code == "not-jsonl"


def test_a_file_cut_short_since_it_was_indexed_is_an_error_not_a_crash(tmp_path, on_disk, in_memory):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(TEXT)
    local, opened = on_disk(path), on_disk(path).open()
    opened.read(np.array([0]), None)
    os.truncate(path, 1000)
    emptied = tmp_path / "emptied.jsonl"
    emptied.write_bytes(TEXT)
    nothing = on_disk(emptied)
    os.truncate(emptied, 0)
    elsewhere = in_memory(TEXT)
    elsewhere.context.data = TEXT[:1000]
    archive = in_memory(gzip.compress(TEXT))
    archive.context.data = archive.context.data[:100]
    for attempt in (
        lambda: opened.read(np.array([1999]), None),
        lambda: local.read([1999]),
        lambda: nothing.read([0]),
        lambda: elsewhere.read([1999]),
        lambda: archive.read([1999]),
    ):
        with pytest.raises(ShardError) as error:
            attempt()
        assert error.value.code == "shard-changed"


def test_other_content_of_the_same_size_is_told_from_what_was_indexed(in_memory):
    shorter = b'{"a":1}{"a":2}\n' * 10
    for before, after in (
        (b'{"a":1}\n' * 10, b'{"b"1:}\n' * 10),
        (b'{"a":1}\n' * 10, b'{"a":""' + b"}" + b'{"a":1}\n' * 9),
        (shorter.replace(b"}{", b",,").replace(b',,"a":2', b',"b" : 2'), shorter),
        (gzip.compress(TEXT), gzip.compress(b'{"a":1}')),
    ):
        shard = in_memory(before)
        shard.context.data = after
        with pytest.raises(ShardError) as error:
            shard.read()
        assert error.value.code == "shard-changed"


def test_a_local_file_is_read_in_any_order(tmp_path, on_disk):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(TEXT)
    shard = on_disk(path)
    opened = shard.open()
    assert opened.read(np.arange(100, 200), None).to_pylist() == ROWS[100:200]
    assert opened.read(np.array([0, 5, 6, 1999]), ["a"]).to_pylist() == [{"a": n} for n in (0, 5, 6, 1999)]
    assert opened.read(np.arange(2000), None).to_pylist() == ROWS
    opened.close()


def test_reads_of_more_than_the_parser_takes_are_parsed_in_parts(in_memory, monkeypatch):
    shard = in_memory(TEXT)
    monkeypatch.setattr(reader, "_PARSE_BYTES", 1000)
    assert shard.read().to_pylist() == ROWS
    assert shard.read(range(0, 2000, 3)).to_pylist() == ROWS[::3]


def test_a_column_larger_than_a_block_may_hold_is_refused(in_memory, monkeypatch):
    shard = in_memory(TEXT)
    monkeypatch.setattr(reader, "MAX_COLUMN_BYTES", 40_000)
    assert shard.read(range(1000)).num_rows == 1000
    with pytest.raises(ShardError) as error:
        shard.read()
    assert error.value.code == "shard-rows-too-large"


def test_an_index_written_down_and_loaded_reads_the_same_rows(in_memory):
    shard = in_memory(packed(gzip.compress, [500]))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, shard.index.blob.schema) as stream:
        stream.write_batch(shard.index.blob)
    blob = pa.ipc.open_stream(sink.getvalue()).read_next_batch()
    assert Layout.from_blob(blob) == Layout.from_blob(shard.index.blob)
    loaded = attrs.evolve(shard, index=attrs.evolve(shard.index, blob=blob))
    assert loaded.read([7, 1999]).to_pylist() == [ROWS[7], ROWS[1999]]
