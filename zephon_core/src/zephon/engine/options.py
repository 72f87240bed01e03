"""Everything ``Pipeline.options(...)`` takes, checked by name and value."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

import attrs

from zephon.engine.cpus import local_ranks
from zephon.errors import ConfigError
from zephon.io.cache import CacheSettings, cache_settings
from zephon.spec import execution, spec_fields

ALIASES: Final = {"world_size": "dp_degree", "global_rank": "dp_group_id", "mtp_mode": "isolate"}

#: Published options that nothing here needs, with the reason users are given.
NOT_NEEDED: Final = {
    "flush_every_k_chunks": "operators are never flushed: their state is part of every checkpoint",
    "aggregate_dir": "ranks write their own lanes; a state is complete when all lanes are there",
    "snapshot_every": "every block boundary is a consistent cut; checkpoint() costs milliseconds at any step",
    "num_workers": "use parallelism=, which never changes the data",
}


@attrs.frozen(slots=True, kw_only=True)
class ErrorPolicy:
    """What becomes of rows that cannot be used.

    Attributes:
        action: ``raise`` stops the run at the first; ``skip`` drops and counts; ``quarantine`` also writes each with
            its origin to ``path``.
        path: directory of the quarantine files, one per lane.
        budget: bad rows one lane may have before the run stops all the same.
    """

    action: Literal["raise", "skip", "quarantine"] = "raise"
    path: str | None = None
    budget: int = 1000

    def __attrs_post_init__(self) -> None:
        if self.action not in ("raise", "skip", "quarantine"):
            raise _bad("on_error", self.action, "'raise', 'skip' or 'quarantine'")
        if self.action == "quarantine" and not self.path:
            raise ConfigError(
                'on_error="quarantine" needs a directory for the quarantine files',
                found="no path",
                fix='.options(on_error={"action": "quarantine", "path": "quarantine/"})',
                code="option-invalid",
            )
        if self.budget < 0:
            raise _bad("on_error budget", self.budget, "a number of rows, at least 0")

    @staticmethod
    def of(value: Any) -> ErrorPolicy:
        """From itself, an action, or ``{"action": ..., "path": ..., "budget": ...}``."""
        if isinstance(value, ErrorPolicy):
            return value
        if isinstance(value, str):
            path = "zephon-quarantine" if value == "quarantine" else None
            return ErrorPolicy(action=value, path=path)  # type: ignore[arg-type]
        if isinstance(value, Mapping) and set(value) <= {"action", "path", "budget"}:
            return ErrorPolicy(**value)
        raise _bad("on_error", value, "an action or a mapping with action, path and budget")


@attrs.frozen(slots=True, kw_only=True)
class Options:
    """The settings of a pipeline. Only ``canonical_replicas`` is a data setting.

    Attributes:
        canonical_replicas: number of lanes; None: ``dp_degree``, or what the checkpoint says.
        dp_degree: number of data-parallel groups; None: found from the environment.
        dp_group_id: this rank's group; None: found from the environment.
        runner: registered name of a runner, or ``"auto"``, which is threads, and processes for what these cannot
            speed up; or ``{"name": ..., ...}`` with arguments of that runner.
        parallelism: tasks at once; None: the CPUs this process may use; 0: all on the calling thread.
        max_rounds: end after so many rounds.
        agree: ``agree(int) -> int``, the minimum over all ranks; called inside ``next()``.
        memory_limit: bytes, or text such as ``"4GiB"``; None: a quarter of what is available.
        prefetch_batches: finished microbatches kept ready per lane.
        uneven: ``"pad"`` allows group counts that do not divide the lanes.
        tail: how a finite curriculum ends: ``"drop"`` with the last full round, ``"pad"`` with the last row.
        on_error: see :class:`ErrorPolicy`.
        block_rows: fixed number of rows per block instead of an adaptive one; changes no result.
        isolate: run the whole engine in a process of its own, so that it takes nothing from the training process's
            threads; finished microbatches come through shared memory.
        io_options: ``{"cache": {"directory": ..., "limit": ...}}`` keeps whole shards of remote storage on a local
            disk, which processes and runs may share.
    """

    canonical_replicas: int | None = None
    dp_degree: int | None = execution(default=None)
    dp_group_id: int | None = execution(default=None)
    runner: str | Mapping[str, Any] = execution(default="auto")
    parallelism: int | None = execution(default=None)
    max_rounds: int | None = execution(default=None)
    agree: Callable[[int], int] | None = execution(default=None)
    memory_limit: int | None = execution(default=None, converter=lambda v: parse_bytes(v, "memory_limit"))
    prefetch_batches: int = execution(default=2)
    uneven: Literal["error", "pad"] = execution(default="error")
    tail: Literal["drop", "pad"] = execution(default="drop")
    on_error: ErrorPolicy = execution(factory=ErrorPolicy, converter=ErrorPolicy.of)
    block_rows: int | None = execution(default=None)
    isolate: bool = execution(default=False)
    io_options: CacheSettings | None = execution(default=None, converter=lambda v: cache_settings(v, parse_bytes))

    def __attrs_post_init__(self) -> None:
        for name in ("canonical_replicas", "dp_degree", "max_rounds", "prefetch_batches", "block_rows"):
            value = getattr(self, name)
            if value is not None and (not _is_int(value) or value < 1):
                raise _bad(name, value, "an integer of at least 1")
        for name in ("dp_group_id", "parallelism"):
            value = getattr(self, name)
            if value is not None and (not _is_int(value) or value < 0):
                raise _bad(name, value, "an integer of at least 0")
        if self.uneven not in ("error", "pad"):
            raise _bad("uneven", self.uneven, "'error' or 'pad'")
        if self.tail not in ("drop", "pad"):
            raise _bad("tail", self.tail, "'drop' or 'pad'")
        if self.agree is not None and not callable(self.agree):
            raise _bad("agree", self.agree, "a function from int to int")
        if not isinstance(self.runner, Mapping):
            if not isinstance(self.runner, str):
                raise _bad("runner", self.runner, "the name of a runner, or a mapping with its name and its arguments")
        elif not isinstance(self.runner.get("name"), str):
            raise _bad("runner", self.runner, 'a mapping with "name", the name of the runner')
        elif not all(isinstance(key, str) for key in self.runner):
            raise _bad("runner", self.runner, "names of arguments as keys")

    @property
    def runner_name(self) -> str:
        """The registered name of the runner, or ``"auto"``."""
        return self.runner if isinstance(self.runner, str) else str(self.runner["name"])

    @property
    def runner_settings(self) -> dict[str, Any]:
        """Arguments of the runner, besides ``parallelism``."""
        if isinstance(self.runner, str):
            return {}
        return {name: value for name, value in self.runner.items() if name != "name"}

    def changed(self, settings: Mapping[str, Any]) -> Options:
        """These options with some replaced.

        Raises:
            ConfigError: ``option-unknown``, ``option-not-needed`` or ``option-invalid``.
        """
        known = {f.name for f in spec_fields(Options)}
        chosen: dict[str, Any] = {}
        for given, value in settings.items():
            name = ALIASES.get(given, given)
            if name in known:
                if name in chosen:
                    raise _bad(given, value, f"not together with {name!r}, of which it is another name")
                chosen[name] = value
            elif given in NOT_NEEDED:
                raise ConfigError(
                    f"the option {given!r} is not needed",
                    found=NOT_NEEDED[given],
                    fix=f"remove {given}= from .options(...)",
                    code="option-not-needed",
                )
            else:
                every = sorted({*known, *ALIASES})
                near = difflib.get_close_matches(given, every, n=1)
                raise ConfigError(
                    f"there is no option {given!r}",
                    found=f"the options are: {', '.join(every)}",
                    fix=f"did you mean {near[0]}=?" if near else "remove it",
                    code="option-unknown",
                )
        return attrs.evolve(self, **chosen)


def parse_bytes(value: Any, name: str) -> int | None:
    """``4 << 30``, ``"4GiB"`` or ``"500 MB"`` as bytes."""
    if value is None:
        return None
    if _is_int(value) and value > 0:
        return int(value)
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([kKMGT]?)(i?)B?\s*", str(value))
    if match is None or not float(match[1]):
        raise _bad(name, value, "a positive number of bytes or text such as '4GiB'")
    power = " kMGT".index((match[2] or " ").replace("K", "k"))
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def default_memory_limit() -> int:
    """A quarter of the memory available to this process now, divided by the ranks of this machine, in bytes.

    Raises:
        ConfigError: ``bad-local-world-size``.
    """
    available = 4 << 30
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    available = int(line.split()[1]) * 1024
    except OSError:
        available = _total_memory(available)
    for limit, usage in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        try:
            with open(limit, encoding="ascii") as lines, open(usage, encoding="ascii") as used:
                available = min(available, max(0, int(lines.read()) - int(used.read())))
        except (OSError, ValueError):
            continue
    return max(64 << 20, available // 4 // local_ranks())


def _total_memory(otherwise: int) -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return otherwise


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bad(name: str, value: Any, expected: str) -> ConfigError:
    return ConfigError(
        f"the option {name!r} cannot be {value!r}",
        found=f"expected {expected}",
        fix="correct it in .options(...)",
        code="option-invalid",
    )
