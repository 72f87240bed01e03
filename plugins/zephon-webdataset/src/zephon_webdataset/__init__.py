"""WebDataset tar shards for Zephon."""
