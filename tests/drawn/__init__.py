"""Kernels drawn as people write them; see `__main__`."""
