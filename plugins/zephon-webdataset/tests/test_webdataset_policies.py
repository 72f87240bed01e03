"""Archives that are not as they should be, and what the options make of them."""

import gzip
import io
import tarfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.abc import FileInfo, Shard
from zephon.errors import BadRowsError, ConfigError, ShardError
from zephon.io import Dataset
from zephon_testkit.files import DiskContext
from zephon_webdataset.format import WebDatasetFormat
from zephon_webdataset.names import split_name


class Memory(DiskContext):
    """A store elsewhere with one file in it; remembers what was read."""

    def __init__(self, data):
        super().__init__(is_local=False)
        self.data = data
        self.reads = []

    def size(self, url):
        return len(self.data)

    def read_ranges(self, url, ranges):
        self.reads += ranges
        if any(stop > len(self.data) for _, stop in ranges):
            raise EOFError(url)
        return [pa.py_buffer(self.data[start:stop]) for start, stop in ranges]


SHARD = Shard(url="m://x.tar", name="x.tar", file=FileInfo(url="m://x.tar", name="x.tar", size=0))


def archive(members, form=tarfile.PAX_FORMAT, end=True):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        size = tar.offset
    return made.getvalue() if end else made.getvalue()[:size]


def opened(data, **options):
    made, context = WebDatasetFormat(**options), Memory(data)
    index = made.index(SHARD, context)
    return made.open(SHARD, index, context), index, context


def rows_of(data, **options):
    reader, index, _ = opened(data, **options)
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in reader.read(np.arange(index.rows), None).to_pylist()
    ]


def code_of(data, **options):
    with pytest.raises(ShardError) as raised:
        rows_of(data, **options)
    return raised.value.code


PARTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/.\0_"), min_size=1, max_size=60)


@settings(deadline=None)
@given(
    st.lists(st.tuples(PARTS, st.dictionaries(PARTS.map(str.lower), st.binary(max_size=1500), min_size=1, max_size=3))),
    st.sampled_from([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT]),
    st.sampled_from([bytes, gzip.compress]),
)
def test_any_samples_in_any_form_are_read_as_they_were_written(samples, form, pack):
    samples = [(f"{n}/{key}" * (1 + n % 3), fields) for n, (key, fields) in enumerate(samples)]
    samples = [(key, {name.lower(): value for name, value in fields.items()}) for key, fields in samples]
    members = [(f"{key}.{name}", value) for key, fields in samples for name, value in fields.items()]
    assert rows_of(pack(archive(members, form))) == [{"__key__": key, **dict(sorted(f.items()))} for key, f in samples]


def test_a_key_that_comes_again_is_an_error_a_part_of_its_row_or_a_row():
    data = archive([("a.x", b"1"), ("b.x", b"2"), ("a.y", b"3")])
    assert code_of(data) == "tar-key-interleaved"
    assert rows_of(data, interleaved="group") == [{"__key__": "a", "x": b"1", "y": b"3"}, {"__key__": "b", "x": b"2"}]
    assert [row["__key__"] for row in rows_of(data, interleaved="split")] == ["a", "b", "a"]


def test_a_member_that_comes_twice_is_an_error_or_the_first_or_last_counts():
    data = archive([("a.x", b"1"), ("a.X", b"2")])
    assert code_of(data) == "tar-member-duplicate"
    assert rows_of(data, duplicate="first") == [{"__key__": "a", "x": b"1"}]
    assert rows_of(data, duplicate="last") == [{"__key__": "a", "x": b"2"}]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_an_archive_cut_anywhere_is_an_error_or_keeps_only_whole_rows(pack):
    members = [(f"{row}.{name}", bytes([row]) * 700) for row in range(4) for name in "xy"]
    whole = [{"__key__": str(row), "x": bytes([row]) * 700, "y": bytes([row]) * 700} for row in range(4)]
    data = archive(members, end=False)
    for cut in range(0, len(data) + 1, 256):
        assert code_of(pack(data[:cut])) == "shard-truncated"
        kept = rows_of(pack(data[:cut]), truncated="keep")
        assert kept == whole[: len(kept)]
        assert len(kept) >= (cut - 512) // (len(data) // 4) - 1


