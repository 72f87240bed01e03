"""What happens when a dataset runs out, and what the run waits for."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zephon.errors import ConfigError
from zephon.work.policies import Policy, resolve_policies

# The slow definitions take as long as they take.
law = settings(deadline=None, max_examples=40)


@pytest.mark.parametrize(
    ("exhausted", "repeats", "goal", "policy"),
    [
        (None, None, None, Policy(goal=1)),
        (None, None, 3, Policy(goal=3)),
        ("repeat", None, None, Policy()),
        ("repeat", None, 2, Policy(goal=2)),
        ("repeat", 2, None, Policy(limit=3)),
        ("repeat", 2, 3, Policy(limit=3, goal=3)),
        ("stop", None, None, Policy(limit=1)),
        ("stop", None, 1, Policy(limit=1, goal=1)),
        ("stop", 0, None, Policy(limit=1)),
        ("redistribute", None, None, Policy(limit=1, leaves=True)),
        ("redistribute", 4, None, Policy(limit=5, leaves=True)),
        ("redistribute", 4, 2, Policy(limit=5, leaves=True, goal=2)),
        (None, 2, None, Policy(limit=3)),
        (None, 0, None, Policy(limit=1)),
        (None, 2, 1, Policy(limit=3, goal=1)),
    ],
)
def test_three_options_make_limit_action_and_goal(exhausted, repeats, goal, policy):
    assert resolve_policies(["web"], exhausted, repeats, goal) == {"web": policy}


def test_a_dict_sets_policies_one_by_one_and_leaves_the_rest_as_if_not_given():
    found = resolve_policies(
        ["code", "math", "web"], {"code": "redistribute", "web": "repeat"}, {"code": 1}, {"web": 2, "math": None}
    )
    assert found == {
        "code": Policy(limit=2, leaves=True),
        "math": Policy(goal=1),
        "web": Policy(goal=2),
    }


@pytest.mark.parametrize(
    ("exhausted", "repeats", "goal", "code"),
    [
        ("stop", 1, None, "contradictory-policy"),
        ({"web": "stop"}, {"web": 2}, None, "contradictory-policy"),
        ("stop", None, 2, "goal-beyond-limit"),
        ("redistribute", None, 2, "goal-beyond-limit"),
        (None, 1, 3, "goal-beyond-limit"),
        ("repeat", {"web": 0}, {"web": 2}, "goal-beyond-limit"),
        ("loop", None, None, "bad-policy"),
        (1, None, None, "bad-policy"),
        ({"web": "loop"}, None, None, "bad-policy"),
        (None, -1, None, "bad-policy"),
        (None, True, None, "bad-policy"),
        (None, "2", None, "bad-policy"),
        (None, None, 0, "bad-policy"),
        (None, None, 1.5, "bad-policy"),
        (None, None, {"web": 0}, "bad-policy"),
        ({"wbe": "stop"}, None, None, "unknown-dataset"),
        (None, {"wbe": 1}, None, "unknown-dataset"),
        (None, None, {"wbe": 1}, "unknown-dataset"),
    ],
)
def test_policies_that_cannot_be_meant_are_refused(exhausted, repeats, goal, code):
    with pytest.raises(ConfigError) as caught:
        resolve_policies(["web"], exhausted, repeats, goal)
    assert caught.value.code == code
    assert caught.value.fix


def test_a_misspelt_dataset_is_met_with_the_one_that_was_meant():
    with pytest.raises(ConfigError) as caught:
        resolve_policies(["web", "code"], {"wbe": "stop"}, None, None)
    assert "'wbe' -> 'web'" in caught.value.found


@law
@given(
    st.sampled_from([None, "repeat", "stop", "redistribute"]),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(1, 4),
)
def test_every_combination_either_makes_sense_or_is_refused(exhausted, repeats, goal):
    stops = exhausted == "stop" and repeats
    limit = 1 + repeats if repeats is not None else 1 if exhausted in ("stop", "redistribute") else None
    if stops or (limit is not None and goal is not None and goal > limit):
        with pytest.raises(ConfigError) as caught:
            resolve_policies(["web"], exhausted, repeats, goal)
        assert caught.value.code == ("contradictory-policy" if stops else "goal-beyond-limit")
        return
    policy = resolve_policies(["web"], exhausted, repeats, goal)["web"]
    assert policy.limit == limit
    assert policy.leaves == (exhausted == "redistribute")
    assert (policy.goal is not None) == (goal is not None or (exhausted is None and repeats is None))
    assert str(policy)
