"""Datasets in memory: any rows, typed as Arrow types them, identified by their content."""

from __future__ import annotations

import pickle
from datetime import datetime
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError, DataError
from zephon.io import BlockReader, Dataset, first_rows, identity_differences

rows = st.lists(
    st.fixed_dictionaries(
        {"x": st.integers(-9, 9)},
        optional={"t": st.text(max_size=4) | st.none(), "l": st.lists(st.integers(0, 9), max_size=3)},
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None)
@given(rows, st.integers(1, 7))
def test_rows_come_back_as_they_were_with_absent_fields_null(given_rows, slab):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zephon.io.memory._SLAB", slab)
        dataset = Dataset.from_dict("mem", given_rows)
    names = dataset.schema.names
    assert dataset.total() == len(given_rows)
    assert dataset.head(99) == [{name: row.get(name) for name in names} for row in given_rows]


@settings(deadline=None)
@given(rows, st.lists(st.integers(0, 20), max_size=4), st.lists(st.integers(0, 10_000), max_size=10))
def test_a_table_in_any_chunks_is_the_same_dataset(given_rows, cuts, asked):
    whole = Dataset.from_dict("mem", given_rows)
    table = first_rows(whole, 99)[0]
    bounds = [0, *sorted(min(c, len(given_rows)) for c in cuts), len(given_rows)]
    pieces = [table.slice(a, b - a) for a, b in pairwise(bounds)]
    cut = Dataset.from_dict("mem", pa.Table.from_batches(pieces, schema=table.schema))
    assert cut.fingerprint == whole.fingerprint
    origins = first_rows(whole, 99)[1].take(np.array([a % len(given_rows) for a in asked], np.int64))
    blocks = []
    for dataset in (whole, cut):
        reader = BlockReader([dataset], dataset.schema)
        blocks.append(reader.read(origins))
        reader.close()
    assert blocks[0].equals(blocks[1])


def test_shards_are_in_order_of_their_names_and_may_differ_in_type_and_kind():
    dataset = Dataset.from_dict(
        "mem",
        {"b": [{"x": 1}], "a": pa.table({"x": pa.array([0.5]), "t": pa.array(["t"], pa.large_string())}), "c": []},
    )
    assert list(dataset.shard_names) == ["a", "b", "c"]
    assert dataset.shard_rows.tolist() == [1, 1, 0]
    assert dataset.schema == pa.schema([("x", pa.float64()), ("t", pa.string())])
    assert dataset.head() == [{"x": 0.5, "t": "t"}, {"x": 1.0, "t": None}]


def test_values_of_all_kinds_are_typed():
    dataset = Dataset.from_dict(
        "mem",
        [
            {"a": np.arange(3, dtype=np.int32), "b": b"bytes", "c": {"d": 1}, "t": datetime(2020, 1, 1), "n": None},
            {"a": np.arange(2, dtype=np.int32), "b": None, "c": {"e": "x"}, "f": 1},
        ],
    )
    assert dataset.schema.field("a").type == pa.list_(pa.int32())
    assert dataset.schema.field("c").type == pa.struct([("d", pa.int64()), ("e", pa.string())])
    assert dataset.head()[1]["c"] == {"d": None, "e": "x"}


@pytest.mark.parametrize(
    "data",
    ["text", 5, [1], [{"x": 1}, "y"], [{1: 2}], {"shard": "text"}, [{"x": 1}, {"x": "one"}], [{"x": object()}]],
)
def test_what_is_no_row_or_has_no_single_type_is_an_error(data):
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_dict("mem", data)
    assert excinfo.value.code == "dataset-rows"


def test_types_that_conflict_across_slabs_are_an_error_too(monkeypatch):
    monkeypatch.setattr("zephon.io.memory._SLAB", 2)
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_dict("mem", [{"x": 1}, {"x": 2}, {"x": "three"}])
    assert excinfo.value.code == "dataset-rows"
    assert Dataset.from_dict("mem", [{"x": None}, {}, {"x": "three"}]).schema.field("x").type == pa.string()


def test_types_that_conflict_between_shards_leave_the_field_out_and_say_so():
    dataset = Dataset.from_dict("mem", {"a": [{"x": 1, "y": 1}], "b": [{"x": "one"}]})
    assert dataset.schema.names == ["y"]
    assert "'a'" in dataset.conflicts["x"]
    assert "string" in dataset.conflicts["x"]
    with pytest.raises(ConfigError) as excinfo:
        assert Dataset.from_dict("mem", {"a": [{"x": 1}], "b": [{"x": "one"}]}, columns=["x"]).schema
    assert excinfo.value.code == "column-missing"


@pytest.mark.parametrize("data", [[], {}, {"a": []}, pa.table({"x": pa.array([], pa.int64())})])
def test_no_rows_are_an_error_when_the_dataset_is_used(data):
    dataset = Dataset.from_dict("mem", data)
    with pytest.raises(ConfigError) as excinfo:
        dataset.total()
    assert excinfo.value.code == "dataset-empty"


def test_columns_are_chosen_and_ordered():
    dataset = Dataset.from_dict("mem", [{"x": 1, "y": 2, "z": 3}], columns=["z", "x"])
    assert dataset.head() == [{"z": 3, "x": 1}]
    assert list(dataset.head()[0]) == ["z", "x"]
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_dict("mem", [{"x": 1}], columns=["y"]).head()
    assert excinfo.value.code == "column-missing"
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_dict("mem", [{"x": 1}], columns=["x", "x"])
    assert excinfo.value.code == "column-missing"


def test_a_table_with_two_columns_of_one_name_is_refused():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(DataError) as excinfo:
        Dataset.from_dict("mem", table)
    assert excinfo.value.code == "duplicate-field"


def test_the_content_is_the_identity():
    one = Dataset.from_dict("mem", [{"x": 1}, {"x": 2}])
    same = Dataset.from_dict("other name", pa.table({"x": [0, 1, 2]}).slice(1))
    other = Dataset.from_dict("mem", [{"x": 1}, {"x": 3}])
    assert one.fingerprint == same.fingerprint
    assert one.fingerprint != other.fingerprint
    assert identity_differences(one.identity(), other.identity()) == ["shard 'rows': other content"]


def test_a_dataset_in_memory_goes_to_workers_but_not_into_a_recipe():
    dataset = Dataset.from_dict("mem", [{"x": 1}])
    assert pickle.loads(pickle.dumps(dataset)).head() == [{"x": 1}]
    with pytest.raises(ConfigError) as excinfo:
        dataset.to_plain()
    assert excinfo.value.code == "dataset-not-portable"


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_dataset_needs_a_name(name):
    with pytest.raises(ConfigError) as excinfo:
        Dataset.from_dict(name, [{"x": 1}])
    assert excinfo.value.code == "dataset-name"
