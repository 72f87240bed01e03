"""MosaicML MDS shards for Zephon."""
