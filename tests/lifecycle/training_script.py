"""A user's training script: ``python training_script.py RUNNER DATA STATE``. It ends when something ends it.

STATE is what it is in when that happens:

loop      in the middle of the training loop, with more batches being made
stuck     waiting for a batch while a function of the user's does not return
handles   as loop, with a handler for SIGTERM that ends the script, as schedulers suggest
exit      at its end, with an iterator that nobody has closed
"""

import signal
import sys
import time

from zephon import Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

RUNNER, DATA, STATE = sys.argv[1:]
PARALLELISM = {"inline": 0, "threads": 2, "processes": 2}[RUNNER]


def work(row):
    if STATE == "stuck" and row["n"] == 100:
        print("stuck", flush=True)
        time.sleep(600)
    time.sleep(0.001)
    return row


# Whoever started the tests in the background has Ctrl-C ignored, and that is inherited.
signal.signal(signal.SIGINT, signal.default_int_handler)
source = StaticMixtureWorkSource(
    [Dataset.from_path("a", DATA)], {"a": 1}, shuffle_shards=False, exhausted_policy="repeat"
)
pipeline = Pipeline(source).map_transform(work, schema={"n": "int64"}).shuffle(5).batch(2)
pipeline.options(canonical_replicas=2, runner=RUNNER, parallelism=PARALLELISM, block_rows=8)
if STATE == "handles":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
batches = iter(pipeline)
for _ in range(4):
    next(batches)
print("training", flush=True)
if STATE != "exit":
    for _ in batches:
        time.sleep(0.001)
