"""The conformance kit of Zephon: what every plugin of a kind must do, as tests its author inherits.

Subclass the suite of your kind, name your plugin, and run pytest::

    from zephon_testkit import ShardFormatTests

    class TestLines(ShardFormatTests):
        plugin = "lines"

or, without a line of code, ``zephon conformance run shard_format:lines``. The laws of whole pipelines are
:func:`check_resume_everywhere` and :class:`ResumeMachine`.
"""

from importlib import import_module
from typing import Any

__version__ = "1.0.0"

_HOMES = {
    "CheckpointStoreTests": "checkpoint_store",
    "Incomplete": "incomplete",
    "LaneOperatorTests": "lane_operator",
    "PluginTests": "packaging",
    "ResumeMachine": "machine",
    "RowOperatorTests": "row_operator",
    "RunnerTests": "runner",
    "ShardFormatTests": "shard_format",
    "StorageTests": "storage",
    "TokenizerTests": "tokenizer",
    "WorkSourceTests": "work_source",
    "check_resume_everywhere": "resume",
}

__all__ = [
    "CheckpointStoreTests",
    "Incomplete",
    "LaneOperatorTests",
    "PluginTests",
    "ResumeMachine",
    "RowOperatorTests",
    "RunnerTests",
    "ShardFormatTests",
    "StorageTests",
    "TokenizerTests",
    "WorkSourceTests",
    "__version__",
    "check_resume_everywhere",
]


def __getattr__(name: str) -> Any:
    """Suites are imported when they are used: pytest imports this package in every run."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
