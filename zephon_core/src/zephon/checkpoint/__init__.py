"""The checkpoint protocol: what a state is, how states merge, where they are kept."""

from zephon.checkpoint.directory import DirectoryStore
from zephon.checkpoint.merge import Merged, merge
from zephon.checkpoint.state import LaneCheckpoint, StageState, decode_header, decode_lane, encode_header, encode_lane

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
