"""From what users write as a path to the shards that are read, or to an error that says what is wrong."""

from __future__ import annotations

import os

import pytest

from zephon.errors import ConfigError, PluginError
from zephon.io import Dataset, urls
from zephon.io.listing import expand_braces, glob_regex
from zephon.plugins import StorageDescriptor, register

ROWS = [{"x": 1}, {"x": 2}]


def failing(path, **options):
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_path("web", path, **options)
    return excinfo.value


def test_a_directory_is_read_recursively_in_order_of_names(write):
    root = write({"b/2.rows": ROWS, "a.rows": ROWS, "b/10.rows": ROWS})
    dataset = Dataset.from_path("web", root)
    assert list(dataset.shard_names) == ["a.rows", "b/10.rows", "b/2.rows"]
    assert dataset.shard_count() == 3
    assert dataset.total() == len(dataset) == 6


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.rows", ["x-0.rows", "x-1.rows"]),
        ("**/*.rows", ["deep/er/y.rows", "x-0.rows", "x-1.rows"]),
        ("x-?.rows", ["x-0.rows", "x-1.rows"]),
        ("x-[!0].rows", ["x-1.rows"]),
        ("x-{0..1}.rows", ["x-0.rows", "x-1.rows"]),
        ("{deep/er/y,x-0}.rows", ["deep/er/y.rows", "x-0.rows"]),
        ("de*", ["deep/er/y.rows"]),
        ("x-0.rows", ["x-0.rows"]),
    ],
)
def test_globs_braces_and_single_files_lead_to_the_shards_they_name(write, pattern, names):
    root = write({"x-0.rows": ROWS, "x-1.rows": ROWS, "deep/er/y.rows": ROWS})
    dataset = Dataset.from_path("web", root / pattern)
    assert list(dataset.shard_names) == names


def test_a_list_of_paths_names_shards_from_their_common_directory_and_counts_none_twice(write):
    root = write({"a/x.rows": ROWS, "b/x.rows": ROWS, "c.rows": ROWS})
    dataset = Dataset.from_path("web", [root / "a", root / "b" / "x.rows", root / "a" / "*.rows"])
    assert list(dataset.shard_names) == ["a/x.rows", "b/x.rows"]
    moved = write({"a/x.rows": ROWS, "b/x.rows": ROWS}, below="elsewhere")
    assert Dataset.from_path("web", [moved / "a", moved / "b"]).fingerprint == dataset.fingerprint


def test_names_that_look_like_patterns_are_files_where_they_exist(write):
    root = write({"a[1].rows": ROWS, "a1.rows": ROWS})
    assert list(Dataset.from_path("web", root / "a[1].rows").shard_names) == ["a[1].rows"]


def test_hidden_files_and_markers_are_passed_over_unless_asked_for(write):
    root = write({"a.rows": ROWS, "_SUCCESS": b"", ".b.rows": ROWS, "_tmp/c.rows": ROWS, "_y=2020/d.rows": ROWS})
    assert list(Dataset.from_path("web", root).shard_names) == ["_y=2020/d.rows", "a.rows"]
    assert list(Dataset.from_path("web", root / "_tmp" / "*.rows").shard_names) == ["c.rows"]
    assert list(Dataset.from_path("web", root / ".*.rows").shard_names) == [".b.rows"]
    assert list(Dataset.from_path("web", root / ".b.rows").shard_names) == [".b.rows"]


def test_our_own_index_beside_the_data_is_no_data(write):
    root = write({"a.rows": ROWS})
    Dataset.from_path("web", root).total()
    assert list(root.glob(".zephon/index-*.arrow"))
    assert list(Dataset.from_path("web", root / "**").shard_names) == ["a.rows"]


def test_paths_relative_to_the_current_directory_stay_where_they_were(write, monkeypatch, tmp_path):
    write({"a.rows": ROWS})
    monkeypatch.chdir(tmp_path)
    dataset = Dataset.from_path("web", "data")
    monkeypatch.chdir("/")
    assert dataset.total() == 2
    assert dataset.to_plain()["path"] == "data"


@pytest.mark.parametrize(
    "path", ["nothing-there", "data/*.typo", "data/a-{0..2}.rows", "nowhere/*.rows", "data/a.rows/b"]
)
def test_what_leads_to_no_file_is_an_error_that_names_it(write, tmp_path, path):
    write({"a.rows": ROWS, "a-0.rows": ROWS, "a-2.rows": ROWS})
    error = failing(tmp_path / path)
    assert error.code == "path-missing"
    assert path.split("/")[0] in str(error)


def test_one_missing_member_of_a_list_is_an_error(write):
    root = write({"a.rows": ROWS})
    assert failing([root / "a.rows", root / "b.rows"]).code == "path-missing"
    assert failing([]).code == "path-missing"


def test_an_empty_directory_is_an_error(write):
    assert failing(write({})).code == "path-empty"


def test_a_directory_of_hidden_files_only_holds_no_shard(write):
    assert failing(write({"_SUCCESS": b"", ".x.rows": ROWS}), fmt="rows").code == "no-shard"


