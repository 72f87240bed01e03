"""Datasets, their index, and the reader of blocks."""
