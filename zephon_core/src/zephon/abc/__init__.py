"""Contracts between the core and its plugins: no logic, only what each side may rely on.

One module per extension point. A contract has at most five abstract members; everything optional is a
small runtime-checkable Protocol, declared as a capability by the plugin's descriptor.
"""

from zephon.abc.checkpoint_store import CheckpointState, CheckpointStore
from zephon.abc.operator import (
    Emits,
    HasContent,
    HoldsGil,
    InfersSchema,
    LaneContext,
    LaneOperator,
    LaneState,
    Operator,
    OperatorContext,
    PhaseWeights,
    RowOperator,
    Snapshot,
)
from zephon.abc.runner import HostsEngines, Line, Program, ReportsWorkers, Runner, RunnerFacts
from zephon.abc.shard import (
    FileHead,
    PushesPredicate,
    RangedShard,
    Shard,
    ShardContext,
    ShardFormat,
    ShardIndex,
    ShardReader,
    WritesShards,
)
from zephon.abc.storage import FileInfo, LocalPath, StorageBackend, WritesFiles
from zephon.abc.tokenizer import SpecialTokens, Tokenizer, TokenizerBackend, TrainsTokenizers
from zephon.abc.work import DatasetInfo, WorkSource

__all__ = [
    "CheckpointState",
    "CheckpointStore",
    "DatasetInfo",
    "Emits",
    "FileHead",
    "FileInfo",
    "HasContent",
    "HoldsGil",
    "HostsEngines",
    "InfersSchema",
    "LaneContext",
    "LaneOperator",
    "LaneState",
    "Line",
    "LocalPath",
    "Operator",
    "OperatorContext",
    "PhaseWeights",
    "Program",
    "PushesPredicate",
    "RangedShard",
    "ReportsWorkers",
    "RowOperator",
    "Runner",
    "RunnerFacts",
    "Shard",
    "ShardContext",
    "ShardFormat",
    "ShardIndex",
    "ShardReader",
    "Snapshot",
    "SpecialTokens",
    "StorageBackend",
    "Tokenizer",
    "TokenizerBackend",
    "TrainsTokenizers",
    "WorkSource",
    "WritesFiles",
    "WritesShards",
]
