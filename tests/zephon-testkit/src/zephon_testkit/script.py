"""What a machine has done, as a script that does it again with the public API alone.

The functions and classes in the first part of this module are what a machine runs, and their very source is what a
script begins with: a script cannot tell another story than the machine it comes from. They may therefore use nothing
but Zephon and the standard library.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import importlib.machinery
import inspect
import os
import pprint
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from zephon import Batch, Pipeline
from zephon.abc import CheckpointState
from zephon.errors import ConfigError
from zephon.plugins import registry

# -- what scripts begin with -----------------------------------------------------------------------------------------


def seen(batch: Batch) -> dict[str, Any]:
    """All of a batch that has to be the same, as plain Python."""
    real = batch.row_mask
    origins = {name: column[real].tolist() for name, column in batch.origins.columns().items()}
    return {
        "lane": batch.lane,
        "index": batch.index,
        "is_filler": batch.is_filler,
        "rows": batch.to_pylist(),
        "origins": [dict(zip(origins, values, strict=True)) for values in zip(*origins.values(), strict=True)],
        "length": len(batch),
        # The metadata of fields says what they mean; that of the whole schema is the files' own.
        "fields": batch.schema.remove_metadata().to_string(truncate_metadata=False).splitlines(),
    }


def difference(found: Any, expected: Any, where: str = "") -> str:
    """Where two values first differ, in one line; empty if they are equal."""
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(found, dict) and isinstance(expected, dict) and found.keys() == expected.keys():
        pairs = [(f"{where}.{key}" if where else str(key), found[key], expected[key]) for key in found]
    elif isinstance(found, list) and isinstance(expected, list):
        pairs = [(f"{where}[{i}]", *values) for i, values in enumerate(zip(found, expected, strict=False))]
        pairs.append((f"len({where})", len(found), len(expected)))
    elif repr(found) != repr(expected):  # by their text: NaN is equal to itself, and 1 is not 1.0
        return f"{where} is {found!r:.300} and should be {expected!r:.300}"
    return next((text for name, a, b in pairs if (text := difference(a, b, name))), "")


def children() -> set[int]:
    """Processes that this one has started, except those that look after others."""
    found: set[int] = set()
    for path in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as pids:
            found.update(map(int, pids.read().split()))
    helpers: set[int] = set()
    for pid in found:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as command:
            line = command.read()
            if b"resource_tracker" in line or b"forkserver" in line:
                helpers.add(pid)
    return found - helpers


class Saved(NamedTuple):
    """The states of all groups, and at which round and slot each stood."""

    states: list[CheckpointState]
    at: list[tuple[int, int]]

    @property
    def whole(self) -> bool:
        """Whether all stood at one boundary between rounds: then any number of groups can go on from here."""
        return len(set(self.at)) == 1 and self.at[0][1] == 0


class Run:
    """One pipeline on any number of groups; every batch has to be that of the plain run.

    The plain run is the model: one group that owns all lanes, on the calling thread, never interrupted.
    """

    def __init__(self, make: Callable[[], Pipeline]) -> None:
        self._make = make
        alone: dict[str, Any] = {"dp_degree": 1, "dp_group_id": 0, "agree": None, "runner": "inline", "parallelism": 0}
        self._plain = make().options(**alone)
        self.lanes = self._plain.lanes
        self._plain_batches: Iterator[Batch] | None = iter(self._plain)
        self._rounds: list[dict[int, dict[str, Any]]] = []
        self._pipelines: list[Pipeline] = []
        self._batches: list[Iterator[Batch]] = []
        self._owned: list[list[int]] = []
        self._offers: list[tuple[int, int]] = []
        self._at: list[tuple[int, int]] = []
        self._size: int | None = None
        self._abandoned: list[Any] = []
        self._processes = children()

    def expected(self, number: int) -> dict[int, dict[str, Any]] | None:
        """A round of the plain run by lane, or None after its end."""
        while self._plain_batches is not None and len(self._rounds) <= number:
            batches = [next(self._plain_batches, None) for _ in range(self._plain.slots_per_round)]
            whole = [seen(batch) for batch in batches if batch is not None]
            if len(whole) == len(batches):
                self._rounds.append({batch["lane"]: batch for batch in whole})
            elif whole:
                raise AssertionError(f"the plain run ends inside round {number}, after {len(whole)} batches of it")
            else:
                self._plain_batches = None
        return self._rounds[number] if number < len(self._rounds) else None

    def start(self, degree: int, **options: Any) -> None:
        """Begin anew with so many groups."""
        self._open(degree, options)
        self._at = [(0, 0)] * degree
        self._iterate()

    def restore(self, saved: Saved, degree: int, **options: Any) -> None:
        """Close what runs, and go on from a state with so many groups."""
        self._open(degree, options)
        for group, pipeline in enumerate(self._pipelines):
            pipeline.restore(saved.states if saved.whole else saved.states[group])
        self._at = [saved.at[0]] * degree if saved.whole else list(saved.at)
        self._iterate()

    def next(self, group: int, count: int = 1) -> None:
        """Take batches of one group."""
        for _ in range(count):
            self._check(group, next(self._batches[group], None))

    def align(self) -> None:
        """Take batches until all groups stand at the same boundary between rounds."""
        boundary = max(number + (slot > 0) for number, slot in self._at)
        for group in range(len(self._pipelines)):
            while self._at[group] < (boundary, 0):
                self.next(group)

    def rounds(self, count: int) -> None:
        """Take whole rounds, all groups in step."""
        self.align()
        for _ in range(count):
            for group, pipeline in enumerate(self._pipelines):
                self.next(group, pipeline.slots_per_round)
            self._check_end()

    def checkpoint(self) -> Saved:
        """The states of all groups as they stand, as bytes; what has been received is what counts."""
        states: list[CheckpointState] = []
        for group, pipeline in enumerate(self._pipelines):
            state = pipeline.checkpoint()
            lanes = {str(key): bytes(data) for key, data in state["lanes"].items()}
            states.append({"header": bytes(state["header"]), "lanes": lanes})
            self._check_counts(group, pipeline.stats())
        return Saved(states, list(self._at))

    def workers(self) -> list[int]:
        """Processes that runners have started since this run began."""
        return sorted(children() - self._processes)

    def kill_worker(self) -> None:
        """Kill one of them."""
        for pid in self.workers()[:1]:
            os.kill(pid, signal.SIGKILL)

    def abandon(self) -> None:
        """Turn away from all groups without closing them, as if they had hung: what they do now is of no account."""
        self._abandoned += [*self._batches, *self._pipelines]
        self._batches, self._pipelines = [], []

    def close(self) -> None:
        """End everything."""
        for one in [*self._abandoned, *self._pipelines, self._plain]:
            one.close()

    def _open(self, degree: int, options: Mapping[str, Any]) -> None:
        for pipeline in self._pipelines:
            pipeline.close()
        self._pipelines, self._batches = [], []
        for group in range(degree):
            # A rank of its own asks all others what they agree on; here the model knows what the answer has to be.
            agree = partial(self._agree, group) if degree > 1 else None
            place = {"canonical_replicas": self.lanes, "dp_degree": degree, "dp_group_id": group, "uneven": "pad"}
            self._pipelines.append(self._make().options(**{**place, "agree": agree, **options}))
        self._offers = [(-1, 0)] * degree

    def _iterate(self) -> None:
        self._owned = [sorted(map(int, pipeline.checkpoint()["lanes"])) for pipeline in self._pipelines]
        self._batches = [iter(pipeline) for pipeline in self._pipelines]

    def _agree(self, group: int, offer: int) -> int:
        number, _ = self._at[group]
        self._offers[group] = (number, offer)
        return min(offer, 0 if self.expected(number) is None else 1)

    def _check(self, group: int, batch: Batch | None) -> None:
        number, slot = self._at[group]
        here = f"group {group} of {len(self._pipelines)}, round {number}, slot {slot}"
        model = self.expected(number)
        if model is None or batch is None:
            if batch is not None:
                raise AssertionError(f"{here}: a batch of lane {batch.lane} comes after the end of the plain run")
            if model is not None:
                raise AssertionError(f"{here}: the group has ended, and the plain run goes on")
            return
        found = seen(batch)
        text = difference(found, self._share(group, slot, found, model, number))
        if text:
            raise AssertionError(f"{here}: {text}")
        last = slot + 1 == self._pipelines[group].slots_per_round
        self._at[group] = (number + 1, 0) if last else (number, slot + 1)

    def _share(
        self, group: int, slot: int, found: Mapping[str, Any], model: Mapping[int, dict[str, Any]], number: int
    ) -> dict[str, Any]:
        """What a group should receive: a lane's microbatch, its part of one that is shared, or a filler."""
        length = found["length"]
        if slot >= len(self._owned[group]):
            fields = next(iter(model.values()))["fields"]
            nothing: dict[str, Any] = {"lane": -1, "index": number, "is_filler": True, "rows": [], "origins": []}
            return {**nothing, "length": length, "fields": fields}
        lane = self._owned[group][slot]
        whole = model[lane]
        sharers = [other for other, owned in enumerate(self._owned) if lane in owned]
        if len(sharers) == 1:
            return whole
        if self._size is None:
            self._size = length * len(sharers)
        length = self._size // len(sharers)
        first = sharers.index(group) * length
        part = {key: whole[key][first : first + length] for key in ("rows", "origins")}
        return {**whole, **part, "length": length, "is_filler": not part["rows"]}

    def _check_end(self) -> None:
        """Groups that wait for each other's word end where one has nothing left; the others cannot say it for it."""
        number, _ = min(self._offers)
        if number >= 0 and self.expected(number) is None and 0 < min(o for _, o in self._offers) < 1 << 30:
            raise AssertionError(f"round {number}: every group has a batch, and the plain run has ended")

    def _check_counts(self, group: int, stats: Mapping[str, Any]) -> None:
        number, slot = self._at[group]
        received = {
            lane: sum(bool(self._rounds[k][lane]["rows"]) for k in range(number + (place < slot)))
            for place, lane in enumerate(self._owned[group])
        }
        text = difference(
            {"rounds": stats["rounds"], "batches": stats["batches"]}, {"rounds": number, "batches": received}, "stats"
        )
        if text:
            raise AssertionError(f"group {group} of {len(self._pipelines)}, round {number}, slot {slot}: {text}")


