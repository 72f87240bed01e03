"""Parquet shards for Zephon."""
