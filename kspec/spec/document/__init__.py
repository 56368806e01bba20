"""TOML documents: positions in their text, and edits of it."""
