"""Elementwise and reduction kernels that can be called."""
