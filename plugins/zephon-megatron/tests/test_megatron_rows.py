"""Rows, windows and options, on files of any content."""

import os
import struct
from itertools import chain

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon import Pipeline
from zephon.abc import FileInfo, Shard
from zephon.errors import ConfigError, ShardError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_megatron.files import beside
from zephon_megatron.format import MegatronFormat
from zephon_testkit.files import DiskContext


class Memory(DiskContext):
    """A store elsewhere; remembers what was read."""

    def __init__(self, files):
        super().__init__(is_local=False)
        self.files = files
        self.reads = []

    def size(self, url):
        if url not in self.files:
            raise FileNotFoundError(url)
        return len(self.files[url])

    def read_ranges(self, url, ranges):
        self.reads += ranges
        assert all(start < stop for start, stop in ranges)
        if any(stop > len(self.files[url]) for _, stop in ranges):
            raise EOFError(url)
        return [pa.py_buffer(self.files[url][start:stop]) for start, stop in ranges]


def indexed(documents, code=8, dtype="<u2"):
    """``.bin`` and ``.idx`` of documents, which are lists of sequences."""
    sequences = [np.array(sequence, dtype) for document in documents for sequence in document]
    lengths = np.array([len(sequence) for sequence in sequences], "<i4")
    pointers = (np.cumsum(lengths, dtype="<i8") - lengths) * np.dtype(dtype).itemsize
    bounds = np.cumsum([0, *map(len, documents)], dtype="<i8")
    index = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, code, len(sequences), len(bounds))
    index += lengths.tobytes() + pointers.astype("<i8").tobytes() + bounds.tobytes()
    return {"m://a.bin": b"".join(sequence.tobytes() for sequence in sequences), "m://a.idx": index}


def token_file(documents, dtype="<u2"):
    """``.ds`` and ``.ds.index`` of documents, which are lists of tokens."""
    ends = np.cumsum(list(map(len, documents)), dtype="<u8")
    return {
        "m://a.ds": np.array(list(chain.from_iterable(documents)), dtype).tobytes(),
        "m://a.ds.index": ends.tobytes(),
    }


def opened(files, url, **options):
    shard = Shard(url=url, name=url[4:], file=FileInfo(url=url, name=url[4:], size=0))
    made, context = MegatronFormat(**options), Memory(files)
    index = made.index(shard, context)
    return made.open(shard, index, context), index, context


def rows_of(files, url, **options):
    reader, index, _ = opened(files, url, **options)
    return reader.read(np.arange(index.rows), None).column(0).to_pylist()


def code_of(error, files, url, **options):
    with pytest.raises(error) as raised:
        rows_of(files, url, **options)
    return raised.value.code


DOCUMENTS = st.lists(st.lists(st.lists(st.integers(0, 65535), max_size=9), max_size=4), max_size=9)


@settings(deadline=None)
@given(DOCUMENTS, st.integers(1, 12), st.integers(1, 14), st.data())
def test_any_rows_of_any_documents_come_from_the_ranges_announced(documents, window, stride, data):
    flat = [list(chain.from_iterable(document)) for document in documents]
    stream = list(chain.from_iterable(flat))
    sequences = [sequence for document in documents for sequence in document]
    windows = [stream[start : start + window] for start in range(0, len(stream) - window + 1, stride)]
    cases = [
        (indexed(documents), "m://a.bin", {}, flat),
        (indexed(documents), "m://a.bin", {"rows": "sequences"}, sequences),
        (indexed(documents), "m://a.bin", {"window": window, "stride": stride}, windows),
        (token_file(flat, "<u4"), "m://a.ds", {}, flat),
        (token_file(flat), "m://a.ds", {"window": window, "stride": stride}, windows),
    ]
    for files, url, options, expected in cases:
        reader, index, context = opened(files, url, **options)
        assert index.rows == len(expected)
        rows = np.array(sorted(data.draw(st.sets(st.integers(0, max(0, len(expected) - 1))))), dtype=np.int64)
        rows = rows[rows < len(expected)]
        context.reads.clear()
        assert reader.read(rows, None)["input_ids"].to_pylist() == [expected[row] for row in rows]
        assert [list(span) for span in context.reads] == reader.ranges(rows, None).tolist()


@settings(deadline=None)
@given(DOCUMENTS, st.data())
def test_rows_far_apart_are_fetched_apart(documents, data):
    filler = [list(range(5000))]
    spread = [part for document in documents for part in (document, filler)]
    reader, index, context = opened(indexed(spread), "m://a.bin")
    rows = np.arange(0, index.rows, 2)
    context.reads.clear()
    expected = [list(chain.from_iterable(document)) for document in documents]
    assert reader.read(rows, None)["input_ids"].to_pylist() == expected
    assert sum(stop - start for start, stop in context.reads) == 2 * sum(map(len, expected))


def test_a_file_that_changed_while_it_was_mapped_is_an_error(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(100, dtype=np.int32).reshape(10, 10))
    shard = Shard(url=str(path), name="a.npy", file=FileInfo(url=str(path), name="a.npy", size=0))
    index = MegatronFormat().index(shard, DiskContext())
    reader = MegatronFormat().open(shard, index, DiskContext())
    first = reader.read(np.arange(2), None)
    os.truncate(path, 300)
    with pytest.raises(ShardError) as raised:
        reader.read(np.arange(10), None)
    assert raised.value.code == "shard-changed"
    assert first["input_ids"].to_pylist() == [list(range(10)), list(range(10, 20))]


