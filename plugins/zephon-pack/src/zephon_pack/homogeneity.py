"""Which documents may share a row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np
import numpy.typing as npt

from zephon.errors import ConfigError

#: ``full`` is the published name of ``component``; specs hold the latter.
Homogeneity = Literal["none", "dataset", "component", "group", "full"]


def one_name(value: Homogeneity) -> Homogeneity:
    """The name under which a spec holds the setting."""
    return "component" if value == "full" else value


@attrs.frozen(slots=True)
class Keys:
    """Gives every document the key of those it may share a row with.

    Attributes:
        field: the field of an origin that decides, ``"dataset"`` or ``"component"``; None if all share rows.
        table: key by value of that field, int64; the last entry is that of -1 (rows that are of no one dataset).
    """

    field: str | None
    table: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(0, dtype=np.int64))

    def of(self, origins: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]) -> npt.NDArray[np.int64] | None:
        """Keys of documents, given the columns of their origins: int64 ``[n]``, or None if all share rows."""
        if self.field is None:
            return None
        values = origins[self.field]
        return self.table[values] if len(self.table) else values.astype(np.int64)


def make_keys(homogeneity: Homogeneity, groups: Mapping[str, str] | None, datasets: Sequence[str]) -> Keys:
    """The keys of one pipeline.

    Keys do not change when the curriculum gains datasets, as these come last in ``datasets``.

    Args:
        homogeneity: what a row's documents have in common.
        groups: for ``"group"``: group by name of dataset. A dataset that is not named is a group of its own.
        datasets: names by index.

    Raises:
        ConfigError: ``pack-unknown-dataset``: ``groups`` names a dataset that does not exist.
    """
    if homogeneity == "none":
        return Keys(None)
    if homogeneity != "group":
        return Keys(homogeneity)
    named = dict(groups or {})
    unknown = sorted(set(named) - set(datasets))
    if unknown:
        raise ConfigError(
            f"pack_flat: groups names datasets that do not exist: {', '.join(unknown)}",
            found=f"the datasets are: {', '.join(datasets)}",
            fix="correct the names in groups={dataset: group, ...}",
            code="pack-unknown-dataset",
        )
    group_keys = {name: key for key, name in enumerate(sorted(set(named.values())))}
    keys = [
        group_keys[named[name]] if name in named else len(group_keys) + index for index, name in enumerate(datasets)
    ]
    return Keys("dataset", np.array([*keys, -1], dtype=np.int64))
