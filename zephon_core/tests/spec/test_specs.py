"""Specs are plain data: they survive JSON, differ where they differ, and refuse what has no plain form."""

import json
import math

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon.spec import (
    canonical_json,
    differences,
    execution,
    fingerprint,
    from_plain,
    rebuilt,
    resolve_reference,
    runtime,
    to_plain,
)

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@attrs.frozen(slots=True)
class Toy:
    size: int
    name: str | None = attrs.field(default=None, kw_only=True)
    fields: tuple[str, ...] = attrs.field(default=("a",), kw_only=True)
    weights: dict[str, float] = attrs.field(factory=dict, kw_only=True)
    schema: pa.Schema | None = attrs.field(default=None, kw_only=True)
    fn: object = attrs.field(default=None, kw_only=True)
    parallelism: int | None = execution(default=None)
    _runtime: object = runtime()


@given(PLAIN)
def test_plain_data_is_its_own_plain_form_and_survives_json(value):
    assert to_plain(value) == value
    assert json.loads(canonical_json(value)) == value


@given(PLAIN, PLAIN)
def test_differences_are_empty_exactly_when_fingerprints_agree(a, b):
    assert list(differences(a, a)) == []
    assert (list(differences({"x": a}, {"x": b})) == []) == (fingerprint({"x": a}) == fingerprint({"x": b}))


@given(
    st.integers(), st.none() | st.text(), st.lists(st.text(), max_size=3), st.dictionaries(st.text(), st.floats(0, 1))
)
def test_a_spec_survives_its_plain_form(size, name, fields, weights):
    toy = Toy(size, name=name, fields=tuple(fields), weights=weights)
    for defaults in (True, False):
        plain = json.loads(json.dumps(to_plain(toy, defaults=defaults)))
        assert from_plain(Toy, plain) == toy


def test_recipes_leave_out_defaults_and_fingerprints_keep_them():
    assert to_plain(Toy(3), defaults=False) == {"size": 3}
    assert set(to_plain(Toy(3), data_only=True)) == {"size", "name", "fields", "weights", "schema", "fn"}


def test_execution_settings_never_enter_a_fingerprint_and_runtime_never_a_spec():
    plain = to_plain(Toy(3, parallelism=8), data_only=True)
    assert plain == to_plain(Toy(3), data_only=True)
    toy = Toy(3)
    toy._runtime.loaded = 1
    assert toy == Toy(3)
    assert not hasattr(rebuilt(toy)._runtime, "loaded")
    assert "_runtime" not in repr(toy)


def test_functions_are_their_import_path_and_lambdas_are_refused_by_name():
    assert to_plain(math.sqrt) == "math:sqrt"
    assert resolve_reference("json:JSONDecoder.decode") is json.JSONDecoder.decode
    for bad in (lambda row: row, json.JSONDecoder().decode):
        with pytest.raises(ConfigError) as caught:
            to_plain(bad)
        assert caught.value.code == "callable-not-importable"
    assert to_plain(lambda row: row, portable=False).endswith("<lambda>")


@pytest.mark.parametrize("reference", ["math", "math:", ":sqrt", "math:nothing", "no_such_module:f", "math:pi"])
def test_what_cannot_be_imported_is_an_error(reference):
    with pytest.raises(ConfigError) as caught:
        resolve_reference(reference)
    assert caught.value.code == "callable-not-importable"


def test_schemas_come_from_themselves_and_from_names_of_types():
    schema = pa.schema([("text", pa.string()), ("ids", pa.list_(pa.int32())), ("t", pa.timestamp("us", "UTC"))])
    assert from_plain(Toy, to_plain(Toy(1, schema=schema))).schema.equals(schema)
    written = from_plain(Toy, {"size": 1, "schema": {"text": "string", "ids": "list<int32>"}}).schema
    assert written == pa.schema([("text", pa.string()), ("ids", pa.list_(pa.int32()))])


@pytest.mark.parametrize("plain", [{}, {"size": "x"}, {"size": 1, "siz": 2}, {"size": 1, "schema": {"a": "int65"}}])
def test_settings_that_do_not_fit_are_named(plain):
    with pytest.raises(ConfigError) as caught:
        from_plain(Toy, plain)
    assert caught.value.code == "bad-spec"


def test_live_objects_have_no_plain_form():
    with pytest.raises(ConfigError) as caught:
        to_plain({"x": object()})
    assert caught.value.code == "not-plain-data"


def test_one_and_true_and_one_point_zero_are_different_settings():
    assert [d.path for d in differences({"a": 1, "b": 1}, {"a": True, "b": 1.0})] == ["a", "b"]
