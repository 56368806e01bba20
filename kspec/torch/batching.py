"""Batches of operators: what `torch.vmap` maps over becomes an axis of the loop, in front.

So a batch is one launch.  Operators whose kernels see other elements of their arrays, or how many
there are, have no rule: torch calls these once for each member of the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.operators import Operator


def make_batching(one: Operator, call: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return an operator's rule for `torch.library.register_vmap`; None if it has none.

    Parameters
    ----------
    one : Operator
        Which.
    call : callable
        The operator.
    """
    declaration = one.declaration
    if not isinstance(declaration, ElementwiseDeclaration) or not one.results:
        return None
    counts = declaration.ordered or declaration.counts
    if counts or declaration.overwrites or any(param.raw for param in declaration.params):
        return None
    cores = [len(param.core) for param in declaration.inputs]

    def run(_: Any, in_dims: tuple[int | None, ...], *args: Any, **keywords: Any) -> Any:
        axes = [
            value.ndim - (dim is not None) - core
            for value, dim, core in zip(args, in_dims, cores, strict=True)
            if isinstance(value, torch.Tensor)
        ]
        loop = max(axes)
        batched = [
            value if dim is None else _in_front(value, dim, loop + core)
            for value, dim, core in zip(args, in_dims, cores, strict=True)
        ]
        result = call(*batched, **keywords)
        return result, 0 if isinstance(result, torch.Tensor) else (0,) * len(result)

    return run


def _in_front(value: torch.Tensor, dim: int, ndim: int) -> torch.Tensor:
    """Return a tensor with the axis of the batch in front of so many others."""
    moved = value.movedim(dim, 0)
    missing = ndim - (moved.ndim - 1)
    return moved.reshape(moved.shape[0], *[1] * missing, *moved.shape[1:])
