"""Mistakes a type checker has to find, each with the error code expected on its line. Checked, never run."""

from zephon import Batch, Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

source = StaticMixtureWorkSource(datasets=[Dataset.from_path("web", "/data/")], mixture={"web": 1})
pipeline = Pipeline(source)

pipeline.tokenise(tokenizer_id="gpt2", field="text")  # E: attr-defined
pipeline.batch("8")  # E: arg-type
pipeline.batch()  # E: call-arg
pipeline.batch(8, drop_lasts=True)  # E: call-arg
pipeline.tokenize("gpt2", "text")  # E: call-arg
pipeline.tokenize(tokenizer_id="gpt2", field="text", special_tokens="both")  # E: arg-type
pipeline.pack_flat(4097, algorithm="firstfit")  # E: arg-type
pipeline.shuffle(1000, 7)  # E: call-arg
pipeline.options(dp_degre=8)  # E: call-arg
pipeline.options(tail="keep")  # E: arg-type
pipeline.pipe("batch")  # E: arg-type
pipeline.batch(8).batsch(8)  # E: attr-defined
Pipeline()  # E: call-arg
Pipeline([source])  # E: arg-type
Dataset.from_path("web", "/data/", format="jsonl")  # E: call-arg
StaticMixtureWorkSource(datasets=[], mixture={}, sed=1)  # E: call-arg


def train(batch: Batch) -> str:
    return batch.lane  # E: return-value


for batch in pipeline:
    batch.to_training(labels=True)  # E: call-arg
    len(batch.input_ids)  # E: attr-defined
