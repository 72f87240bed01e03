"""Tokenizers that are right, and tokenizers that are wrong in one way each."""