def test_a_compressed_stream_that_is_cut_keeps_whole_rows():
    members = [(f"{row}.{name}", np.random.default_rng(row).bytes(5000)) for row in range(4) for name in "xy"]
    data = gzip.compress(archive(members))
    whole = rows_of(data)
    assert code_of(data[: len(data) // 2]) == "shard-truncated"
    kept = rows_of(data[: len(data) // 2], truncated="keep")
    assert kept == whole[: len(kept)]
    assert len(kept) >= 1


def test_a_second_archive_behind_the_end_mark_is_not_lost_silently():
    one, two = archive([("a.x", b"1")]), archive([("b.x", b"2")])
    assert code_of(one + two) == "shard-corrupt"
    assert code_of(gzip.compress(one) + gzip.compress(two)) == "shard-corrupt"


def test_members_of_no_row_are_passed_over():
    names = ["a/.DS_Store", "README", "__meta__/a.x", "__x__", "end.", "a/b.X", "a.d/plain"]
    assert rows_of(archive([(name, b"1") for name in names])) == [{"__key__": "a/b", "x": b"1"}]
    assert split_name("x.y/a.b.C") == ("x.y/a", "b.c")


def test_only_the_members_asked_for_are_fetched():
    reader, _, context = opened(
        archive(
            [(f"{row}.{name}", bytes([row]) * size) for row in range(9) for name, size in (("img", 20000), ("n", 7))]
        )
    )
    context.reads.clear()
    assert reader.read(np.array([2, 7]), ["n", "__key__"]).to_pylist() == [
        {"n": bytes([row]) * 7, "__key__": str(row)} for row in (2, 7)
    ]
    assert [stop - start for start, stop in context.reads] == [7, 7]
    assert [list(span) for span in context.reads] == reader.ranges(np.array([2, 7]), ["n"]).tolist()
    context.reads.clear()
    assert reader.read(np.arange(9), ["__key__"]).num_rows == 9
    assert context.reads == []


def test_an_archive_of_large_members_is_indexed_from_its_headers():
    data = archive([(f"{row}.img", bytes(3_000_000)) for row in range(5)])
    context = Memory(data)
    assert WebDatasetFormat().index(SHARD, context).rows == 5
    assert sum(stop - start for start, stop in context.reads) < len(data) // 50


def test_members_that_do_not_decode_are_bad_rows_all_named_at_once():
    data = archive(
        [
            *[("0.txt", b"\xff"), ("0.cls", b"1"), ("0.json", b"{}")],
            *[("1.txt", b"ok"), ("1.cls", b" 7\n"), ("1.json", b'{"a": [1]}')],
            *[("2.txt", b"ok"), ("2.cls", b"0x1f"), ("2.json", b"[")],
            *[("3.txt", b"ok"), ("3.cls", b"9" * 19), ("3.json", b'{"a": NaN}')],
        ]
    )
    reader, index, _ = opened(data, decode=["txt", "cls", "json"])
    with pytest.raises(BadRowsError) as raised:
        reader.read(np.arange(4), None)
    assert [bad.row for bad in raised.value.rows] == [0, 2, 3]
    assert reader.read(np.array([1]), None).to_pylist() == [{"__key__": "1", "cls": 7, "json": {"a": [1]}, "txt": "ok"}]
    assert index.schema.field("json").type == pa.struct([("a", pa.list_(pa.int64()))])


def test_json_without_one_type_is_an_error_only_where_it_is_read():
    reader, _, _ = opened(archive([("0.json", b"1"), ("1.json", b'"x"')]), decode=["json"])
    assert reader.read(np.arange(2), ["__key__"]).num_rows == 2
    with pytest.raises(ShardError) as raised:
        reader.read(np.arange(2), ["json"])
    assert raised.value.code == "field-conflict"


def test_a_name_that_is_not_utf_8_makes_its_row_bad():
    name = b"a".ljust(8, b"\xe9").decode("latin-1")
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.GNU_FORMAT, encoding="latin-1") as tar:
        for member in (f"{name}.x", "b.x"):
            info = tarfile.TarInfo(member)
            info.size = 1
            tar.addfile(info, io.BytesIO(b"1"))
    _, index, _ = opened(made.getvalue())
    assert [(row, offset) for row, offset, _ in index.bad_rows] == [(0, 0)]


@pytest.mark.parametrize(
    "options", [{"decode": ["png"]}, {"truncated": "maybe"}, {"links": "follow"}], ids=["decode", "policy", "links"]
)
def test_an_option_that_means_nothing_is_refused(options):
    with pytest.raises(ConfigError) as raised:
        WebDatasetFormat(**options)
    assert raised.value.code == "option-invalid"


def test_names_with_dots_in_every_key_are_not_a_thousand_columns():
    data = archive([(f"img.{n:05d}.jpg", b"") for n in range(1100)])
    assert code_of(data) == "too-many-fields"


def test_a_folder_of_archives_is_recognised_with_options_for_it(tmp_path):
    for part in range(2):
        data = archive([(f"{part}-{row}.txt", f"text {row}".encode()) for row in range(3)])
        (tmp_path / f"part-{part}.tar.gz").write_bytes(gzip.compress(data))
    dataset = Dataset.from_path("wds", str(tmp_path), format_options={"decode": ["txt"]})
    assert [row["txt"] for row in dataset.head(6)] == ["text 0", "text 1", "text 2"] * 2
