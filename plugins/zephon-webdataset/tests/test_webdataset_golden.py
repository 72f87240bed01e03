"""Archives written by the webdataset library and by GNU tar, against what that library reads from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from zephon.errors import ShardError
from zephon_testkit.files import DiskContext, head, listing
from zephon_webdataset.format import WebDatasetFormat

GOLDEN = Path(__file__).parent / "golden"
EXPECTED = {
    line["file"]: line["rows"] for line in map(json.loads, (GOLDEN / "expected.jsonl").read_text("utf-8").splitlines())
}
SHARDS = {shard.name: shard for shard in WebDatasetFormat().discover(listing(GOLDEN))}


def rows_of(name, *, is_local=True, **options):
    made, context = WebDatasetFormat(**options), DiskContext(is_local=is_local)
    index = made.index(SHARDS[name], context)
    return made.open(SHARDS[name], index, context).read(np.arange(index.rows), None).to_pylist()


def as_text(rows):
    """As make_golden.py writes rows: bytes as hexadecimal digits, no nulls."""
    return [
        {name: value if name == "__key__" else value.hex() for name, value in row.items() if value is not None}
        for row in rows
    ]


def test_every_golden_archive_is_found_and_recognised():
    assert {file.name for file in listing(GOLDEN) if WebDatasetFormat().recognise(head(file))} == set(SHARDS)
    assert set(EXPECTED) < set(SHARDS)


@pytest.mark.parametrize("is_local", [True, False], ids=["local", "elsewhere"])
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_rows_are_those_the_library_reads(name, is_local):
    assert len(EXPECTED[name]) >= 3
    assert as_text(rows_of(name, is_local=is_local)) == EXPECTED[name]


def test_members_decode_as_the_library_decodes_them():
    rows = rows_of("wds.tar", decode=["*"])
    assert [row["txt"] for row in rows] == ["plain", "", "漢字 \u2028 🙂", "in a folder", "no class"]
    assert [row["cls"] for row in rows] == [3, -1, 0, 12, None]
    assert [row["json"]["n"] for row in rows] == [1.0, 2.5, None, None, None]
    assert rows[3]["json"]["deep"] == {"x": [1, 2]}
    assert rows[0]["bin"] == bytes(range(256))
    assert rows[4]["seg.bin"] == b"upper case"


def test_a_hard_link_is_an_error_unless_links_are_skipped():
    with pytest.raises(ShardError) as raised:
        rows_of("links.tar")
    assert raised.value.code == "tar-member-link"
    assert [row["__key__"] for row in rows_of("links.tar", links="skip")] == ["./a/0", "./a/1"]


@pytest.mark.parametrize("name", ["sparse-gnu.tar", "sparse-pax.tar"])
def test_sparse_members_are_refused_rather_than_misread(name):
    with pytest.raises(ShardError) as raised:
        rows_of(name)
    assert raised.value.code == "shard-unsupported"
