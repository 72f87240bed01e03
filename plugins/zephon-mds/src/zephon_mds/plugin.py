"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

mds = ShardFormatDescriptor(
    name="mds",
    summary="MosaicML MDS: shards listed in an index.json, plain or compressed",
    impl="zephon_mds.format:MdsFormat",
    capabilities={"ranges"},
    suffixes=(".mds", ".mds.zstd", ".mds.gz", ".mds.br", ".mds.bz2", ".mds.snappy"),
    index_files=("index.json",),
    samples="zephon_mds.samples:MdsSamples",
)
