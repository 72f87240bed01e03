"""A runner named with arguments of its own."""

import pytest

from zephon import Pipeline
from zephon.engine.inline import InlineRunner
from zephon.engine.options import Options
from zephon.errors import ConfigError, PluginError
from zephon.io import Dataset
from zephon.plugins import RunnerDescriptor, register
from zephon.spec import to_plain
from zephon.work import StaticMixtureWorkSource

made = []


class Placed(InlineRunner):
    """The inline runner, with arguments."""

    def __init__(self, parallelism=None, *, resources=None, patience=1.0):
        super().__init__(parallelism)
        if not patience > 0:
            raise ConfigError("patience", found=f"{patience}", code="option-invalid")
        made.append({"resources": resources, "patience": patience})


class Open(InlineRunner):
    """Takes whatever it is given."""

    def __init__(self, parallelism=None, **given):
        super().__init__(parallelism)
        made.append(given)


@pytest.fixture(autouse=True)
def _runners():
    made.clear()
    placed = RunnerDescriptor(name="placed", summary="inline, with arguments", impl="unused:Unused")
    anything = RunnerDescriptor(name="open", summary="inline, with any arguments", impl="unused:Unused")
    with register("runner", placed, Placed), register("runner", anything, Open):
        yield


def pipeline(**options):
    source = StaticMixtureWorkSource([Dataset.from_dict("few", [{"n": n} for n in range(8)])], {"few": 1.0}, seed=2)
    return Pipeline(source).batch(microbatch_size=2).options(**options)


def delivered(**options):
    with pipeline(**options) as running:
        return [batch.to_pylist() for batch in running]


@pytest.mark.parametrize("name", ["placed", "open"])
def test_arguments_reach_the_runner_and_never_the_data(name):
    settings = {"resources": {"shelf": 1}, "patience": 2.5}
    assert delivered(runner={"name": name, **settings}) == delivered(runner="inline") != []
    assert made[-1] == settings


def test_a_mapping_of_nothing_but_a_name_is_that_name():
    assert delivered(runner={"name": "placed"}) == delivered(runner="placed")
    assert made == [{"resources": None, "patience": 1.0}] * 2


def test_arguments_are_no_data_setting():
    with_arguments = Options().changed({"runner": {"name": "placed", "patience": 3}})
    assert to_plain(with_arguments, data_only=True) == to_plain(Options(), data_only=True)


def test_arguments_survive_being_written_down(tmp_path):
    (tmp_path / "few.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(8)))
    source = StaticMixtureWorkSource([Dataset.from_path("few", tmp_path)], {"few": 1.0}, seed=2)
    runner = {"name": "placed", "resources": {"shelf": 1}}
    written = Pipeline(source).batch(microbatch_size=2).options(runner=runner).to_spec()
    assert written["options"]["runner"] == runner
    with Pipeline.from_spec(written) as again:
        assert next(iter(again)) is not None
    assert made[-1]["resources"] == {"shelf": 1}


@pytest.mark.parametrize("runner", [3, None, {}, {"resources": {}}, {"name": 3}, {"name": "placed", 4: 5}, ["placed"]])
def test_what_names_no_runner_is_refused_when_it_is_set(runner):
    with pytest.raises(ConfigError) as caught:
        Options().changed({"runner": runner})
    assert caught.value.code == "option-invalid"


@pytest.mark.parametrize(
    ("runner", "hint"),
    [
        ({"name": "placed", "resource": {}}, "resources"),
        ({"name": "placed", "parallelism": 2}, ".options(parallelism=...)"),
        ({"name": "inline", "resources": {}}, "remove it"),
        ({"name": "auto", "resources": {}}, "name the runner"),
    ],
)
def test_an_argument_the_runner_does_not_take_is_an_error_of_planning(runner, hint):
    unplanned = pipeline(runner=runner)
    with pytest.raises(ConfigError) as caught:
        unplanned.explain()
    assert caught.value.code == "option-invalid"
    assert hint in caught.value.fix


def test_a_value_the_runner_refuses_is_an_error_of_planning():
    unplanned = pipeline(runner={"name": "placed", "patience": -1})
    with pytest.raises(ConfigError):
        unplanned.explain()


def test_an_unknown_name_is_an_error_of_planning():
    with pytest.raises(PluginError) as caught:
        pipeline(runner={"name": "placd", "patience": 1}).explain()
    assert caught.value.code == "plugin-unknown"
