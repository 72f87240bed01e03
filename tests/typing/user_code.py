"""A user's script, as a type checker sees it. It is checked, never run; what it gets right has to stay right."""

from typing import Any, assert_type

import numpy as np

import zephon
from zephon import Batch, Pipeline
from zephon.abc import CheckpointState
from zephon.checkpoint import DirectoryStore
from zephon.io import Dataset
from zephon.work import MixtureSpec, StaticMixtureWorkSource


def longer(row: dict[str, Any]) -> bool:
    return len(row["text"]) > 100


def lower(row: dict[str, Any]) -> dict[str, Any]:
    return {"text": row["text"].lower()}


source = StaticMixtureWorkSource(
    datasets=[Dataset.from_path("web", "/data/web/"), Dataset.from_dict("code", [{"text": "x"}])],
    mixture=MixtureSpec({"web": 0.7, "code": 0.3}),
    seed=42,
    shuffle_block_size="auto",
)
pipeline = (
    Pipeline(source)
    .decode_text()
    .filter(longer)
    .map_transform(lower, reads=["text"], schema={"text": "string"})
    .shuffle(1000, seed=1)
    .tokenize(tokenizer_id="gpt2", field="text", special_tokens="eos")
    .ensure_mixture(max_buffer_size=100)
    .pack_flat(max_length=4097, algorithm="wrap", overflow="split")
    .batch(microbatch_size=8, drop_last=False)
    .prefetch(4)
    .options(canonical_replicas=32, dp_degree=8, dp_group_id=3, uneven="pad", on_error="skip", memory_limit="4GiB")
)
assert_type(pipeline, Pipeline)
assert_type(pipeline.validate(), Pipeline)
assert_type(pipeline.explain(), str)
assert_type(len(pipeline), int)
assert_type(Pipeline.from_spec("recipe.toml"), Pipeline)
assert_type(zephon.__version__, str)

with pipeline as running:
    assert_type(running, Pipeline)
    for batch in running:
        assert_type(batch, Batch)
        assert_type(batch.lane, int)
        assert_type(batch.to_training(return_labels=True), dict[str, Any])
        assert_type(batch.row_mask, np.ndarray[tuple[Any, ...], np.dtype[np.bool_]])

state = pipeline.checkpoint()
assert_type(state, CheckpointState)
store = DirectoryStore("/checkpoints")
store.save(100, state)
assert_type(pipeline.restore(store.load(100)), Pipeline)
assert_type(pipeline.restore([state, state]), Pipeline)
