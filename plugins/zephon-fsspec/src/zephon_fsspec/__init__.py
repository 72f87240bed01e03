"""Local disk, memory and every fsspec filesystem for Zephon."""
