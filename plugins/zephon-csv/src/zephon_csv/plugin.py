"""What this distribution provides, without importing it."""

from zephon.plugins import ShardFormatDescriptor

csv = ShardFormatDescriptor(
    name="csv",
    summary="CSV and TSV, plain or in gzip or zstd: one record a row, any row of a plain file readable alone",
    impl="zephon_csv.table:CsvFormat",
    capabilities={"ranges", "write"},
    suffixes=tuple(name + packed for name in (".csv", ".tsv", ".tab") for packed in ("", ".gz", ".zst", ".zstd")),
)

# No suffix: a README.txt beside other data is not data. The format is said: fmt="text".
text = ShardFormatDescriptor(
    name="text",
    summary="plain text, plain or in gzip or zstd: a row is a line, or a whole file",
    impl="zephon_csv.text:TextFormat",
    capabilities={"ranges", "write"},
    samples="zephon_csv.samples:TextSamples",
)
