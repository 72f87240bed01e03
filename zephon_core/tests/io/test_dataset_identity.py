"""Identity: relative names, rows, bytes and schema; differences are named; recipes hold no secret."""

from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon.io import Dataset, identity_differences
from zephon.io.identity import make_identity
from zephon.io.shards import Names

ROWS = [{"x": 1}, {"x": 2}]
SCHEMA = pa.schema([("x", pa.int64())])

listings = st.dictionaries(st.sampled_from("abcdefgh"), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1)


def identity(listing, schema=SCHEMA):
    names = sorted(listing)
    numbers = np.array([listing[n] for n in names], np.int64).reshape(-1, 2)
    return make_identity(Names(pa.array(names, pa.string())), numbers[:, 0], numbers[:, 1], schema)


@settings(deadline=None)
@given(listings, listings, st.booleans())
def test_identities_agree_exactly_where_listings_do_and_differences_name_the_shards(old, new, large):
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr("zephon.io.identity.MOST_LISTED", 3)
        a, b = json.loads(json.dumps(identity(old))), identity(new)
        found = identity_differences(a, b, sorted(new))
    assert (a["digest"] == b["digest"]) == (old == new) == (not found)
    for name in set(old) | set(new):
        differs = old.get(name) != new.get(name)
        if differs and (name in new or not large):
            assert any(f"shard {name!r}" in line for line in found)
        elif not differs:
            assert not any(f"shard {name!r}" in line for line in found)


def test_the_schema_is_part_of_the_identity():
    wider = pa.schema([("x", pa.float64()), ("y", pa.string())])
    found = identity_differences(identity({"a": (1, 1)}), identity({"a": (1, 1)}, wider))
    assert found == ["field 'x': int64 -> double", "field 'y' (string) is new"]
    turned = identity_differences(identity({"a": (1, 1)}, wider), identity({"a": (1, 1)}, SCHEMA))
    assert turned == ["field 'y' (string) is gone", "field 'x': double -> int64"]


def test_the_order_of_fields_is_part_of_the_identity():
    a = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    b = pa.schema([("y", pa.int64()), ("x", pa.int64())])
    found = identity_differences(identity({"a": (1, 1)}, a), identity({"a": (1, 1)}, b))
    assert found == ["order of fields: x, y -> y, x"]


def test_location_and_time_are_not_part_of_the_identity(write, doubles):
    here = Dataset.from_path("web", write({"a.rows": ROWS}, below="here"))
    there_root = write({"a.rows": ROWS}, below="there")
    os.utime(there_root / "a.rows", (1, 1))
    there = Dataset.from_path("web", there_root)
    doubles.FILES["fake://bucket/deep/a.rows"] = doubles.rows_file(ROWS)
    remote = Dataset.from_path("web", "fake://bucket/deep")
    assert here.fingerprint == there.fingerprint == remote.fingerprint
    assert "here" not in json.dumps(here.identity())


def test_a_changed_file_is_named_with_what_changed(write, doubles):
    old = Dataset.from_path("web", write({"a.rows": ROWS, "b.rows": ROWS, "c.rows": ROWS})).identity()
    root = write({"b.rows": [*ROWS, {"x": 3}], "d.rows": ROWS})
    (root / "c.rows").unlink()
    found = identity_differences(old, Dataset.from_path("web", root).identity())
    assert found[0].startswith("shard 'b.rows': 2 -> 3 rows, ")
    assert found[1:3] == ["shard 'c.rows' is gone", "shard 'd.rows' is new"]


def test_many_differences_are_counted_after_the_first_ones():
    old = identity({f"{i:03d}": (1, 1) for i in range(100)})
    new = identity({f"{i:03d}": (2, 1) for i in range(100)})
    found = identity_differences(old, new)
    assert len(found) < 30
    assert any("80 more" in line for line in found)


def test_a_recipe_gives_the_same_dataset_back(write):
    root = write({"a.rows": [{"x": 1, "y": 2}], "b.rows": [{"x": 3}]})
    dataset = Dataset.from_path(
        "web", [root / "a.rows", root / "b.rows"], fmt="rows", columns=["x"], format_options={"unit": 1}
    )
    plain = json.loads(json.dumps(dataset.to_plain()))
    assert set(plain) == {"name", "path", "fmt", "columns", "format_options"}
    assert Dataset.from_plain(plain).fingerprint == dataset.fingerprint
    simple = Dataset.from_path("web", root)
    assert simple.to_plain() == {"name": "web", "path": str(root)}


@pytest.mark.parametrize("plain", [{}, {"name": "web"}, {"name": "web", "path": "x", "storage_options": {}}])
def test_a_recipe_that_is_none_is_refused(plain):
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_plain(plain)
    assert excinfo.value.code == "bad-spec"
