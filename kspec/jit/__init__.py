"""CUDA kernels from Python functions.

>>> from kspec import jit
>>> @jit.rawkernel()
... def copy(x, y, n):
...     for i in range(jit.grid(1), n, jit.gridsize(1)):
...         y[i] = x[i]

A list of names: those that kernels call (`builtins`), and `rawkernel`, which is above the runtime
and imported when it is used (`kspec.jit.kernel`).  The machinery in this folder does not know it,
and of the runtime only how NumPy's dtypes are named::

    capture      a function's source, and what its names mean
    types        which types are computed in, by mode
    build_ir     the program of a kernel, and its text
    syntax       functions, statements, assignments, expressions, attributes, indexing, calls
    call_site    one call, and its arguments
    device_calls what only kernels have: indices, barriers, memory, atomics
    scope        variables and problems of one function
    tables       arrays and tuples from outside, in constant memory
    cg, cub      what groups of threads do together
    thrust       what one thread does with many elements
    freezing     a kernel as a raw spec
    values       what an expression may be
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kspec.jit.builtins import NAMES

if TYPE_CHECKING:
    from kspec.jit import cg, cub, thrust
    from kspec.jit.kernel import DeviceFunction, JitKernel, rawkernel

_FRONT = ("DeviceFunction", "JitKernel", "rawkernel")
_MODULES = ("cg", "cub", "thrust")

__all__ = ["DeviceFunction", "JitKernel", "cg", "cub", "rawkernel", "thrust"]
__all__ += NAMES


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"kspec.jit.{name}")
    if name in _FRONT:
        return getattr(importlib.import_module("kspec.jit.kernel"), name)
    if name in NAMES:
        return NAMES[name]
    raise AttributeError(f"module 'kspec.jit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
