"""Tokens in Megatron, datatrove and npy files for Zephon."""
