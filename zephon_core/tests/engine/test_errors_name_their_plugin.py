"""An error of a row says which plugin met it, and in which version, whatever process that was in."""

import pytest

from zephon import Pipeline
from zephon.errors import DataError
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource


def fails(row):
    raise LookupError("no such thing")


@pytest.mark.parametrize("runner", ["inline", "threads", "processes"])
def test_an_operator_that_fails_is_named_with_its_distribution(runner):
    source = StaticMixtureWorkSource([Dataset.from_dict("web", [{"n": 1}])], {"web": 1})
    pipeline = Pipeline(source).map_transform(fails, schema={"n": "int64"}).batch(1).options(runner=runner)
    with pipeline, pytest.raises(DataError) as raised:
        list(pipeline)
    notes = "\n".join(raised.value.__notes__)
    assert "operator:map_transform of zephon-ops 0." in notes
    if runner == "processes":
        assert "in worker zephon-process-" in notes
        assert "in fails" in notes


def test_a_format_that_cannot_read_a_row_is_named_with_its_distribution(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"n": 1}\n{"n": \n')
    source = StaticMixtureWorkSource([Dataset.from_path("web", str(tmp_path))], {"web": 1})
    with Pipeline(source).batch(1) as pipeline, pytest.raises(DataError) as raised:
        list(pipeline)
    assert "shard_format:jsonl of zephon-jsonl 0." in "\n".join(raised.value.__notes__)
