"""A stranger's plugins."""
