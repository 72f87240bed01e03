"""CSV, TSV and plain text shards for Zephon."""
