"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

parquet = ShardFormatDescriptor(
    name="parquet",
    summary="Apache Parquet files; a unit is a row group",
    impl="zephon_parquet.format:ParquetFormat",
    capabilities={"ranges", "predicate", "write"},
    suffixes=(".parquet", ".pq", ".parq"),
    magic=(b"PAR1",),
)
