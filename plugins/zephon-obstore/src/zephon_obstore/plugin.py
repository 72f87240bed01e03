"""What this distribution provides, without importing it."""

from zephon.plugins import StorageDescriptor

obstore = StorageDescriptor(
    name="obstore",
    summary="S3, Google Cloud Storage and Azure, ranged and concurrent",
    impl="zephon_obstore.storage:ObstoreStorage",
    capabilities={"write"},
    schemes=("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "obstore-memory"),
    priority=10,  # before backends of many schemes, which have 0
    samples="zephon_obstore.samples:MemorySamples",
)
