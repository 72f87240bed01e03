"""Every group count gets the same rounds: the slots of all groups together are each lane once, whole."""

import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zephon.engine.options import Options
from zephon.engine.topology import Identity, identify, layout, resolve_lanes, valid_degrees
from zephon.errors import ConfigError


def groups(lanes: int, degree: int, microbatch: int, uneven: str = "pad"):
    return [layout(lanes, Identity(degree, group, "test"), microbatch, uneven) for group in range(degree)]


@given(st.integers(1, 40), st.integers(1, 80), st.integers(1, 12))
def test_all_groups_together_deliver_every_row_of_every_lane_once_in_order(lanes, degree, microbatch):
    seen = {}
    for topology in groups(lanes, degree, microbatch):
        for slot in topology.slots:
            if slot.lane >= 0:
                seen.setdefault(slot.lane, []).extend(range(*slot.rows))
    assert seen == {lane: list(range(microbatch)) for lane in range(lanes)}


@given(st.integers(1, 40), st.integers(1, 80), st.integers(1, 12))
def test_every_group_takes_equally_many_steps_of_equal_shape_per_round(lanes, degree, microbatch):
    topologies = groups(lanes, degree, microbatch)
    assert len({len(t.slots) for t in topologies}) == 1
    assert len({slot.rows[1] - slot.rows[0] for t in topologies for slot in t.slots}) == 1


@given(st.integers(1, 40), st.integers(1, 80), st.integers(1, 12))
def test_without_padding_exactly_the_listed_degrees_work(lanes, degree, microbatch):
    if degree in valid_degrees(lanes, microbatch):
        assert all(slot.lane >= 0 for t in groups(lanes, degree, microbatch, "error") for slot in t.slots)
    else:
        with pytest.raises(ConfigError) as caught:
            groups(lanes, degree, microbatch, "error")
        assert caught.value.code == "topology-invalid"
        assert all(str(d) in str(caught.value) for d in valid_degrees(lanes, microbatch))


@given(st.integers(1, 40), st.integers(1, 40))
def test_a_group_owns_neighbouring_lanes_and_fillers_come_last(lanes, degree):
    for topology in groups(lanes, min(lanes, degree), 4):
        own = [slot.lane for slot in topology.slots]
        real = [lane for lane in own if lane >= 0]
        assert real == list(range(real[0], real[0] + len(real)))
        assert own[: len(real)] == real


def test_identity_comes_from_options_then_from_the_launcher_then_is_a_single_group():
    assert identify(Options(dp_degree=4, dp_group_id=2), {})[:2] == (4, 2)
    assert identify(Options(), {"WORLD_SIZE": "8", "RANK": "3"})[:2] == (8, 3)
    assert identify(Options(dp_degree=8), {"WORLD_SIZE": "8", "RANK": "3"})[:2] == (8, 3)
    assert identify(Options(), {})[:2] == (1, 0)
    assert identify(Options(), {"SLURM_NTASKS": "1"})[:2] == (1, 0)


@pytest.mark.parametrize(
    "environ", [{"SLURM_NTASKS": "4"}, {"OMPI_COMM_WORLD_SIZE": "2"}, {"PMI_SIZE": "16"}, {"WORLD_SIZE": "2"}]
)
def test_s1_ranks_that_do_not_know_their_place_are_an_error_not_the_same_first_batch(environ):
    with pytest.raises(ConfigError) as caught:
        identify(Options(), environ)
    assert caught.value.code == "rank-unknown"


@pytest.mark.parametrize("options", [{"dp_degree": 4}, {"dp_group_id": 1}])
def test_half_an_identity_is_an_error(options):
    with pytest.raises(ConfigError) as caught:
        identify(Options(**options), {})
    assert caught.value.code == "rank-unknown"


def test_a_group_outside_the_groups_is_an_error():
    with pytest.raises(ConfigError) as caught:
        identify(Options(dp_degree=4, dp_group_id=4), {})
    assert caught.value.code == "rank-invalid"


def test_lanes_default_to_the_groups_with_a_warning_and_to_the_checkpoint_without():
    many = Identity(4, 0, "test")
    with pytest.warns(UserWarning, match="canonical_replicas"):
        assert resolve_lanes(Options(), many, None) == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve_lanes(Options(), many, 12) == 12
        assert resolve_lanes(Options(canonical_replicas=32), many, None) == 32
        assert resolve_lanes(Options(), Identity(1, 0, "test"), None) == 1
