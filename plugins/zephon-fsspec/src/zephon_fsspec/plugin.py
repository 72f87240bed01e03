"""What this distribution provides, without importing it."""

from zephon.plugins import StorageDescriptor

local = StorageDescriptor(
    name="local",
    summary="Files on this machine's disks and on mounted file systems",
    impl="zephon_fsspec.local:LocalStorage",
    capabilities={"local_path", "write"},
    schemes=("", "file"),
)

fsspec = StorageDescriptor(
    name="fsspec",
    summary="Memory, S3, Google Cloud, Azure, Hugging Face, HTTP and every other fsspec filesystem",
    impl="zephon_fsspec.remote:FsspecStorage",
    capabilities={"write"},
    schemes=("memory", "*"),
    samples="zephon_fsspec.samples:MemorySamples",
)
