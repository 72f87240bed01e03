"""Fingerprints: one hash over plain data, and the differences behind two that disagree."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple


class Difference(NamedTuple):
    """One place where two specs disagree. ``old`` and ``new`` are plain data or ``"(absent)"``."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.old)} -> {_short(self.new)}"


ABSENT = "(absent)"


def canonical_json(plain: Any) -> bytes:
    """The one JSON text of plain data: sorted keys, no spaces, UTF-8, shortest floats, no NaN."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def fingerprint(plain: Any) -> str:
    """SHA-256 of :func:`canonical_json`, as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(plain)).hexdigest()


def differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    """Yield every leaf where ``old`` and ``new`` disagree, depth first, in key order."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differences(old.get(key, ABSENT), new.get(key, ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list):
        for i in range(max(len(old), len(new))):
            yield from differences(
                old[i] if i < len(old) else ABSENT, new[i] if i < len(new) else ABSENT, f"{path}[{i}]"
            )
    elif old != new or type(old) is not type(new):
        yield Difference(path, old, new)


def _short(value: Any) -> str:
    text = value if value == ABSENT else json.dumps(value, sort_keys=True, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."
