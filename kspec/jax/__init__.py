"""Kernels inside JAX programs: under `jax.jit`, `jax.vmap`, `jax.grad`, `jax.eval_shape`.

>>> import kspec.jax                                                    # doctest: +SKIP
>>> l2norm = kspec.jax.function(norms.l2norm)                           # doctest: +SKIP
>>> jax.jit(lambda x: l2norm(x, axis=1) + 1)(x)                         # doctest: +SKIP
>>> kspec.jax.function(statistics.total).scan(x, axis=0)                # doctest: +SKIP

A kernel becomes a call of XLA's foreign function interface, without a compiled extension: it runs
on XLA's own stream and reads and writes XLA's memory, on the CPU and on CUDA devices.

`operators` makes functions of kernels (`options`: of their calls), `abstract` derives result types
from the declaration, `calls` and `gradients` are what is traced (in `jax.shard_map` with `shards`;
`adjoints` has gradients of scans, segments, keys and windows),
`request` is what programs hold of a call, `target` answers them, until the process ends (`ending`),
and `call_frame` is XLA's C interface.
"""

from __future__ import annotations

import importlib
from types import ModuleType, SimpleNamespace
from typing import Any

from kspec.errors import ArgumentTypeError
from kspec.jax.operators import JaxFunction
from kspec.jax.target import NAME, RECORDED
from kspec.runtime.kernels import GeneratedCallable
from kspec.runtime.kernels.identity import kernel_of

__all__ = ["JaxFunction", "export_checks", "function", "functions"]


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
        If it is something else, a raw kernel too; also a `TypeError`. Raw kernels whose specs
        have `returns` take and return JAX's arrays in plain calls, outside of `jax.jit`.
    """
    return JaxFunction(kernel_of(kernel), callback)


def export_checks() -> list[Any]:
    """Return the ``disabled_checks`` of `jax.export.export` for programs with kernels.

    JAX exports custom calls only if it is told that these will mean the same. Programs name their
    kernels; a process that runs them makes the kernels known by `function` before.
    """
    check = importlib.import_module("jax.export").DisabledSafetyCheck
    return [check.custom_call(name) for name in (NAME, RECORDED)]


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
