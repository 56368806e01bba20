"""What compiled programs call a kernel: the same in every process that has it.

>>> import numpy as np
>>> import kspec
>>> twice = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "twice")
>>> identify(twice)[1]
'twice-11ffe7fda686d9f6'
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.runtime.callable import KernelCallable


def identify(kernel: Any) -> tuple[KernelCallable[Any], str]:
    """Return the kernel that an object is or stands for, and its name.

    Functions of generated modules have the name that they are imported by. Kernels that are made
    in Python may share theirs, so a digest of what was declared follows it.

    Raises
    ------
    ArgumentTypeError
        If it is no kernel.
    """
    if isinstance(kernel, KernelCallable):
        return kernel, f"{kernel.name}-{_digest(kernel)}"
    name = getattr(kernel, "__name__", "")
    module = sys.modules.get(getattr(kernel, "__module__", None) or "")
    found = getattr(module, f"_{name}", None)
    if getattr(module, name, None) is kernel and isinstance(found, KernelCallable):
        return found, f"{kernel.__module__}.{name}"
    raise ArgumentTypeError(
        f"{kernel!r} is no kernel; pass a kspec.ElementwiseKernel, a kspec.ReductionKernel, or a "
        "function of a generated module"
    )


def identify_gradients(kernel: KernelCallable[Any], forward: str) -> str:
    """Return the name of what computes the gradients of the kernel of a name."""
    return f"{kernel.name}-{_digest(kernel)}" if hasattr(kernel, "spec") else f"{forward}.backward"


def _digest(kernel: Any) -> str:
    spec = getattr(kernel, "spec", None)
    # Kernels behind functions have no spec; two pickles of one may differ, which is safe.
    data = repr(spec).encode() if spec is not None else pickle.dumps(kernel)
    return hashlib.sha256(data).hexdigest()[:16]
