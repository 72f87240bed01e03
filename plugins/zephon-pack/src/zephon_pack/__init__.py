"""Sequence packing for Zephon."""
