"""One group of the demo's run, a process of its own: ``python -m zephon.cli.demo.worker '<JSON>'``.

It plays the part of a training script: resume from the last complete checkpoint, take batches, save every few rounds.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from zephon import Pipeline
from zephon.block import META_PAD_LENGTH
from zephon.checkpoint import DirectoryStore
from zephon.cli.rounds import row_digests

SAVE_EVERY = 3


def main(settings: dict[str, Any]) -> None:
    """Run one group until a round, writing a line per round."""
    store = DirectoryStore(settings["store"])
    pipeline = Pipeline.from_spec(settings["recipe"]).options(
        dp_degree=settings["degree"],
        dp_group_id=settings["group"],
        uneven=settings["uneven"],
        parallelism=1,  # the groups share two cores
    )
    restore_seconds = None
    started = time.perf_counter()
    first = 0
    if settings["step"] is not None:
        first = settings["step"]
        pipeline.restore(store.load(first))
    with pipeline, Path(settings["out"]).open("a", encoding="utf-8") as lines:
        batches = iter(pipeline)
        for number in range(first, settings["until"]):
            lanes: dict[int, list[str]] = {}
            tokens = room = 0
            for _ in range(pipeline.slots_per_round):
                batch = next(batches)
                if restore_seconds is None:
                    restore_seconds = time.perf_counter() - started
                if batch.is_filler:
                    continue
                lanes[batch.lane] = row_digests(batch)
                field = batch.schema.field("input_ids")
                tokens += len(batch["input_ids"].flatten())
                room += len(batch) * int(field.metadata[META_PAD_LENGTH])
            save_seconds = size = None
            if (number + 1) % SAVE_EVERY == 0:
                begun = time.perf_counter()
                state = pipeline.checkpoint()
                save_seconds = time.perf_counter() - begun
                size = len(state["header"]) + sum(map(len, state["lanes"].values()))
                store.save(number + 1, state)
            line = {
                "round": number,
                "group": settings["group"],
                "lanes": lanes,
                "tokens": tokens,
                "room": room,
                "save_seconds": save_seconds,
                "bytes": size,
                "restore_seconds": restore_seconds if number == first else None,
                "stats": pipeline.stats() if number == settings["until"] - 1 else None,
            }
            lines.write(json.dumps(line) + "\n")
            lines.flush()
            os.fsync(lines.fileno())


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
