"""``zephon verify``: the promise as a command, kept by good recipes and broken audibly by others."""

import re

import pytest

from zephon_fault_files import jsonl

LENGTHS = {"op": "map_transform", "fn": "zephon_recipe_functions:with_length"}
FOLD = {
    "op": "stateful_transform",
    "name": "total",
    "init_state": 0,
    "push": "zephon_recipe_functions:running_total",
}
FEW = ("--rounds", "6", "--variants", "4")


@pytest.mark.parametrize(
    "operators",
    [
        (),
        (LENGTHS, {"op": "shuffle", "buffer_size": 5}),
        ({"op": "filter", "predicate": "zephon_recipe_functions:long_enough"}, FOLD),
    ],
)
def test_a_good_recipe_passes_under_every_variant(zephon, recipe, operators):
    code, out, err = zephon("verify", recipe(*operators), *FEW)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    rounds = int(re.fullmatch(r"plain run: (\d) rounds of 3 lanes", lines[0])[1])
    assert rounds > 2
    assert [line for line in lines if line.startswith("variant ")] == lines[1::2]
    assert lines[2::2] == [f"  {rounds} rounds identical"] * 4


def test_variants_are_drawn_by_seed_and_are_the_same_again(zephon, recipe):
    path = recipe()
    first, other = (zephon("verify", path, *FEW, "--seed", seed)[1] for seed in (0, 1))
    assert first != other
    assert zephon("verify", path, *FEW)[1] == first


@pytest.mark.parametrize("options", [{"tail": "pad"}, {"max_rounds": 3}, {"dp_degree": 3, "dp_group_id": 1}])
def test_a_recipes_own_options_do_not_stand_in_the_way(zephon, recipe, options):
    code, out, _ = zephon("verify", recipe(LENGTHS, options=options), *FEW)
    assert code == 0
    assert out.count("rounds identical") == 4


def test_an_endless_recipe_is_compared_for_as_long_as_asked(zephon, recipe):
    code, out, _ = zephon("verify", recipe(exhausted_policy="repeat"), "--rounds", "25", "--variants", "2")
    assert code == 0
    assert out.startswith("plain run: 25 rounds")
    assert out.count("25 rounds identical") == 2


def test_an_impure_function_is_status_1_and_the_round_and_lane_are_named(zephon, recipe):
    path = recipe(
        {
            "op": "map_transform",
            "fn": "zephon_recipe_functions:counted",
            "schema": {"n": "int64", "text": "string", "calls": "int64"},
        }
    )
    code, out, err = zephon("verify", path, *FEW)
    assert (code, err) == (1, "")
    (line,) = [line for line in out.splitlines() if "DIFFERS" in line]
    assert re.fullmatch(r"  round 0 DIFFERS in lane 0, 1, 2, from row 0 of lane 0 on", line)
    assert "depends on more than its row" in out
    assert "identical" not in out


def test_rows_that_are_set_aside_stay_out_of_the_files_of_the_real_run(zephon, recipe, data, tmp_path):
    jsonl(data, [22, 18], {5: b"{", 30: b"{"})
    aside = tmp_path / "aside"
    path = recipe(options={"on_error": {"action": "quarantine", "path": str(aside)}})
    code, out, _ = zephon("verify", path, *FEW)
    assert code == 0
    assert out.count("rounds identical") == 4
    assert not aside.exists()


def test_a_bad_row_stops_the_verification_with_its_error(zephon, recipe, data):
    jsonl(data, [22, 18], {5: b"{"})
    code, out, err = zephon("verify", recipe(), "--rounds", "20")
    assert code == 1
    assert err.startswith("[bad-row] row 5 of shard 'part-0.jsonl' of dataset 'web'")
    assert "identical" not in out
