"""Groups as processes: start them, watch them, kill them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, Final

import attrs

from zephon.checkpoint import DirectoryStore
from zephon.errors import EngineError

POLL_SECONDS: Final = 0.02
PATIENCE_SECONDS: Final = 300.0


@attrs.frozen(slots=True, kw_only=True)
class Leg:
    """A stretch of a run on one number of groups.

    Attributes:
        degree: number of groups.
        until: round to stop before.
        kill_at: SIGKILL all groups as soon as each has delivered this many rounds; None: let them finish.
        uneven: as in ``Pipeline.options``.
    """

    degree: int
    until: int
    kill_at: int | None = None
    uneven: str = "error"

    def describe(self) -> str:
        """One phrase for people."""
        pad = ", padded" if self.uneven == "pad" else ""
        return f"{self.degree} groups{pad}"


class Progress:
    """What the processes of one run have written so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lines").mkdir(parents=True)
        self.store = DirectoryStore(folder / "checkpoints")
        self._legs = 0

    def next_leg(self) -> int:
        """A number for the next leg's files."""
        self._legs += 1
        return self._legs - 1

    def lines(self, leg: int | None = None) -> list[dict[str, Any]]:
        """Everything written, or what one leg has written; half a line of a killed process does not count."""
        pattern = "leg-*.jsonl" if leg is None else f"leg-{leg:02d}-*.jsonl"
        found = []
        for path in sorted((self.folder / "lines").glob(pattern)):
            data = path.read_bytes()
            found += [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
        return found


def run_leg(recipe: Path, leg: Leg, progress: Progress) -> str:
    """Run one leg from the last complete checkpoint; says what happened in a few words."""
    steps = progress.store.steps()
    step = steps[-1] if steps else None
    number = progress.next_leg()
    groups = [_start(recipe, leg, group, step, progress, number) for group in range(leg.degree)]
    deadline = time.monotonic() + PATIENCE_SECONDS
    killed = False
    try:
        while any(group.poll() is None for group in groups):
            if leg.kill_at is not None and _slowest(progress, number, leg.degree) >= leg.kill_at:
                killed = True
                break
            if any(group.poll() not in (None, 0) for group in groups) or time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
    finally:
        for group in groups:
            if group.poll() is None:
                group.send_signal(signal.SIGKILL)
        errors = [group.communicate()[1] for group in groups]
    failed = [i for i, group in enumerate(groups) if group.returncode != 0]
    if failed and not killed:
        raise EngineError(
            f"group {failed[0]} of {leg.degree} of the demo ended with status {groups[failed[0]].returncode}",
            found=errors[failed[0]].decode(errors="replace").strip()[-2000:],
            fix="run zephon demo --keep and look at the files it names",
            code="demo-failed",
        )
    start = f"from round {step}" if step is not None else "from the start"
    return (
        f"{start}, killed after round {_slowest(progress, number, leg.degree)}"
        if killed
        else f"{start} to round {leg.until}"
    )


def _start(
    recipe: Path, leg: Leg, group: int, step: int | None, progress: Progress, number: int
) -> subprocess.Popen[bytes]:
    settings = {
        "recipe": str(recipe),
        "degree": leg.degree,
        "group": group,
        "uneven": leg.uneven,
        "until": leg.until,
        "step": step,
        "store": str(progress.folder / "checkpoints"),
        "out": str(progress.folder / "lines" / f"leg-{number:02d}-group-{group:02d}.jsonl"),
    }
    command = [sys.executable, "-m", "zephon.cli.demo.worker", json.dumps(settings)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _slowest(progress: Progress, leg: int, degree: int) -> int:
    """Rounds that every group of a leg has delivered."""
    furthest = Counter(dict.fromkeys(range(degree), 0))
    for line in progress.lines(leg):
        furthest[line["group"]] = max(furthest[line["group"]], line["round"] + 1)
    return min(furthest.values())
