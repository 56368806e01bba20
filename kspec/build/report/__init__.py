"""The compiler's results for every kernel: the lock file, tables and differences."""
