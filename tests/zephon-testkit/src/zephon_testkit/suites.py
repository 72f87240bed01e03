"""Which suite checks which plugin."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

from zephon.abc import LaneOperator
from zephon.errors import PluginError
from zephon.plugins import POINTS, registry, status
from zephon_testkit.suite import Suite

#: Suite -> the module it is in.
SUITES: Final = {
    "PluginTests": "packaging",
    "ShardFormatTests": "shard_format",
    "StorageTests": "storage",
    "RowOperatorTests": "row_operator",
    "LaneOperatorTests": "lane_operator",
    "RunnerTests": "runner",
    "WorkSourceTests": "work_source",
    "TokenizerTests": "tokenizer",
    "CheckpointStoreTests": "checkpoint_store",
}

_OF_POINT: Final = {
    "shard_format": "ShardFormatTests",
    "storage": "StorageTests",
    "runner": "RunnerTests",
    "work_source": "WorkSourceTests",
    "tokenizer": "TokenizerTests",
    "checkpoint_store": "CheckpointStoreTests",
    "hooks": "PluginTests",
}


def suite(name: str) -> type[Suite]:
    """A suite by its class name."""
    found: type[Suite] = getattr(import_module(f"zephon_testkit.{SUITES[name]}"), name)
    return found


def clauses_of(name: str) -> Sequence[str]:
    """Ids of the clauses a suite checks."""
    return suite(name).clauses()


def clauses_at(address: str) -> Sequence[str]:
    """Ids of the clauses any plugin of an address's point is checked by; the plugin itself is not imported.

    Raises:
        ValueError: no such extension point.
    """
    point = _point(address)
    if point in _OF_POINT:
        return clauses_of(_OF_POINT[point])
    of_lanes = clauses_of("LaneOperatorTests")
    return [id for id in clauses_of("RowOperatorTests") if id in of_lanes]


def suite_for(address: str) -> type[Suite]:
    """A class of tests for an installed plugin, without a line of its author's: the suite of its kind, and the samples
    its descriptor names.

    Args:
        address: ``point:name``.

    Raises:
        ValueError: no such extension point.
    """
    point, name = _point(address), address.partition(":")[2]
    members: dict[str, Any] = {"plugin": name, "point": point, "__module__": "conformance"}
    try:
        implementation = registry(point).load(name)
        samples = registry(point).describe(name).load_samples()
    except PluginError:
        # The packaging clauses say what is wrong with it.
        return type("Conformance", (suite("PluginTests"),), members)
    kind = _OF_POINT.get(point)
    if kind is None:
        is_lane = isinstance(implementation, type) and issubclass(implementation, LaneOperator)
        kind = "LaneOperatorTests" if is_lane else "RowOperatorTests"
    bases = (suite(kind),) if samples is None else (samples, suite(kind))
    return type("Conformance", bases, members)


def _point(address: str) -> str:
    point, _, name = address.partition(":")
    if point not in POINTS or not name:
        raise ValueError(f"{address!r} is no address of a plugin; write POINT:NAME, with one of {', '.join(POINTS)}")
    return point


def about(address: str) -> dict[str, Any]:
    """What a report says of the plugin itself; empty text where it is not known."""
    for found in status():
        if f"{found.point}:{found.name}" == address:
            return {
                "distribution": found.distribution,
                "version": found.version,
                "contract": found.contract,
                "capabilities": sorted(found.capabilities),
            }
    return {"distribution": "", "version": "", "contract": 0, "capabilities": []}
