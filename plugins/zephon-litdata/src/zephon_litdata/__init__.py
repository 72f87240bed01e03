"""LitData chunks for Zephon."""
