"""CUDA text to a shared object of the host device, by the machine's C++ compiler."""
