"""The thread runner for Zephon."""
