"""What a batch knows besides its rows: names behind the indices in origins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs


def _names(value: Iterable[str]) -> tuple[str, ...]:
    return tuple(value)


@attrs.frozen(slots=True, kw_only=True)
class BatchFacts:
    """Shared by all batches of a run.

    Attributes:
        datasets: dataset names; ``origins.dataset`` indexes them.
        components: component names; ``origins.component`` indexes them.
        shards: per dataset its shard names, or a function ``(dataset index, shard index) -> name``.
        fields: per dataset index the fields its rows have. Of a dataset that is not listed, all.
        microbatch_size: rows of a full microbatch.
    """

    datasets: tuple[str, ...] = attrs.field(default=(), converter=_names)
    components: tuple[str, ...] = attrs.field(default=(), converter=_names)
    shards: Sequence[Sequence[str]] | Callable[[int, int], str] = ()
    fields: Mapping[int, frozenset[str]] = attrs.field(factory=dict)
    microbatch_size: int = 0

    def component_name(self, component: int) -> str | int | None:
        """Name of a component; its index where the name is unknown; None for -1."""
        return _name(self.components, component)

    def dataset_name(self, dataset: int) -> str | int | None:
        """Name of a dataset; its index where the name is unknown; None for -1."""
        return _name(self.datasets, dataset)

    def shard_name(self, dataset: int, shard: int) -> str | int:
        """Name of a shard; its index where the name is unknown or the row is of no single dataset."""
        if dataset < 0:
            return shard
        if callable(self.shards):
            return self.shards(dataset, shard)
        if dataset < len(self.shards) and 0 <= shard < len(self.shards[dataset]):
            return self.shards[dataset][shard]
        return shard


def _name(names: Sequence[str], index: int) -> str | int | None:
    if index < 0:
        return None
    return names[index] if index < len(names) else index
