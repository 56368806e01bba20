"""Kernels inside JAX programs: under `jax.jit`, `jax.vmap`, `jax.grad`, `jax.eval_shape`.

>>> import kspec.jax                                                    # doctest: +SKIP
>>> l2norm = kspec.jax.function(norms.l2norm)                           # doctest: +SKIP
>>> jax.jit(lambda x: l2norm(x, axis=1) + 1)(x)                         # doctest: +SKIP

A kernel becomes a call of XLA's foreign function interface, without a compiled extension: it runs
on XLA's own stream and reads and writes XLA's memory, on the CPU and on CUDA devices.

`functions` makes functions of kernels (`operators`, `options`), `abstract` derives result types
from the declaration, `calls` and `gradients` are what is traced (in `jax.shard_map` with `shards`),
`request` is what programs hold of a call, `target` answers them, until the process ends (`ending`),
and `call_frame` is XLA's C interface.
"""

from __future__ import annotations

from kspec.jax.functions import function, functions
from kspec.jax.operators import JaxFunction

__all__ = ["JaxFunction", "function", "functions"]
