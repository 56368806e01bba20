"""kspec: CUDA kernels declared once, as data."""
