"""JSON Lines shards for Zephon."""
