"""Kernels and generated modules in, functions for JAX out."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.jax.operators import JaxFunction
from kspec.runtime.kernels.base import GeneratedCallable
from kspec.runtime.kernels.identity import kernel_of


def function(kernel: Any, *, callback: bool = False) -> JaxFunction:
    """Return a kernel as a function that JAX can trace.

    Parameters
    ----------
    kernel : kernel or function
        An `ElementwiseKernel` or a `ReductionKernel`, or a function of a generated module.
    callback : bool, default False
        Run it by `jax.pure_callback`: on the host device, with arrays copied from where they are,
        and back. For platforms that are neither the CPU nor CUDA.

    Raises
    ------
    ArgumentTypeError
        If it is something else; also a `TypeError`. Raw kernels write to arrays that they are
        given, and JAX's never change.
    """
    return JaxFunction(kernel_of(kernel), callback)


def functions(module: ModuleType, *, callback: bool = False) -> SimpleNamespace:
    """Return all elementwise and reduction kernels of a generated module for JAX.

    Parameters
    ----------
    module : module
        A generated module, such as ``kspec_kernels.norms``.
    callback : bool, default False
        As for `function`.

    Returns
    -------
    types.SimpleNamespace
        The functions by the names that they have in the module.

    Raises
    ------
    ArgumentTypeError
        If there is none.
    """
    found = {
        name: function(getattr(module, name), callback=callback)
        for name in getattr(module, "__all__", ())
        if isinstance(getattr(module, f"_{name}", None), GeneratedCallable)
    }
    if not found:
        raise ArgumentTypeError(
            f"{getattr(module, '__name__', module)!s} has no elementwise or reduction kernels; "
            "pass a generated module, such as kspec_kernels.norms"
        )
    return SimpleNamespace(**found)
