"""What was delivered, per dataset: rows, tokens, passes begun."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zephon.block import DOCUMENTS_FIELD, META_ROLE, Block, list_parts

Counts = npt.NDArray[np.int64]

#: Origins of microbatches are gathered and counted together: counting is cheap, calling numpy is not.
GATHERED: Final = 64


class Tally:
    """Counters of one lane. A document that continues in a further packed row counts as a row once.

    One thread adds; any thread may read meanwhile, as ``stats()`` does.

    Args:
        datasets: dataset names; origins index them.
        schema: schema of the microbatches.
        start: counters to go on from, as :meth:`to_plain` gave them.
    """

    def __init__(self, datasets: Sequence[str], schema: pa.Schema, start: Mapping[str, Mapping[str, int]]) -> None:
        self._names = tuple(datasets)
        self._lock = threading.Lock()
        self._rows, self._tokens, self._epochs = (
            np.array([start.get(kind, {}).get(name, 0) for name in self._names], dtype=np.int64)
            for kind in ("rows", "tokens", "epochs")
        )
        self._gathered: list[tuple[npt.NDArray[np.int16], Counts]] = []
        self._packed = DOCUMENTS_FIELD in schema.names
        self._tokens_field = next((f.name for f in schema if (f.metadata or {}).get(META_ROLE) == b"tokens"), None)

    def add(self, block: Block) -> None:
        """Count one microbatch."""
        with self._lock:
            if self._packed:
                self._add_documents(block)
            else:
                self._add_rows(block)

    def _add_rows(self, block: Block) -> None:
        origins = block.origins
        self._gathered.append((origins.dataset, origins.epoch))
        if self._tokens_field is not None:
            lengths = np.diff(list_parts(block.data.column(self._tokens_field))[0])
            single = origins.dataset >= 0
            self._tokens += self._sum(origins.dataset[single], lengths[single])
        if len(self._gathered) >= GATHERED:
            self._settle()

    def _add_documents(self, block: Block) -> None:
        entries = list_parts(block.data.column(DOCUMENTS_FIELD))[1]
        dataset, epoch, start, length = (
            entries.field(name).to_numpy(zero_copy_only=False) for name in ("dataset", "epoch", "start", "length")
        )
        self._tokens += self._sum(dataset, length)
        self._rows += np.bincount(dataset[start == 0], minlength=len(self._names))
        np.maximum.at(self._epochs, dataset, epoch + 1)

    def _sum(self, dataset: npt.NDArray[np.int16], weights: npt.NDArray[np.int64]) -> Counts:
        summed: Counts = np.bincount(dataset, weights=weights, minlength=len(self._names)).astype(np.int64)
        return summed

    def _settle(self) -> None:
        if not self._gathered:
            return
        dataset = np.concatenate([d for d, _ in self._gathered])
        epoch = np.concatenate([e for _, e in self._gathered])
        self._gathered = []
        single = dataset >= 0
        dataset, epoch = dataset[single], epoch[single]
        self._rows += np.bincount(dataset, minlength=len(self._names))
        np.maximum.at(self._epochs, dataset, epoch + 1)

    def to_plain(self) -> dict[str, dict[str, int]]:
        """The counters by kind (``rows``, ``tokens``, ``epochs``: passes begun) and dataset; zeros are left out."""
        with self._lock:
            self._settle()
            kinds = {"rows": self._rows.copy(), "tokens": self._tokens.copy(), "epochs": self._epochs.copy()}
        return {
            kind: {self._names[i]: int(counts[i]) for i in np.flatnonzero(counts)}
            for kind, counts in kinds.items()
            if counts.any()
        }
