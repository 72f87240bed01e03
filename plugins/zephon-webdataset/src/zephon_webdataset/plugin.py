"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

webdataset = ShardFormatDescriptor(
    name="webdataset",
    summary="WebDataset tar shards, plain or in gzip or zstd: members of one key are a row",
    impl="zephon_webdataset.format:WebDatasetFormat",
    capabilities={"ranges"},
    samples="zephon_webdataset.samples:WebDatasetSamples",
    suffixes=(".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd"),
)