# -- scripts --------------------------------------------------------------------------------------------------------

_BEGIN: Final = "# ---- save this as a file and run it with python ----"
_END: Final = "# ---- end of the script ----"

_HEAD: Final = '''"""One pipeline under changing surroundings: some batch is not that of the plain, uninterrupted run.

Run it with python: it ends with the first difference, or says that there is none.
"""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import sys
from functools import partial
from typing import NamedTuple

from zephon import Pipeline
'''


class Name(str):
    """The name of a value that a step gave, as later steps write it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Script:
    """A :class:`Run`, and every step taken with it written down.

    Args:
        make: makes a new pipeline.
        source: Python source that defines ``make``; by default what makes the pipeline from its spec.
    """

    def __init__(self, make: Callable[[], Pipeline], source: Callable[[], str]) -> None:
        self._source = source
        self._steps: list[str] = []
        self._saved: dict[str, Saved] = {}
        with self._explained():
            self.run = Run(make)

    def step(self, method: str, *arguments: Any, **settings: Any) -> Any:
        """Call a method of the run. Whatever it raises carries the script as a note."""
        written = [*map(repr, arguments), *(f"{name}={value!r}" for name, value in settings.items())]
        self._steps.append(f"run.{method}({', '.join(written)})")
        with self._explained():
            given = [self._saved[one] if isinstance(one, Name) else one for one in arguments]
            return getattr(self.run, method)(*given, **settings)

    def save(self) -> Name:
        """Take a checkpoint under a name of its own, by which later steps know it."""
        name = Name(f"saved_{len(self._saved) + 1}")
        saved = self.step("checkpoint")
        self._steps[-1] = f"{name} = {self._steps[-1]}"
        self._saved[name] = saved
        return name

    def saved(self, name: Name) -> Saved:
        """What was saved under a name."""
        return self._saved[name]

    def close(self) -> None:
        """End everything the run has begun."""
        self.run.close()

    def text(self) -> str:
        """The script."""
        steps = "\n".join(f"    {step}" for step in self._steps or ["pass"])
        return (
            f"{_HEAD}\n{self._source()}\n\n{_machinery()}\n\n"
            f"with contextlib.closing(Run(make)) as run:\n{steps}\n"
            'print("no difference: every batch is that of the plain run")\n'
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            error.add_note(f"{_BEGIN}\n{self.text()}{_END}")
            raise


@functools.cache
def _machinery() -> str:
    """The source of what scripts begin with."""
    parts: Sequence[Any] = (seen, difference, children, Saved, Run)
    return "\n\n".join(inspect.getsource(part) for part in parts)


def script_of(error: BaseException) -> str:
    """The script that an error of a machine carries, to be saved and run; empty if it carries none."""
    for note in getattr(error, "__notes__", []):
        if note.startswith(_BEGIN):
            return str(note.removeprefix(f"{_BEGIN}\n").removesuffix(_END))
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return next((text for text in map(script_of, inner) if text), "")


def made_from_spec(pipeline: Pipeline) -> str | None:
    """Source that makes a pipeline from its spec; None if another process could not make it from that."""
    try:
        spec = pipeline.to_spec()
    except ConfigError:
        return None
    known = {*registry("operator").names()}
    here_only = {name for name in known if registry("operator").requirement(name).distribution.startswith("(")}
    for operator in spec["operators"]:
        if operator["op"] in here_only or not all(map(_is_found, _references(operator))):
            return None
    written = pprint.pformat(spec, width=110, sort_dicts=False)
    return f"{_surroundings()}\n\nSPEC = {written}\n\n\ndef make():\n    return Pipeline.from_spec(SPEC)\n"


def made_by(owner: type, method: str, drawn: Any) -> str:
    """Source that makes a pipeline with a method, or a static function, of a class of the author's."""
    static = inspect.getattr_static(owner, method)
    target = static.__func__ if isinstance(static, staticmethod) else owner
    name, place = target.__module__, f"module.{target.__qualname__}"
    if "<locals>" in place:
        why = f"{name}:{target.__qualname__} is defined in a function: move it to where it can be imported from"
        return f"def make():\n    raise NotImplementedError({why!r})\n"
    if _is_found(f"{name}:{target.__qualname__}"):
        lines = ["import importlib", "", f"module = importlib.import_module({name!r})"]
    else:
        file = str(Path(str(inspect.getsourcefile(target))).resolve())
        lines = [
            "import importlib.util",
            "",
            f"located = importlib.util.spec_from_file_location({name!r}, {file!r})",
            "module = sys.modules[located.name] = importlib.util.module_from_spec(located)",
            "located.loader.exec_module(module)",
        ]
    lines += ["", "", "def make():"]
    if target is owner:
        lines += [
            f"    owner = object.__new__({place})",
            f"    owner.drawn = {drawn!r}",
            f"    return owner.{method}()",
        ]
    else:
        lines += [f"    return {place}()"]
    return "\n".join([_surroundings(), "", *lines, ""])


def _surroundings() -> str:
    """Lines that look for files and modules where this process does."""
    added = [path for path in sys.path if path and not path.startswith((sys.prefix, sys.base_prefix))]
    return f"os.chdir({os.getcwd()!r})\nsys.path += {added!r}"


def _references(value: Any) -> Iterator[str]:
    """Every ``module:name`` in plain data."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    elif isinstance(value, str) and re.fullmatch(r"[\w.]+:[\w.]+", value):
        yield value


def _is_found(reference: str) -> bool:
    """Whether another process finds the module: one that tests were collected from may be known to this one alone."""
    names = reference.partition(":")[0].split(".")
    path: Sequence[str] | None = None
    for i in range(len(names)):
        found = importlib.machinery.PathFinder.find_spec(".".join(names[: i + 1]), path)
        if found is None:
            return False
        path = found.submodule_search_locations
        if path is None:
            return i == len(names) - 1
    return True
