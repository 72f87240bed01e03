"""Mistakes of users that type checkers have to find. Checked, never run.

The mark of a line gives mypy's code and pyright's rule, and the reason where only one of them finds the mistake.
"""

from zephon import Batch, Pipeline
from zephon.io import Dataset
from zephon.work import StaticMixtureWorkSource

source = StaticMixtureWorkSource(datasets=[Dataset.from_path("web", "/data/")], mixture={"web": 1})
pipeline = Pipeline(source)

pipeline.tokenise(tokenizer_id="gpt2", field="text")  # E: attr-defined | reportAttributeAccessIssue
pipeline.batch("8")  # E: arg-type | reportArgumentType
pipeline.batch()  # E: call-arg | reportCallIssue
pipeline.batch(8, drop_lasts=True)  # E: call-arg | reportCallIssue
pipeline.tokenize("gpt2", "text")  # E: call-arg | reportCallIssue
pipeline.tokenize(tokenizer_id="gpt2", field="text", special_tokens="both")  # E: arg-type | reportArgumentType
pipeline.pack_flat(4097, algorithm="firstfit")  # E: arg-type | reportArgumentType
pipeline.shuffle(1000, 7)  # E: call-arg | reportCallIssue
pipeline.options(dp_degre=8)  # E: call-arg | reportCallIssue
pipeline.options(tail="keep")  # E: arg-type | reportArgumentType
pipeline.pipe("batch")  # E: arg-type | reportArgumentType
pipeline.batch(8).batsch(8)  # E: attr-defined | reportAttributeAccessIssue
Pipeline()  # E: call-arg | reportCallIssue
Pipeline([source])  # E: arg-type | reportArgumentType
Dataset.from_path("web", "/data/", format="jsonl")  # E: call-arg | reportCallIssue
StaticMixtureWorkSource(datasets=[], mixture={}, sed=1)  # E: call-arg | reportCallIssue


def misspelt() -> None:
    from zephon import Pipelines  # E: attr-defined | reportAttributeAccessIssue
    from zephon.checkpoint import DirectoryStores  # E: attr-defined | reportAttributeAccessIssue
    from zephon.work import StaticMixtureSource  # E: attr-defined | reportAttributeAccessIssue

    print(Pipelines, DirectoryStores, StaticMixtureSource)


def train(batch: Batch) -> str:
    return batch.lane  # E: return-value | reportReturnType


for batch in pipeline:
    batch.to_training(labels=True)  # E: call-arg | reportCallIssue
    len(batch.input_ids)  # E: attr-defined | reportAttributeAccessIssue
