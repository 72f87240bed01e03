"""The kit tells a row operator that is wrong from one that is right."""

import pytest

import zephon_mutants
from zephon_testkit.suites import clauses_of

POINT = "row_operator"
MUTANTS = zephon_mutants.expected(POINT)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    toys = ["minimal", "maximal", "needs_arguments", "reads_another_field"]
    return zephon_mutants.reports(POINT, [*toys, *MUTANTS], tmp_path_factory.mktemp(POINT))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected_by_its_clause(found, name):
    assert MUTANTS[name] in zephon_mutants.clauses(found[name], "failed")
    assert found[name]["verdict"] == "non-conformant"


@pytest.mark.parametrize("name", ["minimal", "maximal"])
def test_a_toy_that_is_right_passes(found, name):
    assert zephon_mutants.clauses(found[name], "failed") == {}
    assert found[name]["verdict"] == "conformant"


def test_every_clause_has_a_mutant_that_only_it_may_let_pass():
    mine = [id for id in clauses_of("RowOperatorTests") if not id.startswith("PK-")]
    assert set(MUTANTS.values()) == set(mine)


@pytest.mark.parametrize("name", ["needs_arguments", "reads_another_field"])
def test_what_the_kit_cannot_make_or_feed_is_incomplete_and_not_wrong(found, name):
    assert zephon_mutants.clauses(found[name], "failed") == {}
    assert found[name]["verdict"] == "incomplete"
    details = zephon_mutants.clauses(found[name], "unchecked").values()
    assert any("subclass" in detail for detail in details)
