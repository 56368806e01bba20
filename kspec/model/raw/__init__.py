"""Raw kernels: their declared C parameters, and rules for their launches."""
