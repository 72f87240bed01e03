"""How plugins are found: light descriptors, lazy registries, hook specifications."""

from zephon.plugins.descriptor import (
    POINTS,
    CheckpointStoreDescriptor,
    Descriptor,
    HooksDescriptor,
    OperatorDescriptor,
    RunnerDescriptor,
    ShardFormatDescriptor,
    StorageDescriptor,
    TokenizerDescriptor,
    WorkSourceDescriptor,
)

__all__ = [
    "POINTS",
    "CheckpointStoreDescriptor",
    "Descriptor",
    "HooksDescriptor",
    "OperatorDescriptor",
    "RunnerDescriptor",
    "ShardFormatDescriptor",
    "StorageDescriptor",
    "TokenizerDescriptor",
    "WorkSourceDescriptor",
]