def test_a_directory_of_other_files_holds_no_shard_of_the_format(write):
    error = failing(write({"readme.md": b"hello"}), fmt="rows")
    assert error.code == "no-shard"
    assert "readme.md" in str(error)


def test_shards_without_any_row_are_an_error_when_the_dataset_is_used(write):
    dataset = Dataset.from_path("web", write({"a.rows": [], "b.rows": b""}))
    assert dataset.shard_count() == 2
    with pytest.raises(ConfigError) as excinfo:
        dataset.total()
    assert excinfo.value.code == "dataset-empty"


def test_a_shard_without_rows_beside_others_is_fine(write):
    dataset = Dataset.from_path("web", write({"a.rows": ROWS, "b.rows": []}))
    assert dataset.shard_rows.tolist() == [2, 0]
    assert dataset.schema.names == ["x"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_path_that_may_not_be_read_is_an_error(write):
    root = write({"a.rows": ROWS})
    root.chmod(0)
    try:
        assert failing(root).code == "path-unreadable"
    finally:
        root.chmod(0o755)


def test_permission_denied_by_a_store_is_an_error_that_names_the_path(doubles):
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file(ROWS)
    doubles.FAULTS.append(PermissionError(13, "no"))
    error = failing("fake://bucket")
    assert error.code == "path-unreadable"
    assert "fake://bucket" in str(error)


def test_urls_are_listed_globbed_and_expanded_like_paths(doubles):
    for name in ("a/x-0.rows", "a/x-1.rows", "b/y.rows"):
        doubles.FILES[f"fake://bucket/{name}"] = doubles.rows_file(ROWS)
    assert list(Dataset.from_path("web", "fake://bucket").shard_names) == ["a/x-0.rows", "a/x-1.rows", "b/y.rows"]
    assert list(Dataset.from_path("web", "fake://bucket/a/*.rows").shard_names) == ["x-0.rows", "x-1.rows"]
    assert list(Dataset.from_path("web", "fake://bucket/a/x-{0..1}.rows").shard_names) == ["x-0.rows", "x-1.rows"]
    assert list(Dataset.from_path("web", "fake://bucket/{a,b}").shard_names) == ["a/x-0.rows", "a/x-1.rows", "b/y.rows"]
    assert failing("fake://bucket/c/*.rows").code == "path-missing"


def test_web_urls_keep_their_query_for_reading_and_hide_it_everywhere_else(doubles):
    for i in range(3):
        doubles.FILES[f"http://me:pass@host/x-{i}.rows?sig=s3cret"] = doubles.rows_file(ROWS)
    dataset = Dataset.from_path(
        "web", "http://me:pass@host/x-{0..2}.rows?sig=s3cret", storage_options={"secret": "s3cret"}
    )
    assert list(dataset.shard_names) == ["x-0.rows", "x-1.rows", "x-2.rows"]
    assert dataset.total() == 6
    shown = f"{dataset!r} {dataset.to_plain()} {dataset.identity()} {failing('http://me:pass@host/y.rows?sig=s3cret')}"
    assert "s3cret" not in shown
    assert "pass" not in shown


def test_a_long_brace_pattern_costs_one_listing(write, doubles):
    root = write({f"x-{i:03d}.rows": ROWS for i in range(100)})
    dataset = Dataset.from_path("web", root / "x-{000..099}.rows")
    assert dataset.shard_count() == 100
    assert len(doubles.COUNTS["listed"]) == 1


def test_storage_options_that_do_not_fit_are_an_error_that_shows_no_value(doubles):
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file(ROWS)
    error = failing("fake://bucket", storage_options={"token": "s3cret"})
    assert error.code == "storage-options"
    assert "s3cret" not in str(error)
    assert "token" in str(error)


def test_braces_expand_as_in_a_shell():
    assert list(expand_braces("a{08..10}b")) == ["a08b", "a09b", "a10b"]
    assert list(expand_braces("{2..0}")) == ["2", "1", "0"]
    assert list(expand_braces("{a,b}{1..2}")) == ["a1", "a2", "b1", "b2"]
    assert list(expand_braces("a{x}b{}")) == ["a{x}b{}"]


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("*", "a.rows", True),
        ("*", "a/b.rows", True),
        ("*.rows", "a/b.rows", False),
        ("**/b.rows", "b.rows", True),
        ("**/b.rows", "a/c/b.rows", True),
        ("a/**", "a/b/c", True),
        ("a?c", "a/c", False),
        ("a[/]c", "a/c", False),
        ("[]x]", "]", True),
        ("[!a-c]", "d", True),
        ("[!a-c]", "b", False),
        ("a.b", "axb", False),
    ],
)
def test_globs_match_as_in_a_shell(pattern, name, matches):
    assert bool(glob_regex(pattern).fullmatch(name)) is matches


