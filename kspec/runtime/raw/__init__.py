"""Raw CUDA source: modules, kernels, their arguments and calls."""
