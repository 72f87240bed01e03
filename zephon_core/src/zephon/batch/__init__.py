"""Batches: what the training loop receives.

::

    facts       names behind the indices in origins
    records     rows and origins as Python objects; from a token back to its document
    window      which rows of a microbatch a rank sees, fill rows included
    padding     ragged rows -> rectangles, by the metadata of the column
    columns     any Arrow column -> numpy
    grid        where tokens, padding and document boundaries lie in [rows, width]
    training    to_training
    frameworks  numpy -> torch, jax, lists
    batch       Batch, which puts these together
"""

from zephon.batch.batch import Batch
from zephon.batch.facts import BatchFacts
from zephon.batch.records import Origin, Record

__all__ = ["Batch", "BatchFacts", "Origin", "Record"]
