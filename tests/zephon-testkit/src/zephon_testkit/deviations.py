"""Deviations: clauses a plugin is known not to keep, written down in ``conformance.toml`` beside its tests.

::

    [[deviation]]
    plugin = "shard_format:lines"
    clause = "SF-12"
    status = "notyet"        # notimpl: never begun; notyet: under way; never: cannot be, and why
    reason = "row numbers beyond 2^31 overflow in the library"
    link = "https://example.org/lines/issues/7"

A deviation is a strict expected failure: as soon as the clause holds, the test fails until the entry is removed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

#: The file's name.
FILE: Final = "conformance.toml"
STATUSES: Final = ("notimpl", "notyet", "never")
_KEYS: Final = ("plugin", "clause", "status", "reason", "link")


class BadDeviations(ValueError):
    """The file does not say what it must; the message names the file and the entry."""


@attrs.frozen(slots=True, kw_only=True)
class Deviation:
    """One clause that one plugin does not keep.

    Attributes:
        plugin: ``point:name``.
        clause: id of the clause.
        status: ``notimpl``, ``notyet`` or ``never``.
        reason: why.
        link: where it is followed up.
    """

    plugin: str
    clause: str
    status: str
    reason: str
    link: str

    @property
    def text(self) -> str:
        """For reports: ``notyet: reason (link)``."""
        return f"{self.status}: {self.reason} ({self.link})"


def find(start: Path) -> Path | None:
    """The nearest ``conformance.toml`` in a folder or those above it, not beyond the folder that has a pyproject."""
    for folder in (start, *start.parents):
        if (folder / FILE).is_file():
            return folder / FILE
        if (folder / "pyproject.toml").is_file():
            return None
    return None


def read(path: Path, known: Sequence[str]) -> list[Deviation]:
    """The entries of a file.

    Args:
        path: the file.
        known: ids of all clauses.

    Raises:
        BadDeviations: not TOML, an unknown clause, status or key, a key that is missing, or one clause twice.
    """
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadDeviations(f"{path}: {error}") from error
    unknown = content.keys() - {"deviation"}
    if unknown:
        raise BadDeviations(f"{path}: unknown table {sorted(unknown)[0]!r}; entries are written [[deviation]]")
    entries = content.get("deviation", [])
    if not isinstance(entries, list):
        raise BadDeviations(f"{path}: entries are written [[deviation]], with two brackets")
    found: dict[tuple[str, str], Deviation] = {}
    for number, entry in enumerate(entries, start=1):
        deviation = _deviation(f"{path}, deviation {number}", entry, known)
        if (deviation.plugin, deviation.clause) in found:
            raise BadDeviations(f"{path}: {deviation.plugin} and {deviation.clause} stand twice")
        found[deviation.plugin, deviation.clause] = deviation
    return list(found.values())


def _deviation(where: str, entry: Mapping[str, Any], known: Sequence[str]) -> Deviation:
    for key in _KEYS:
        if not isinstance(entry.get(key), str) or not entry[key].strip():
            raise BadDeviations(f"{where}: {key} is missing or no text; an entry has {', '.join(_KEYS)}")
    surplus = entry.keys() - set(_KEYS)
    if surplus:
        raise BadDeviations(f"{where}: unknown key {sorted(surplus)[0]!r}; an entry has {', '.join(_KEYS)}")
    if entry["status"] not in STATUSES:
        raise BadDeviations(f"{where}: status {entry['status']!r} is none of {', '.join(STATUSES)}")
    if entry["clause"] not in known:
        raise BadDeviations(f"{where}: no contract has a clause {entry['clause']!r}")
    return Deviation(**{key: entry[key] for key in _KEYS})
