"""Whatever runs a pipeline, and wherever its engine is, every round is the same."""

import warnings

import pytest

from zephon.cli.rounds import Fleet, round_digest
from zephon_workloads import Workloads

PIPELINES = ("text pack", "heavy map", "images")
#: More than any of them has: they are run to their end.
ALL = 10_000
#: Each with the numbers of workers that mean something to it.
RUNNERS = {"inline": [0], "threads": [1, 2, 4], "processes": [1, 2, 4], "ray": [1, 2, 4]}
CASES = [
    pytest.param(
        runner,
        parallelism,
        isolate,
        id=f"{runner}-{parallelism}-{'isolated' if isolate else 'here'}",
        marks=[pytest.mark.ray] if runner == "ray" else [],
    )
    for runner, numbers in RUNNERS.items()
    for parallelism in numbers
    for isolate in (False, True)
    if (runner, isolate) != ("inline", False)  # what the others are compared with
]


@pytest.fixture(scope="module")
def workloads(tmp_path_factory):
    return Workloads(tmp_path_factory.mktemp("workloads")).all


def digests(make, **options):
    """The digests of all rounds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a plan loses is not of interest here
        fleet = Fleet(make, 1, **options)
        try:
            return [round_digest(lanes) for lanes in fleet.rounds(ALL)]
        finally:
            fleet.close()


@pytest.fixture(scope="module")
def expected(workloads):
    """Without a runner, and with blocks of another size than anybody else's."""
    found = {name: digests(make, runner="inline", parallelism=0, block_rows=11) for name, make in workloads.items()}
    for name, rounds in found.items():
        assert 12 <= len(rounds) == len(set(rounds)), f"{name} is too short to be compared"
    return found


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize(("runner", "parallelism", "isolate"), CASES)
def test_every_runner_gives_every_round_as_it_is_without_one(
    workloads, expected, pipeline, runner, parallelism, isolate, request
):
    if runner == "ray":
        request.getfixturevalue("ray_cluster")
    found = digests(workloads[pipeline], runner=runner, parallelism=parallelism, isolate=isolate)
    assert found == expected[pipeline]


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_a_run_that_goes_from_runner_to_runner_is_the_same_run(workloads, expected, pipeline):
    """Saved under one, restored under the next, with another number of groups."""
    found, states = [], None
    stretches = [("processes", 2, 1, 3), ("threads", 2, 2, 3), ("inline", 0, 4, 3), ("processes", 1, 2, ALL)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for runner, parallelism, groups, rounds in stretches:
            fleet = Fleet(workloads[pipeline], groups, agree=groups > 1, runner=runner, parallelism=parallelism)
            try:
                if states is not None:
                    fleet.restore(states)
                found += [round_digest(lanes) for lanes in fleet.rounds(rounds)]
                states = fleet.states()
            finally:
                fleet.close()
    assert found == expected[pipeline]
