"""The kit tells a work source that is wrong from one that is right."""

import pytest

import zephon_mutants
from zephon_testkit.suites import clauses_of

POINT = "work_source"
MUTANTS = zephon_mutants.expected(POINT)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return zephon_mutants.reports(POINT, ["minimal", "maximal", *MUTANTS], tmp_path_factory.mktemp(POINT))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected_by_its_clause(found, name):
    assert MUTANTS[name] in zephon_mutants.clauses(found[name], "failed")
    assert found[name]["verdict"] == "non-conformant"


@pytest.mark.parametrize("name", ["minimal", "maximal"])
def test_a_toy_that_is_right_passes(found, name):
    assert zephon_mutants.clauses(found[name], "failed") == {}
    assert found[name]["verdict"] == "conformant"


def test_every_clause_has_a_mutant_that_only_it_may_let_pass():
    mine = [id for id in clauses_of("WorkSourceTests") if not id.startswith("PK-")]
    assert set(MUTANTS.values()) == set(mine)
