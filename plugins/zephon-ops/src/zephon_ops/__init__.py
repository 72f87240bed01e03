"""map, filter, shuffle, ensure_mixture and batch for Zephon."""
