"""The host device: the CPU executes kernels with CUDA's semantics.

`kspec.compiler.host.compile` makes a shared object from CUDA text; `kspec.host.modules` loads it,
`kspec.host.kernels` launches grids; ``rt/`` is the C++ runtime behind it and ``include/`` the CUDA
dialect.
"""
