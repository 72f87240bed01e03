"""Every error Zephon raises, as one tree.

::

    ZephonError
    ├── ConfigError (ValueError)      an argument, option or recipe is wrong
    │   └── PlanError                 the pipeline as a whole cannot run
    ├── DataError                     the data is not what it claims to be
    │   ├── BadRowsError              named rows of one read or one operator call
    │   └── ShardError                a whole shard cannot be read
    ├── StorageError (OSError)        the place data lives did not answer
    ├── CheckpointError               a state cannot be restored or merged
    ├── PluginError                   a plugin is unknown, broken or ambiguous
    └── EngineError (RuntimeError)    a run cannot go on
        └── WorkerError               a runner lost its workers
            ├── WorkerLostError       a task has ended one worker after the other
            └── PeerGoneError         the process at the other end of a line has ended

An error says three things, on three lines: what happened, in the user's own names; what was found
and what was expected; what to do next, ready to paste. Its ``code`` is stable and documented in
``docs/errors.md``; tests assert the code, never the prose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple


class ZephonError(Exception):
    """Base of all errors raised by Zephon.

    Args:
        what: what happened, naming the user's own objects.
        found: what was found and what was expected.
        fix: what to do next, ready to paste.
        code: the stable identifier documented in ``docs/errors.md``.
    """

    def __init__(self, what: str, *, code: str, found: str = "", fix: str = "") -> None:
        self.what = what
        self.found = found
        self.fix = fix
        self.code = code
        super().__init__(what)

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.what}"]
        if self.found:
            lines.append(f"  found: {self.found}")
        if self.fix:
            lines.append(f"  do: {self.fix}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(cls: type[ZephonError], state: dict[str, Any]) -> ZephonError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = (state["what"],)
    return error


class ConfigError(ZephonError, ValueError):
    """An argument, an option or a recipe is wrong."""


class PlanError(ConfigError):
    """The pipeline as a whole cannot run: a field is missing, a type does not fit, nothing comes out."""


class DataError(ZephonError):
    """The data is not what it claims to be."""


class ShardError(DataError):
    """A whole shard cannot be read: truncated, not of its format, changed since it was indexed."""


class BadRow(NamedTuple):
    """One row that cannot be used.

    Attributes:
        row: for a reader, the row's number in its shard; for an operator, its position in the block.
        reason: what is wrong with it.
        offset: byte offset in the shard, or -1 where there is none.
    """

    row: int
    reason: str
    offset: int = -1


class BadRowsError(DataError):
    """Some rows of one call cannot be used; all the others can.

    A reader or operator that meets bad rows raises this once, naming *every* bad row of the call. Under
    ``on_error="skip"`` the engine repeats the call without them.
    """

    def __init__(
        self,
        rows: Iterable[BadRow],
        *,
        what: str = "",
        code: str = "bad-row",
        fix: str = 'to drop and count such rows, pass .options(on_error="skip") or "quarantine"',
    ) -> None:
        self.rows: Sequence[BadRow] = tuple(rows)
        first = self.rows[0]
        where = f"row {first.row}" + (f", byte {first.offset}" if first.offset >= 0 else "")
        more = f" (and {len(self.rows) - 1} more rows of this call)" if len(self.rows) > 1 else ""
        super().__init__(what or f"{where} cannot be read", found=f"{where}: {first.reason}{more}", fix=fix, code=code)


class StorageError(ZephonError, OSError):
    """The place data lives did not answer, or answered with an error, after all retries."""

    # OSError has a way of its own to be pickled and to be shown; ours has to win.

    def __reduce__(self) -> tuple[Any, ...]:
        return ZephonError.__reduce__(self)

    def __str__(self) -> str:
        return ZephonError.__str__(self)


class CheckpointError(ZephonError):
    """A state cannot be restored, merged or stored. Nothing was loaded."""


class PluginError(ZephonError):
    """A plugin is unknown, broken, outdated or claimed twice."""


class EngineError(ZephonError, RuntimeError):
    """A run cannot go on."""


class WorkerError(EngineError):
    """A runner lost its workers too often, or a task could not be carried out."""


class WorkerLostError(WorkerError):
    """A task has ended one worker after the other.

    Attributes:
        note: what it was about to do, as the program's ``careful`` has noted it; "" if nothing.
    """

    def __init__(self, what: str, *, code: str = "worker-lost", found: str = "", fix: str = "", note: str = "") -> None:
        super().__init__(what, code=code, found=found, fix=fix)
        self.note = note


class PeerGoneError(WorkerError):
    """The process at the other end of a line has ended, or has closed it."""

    def __init__(
        self,
        what: str = "the process at the other end of a line has ended",
        *,
        code: str = "peer-gone",
        found: str = "",
        fix: str = "",
    ) -> None:
        super().__init__(what, code=code, found=found, fix=fix)
