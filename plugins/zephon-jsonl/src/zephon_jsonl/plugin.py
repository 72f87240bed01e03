"""What this plugin provides."""

from zephon.plugins import ShardFormatDescriptor

jsonl = ShardFormatDescriptor(
    name="jsonl",
    summary="JSON Lines, plain or in gzip or zstd: one object a line, any line readable alone",
    impl="zephon_jsonl.shards:JsonlFormat",
    capabilities={"ranges", "write"},
    suffixes=(
        ".jsonl",
        ".ndjson",
        ".jsonl.gz",
        ".ndjson.gz",
        ".jsonl.zst",
        ".ndjson.zst",
        ".jsonl.zstd",
        ".ndjson.zstd",
        # Only where the content is lines of objects; see JsonlFormat.recognise.
        ".json",
        ".json.gz",
        ".json.zst",
        ".json.zstd",
    ),
)
