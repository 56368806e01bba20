"""Compiled images by key: in memory, in folders, in read-only layers."""
