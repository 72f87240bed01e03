"""A process that does nothing but save states.

Run as ``python -m zephon_testkit.saver NAME LOCATION SETTINGS STEP``, with states as JSON on standard input: it saves
them one after the other, over and over, until it is killed. It imports little, so that it is soon there.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zephon.abc import CheckpointState

#: Seconds after which it ends by itself.
_LONGEST: Final = 60


def start(
    name: str, location: str, settings: Mapping[str, Any], step: int, states: Sequence[CheckpointState]
) -> subprocess.Popen[bytes]:
    """A process that saves states of one step over and over; it has begun when it has printed a line."""
    command = [sys.executable, "-m", "zephon_testkit.saver", name, location, json.dumps(dict(settings)), str(step)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps([_packed(state) for state in states]).encode())
    process.stdin.close()
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process at once, wherever it is."""
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def main() -> None:
    """Save until killed, or until nobody can be waiting any more."""
    from zephon.plugins import registry

    name, location, settings, step = sys.argv[1:]
    states = [_unpacked(packed) for packed in json.load(sys.stdin)]
    store = registry("checkpoint_store").load(name)(location, **json.loads(settings))
    for state in states:
        store.save(int(step), state)
    print("saving", flush=True)
    end = time.monotonic() + _LONGEST
    while time.monotonic() < end:
        for state in states:
            store.save(int(step), state)


def _packed(state: CheckpointState) -> list[Any]:
    lanes = {key: base64.b64encode(data).decode() for key, data in state["lanes"].items()}
    return [base64.b64encode(state["header"]).decode(), lanes]


def _unpacked(packed: list[Any]) -> CheckpointState:
    lanes = {key: base64.b64decode(data) for key, data in packed[1].items()}
    return {"header": base64.b64decode(packed[0]), "lanes": lanes}


if __name__ == "__main__":
    main()
