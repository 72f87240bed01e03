"""Another interpreter: operators made anew from their specs, with another hash seed, time zone and clock.

Run as ``python -m zephon_testkit.operators_elsewhere``: reads tasks and prints outcomes, both as JSON.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from zephon.block import Block
from zephon.errors import ConfigError
from zephon.plugins import registry
from zephon.spec import from_plain, to_plain
from zephon_testkit import blocks, runs
from zephon_testkit.incomplete import Incomplete

if TYPE_CHECKING:
    from zephon_testkit.operators import OperatorTests

#: Seconds by which the other interpreter's clock is ahead.
AHEAD: Final = 400 * 86400.0


class Task(NamedTuple):
    """An operator and the rows it is to work on."""

    operator: Any
    block: Block
    after_batch: bool
    seed: int


class Modules(MetaPathFinder):
    """Finds modules of tests by the file they were loaded from: other interpreters cannot import them by name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """The module, if it is one of these, or a package without code that one of these is named below."""
        file = self._files.get(fullname)
        if file is not None:
            return spec_from_file_location(fullname, file)
        if any(name.startswith(f"{fullname}.") for name in self._files):
            return ModuleSpec(fullname, None, is_package=True)
        return None


def outcomes(suite: OperatorTests, tasks: Sequence[Task]) -> list[list[tuple[Any, ...]]]:
    """What becomes of rows in a fresh interpreter.

    Raises:
        Incomplete: an operator cannot be written down, so that no other interpreter could make it.
        AssertionError: it cannot be made there, or fails.
    """
    files = {}
    for cls in type(suite).__mro__:
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if file is not None and not cls.__module__.startswith(("zephon", "builtins")):
            files[cls.__module__] = file
    request = {"point": suite.point, "plugin": suite.plugin, "files": files, "tasks": [_written(t) for t in tasks]}
    path = os.pathsep.join(entry for entry in sys.path if entry)
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": seed, "TZ": "Pacific/Chatham"}
    command = [sys.executable, "-m", "zephon_testkit.operators_elsewhere"]
    done = subprocess.run(
        command, input=json.dumps(request), capture_output=True, text=True, env=env, timeout=120, check=False
    )
    assert done.returncode == 0, f"in another interpreter it fails: {_last_line(done.stderr)}\n{done.stderr}"
    found: list[list[list[Any]]] = json.loads(done.stdout.splitlines()[-1])
    return [[tuple(row) for row in outcome] for outcome in found]


def carry_out(request: Mapping[str, Any]) -> list[list[tuple[Any, ...]]]:
    """The rows each task gives."""
    sys.meta_path.append(Modules(request["files"]))
    cls = registry(request["point"]).load(request["plugin"])
    found = []
    for task in request["tasks"]:
        operator = from_plain(cls, task["spec"])
        batch = pa.ipc.open_stream(base64.b64decode(task["block"])).read_next_batch()
        block, after_batch = Block.from_record_batch(batch), task["after_batch"]
        given = runs.units(block, after_batch=True) if after_batch else [block]
        known = {"after_batch": after_batch, "seed": task["seed"]}
        context = runs.surroundings(operator, request["plugin"], block.schema, **known)
        found.append(blocks.rows(runs.outcome(operator, given, context)))
    return found


def _written(task: Task) -> dict[str, Any]:
    try:
        spec = to_plain(task.operator)
    except ConfigError as error:
        raise Incomplete(
            f"an example cannot be written down, so no other process could make it: use functions of a module\n{error}"
        ) from error
    block = base64.b64encode(blocks.ipc_stream(task.block.to_record_batch())).decode()
    return {"spec": spec, "block": block, "after_batch": task.after_batch, "seed": task.seed}


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


def main() -> None:
    """Carry out what is asked on standard input."""
    now = time.time
    time.time = lambda: now() + AHEAD
    result = carry_out(json.load(sys.stdin))
    print("\n" + json.dumps(result))


if __name__ == "__main__":
    main()
