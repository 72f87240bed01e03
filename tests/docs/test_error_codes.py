"""Every error code is explained in docs/errors.md, and nothing is explained that does not exist."""

import re
from pathlib import Path

import pytest

from zephon_error_codes import error_codes

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/errors.md"
SOURCES = [ROOT / "zephon_core/src", *sorted(ROOT.glob("plugins/*/src")), ROOT / "tests/zephon-testkit/src"]


@pytest.fixture(scope="module")
def codes():
    return error_codes(SOURCES)


@pytest.fixture(scope="module")
def entries():
    """The page's entries, code to text."""
    parts = re.split(r"^### ", PAGE.read_text(), flags=re.MULTILINE)[1:]
    pairs = [part.partition("\n") for part in parts]
    assert len({code for code, _, _ in pairs}) == len(pairs), "a code is explained twice"
    return {code.strip(): re.split(r"^## ", text, flags=re.MULTILINE)[0] for code, _, text in pairs}


def test_every_code_can_be_found_in_the_sources(codes):
    assert codes.unresolved == []


def test_every_code_is_explained(codes, entries):
    assert {code: codes.known[code] for code in sorted(codes.known.keys() - entries.keys())} == {}


def test_every_explained_code_exists(codes, entries):
    assert sorted(entries.keys() - codes.known.keys()) == []


def test_codes_are_kebab_case_and_in_order_within_their_area(codes):
    assert [code for code in codes.known if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", code)] == []
    for area in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        listed = re.findall(r"^### (.+)$", area, re.MULTILINE)
        assert listed == sorted(listed)


def test_an_entry_says_what_happened_why_and_what_to_do(entries):
    form = re.compile(r"\s*- \*\*What\*\*: \S.+?\n- \*\*Why\*\*: \S.+?\n- \*\*Do\*\*: \S.+\s*", re.DOTALL)
    assert [code for code, text in entries.items() if not form.fullmatch(text)] == []


SNIPPET = """
from zephon.errors import ConfigError
from snippet_helpers import refuse

class Refusal:
    reason: str
    code: str = "by-default-of-a-field"

def _helper(what, code="by-default"):
    raise ConfigError(what, code=code)

def computed(flag):
    code = "assigned-first"
    if flag:
        code = "assigned-second"
    ConfigError("x", code=code)

_helper("x")
_helper("x", "positional")
Refusal("x", "by-class")
ConfigError("x", code="one" if computed else "other")
ConfigError("x", code=error.code)
refuse("imported", 1)
ConfigError("x", code=make_code())
"""
HELPERS = "def refuse(code: str, n: int): ...\ndef parse(code: int): ...\nparse(7)\n"


def test_the_search_sees_defaults_helpers_classes_branches_and_assignments_and_reports_the_rest(tmp_path):
    (tmp_path / "snippet.py").write_text(SNIPPET)
    (tmp_path / "snippet_helpers.py").write_text(HELPERS)
    found = error_codes([tmp_path])
    assert found.known.keys() == {
        "by-default",
        "by-default-of-a-field",
        "assigned-first",
        "assigned-second",
        "positional",
        "by-class",
        "one",
        "other",
        "imported",
    }
    line = SNIPPET.splitlines().index('ConfigError("x", code=make_code())') + 1
    assert found.unresolved == [f"{tmp_path / 'snippet.py'}:{line}"]


def test_the_place_of_a_code_is_told(codes):
    [place] = codes.known["no-batch"]
    path, _, line = place.rpartition(":")
    assert "no-batch" in "".join(Path(path).read_text().splitlines()[int(line) - 1 : int(line) + 5])