def test_files_without_boundaries_need_a_window():
    stream = token_file([[1, 2, 3, 4, 5]])
    del stream["m://a.ds.index"]
    assert code_of(ConfigError, stream, "m://a.ds") == "window-missing"
    assert code_of(ConfigError, stream, "m://a.ds", window=2) == "token-size-missing"
    assert rows_of(stream, "m://a.ds", window=2, token_size=2) == [[1, 2], [3, 4]]
    assert rows_of({**stream, "m://a.ds.metadata": b"gpt2|2\n5\n5 T"}, "m://a.ds", window=2) == [[1, 2], [3, 4]]
    assert code_of(ShardError, {**stream, "m://a.ds.metadata": b"gpt2\n"}, "m://a.ds", window=2) == "shard-corrupt"


def test_the_index_decides_between_two_and_four_bytes_and_contradictions_are_errors():
    assert rows_of(token_file([[7], [8, 9]], "<u4"), "m://a.ds") == [[7], [8, 9]]
    assert code_of(ShardError, token_file([[7], [8, 9]], "<u4"), "m://a.ds", token_size=2) == "shard-corrupt"
    files = token_file([[7], [8, 9]])
    assert code_of(ShardError, {**files, "m://a.ds": files["m://a.ds"][:-2]}, "m://a.ds") == "shard-truncated"
    assert code_of(ShardError, {**files, "m://a.ds.index": bytes(7)}, "m://a.ds") == "shard-truncated"
    falling = np.array([2, 1, 3], "<u8").tobytes()
    assert code_of(ShardError, {**files, "m://a.ds.index": falling}, "m://a.ds") == "shard-corrupt"


def test_an_index_that_contradicts_itself_or_its_tokens_is_an_error():
    files = indexed([[[1, 2, 3]], [[4], [5, 6]]])
    assert rows_of(files, "m://a.bin") == [[1, 2, 3], [4, 5, 6]]
    index = files["m://a.idx"]
    changes = {
        "magic": b"X" + index[1:],
        "type": index[:17] + b"\x09" + index[18:],
        "length": index[:34] + b"\x04" + index[35:],
        "negative length": index[:34] + b"\xff\xff\xff\xff" + index[38:],
        "pointer": index[: 34 + 12] + b"\x02" + index[34 + 13 :],
        "last bound": index[:-8] + struct.pack("<q", 2),
        "falling bounds": index[:-16] + struct.pack("<qq", 4, 3),
        "more": index + b"1234567890",
    }
    for what, changed in changes.items():
        assert code_of(ShardError, {**files, "m://a.idx": changed}, "m://a.bin") == "shard-corrupt", what
    for cut in range(len(index)):
        assert code_of(ShardError, {**files, "m://a.idx": index[:cut]}, "m://a.bin") == "shard-truncated"
    assert code_of(ShardError, {**files, "m://a.bin": files["m://a.bin"][:-1]}, "m://a.bin") == "shard-truncated"
    assert code_of(ShardError, {**files, "m://a.bin": files["m://a.bin"] + b"1"}, "m://a.bin") == "shard-corrupt"
    assert code_of(ShardError, {"m://a.bin": files["m://a.bin"]}, "m://a.bin") == "shard-corrupt"


@pytest.mark.parametrize(
    ("array", "code"),
    [
        (np.zeros((2, 2), np.float32), "shard-unsupported"),
        (np.zeros((2, 2, 2), np.int32), "shard-unsupported"),
        (np.zeros((2, 3), np.int32, order="F"), "shard-unsupported"),
        (np.zeros(2, [("a", "i4")]), "shard-unsupported"),
    ],
    ids=["floats", "three dimensions", "columns together", "records"],
)
def test_arrays_that_hold_no_rows_of_tokens_are_refused(tmp_path, array, code):
    np.save(tmp_path / "a.npy", array)
    data = (tmp_path / "a.npy").read_bytes()
    assert code_of(ShardError, {"m://a.npy": data}, "m://a.npy") == code


def test_a_window_does_not_run_across_the_rows_of_an_array(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((2, 3), np.int32))
    data = (tmp_path / "a.npy").read_bytes()
    assert code_of(ConfigError, {"m://a.npy": data}, "m://a.npy", window=2) == "option-conflict"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"window": 0}, "option-invalid"),
        ({"stride": 2}, "option-conflict"),
        ({"rows": "tokens"}, "option-invalid"),
        ({"token_size": 3}, "option-invalid"),
        ({"field": ""}, "option-invalid"),
    ],
    ids=["window", "stride", "rows", "token size", "field"],
)
def test_an_option_that_means_nothing_is_refused(options, code):
    with pytest.raises(ConfigError) as raised:
        MegatronFormat(**options)
    assert raised.value.code == code


def test_a_megatron_dataset_is_recognised_and_trains(tmp_path):
    files = indexed([[[n, n + 1, n + 2]] for n in range(8)])
    (tmp_path / "web_text_document.bin").write_bytes(files["m://a.bin"])
    (tmp_path / "web_text_document.idx").write_bytes(files["m://a.idx"])
    (tmp_path / "model.bin").write_bytes(b"weights")
    dataset = Dataset.from_path("web", str(tmp_path), format_options={"window": 4, "field": "ids"})
    with Pipeline(StaticMixtureWorkSource([dataset], {"web": 1.0})).batch(3) as pipeline:
        batches = [batch.to_training()["input_ids"].tolist() for batch in pipeline]
    assert sorted(row for batch in batches for row in batch)[:2] == [[0, 1, 2, 1], [2, 3, 2, 3]]


def test_urls_of_files_beside_keep_what_follows_the_path():
    assert beside("s3://b/a.bin", ".bin", ".idx") == "s3://b/a.idx"
    assert beside("/data/a?.BIN", ".bin", ".idx") == "/data/a?.idx"
    assert beside("http://h/a.ds?x=1.ds", ".ds", ".ds.index") == "http://h/a.ds.index?x=1.ds"
