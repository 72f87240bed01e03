"""Makes many pipelines, takes a little of each, drops them; prints what the process holds after every few.

``python many_pipelines_script.py RUNNER COUNT EVERY DATA``
"""

import gc
import json
import sys
import threading
import time

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource
from zephon_scripts import resident_without_spare
from zephon_testkit.leaks import holdings

RUNNER, COUNT, EVERY, DATA = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
WORKERS = 2 if RUNNER == "threads" else 1


def evaluate(number):
    source = StaticMixtureWorkSource([Dataset.from_path("a", DATA)], {"a": 1}, seed=number, exhausted_policy="repeat")
    pipeline = Pipeline(source).shuffle(8).batch(4)
    batches = iter(pipeline.options(runner=RUNNER, parallelism=WORKERS, canonical_replicas=2))
    for _ in range(number % 4):
        next(batches)
    if number % 3 == 0:
        pipeline.close()


def settled():
    """What is held once threads and processes that were told to end have ended."""
    deadline = time.monotonic() + 5
    while True:
        gc.collect()
        held = holdings()
        if time.monotonic() > deadline or (threading.active_count() == 1 and not held.children):
            return {
                "threads": len(held.threads),
                "children": len(held.children),
                "files": len(held.files),
                "shared_memory": len(held.shared_memory),
                "resident": resident_without_spare(),
            }
        time.sleep(0.01)


for number in range(COUNT):
    evaluate(number)
    if (number + 1) % EVERY == 0:
        print(json.dumps(settled()), flush=True)
