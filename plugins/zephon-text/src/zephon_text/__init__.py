"""decode_text and tokenize for Zephon."""
