"""Quarantine files: rows that were set aside, one JSON line each, one file a lane.

Entries are keyed by origin: what a restored run meets again is not written again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from zephon.block import ORIGIN_DTYPES
from zephon.engine.program import Dropped
from zephon.errors import ConfigError, StorageError


class Quarantine:
    """Writes the entries of one rank's lanes."""

    def __init__(self, folder: str, describe: Callable[[Dropped], dict[str, Any]]) -> None:
        self._folder = Path(folder)
        self._describe = describe
        self._seen: dict[int, set[tuple[Any, ...]]] = {}
        self._lock = threading.Lock()

    def write(self, lane: int, dropped: Sequence[Dropped]) -> list[Dropped]:
        """Write the entries that are new and return them.

        Raises:
            StorageError: ``quarantine-unwritable``.
            ConfigError: ``quarantine-foreign`` for a file that holds something else.
        """
        path = self._folder / f"lane-{lane:05d}.jsonl"
        with self._lock:
            try:
                return self._append(path, lane, dropped)
            except OSError as error:
                raise StorageError(
                    f"rows that were set aside cannot be written to {path}",
                    found=f"{type(error).__name__}: {error.strerror}",
                    fix='make it writable, or choose another directory: .options(on_error={"action": "quarantine", '
                    '"path": ...})',
                    code="quarantine-unwritable",
                ) from error

    def _append(self, path: Path, lane: int, dropped: Sequence[Dropped]) -> list[Dropped]:
        seen = self._seen.get(lane)
        if seen is None:
            seen = self._seen[lane] = _existing(path)
        fresh = [entry for entry in dropped if (entry.where, *entry.origin) not in seen]
        if fresh:
            self._folder.mkdir(parents=True, exist_ok=True)
            lines = "".join(
                json.dumps(quarantine_entry(entry, self._describe), ensure_ascii=False) + "\n" for entry in fresh
            )
            # A reason may quote what is no text; as an escape it still is JSON.
            with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(lines)
            seen.update((entry.where, *entry.origin) for entry in fresh)
        return fresh


def quarantine_entry(entry: Dropped, describe: Callable[[Dropped], dict[str, Any]]) -> dict[str, Any]:
    """One row that was set aside, as plain data."""
    origin = dict(zip(ORIGIN_DTYPES, entry.origin, strict=True))
    return {
        **describe(entry),
        "epoch": origin["epoch"],
        "where": entry.where,
        "reason": entry.reason,
        "offset": entry.offset,
        "origin": origin,
    }


def _existing(path: Path) -> set[tuple[Any, ...]]:
    if not path.exists():
        return set()
    data = path.read_bytes()
    complete = data[: data.rfind(b"\n") + 1]
    if len(complete) < len(data):  # a run that was killed in mid-write leaves half a line
        path.write_bytes(complete)
    try:
        entries = [json.loads(line) for line in complete.splitlines()]
        return {(e["where"], *(e["origin"][name] for name in ORIGIN_DTYPES)) for e in entries}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} is no file of rows that were set aside",
            found=f"{type(error).__name__}: {error}",
            fix='give them a directory of their own: .options(on_error={"action": "quarantine", "path": ...})',
            code="quarantine-foreign",
        ) from error
