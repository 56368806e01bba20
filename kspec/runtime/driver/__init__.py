"""The CUDA driver: the only package that calls it."""
