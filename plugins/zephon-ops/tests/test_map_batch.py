"""``map_batch``: one microbatch a call."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
import pytest

from zephon.errors import DataError, PlanError
from zephon_ops.map_batch import MapBatch


def view(block):
    """Stands for the Batch a training loop receives: what counts here is its ``block``."""
    return SimpleNamespace(block=block)


def doubled(batch):
    n = batch.block.data.column("n").to_numpy()
    return view(batch.block.with_data(pa.record_batch({"n": n * 2})))


def ready(lab, operator, **kwargs):
    operator.setup(lab.context(batch_view=view, **kwargs))
    return operator


def test_the_function_sees_one_batch_and_its_result_goes_on(lab):
    operator = ready(lab, MapBatch(doubled, schema={"n": "int64"}))
    made = operator.apply(lab.block(4).slice(1, 4))
    assert made.data.to_pydict() == {"n": [2, 4, 6]}
    assert (made.lane, made.index) == (3, 1)


def test_none_drops_the_microbatch_leaving_no_row_of_the_promised_columns(lab):
    operator = ready(lab, MapBatch(lambda batch: None, schema={"x": "string"}))
    made = operator.apply(lab.block(4))
    assert len(made) == 0
    assert made.schema == pa.schema([("x", pa.string())])


def test_columns_are_found_on_the_first_rows_of_every_dataset(lab):
    samples = [lab.block({"n": [1, 2]}), lab.block({"n": [3]}, component=[1])]
    operator = MapBatch(doubled).infer(samples, lab.context(batch_view=view))
    assert operator.schema == pa.schema([("n", pa.int64())])
    assert operator.schema_is_known
    assert operator.fn is doubled


def test_columns_of_a_function_that_drops_every_sample_cannot_be_found(lab):
    with pytest.raises(PlanError) as info:
        MapBatch(lambda batch: None).infer([lab.block(2)], lab.context(batch_view=view))
    assert info.value.code == "schema-not-inferable"


@pytest.mark.parametrize("result", [5, {"n": [1]}, "batch", SimpleNamespace(block=5)], ids=repr)
def test_anything_but_a_batch_is_refused(lab, result):
    with pytest.raises(DataError) as info:
        ready(lab, MapBatch(lambda batch: result, schema={"n": "int64"})).apply(lab.block(2))
    assert info.value.code == "function-result"


@pytest.mark.parametrize("result", [lambda batch: None, lambda batch: view(batch.block.slice(0, 1))])
def test_a_function_that_promised_a_row_for_a_row_is_held_to_it(lab, result):
    promised = MapBatch(result, schema={"n": "int64", "text": "string"}, drop_none=False)
    assert promised.preserves_rows
    assert not MapBatch(result).preserves_rows
    with pytest.raises(DataError) as info:
        ready(lab, promised).apply(lab.block(2))
    assert info.value.code == "function-result"


def test_columns_of_another_type_raise_what_runners_set_aside_with_the_microbatch(lab):
    with pytest.raises(ValueError, match="int64"):
        ready(lab, MapBatch(doubled, schema={"n": "string"})).apply(lab.block(2))


def test_without_batch_before_it_there_is_nothing_to_map(lab):
    with pytest.raises(PlanError) as info:
        MapBatch(doubled).setup(lab.context())
    assert info.value.code == "needs-batch"


def test_a_copy_made_from_the_spec_has_a_view_of_its_own(lab):
    first = ready(lab, MapBatch(doubled, schema={"n": "int64"}))
    second = MapBatch(doubled, schema={"n": "int64"})
    assert first == second
    assert not hasattr(second._runtime, "view")