@pytest.mark.parametrize(
    ("url", "scheme", "parent", "name"),
    [
        ("/data/a.rows", "", "/data", "a.rows"),
        ("/a.rows", "", "/", "a.rows"),
        ("s3://bucket/a/b.rows", "s3", "s3://bucket/a", "b.rows"),
        ("memory://b.rows", "memory", "memory://", "b.rows"),
        ("https://u:p@host/a/b.rows?x=/y#z", "https", "https://u:p@host/a", "b.rows"),
        ("file:///data/a%20b.rows", "file", "file:///data", "a b.rows"),
        ("zip://a/b.rows::s3://bucket/c.zip", "zip", "zip://a::s3://bucket/c.zip", "b.rows"),
        ("simplecache::s3://bucket/a/b.rows", "simplecache", "simplecache::s3://bucket/a", "b.rows"),
        ("S3://bucket/a/b.rows", "s3", "S3://bucket/a", "b.rows"),
    ],
)
def test_urls_come_apart_into_scheme_directory_and_name(url, scheme, parent, name):
    assert urls.scheme_of(url) == scheme
    assert urls.parent(url) == parent
    assert urls.basename(url) == name
    assert scheme == "file" or urls.join(parent, name) == url.partition("?")[0]


def test_a_url_that_does_not_lie_below_has_no_name():
    for url, root in (("/data2/a", "/data"), ("s3://b/x", "s3://a"), ("zip://a::s3://b", "zip://::s3://c")):
        with pytest.raises(ValueError, match="does not lie below"):
            urls.relative(url, root)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@host/a?sig=x#f", "https://host/a"),
        ("s3://key:secret@bucket/a@b/c", "s3://bucket/a@b/c"),
        ("az://c/a?sv=1&sig=x/y", "az://c/a"),
        ("s3://bucket/a-?.rows", "s3://bucket/a-?.rows"),
        ("zip://a::https://u:p@host/b.zip?sig=x", "zip://a::https://host/b.zip"),
        ("/data/odd?name=x@y", "/data/odd?name=x@y"),
    ],
)
def test_what_is_shown_of_a_url_holds_neither_userinfo_nor_query(url, shown):
    assert urls.display(url) == shown
    assert urls.redact(f"GET {url} failed") == f"GET {shown} failed"


def test_data_spread_over_two_stores_is_one_dataset(write, doubles):
    root = write({"a.rows": ROWS})
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file(ROWS)
    dataset = Dataset.from_path("web", [root, "fake://bucket"])
    assert list(dataset.shard_names) == ["0/a.rows", "1/a.rows"]
    assert dataset.total() == 4


def test_a_store_that_lists_files_elsewhere_is_refused(doubles, monkeypatch):
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file(ROWS)
    listed = doubles.FakeStorage.list
    monkeypatch.setattr(doubles.FakeStorage, "list", lambda self, url: listed(self, "fake://bucket"))
    monkeypatch.setattr(doubles.FakeStorage, "stat", lambda self, url: doubles.FileInfo(url=url, size=1))
    with pytest.raises(PluginError) as excinfo:
        Dataset.from_path("web", "fake://other/*.rows")
    assert excinfo.value.code == "storage-contract"


def test_two_shards_of_one_name_are_refused(write, doubles, monkeypatch):
    monkeypatch.setattr(
        doubles.RowsFormat,
        "discover",
        lambda self, files: [doubles.Shard(url=f.url, name="one", file=f) for f in files],
    )
    with pytest.raises(PluginError) as excinfo:
        Dataset.from_path("web", write({"a.rows": ROWS, "b.rows": ROWS}))
    assert excinfo.value.code == "format-contract"


def test_the_storage_of_the_highest_priority_reads_a_scheme_and_a_tie_is_an_error(doubles):
    doubles.FILES["fake://bucket/a.rows"] = doubles.rows_file(ROWS)

    class Refusing(doubles.FakeStorage):
        def stat(self, url):
            raise PermissionError(url)

    def rival(priority):
        descriptor = StorageDescriptor(
            name="rival", summary="Refuses", impl="nowhere:Nothing", schemes=("fake",), priority=priority
        )
        return register("storage", descriptor, Refusing)

    with rival(1):
        assert Dataset.from_path("web", "fake://bucket").total() == 2
    with rival(1000):
        assert failing("fake://bucket").code == "path-unreadable"
    with rival(100):
        assert failing("fake://bucket").code == "storage-ambiguous"


def test_a_scheme_that_no_storage_reads_is_an_error(monkeypatch):
    monkeypatch.setattr("zephon.plugins.Registry.descriptors", lambda self: {})
    error = failing("s4://me:secret@bucket/x")
    assert error.code == "storage-scheme"
    assert "secret" not in str(error)


def test_shard_names_behave_as_a_sequence(write):
    names = Dataset.from_path("web", write({f"{i}.rows": ROWS for i in range(5)})).shard_names
    assert names[1] == "1.rows"
    assert names[-1] == "4.rows"
    assert list(names[1:4:2]) == ["1.rows", "3.rows"]
    assert names == [f"{i}.rows" for i in range(5)]
    assert "3.rows" in names
