"""Repeated calls: what the first one found out, and the generated code that uses it."""
