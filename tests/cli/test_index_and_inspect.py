"""``zephon index`` and ``zephon inspect``: what a dataset holds, for people."""

import json
from pathlib import Path

from zephon.io import Dataset
from zephon_fault_files import jsonl, lines, parquet, text_of


def facts(out):
    """The lines before the schema by their first word."""
    return dict(line.split(maxsplit=1) for line in out.partition("schema\n")[0].splitlines())


def test_index_tells_what_it_found_and_where_it_keeps_it(zephon, data):
    code, out, err = zephon("index", data)
    assert (code, err) == (0, "")
    told = facts(out)
    size = sum(path.stat().st_size for path in data.glob("*.jsonl"))
    assert told["format"] == "jsonl"
    assert told["shards"] == "2"
    assert told["rows"] == "40"
    assert told["bytes"] == f"{size:,}"
    assert Path(told["index"]).parent == data / ".zephon"
    assert out.endswith("schema\n  n: int64\n  text: string\n")
    before = Path(told["index"]).stat()
    assert zephon("index", data)[1] == out
    after = Path(told["index"]).stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)  # checked, not built anew


def test_index_can_be_kept_elsewhere_and_is_used_from_there(zephon, data, tmp_path):
    told = facts(zephon("index", data, "--output", tmp_path / "indexes")[1])
    assert Path(told["index"]).parent == tmp_path / "indexes"
    assert not (data / ".zephon").exists()
    assert Dataset.from_path("web", data, index_dir=tmp_path / "indexes").index_path == told["index"]


def test_several_paths_make_one_dataset_and_a_format_can_be_named(zephon, tmp_path):
    parquet(tmp_path / "a" / "x.parquet", 6, 3)
    parquet(tmp_path / "b" / "x.parquet", 4, 3)
    jsonl(tmp_path / "b", [3])
    code, out, _ = zephon("index", tmp_path / "a", tmp_path / "b", "--format", "parquet")
    assert code == 0
    assert facts(out)["rows"] == "10"
    assert facts(out)["shards"] == "2"
    code, _, err = zephon("index", tmp_path / "b")
    assert code == 1
    assert err.startswith("[format-ambiguous]")


def test_a_field_without_one_type_is_shown_as_such(zephon, tmp_path):
    (tmp_path / "x.jsonl").write_bytes(lines(range(3)) + b'{"n": "three", "text": "t"}\n')
    out = zephon("index", tmp_path)[1]
    schema = out.partition("schema\n")[2].splitlines()
    assert schema[0] == "  text: string"
    assert schema[1].startswith("  n: CONFLICT")
    assert "row 3" in schema[1]


def test_a_damaged_shard_is_told_in_three_lines(zephon, tmp_path):
    path = parquet(tmp_path / "x.parquet", 6, 3)
    path.write_bytes(path.read_bytes()[:-9])
    code, out, err = zephon("index", tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith("[shard-corrupt]")
    assert "x.parquet" in err


def test_inspect_shows_the_first_rows_as_they_read(zephon, data):
    code, out, _ = zephon("inspect", data, "-n", "2")
    assert code == 0
    shown = [f"row {n}\n  n     {n}\n  text  {text_of(n).strip()}\n" for n in range(2)]
    assert out == "\n".join(["40 rows in 2 shards of jsonl\n", *shown])
    assert zephon("inspect", data, "-n", "0")[1] == "40 rows in 2 shards of jsonl\n"


def test_inspect_wraps_text_shortens_what_is_long_and_shows_all_on_demand(zephon, tmp_path):
    row = {
        "id": 7,
        "text": "one two three " * 60 + "the end",
        "tags": list(range(40)),
        "none": None,
        "nested": {"a": [1]},
    }
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n")
    out = zephon("inspect", tmp_path, "--width", "60")[1]
    assert all(len(line) <= 60 for line in out.splitlines())
    assert "characters)" in out
    assert "the end" not in out
    assert "40 items: [0, 1" in out
    assert "None" in out
    full = zephon("inspect", tmp_path, "--width", "60", "--full")[1]
    assert "the end" in full
    assert "39]" in full


def test_inspect_shows_bytes_by_length_and_beginning(zephon, tmp_path):
    parquet(tmp_path / "x.parquet", 2, 2, bad={1: b"\xff\x00" * 40})
    out = zephon("inspect", tmp_path)[1]
    assert "80 bytes: b'\\xff\\x00" in out


def test_rows_that_cannot_be_read_are_passed_over(zephon, tmp_path):
    jsonl(tmp_path, [4], {1: b"{"})
    out = zephon("inspect", tmp_path, "-n", "4")[1]
    assert out.count("\nrow ") == 3


def test_inspect_of_a_recipe_shows_batches_with_the_origin_of_every_row(zephon, recipe):
    path = recipe({"op": "map_transform", "fn": "zephon_recipe_functions:with_length"})
    code, out, _ = zephon("inspect", path, "-n", "2")
    assert code == 0
    assert out.count("batch ") == 2
    assert "batch 0 of lane 0: 2 rows" in out
    assert "batch 0 of lane 1: 2 rows" in out
    assert out.count("dataset='web'") == 4
    assert out.count("  length  ") == 4


def test_inspect_tells_rows_from_what_only_fills_up(zephon, recipe):
    out = zephon("inspect", recipe(batch=3, options={"tail": "pad"}), "-n", "100")[1]
    # Forty rows over three lanes: 14, 13 and 13.
    heads = [line for line in out.splitlines() if line.startswith("batch ")]
    assert len(heads) == 15
    assert heads[-3:] == [
        "batch 4 of lane 0: 2 rows, and 1 to fill it up",
        "batch 4 of lane 1: 1 rows, and 2 to fill it up",
        "batch 4 of lane 2: 1 rows, and 2 to fill it up",
    ]
    assert all(head.endswith(": 3 rows") for head in heads[:-3])
    some = {"op": "filter", "predicate": "zephon_recipe_functions:long_enough"}  # of each lane another number
    out = zephon("inspect", recipe(some, batch=1, options={"tail": "pad"}), "-n", "100")[1]
    assert out.count(": filler\n") == out.count("batch ") - out.count("Origin(") > 0
