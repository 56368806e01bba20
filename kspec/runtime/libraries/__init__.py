"""Array libraries: whose array an argument is, its stream, and what may be written to."""
