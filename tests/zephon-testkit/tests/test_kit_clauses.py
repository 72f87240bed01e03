"""Contracts, clauses and tests fit each other: none without the other."""

import re
from pathlib import Path

import pytest

from zephon.plugins import POINTS
from zephon_testkit.clauses import cited, clauses
from zephon_testkit.packaging import PluginTests
from zephon_testkit.suites import SUITES, suite

GUARD = "test_no_test_of_the_kit_is_overridden"


def checks_of(cls):
    return {name: getattr(cls, name) for name in dir(cls) if name.startswith("test") and name != GUARD}


@pytest.mark.parametrize("name", SUITES)
def test_every_test_cites_one_clause_that_exists_and_no_other_test_cites_it(name):
    citations = [cited(test) for test in checks_of(suite(name)).values()]
    assert None not in citations
    assert sorted(citations) == sorted(set(citations))
    assert set(citations) <= clauses().keys()


def test_every_clause_has_a_test():
    tested = {id for name in SUITES for id in suite(name).clauses()}
    assert clauses().keys() - tested == set()


@pytest.mark.parametrize("name", SUITES)
def test_every_test_says_what_to_look_at_when_it_fails(name):
    for test_name, test in checks_of(suite(name)).items():
        words = (test.__doc__ or "").split()
        assert words[:3] == ["If", "this", "fails"] or words[:2] == ["If", "this"], test_name
        assert len(words) > 12, f"{test_name} says little"


@pytest.mark.parametrize("name", SUITES)
def test_every_suite_inherits_the_packaging_clauses_and_names_its_point(name):
    cls = suite(name)
    assert issubclass(cls, PluginTests)
    assert cls.point in POINTS
    assert set(PluginTests.clauses()) <= set(cls.clauses())


def test_every_extension_point_has_a_suite():
    assert {suite(name).point for name in SUITES} == POINTS.keys()


def test_every_contract_has_a_page_for_the_major_this_core_reads():
    pages = {clause.page for clause in clauses().values()}
    assert pages == {"plugin-v1", *(f"{point}-v{major}" for point, major in POINTS.items() if point != "hooks")}


def test_clauses_are_numbered_in_order_and_say_something():
    by_prefix = {}
    for id, clause in clauses().items():
        prefix, number = id.split("-")
        by_prefix.setdefault(prefix, []).append(int(number))
        assert not clause.title.endswith("."), id
        assert clause.text, id
    for prefix, numbers in by_prefix.items():
        assert numbers == sorted(numbers), prefix


def test_public_names_are_those_of_the_stub():
    import zephon_testkit

    stub = Path(zephon_testkit.__file__).with_suffix(".pyi").read_text()
    named = set(re.findall(r"import \w+ as (\w+)", stub)) | {"__version__"}
    assert named == set(zephon_testkit.__all__)
    assert all(getattr(zephon_testkit, name) for name in named)
    with pytest.raises(AttributeError):
        zephon_testkit.NoSuchTests  # noqa: B018


def test_a_suite_is_written_against_the_public_api_alone():
    source = Path(__file__).parents[1] / "src" / "zephon_testkit"
    private = re.compile(
        r"^\s*(?:from|import) (zephon\.(?!(?:abc|block|random|plugins|spec|errors|io|work)\b)[\w.]+)", re.M
    )
    allowed = {"cli/new_plugin.py": set()}
    for path in source.rglob("*.py"):
        found = set(private.findall(path.read_text())) - allowed.get(str(path.relative_to(source)), set())
        assert not found, f"{path.name}: {found}"
