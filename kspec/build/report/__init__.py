"""What the compiler made of every kernel: the lock file, tables and differences."""
