"""The Ray runner for Zephon."""
