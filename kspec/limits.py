"""Size limits of a project's declarations: far above every use, far below a machine's memory.

A declaration beyond a limit is refused with a message before it is used.
"""

from __future__ import annotations

# Bytes of a spec file, and of each CUDA source or header beside it.
SPEC_BYTES = 4 << 20
SOURCE_BYTES = 16 << 20
# Tables and lists in each other, in a spec file or in a struct.
NESTING = 32
# Kernels of a spec file, parameters of a kernel, dtypes for one placeholder.
KERNELS = 1000
PARAMS = 1024
DTYPES = 1024
# Combinations of dtypes of a kernel; specializations of a spec file, with layouts.
BINDINGS = 4096
SPECIALIZATIONS = 16384
# Bytes of one element, which NumPy counts in a C int; elements of an example.
ITEM_BYTES = (1 << 31) - 1
EXAMPLE_ELEMENTS = 1 << 28
# Characters of a name.
NAME = 255
# Problems of a spec file that are listed.
PROBLEMS = 100
