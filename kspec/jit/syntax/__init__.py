"""Python's syntax in, values and statements of the IR out."""
