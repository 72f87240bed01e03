"""Clauses: the numbered sentences of a contract, each checked by one test.

The pages are ``docs/contracts/<point>-v1.md``. A clause is a heading such as ``### SF-7 Rows come as asked for`` and
the text below it. Numbers are never used again once given, so that a deviation written down once keeps its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Final, TypeVar

import attrs
import pytest

from zephon_testkit.shipped import shipped

_HEADING: Final = re.compile(r"^### ([A-Z]{2}-\d+) (.+)$", re.MULTILINE)
_Test = TypeVar("_Test", bound=Callable[..., Any])


@attrs.frozen(slots=True, kw_only=True)
class Clause:
    """One sentence of a contract.

    Attributes:
        id: e.g. ``"SF-3"``.
        title: what must hold, in one sentence.
        page: name of the page that states it, e.g. ``"shard_format-v1"``.
        text: the words below the heading.
    """

    id: str
    title: str
    page: str
    text: str


@cache
def clauses() -> dict[str, Clause]:
    """Every clause of every contract this kit checks, by id, in the order of the pages."""
    found: dict[str, Clause] = {}
    for page in sorted(shipped("contracts").glob("*-v*.md")):
        pieces = _HEADING.split(page.read_text(encoding="utf-8"))
        for id, title, text in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
            if id in found:
                raise ValueError(f"clause {id} stands twice: in {found[id].page} and in {page.stem}")
            body = re.split(r"^## ", text, flags=re.MULTILINE)[0]
            found[id] = Clause(id=id, title=title, page=page.stem, text=body.strip())
    return found


def clause(id: str) -> Callable[[_Test], _Test]:
    """Cite, on a test of the kit, the clause it checks."""

    def cite(test: _Test) -> _Test:
        marked: _Test = pytest.mark.clause(id)(test)
        return marked

    return cite


def cited(test: Any) -> str | None:
    """The clause a test function cites, or None."""
    for mark in getattr(test, "pytestmark", ()):
        if mark.name == "clause":
            return str(mark.args[0])
    return None
