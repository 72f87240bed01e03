"""The kit tells a runner that is wrong from one that is right."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import zephon_mutants
from zephon_testkit.suites import clauses_of

POINT = "runner"
MUTANTS = zephon_mutants.expected(POINT)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    # In several interpreters: the kit waits for mutants that never answer, which takes time and nothing else.
    names = list(MUTANTS)
    parts = [["minimal", "maximal"], *(names[first::5] for first in range(5))]
    with ThreadPoolExecutor(len(parts)) as pool:
        made = pool.map(lambda part: zephon_mutants.reports(POINT, part, tmp_path_factory.mktemp(POINT)), parts)
        return {name: report for part in made for name, report in part.items()}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_rejected_by_its_clause(found, name):
    assert MUTANTS[name] in zephon_mutants.clauses(found[name], "failed")
    assert found[name]["verdict"] == "non-conformant"


@pytest.mark.parametrize("name", ["minimal", "maximal"])
def test_a_toy_that_is_right_passes(found, name):
    assert zephon_mutants.clauses(found[name], "failed") == {}
    assert found[name]["verdict"] == "conformant"


def test_every_clause_has_a_mutant_that_only_it_may_let_pass():
    mine = [id for id in clauses_of("RunnerTests") if not id.startswith("PK-")]
    assert set(MUTANTS.values()) == set(mine)
