"""Shard formats that are right, and shard formats that are wrong in one way each."""
