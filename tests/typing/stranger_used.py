"""A script that uses a stranger's operator by the stub ``zephon stubs write`` has made. Checked, never run."""

from typing import assert_type

from stranger import Kind
from written import Pipeline


def build(pipeline: Pipeline) -> Pipeline:
    return pipeline.decode_text().repeat(3, like=Kind("long"), parallelism=2).batch(microbatch_size=8)


def mistakes(pipeline: Pipeline) -> None:
    assert_type(pipeline.repeat(), Pipeline)
    pipeline.repeat(3, Kind("long"))  # E: call-arg | reportCallIssue
    pipeline.repeat(like="long")  # E: arg-type | reportArgumentType
    pipeline.repeat(time=3)  # E: call-arg | reportCallIssue
    pipeline.repeats(3)  # E: attr-defined | reportAttributeAccessIssue
