"""Datasets, their index, and the reader that turns pointers into rows."""

from zephon.io.dataset import Dataset
from zephon.io.identity import identity_differences
from zephon.io.reader import BlockReader
from zephon.io.sample import first_rows

__all__ = ["BlockReader", "Dataset", "first_rows", "identity_differences"]
