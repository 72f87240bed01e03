"""Operators as specs: descriptors, signatures, recipes, fingerprints."""

from __future__ import annotations

import inspect
import json
import re
from importlib.metadata import entry_points

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from zephon.abc import InfersSchema, LaneOperator, RowOperator
from zephon.errors import ConfigError
from zephon.spec import canonical_json, execution_fields, from_plain, to_plain
from zephon_ops.batch import BatchRows
from zephon_ops.filter import Filter
from zephon_ops.map_batch import MapBatch
from zephon_ops.map_transform import MapTransform
from zephon_ops.mixture import EnsureMixture
from zephon_ops.shuffle import Shuffle
from zephon_ops.stateful import StatefulTransform

SIGNATURES = {
    "map_transform": "(fn, *, reads=None, schema=None, drop_none=True, vectorized=False, version=None, EXECUTION)",
    "filter": "(predicate, *, version=None, EXECUTION)",
    "map_batch": "(fn, *, schema=None, drop_none=True, version=None, EXECUTION)",
    "stateful_transform": (
        "(name, *, init_state, push, flush=None, schema=None, vectorized=False, version=None, EXECUTION)"
    ),
    "shuffle": "(buffer_size=8192, *, seed=0, EXECUTION)",
    "ensure_mixture": "(max_buffer_size=1000, weight_by='auto', warn_tolerance=None, *, EXECUTION)",
    "batch": "(microbatch_size, *, drop_last=True, EXECUTION)",
}


def loaded(name):
    (point,) = (p for p in entry_points(group="zephon.operator.v1", name=name) if p.value.startswith("zephon_ops."))
    descriptor = point.load()
    assert descriptor.name == name
    return descriptor.load()


@pytest.mark.parametrize(("name", "expected"), SIGNATURES.items(), ids=SIGNATURES)
def test_signatures_are_the_contract_with_users(name, expected):
    signature = inspect.signature(loaded(name))
    bare = signature.replace(
        parameters=[p.replace(annotation=p.empty) for p in signature.parameters.values()],
        return_annotation=signature.empty,
    )
    assert str(bare) == expected.replace("EXECUTION", "parallelism=None, placement=None")


@pytest.mark.parametrize("name", SIGNATURES)
def test_every_argument_is_documented_and_none_besides(name):
    operator = loaded(name)
    assert issubclass(operator, (RowOperator, LaneOperator))
    arguments = operator.__doc__.partition("Args:")[2].partition("Raises:")[0]
    listed = re.findall(r"^ {8}(\w+):", arguments, flags=re.MULTILINE)
    expected = [p for p in inspect.signature(operator).parameters if p not in ("parallelism", "placement")]
    assert listed == expected


SPECS = [
    MapTransform(json.loads, reads=["a"], schema={"a": "int64"}, version="2"),
    MapTransform(json.loads),
    Filter(json.loads),
    Filter(pc.field("a") > 1, version="x"),
    MapBatch(json.loads, schema=pa.schema([("a", pa.struct([("b", pa.int8())]))])),
    StatefulTransform("s", init_state={"a": [1, None, "x:y"]}, push=json.loads, flush=json.dumps),
    StatefulTransform("s", init_state=dict, push=json.loads, vectorized=True),
    Shuffle(77, seed=-3),
    EnsureMixture(5, "n", 0.5),
    BatchRows(5, drop_last=False),
]


@pytest.mark.parametrize("operator", SPECS, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("defaults", [True, False])
def test_an_operator_survives_a_recipe(operator, defaults):
    plain = json.loads(canonical_json(to_plain(operator, defaults=defaults)))
    assert from_plain(type(operator), plain) == operator


def test_functions_that_cannot_be_imported_are_refused_by_a_recipe_only():
    operator = MapTransform(lambda row: row)
    to_plain(operator, portable=False)
    with pytest.raises(ConfigError) as info:
        to_plain(operator)
    assert info.value.code == "callable-not-importable"


def test_execution_settings_never_enter_the_fingerprint():
    for operator in SPECS:
        names = {"parallelism", "placement"} | ({"warn_tolerance"} if isinstance(operator, EnsureMixture) else set())
        assert {f.name for f in execution_fields(type(operator))} == names
        changed = attrs.evolve(operator, parallelism=3, placement="cpu")
        assert to_plain(changed, data_only=True) == to_plain(operator, data_only=True)
    assert to_plain(EnsureMixture(warn_tolerance=0.1), data_only=True) == to_plain(EnsureMixture(), data_only=True)


def test_the_schema_found_enters_the_fingerprint_and_is_found_only_where_it_is_not_declared(lab):
    operator = MapTransform(dict)
    frozen = operator.infer([lab.block(2)], lab.context())
    assert to_plain(frozen, data_only=True) != to_plain(operator, data_only=True)
    inferring = [o for o in SPECS if isinstance(o, InfersSchema)]
    assert {type(o) for o in inferring} == {MapTransform, MapBatch, StatefulTransform}
    assert [o.schema_is_known for o in inferring] == [True, False, True, False, False]


def test_only_a_map_that_promises_a_row_for_a_row_keeps_lengths_computable():
    assert not MapTransform(dict).preserves_rows
    assert not MapTransform(dict, vectorized=True).preserves_rows
    assert MapTransform(dict, drop_none=False).preserves_rows
    assert MapTransform(dict, vectorized=True, drop_none=False).preserves_rows
    assert not Filter(pc.field("a") > 1).preserves_rows


def test_reads_are_the_fields_named_and_everything_for_a_function():
    assert MapTransform(dict).reads is None
    assert list(MapTransform(dict, reads=["n"]).reads) == ["n"]
    assert list(MapTransform(dict, reads="text").reads) == ["text"]
    assert Filter(bool).reads is None
    assert list(Filter((pc.field("n") > 10) | pc.starts_with(pc.field("text"), "row 1")).reads) == ["n", "text"]
