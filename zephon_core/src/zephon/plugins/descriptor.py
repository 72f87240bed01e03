"""Descriptors: what a plugin says of itself before its code is imported.

A plugin's entry point leads to a small module (``zephon_x/plugin.py``) that holds only descriptors: frozen data with a
name, a summary, capabilities, and where the implementation is. The implementation is imported when first used.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

import attrs

#: Extension points and the contract major this core reads.
POINTS: Final[dict[str, int]] = {
    "shard_format": 1,
    "storage": 1,
    "operator": 1,
    "runner": 1,
    "work_source": 1,
    "tokenizer": 1,
    "checkpoint_store": 1,
    "hooks": 1,
}


def _frozenset(value: Iterable[str]) -> frozenset[str]:
    # The letters of "write" are a set of strings, too.
    return frozenset([value] if isinstance(value, str) else value)


def _import(target: str) -> Any:
    module, _, attribute = target.partition(":")
    found: Any = import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


@attrs.frozen(slots=True, kw_only=True)
class Descriptor:
    """A plugin of any point.

    Attributes:
        name: what users write (``"parquet"``).
        summary: one line, no full stop.
        impl: ``module:attribute`` of the implementation.
        capabilities: names of the optional abilities the implementation has.
        requires: distributions the implementation imports beyond its own required dependencies.
        samples: ``module:attribute`` of a class whose members stand for what the author of a plugin tells the
            conformance kit (settings, a raw writer, blocks); "" where the kit's own do. Imported by nobody else.
    """

    name: str = attrs.field(validator=attrs.validators.matches_re(r"[a-z][a-z0-9_]*"))
    summary: str = attrs.field(validator=attrs.validators.min_len(1))
    impl: str = attrs.field(validator=attrs.validators.matches_re(r"[\w.]+:[\w.]+"))
    capabilities: frozenset[str] = attrs.field(default=frozenset(), converter=_frozenset)
    requires: tuple[str, ...] = ()
    samples: str = attrs.field(default="", validator=attrs.validators.matches_re(r"([\w.]+:[\w.]+)?"))

    def load(self) -> Any:
        """Import the implementation."""
        return _import(self.impl)

    def load_samples(self) -> Any:
        """Import what the conformance kit is to use in place of its own samples; None if nothing."""
        return _import(self.samples) if self.samples else None


@attrs.frozen(slots=True, kw_only=True)
class ShardFormatDescriptor(Descriptor):
    """A shard format.

    Attributes:
        suffixes: lower-case file suffixes it claims (``".parquet"``), compression included (``".jsonl.gz"``).
        index_files: names of files that mark a directory as this format (``"index.json"``).
        magic: leading bytes that surely mean this format.
    """

    suffixes: tuple[str, ...] = ()
    index_files: tuple[str, ...] = ()
    magic: tuple[bytes, ...] = ()


@attrs.frozen(slots=True, kw_only=True)
class StorageDescriptor(Descriptor):
    """A storage backend.

    Attributes:
        schemes: URL schemes it reads; ``""`` for plain paths; ``"*"`` for any scheme nobody else claims.
        priority: the higher wins where two installed backends claim one scheme.
    """

    schemes: tuple[str, ...]
    priority: int = 0


@attrs.frozen(slots=True, kw_only=True)
class OperatorDescriptor(Descriptor):
    """An operator; it becomes the ``Pipeline`` method of its name."""


@attrs.frozen(slots=True, kw_only=True)
class RunnerDescriptor(Descriptor):
    """A runner."""


@attrs.frozen(slots=True, kw_only=True)
class WorkSourceDescriptor(Descriptor):
    """A work source; the implementation takes ``datasets=`` and its own settings."""


@attrs.frozen(slots=True, kw_only=True)
class TokenizerDescriptor(Descriptor):
    """A tokenizer backend."""


@attrs.frozen(slots=True, kw_only=True)
class CheckpointStoreDescriptor(Descriptor):
    """A checkpoint store.

    Attributes:
        schemes: URL schemes it serves; ``""`` for plain paths.
    """

    schemes: tuple[str, ...] = ()


@attrs.frozen(slots=True, kw_only=True)
class HooksDescriptor(Descriptor):
    """A pluggy plugin object or module."""


DESCRIPTOR_TYPES: Final[dict[str, type[Descriptor]]] = {
    "shard_format": ShardFormatDescriptor,
    "storage": StorageDescriptor,
    "operator": OperatorDescriptor,
    "runner": RunnerDescriptor,
    "work_source": WorkSourceDescriptor,
    "tokenizer": TokenizerDescriptor,
    "checkpoint_store": CheckpointStoreDescriptor,
    "hooks": HooksDescriptor,
}
