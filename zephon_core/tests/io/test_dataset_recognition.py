"""Which format files are of: index files first, then content, then suffix; never a guess."""

from __future__ import annotations

import pytest

from zephon.errors import ConfigError, PluginError
from zephon.io import Dataset
from zephon.plugins import ShardFormatDescriptor, register
from zephon.plugins.known import KNOWN

ROWS = [{"x": 1}]


def other(doubles, **claims):
    descriptor = ShardFormatDescriptor(name="other", summary="Another", impl="nowhere:Nothing", **claims)
    return register("shard_format", descriptor, doubles.OtherFormat)


def test_content_decides_where_the_suffix_says_nothing(write):
    assert Dataset.from_path("web", write({"part-0000": ROWS, "part-0001": ROWS})).total() == 2


def test_the_first_file_with_content_is_looked_into(write):
    assert Dataset.from_path("web", write({"a.rows": b"", "b.rows": ROWS})).total() == 1


def test_files_beside_the_data_that_no_format_knows_are_passed_over(write):
    dataset = Dataset.from_path("web", write({"README.md": b"hello", "LICENSE.md": b"", "a.rows": ROWS}))
    assert list(dataset.shard_names) == ["a.rows"]


def test_content_that_two_formats_accept_is_an_error_that_lists_both(write, doubles):
    root = write({"a.rows": ROWS})
    with other(doubles, magic=(doubles.MAGIC,)), pytest.raises(ConfigError) as excinfo:
        Dataset.from_path("web", root)
    assert excinfo.value.code == "format-ambiguous"
    assert "rows" in str(excinfo.value)
    assert "other" in str(excinfo.value)


def test_files_of_two_formats_are_an_error_but_naming_one_reads_it(write, doubles):
    root = write({"a.rows": ROWS, "b.oth": b""})
    # an empty file is judged by its suffix
    with other(doubles, suffixes=(".oth",)):
        assert Dataset.from_path("web", root).shard_count() == 1
    root = write({"a.rows": ROWS, "b.oth": ROWS}, below="both")
    with other(doubles, suffixes=(".oth",), magic=(b"#row",)):
        with pytest.raises(ConfigError) as excinfo:
            Dataset.from_path("web", root)
        assert excinfo.value.code == "format-ambiguous"
        assert Dataset.from_path("web", root, fmt="other").shard_count() == 1


def test_an_index_file_decides_before_any_content(write, doubles):
    root = write({"rows.index": ROWS, "a.txt": b"", "b.other": b"", "c.other": b""})
    with other(doubles, suffixes=(".other",)):
        assert list(Dataset.from_path("web", root).shard_names) == ["a.txt"]


def test_content_wins_over_suffix(write, doubles):
    root = write({"a.oth": ROWS})
    with other(doubles, suffixes=(".oth",)), pytest.raises(ConfigError) as excinfo:
        # the content is of "rows", which finds no shard of its own by that name
        Dataset.from_path("web", root)
    assert excinfo.value.code == "no-shard"


def test_formats_that_claim_neither_content_nor_suffix_are_not_imported(write, doubles):
    broken = ShardFormatDescriptor(
        name="broken", summary="Cannot be imported", impl="no_such_module:Nothing", suffixes=(".broken",)
    )
    with register("shard_format", broken):
        assert Dataset.from_path("web", write({"a.rows": ROWS})).total() == 1
        with pytest.raises(PluginError) as excinfo:
            Dataset.from_path("web", write({"a.broken": b"x"}, below="b"))
        assert excinfo.value.code == "plugin-broken"


def test_unknown_files_are_an_error_that_says_what_is_installed_and_what_to_install(write, monkeypatch):
    monkeypatch.setitem(KNOWN["shard_format"], "vortex", "zephon-vortex")
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_path("web", write({"a.vortex": b"what is this"}))
    assert excinfo.value.code == "format-unknown"
    assert ".rows" in excinfo.value.found
    assert "zephon-vortex" in excinfo.value.fix


def test_an_unknown_format_name_is_an_error(write):
    with pytest.raises(PluginError) as excinfo:
        Dataset.from_path("web", write({"a.rows": ROWS}), fmt="rowz")
    assert excinfo.value.code == "plugin-unknown"


def test_format_options_are_checked_and_used(write):
    root = write({"a.rows": [*ROWS, *ROWS, *ROWS]})
    dataset = Dataset.from_path("web", root, format_options={"unit": 2})
    assert dataset._source.index(0).units.tolist() == [0, 2, 3]
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_path("web", root, format_options={"unti": 2})
    assert excinfo.value.code == "bad-spec"
