"""What a runner is started with can be sent to another process."""

import pickle

import pytest

from zephon import Pipeline
from zephon.engine.inline import InlineRunner
from zephon.errors import DataError
from zephon.io import Dataset
from zephon.plugins import RunnerDescriptor, register
from zephon.work import StaticMixtureWorkSource


class Sending(InlineRunner):
    """The inline runner, with programs that came as bytes."""

    def start(self, programs):
        super().start(pickle.loads(pickle.dumps(tuple(programs))))


@pytest.fixture(autouse=True)
def _sending():
    descriptor = RunnerDescriptor(name="sending", summary="inline, from bytes", impl="unused:Unused")
    with register("runner", descriptor, Sending):
        yield


def share(row):
    return {"n": 100 // row["n"]}


def pipeline(rows):
    source = StaticMixtureWorkSource([Dataset.from_dict("few", rows)], {"few": 1.0}, seed=2)
    return Pipeline(source).map_transform(share, schema={"n": "int64"}).batch(microbatch_size=2)


def delivered(runner):
    with pipeline([{"n": n} for n in range(1, 12)]).options(runner=runner, parallelism=0) as made:
        return [batch.to_pylist() for batch in made]


def test_programs_that_were_sent_give_the_same_batches():
    assert delivered("sending") == delivered("inline") != []


def test_a_program_that_was_sent_still_names_the_row_that_failed():
    texts = []
    for runner in ("sending", "inline"):
        made = pipeline([{"n": 1}, {"n": 0}]).options(runner=runner, parallelism=0)
        with made, pytest.raises(DataError) as raised:
            list(made)
        texts.append(str(raised.value))
    assert texts[0] == texts[1]
    assert "'few'" in texts[0]
