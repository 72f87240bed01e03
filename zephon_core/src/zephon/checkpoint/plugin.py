"""Descriptors of the core's own checkpoint stores."""

from zephon.plugins import CheckpointStoreDescriptor

directory = CheckpointStoreDescriptor(
    name="directory",
    summary="one folder a step, one file a lane, atomic renames",
    impl="zephon.checkpoint.directory:DirectoryStore",
    schemes=("", "file"),
)
