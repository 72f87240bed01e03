"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

litdata = ShardFormatDescriptor(
    name="litdata",
    summary="LitData chunks listed in an index.json: pytree rows and token streams, plain or in zstd",
    impl="zephon_litdata.format:LitDataFormat",
    capabilities={"ranges"},
    suffixes=(".bin",),
    index_files=("index.json",),
    samples="zephon_litdata.samples:LitDataSamples",
)
