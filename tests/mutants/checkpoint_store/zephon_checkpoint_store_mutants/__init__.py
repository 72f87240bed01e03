"""Checkpoint stores that are right, and checkpoint stores that are wrong in one way each."""
