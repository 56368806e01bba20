"""CUDA text to an image for GPUs: NVRTC, nvcc, PTX, linking, fatbins."""
