"""Images in, loaded modules and their kernels out."""
