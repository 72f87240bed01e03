"""The process runner for Zephon."""
