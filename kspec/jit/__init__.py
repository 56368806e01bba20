"""CUDA kernels from Python functions.

>>> from kspec import jit
>>> @jit.rawkernel()
... def copy(x, y, n):
...     for i in range(jit.grid(1), n, jit.gridsize(1)):
...         y[i] = x[i]

A list of names, each imported when it is used: `rawkernel`, which is above the runtime
(`kspec.jit.kernel`), and what kernels call (`builtins`).  The machinery in this folder knows
neither of these nor the runtime::

    capture      a function's source, and what its names mean
    types        which types are computed in, by mode
    build_ir     the program of a kernel, and its text
    functions    the kernel and its device functions, one by one
    statements, assignments, expressions, attributes, indexing, calls, device_calls
    scope        variables and problems of one function
    cg, cub      what groups of threads do together
    thrust       what one thread does with many elements
    freezing     a kernel as a raw spec
    values       what an expression may be
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kspec.jit import cg, cub, thrust
    from kspec.jit.kernel import DeviceFunction, JitKernel, rawkernel

_FRONT = ("DeviceFunction", "JitKernel", "rawkernel")
_MODULES = ("cg", "cub", "thrust")
_BUILTINS = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpsize"),
    *("grid", "gridsize", "laneid", "syncthreads", "syncwarp", "threadfence"),
    *("shared_memory", "local_array", "printf", "range"),
    *(
        f"atomic_{name}"
        for name in ["add", "sub", "exch", "min", "max", "inc", "dec", "cas", "and", "or", "xor"]
    ),
    *(f"shfl_{name}sync" for name in ("", "up_", "down_", "xor_")),
)

__all__ = ["DeviceFunction", "JitKernel", "cg", "cub", "rawkernel", "thrust"]
__all__ += _BUILTINS


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kspec.jit.{name}")
    if name in _FRONT:
        return getattr(importlib.import_module("kspec.jit.kernel"), name)
    if name in _BUILTINS:
        return importlib.import_module("kspec.jit.builtins").NAMES[name]
    raise AttributeError(f"module 'kspec.jit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
