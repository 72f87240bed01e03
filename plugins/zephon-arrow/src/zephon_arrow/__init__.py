"""Arrow shards for Zephon."""
