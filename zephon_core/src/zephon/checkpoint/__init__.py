"""The checkpoint protocol: what a state is, how states merge, where they are kept.

Names load on first use, so that the descriptor of the directory store stays light.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zephon.checkpoint.directory import DirectoryStore
    from zephon.checkpoint.merging import Merged, merge
    from zephon.checkpoint.state import (
        LaneCheckpoint,
        StageState,
        decode_header,
        decode_lane,
        encode_header,
        encode_lane,
    )

__all__ = [
    "DirectoryStore",
    "LaneCheckpoint",
    "Merged",
    "StageState",
    "decode_header",
    "decode_lane",
    "encode_header",
    "encode_lane",
    "merge",
]

_HOME = {"DirectoryStore": "directory", "Merged": "merging", "merge": "merging"}

if not TYPE_CHECKING:  # which would take it that every name is here

    def __getattr__(name: str) -> Any:
        if name in __all__:
            from importlib import import_module

            value = getattr(import_module(f"zephon.checkpoint.{_HOME.get(name, 'state')}"), name)
            globals()[name] = value
            return value
        raise AttributeError(f"module 'zephon.checkpoint' has no attribute {name!r}")
