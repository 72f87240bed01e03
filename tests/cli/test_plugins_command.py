"""``zephon plugins``: what is installed, and whether it works."""

import json

import attrs
import pytest

from zephon import __version__
from zephon.cli import plugins as command
from zephon.plugins import status

KEYS = ["point", "name", "distribution", "version", "contract", "summary", "capabilities", "status"]


def test_json_is_a_list_of_objects_with_exactly_these_keys(zephon):
    code, out, err = zephon("plugins", "--json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert [list(entry) for entry in found] == [KEYS] * len(found)
    by_address = {f"{entry['point']}:{entry['name']}": entry for entry in found}
    assert by_address["shard_format:parquet"] | {"summary": "", "capabilities": []} == {
        "point": "shard_format",
        "name": "parquet",
        "distribution": "zephon-parquet",
        "version": __version__,
        "contract": 1,
        "summary": "",
        "capabilities": [],
        "status": "ok",
    }
    assert "predicate" in by_address["shard_format:parquet"]["capabilities"]
    assert by_address["shard_format:parquet"]["summary"]
    assert {
        "shard_format:jsonl",
        "storage:local",
        "storage:fsspec",
        "operator:map_transform",
        "operator:tokenize",
        "operator:pack_flat",
        "runner:inline",
        "runner:threads",
        "work_source:static_mixture",
        "tokenizer:hf",
        "checkpoint_store:directory",
    } <= set(by_address)


def test_the_table_has_a_line_for_every_plugin_in_columns(zephon):
    code, out, _ = zephon("plugins")
    head, *rows = out.splitlines()
    assert code == 0
    assert head.split() == ["PLUGIN", "DISTRIBUTION", "VERSION", "STATUS", "SUMMARY"]
    starts = [head.index(name) for name in head.split()]
    assert len(rows) == len(status())
    for row, plugin in zip(rows, status(), strict=True):
        cells = [row[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        assert cells == [plugin.address, plugin.distribution, plugin.version, plugin.status, plugin.summary]


def test_one_point_can_be_chosen(zephon):
    found = json.loads(zephon("plugins", "--json", "--point", "runner")[1])
    assert {entry["point"] for entry in found} == {"runner"}
    assert zephon("plugins", "--point", "runner")[1].count("\n") == 1 + len(found)


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_broken_plugin_is_status_1_and_says_why(zephon, monkeypatch, options):
    first, *others = status()
    broken = attrs.evolve(first, status="broken: ImportError: no module named x", summary="", capabilities=())
    monkeypatch.setattr(command, "status", lambda: [broken, *others])
    code, out, _ = zephon("plugins", *options)
    assert code == 1
    assert "ImportError: no module named x" in out
