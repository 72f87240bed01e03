"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

arrow = ShardFormatDescriptor(
    name="arrow",
    summary="Arrow IPC files and streams, Feather, Hugging Face datasets saved to disk; a unit is a record batch",
    impl="zephon_arrow.format:ArrowFormat",
    capabilities={"ranges", "write"},
    suffixes=(".arrow", ".feather", ".ipc", ".arrows"),
    magic=(b"ARROW1", b"FEA1"),
)
