"""What an operator runs: the kernel, on the tensors as they are.

Autograd and autocast are done by then: gradients are not tracked any more, and where nobody
would, a tensor that wants them is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kspec.declaration import RawDeclaration
from kspec.errors import ArgumentTypeError
from kspec.operators import Operator
from kspec.runtime.callable import KernelCallable

Implementation = Callable[..., Any]


def make_implementation(
    one: Operator, kernel: KernelCallable[Any], differentiable: bool
) -> Implementation:
    """Return the function that runs an operator.

    Parameters
    ----------
    one : Operator
        Which.
    kernel : kernel
        What it calls.
    differentiable : bool
        Whether autograd knows its gradients.
    """
    plain = _Plain(one, differentiable)
    names = [argument.name for argument in one.parameters if not argument.keyword]
    if isinstance(one.declaration, RawDeclaration):
        return _raw(one, kernel, plain, names)
    if one.arguments[-1].name == "keepdims":
        return _reduction(one, kernel, plain, names)
    call: Any = kernel
    if one.arguments[-1].name == "size":
        return lambda *args: _outcome(one, call(*map(plain, args[:-1], names), size=args[-1]))
    if one.results == 1 and not call.return_tuple:
        return lambda *args: call(*map(plain, args, names))
    return lambda *args: _outcome(one, call(*map(plain, args, names)))


class _Plain:
    """Tensors without the history that autograd keeps; everything else as it is."""

    def __init__(self, one: Operator, differentiable: bool) -> None:
        self._operator = one
        self._refuses = not differentiable and _has_gradients(one)

    def __call__(self, value: Any, name: str) -> Any:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        if self._refuses and torch.is_grad_enabled():
            raise ArgumentTypeError(
                f"{self._operator.declaration.name}: {name} requires grad, but {self._reason}"
            )
        return value.detach()

    @property
    def _reason(self) -> str:
        if self._operator.writes:
            return (
                "the kernel writes to its arguments, which autograd can not follow; "
                "call .detach() on it"
            )
        return "the kernel has no gradients; call .detach() on it, or declare `backward`"


def _has_gradients(one: Operator) -> bool:
    """Return whether a result could have gradients: indices, for one, have none."""
    declaration = one.declaration
    if isinstance(declaration, RawDeclaration):
        return True
    whole = ("int", "uint", "bool")
    return any(not param.type.startswith(whole) for param in declaration.outputs)


def _outcome(one: Operator, result: Any) -> Any:
    """Return what the schema says: nothing, a tensor, or a tuple of several."""
    if not one.results:
        return None
    return result[0] if one.results == 1 and isinstance(result, tuple) else result


def _reduction(
    one: Operator, kernel: KernelCallable[Any], plain: _Plain, names: Sequence[str]
) -> Implementation:
    count = len(names)
    call: Any = kernel

    def run(*args: Any) -> Any:
        given = args[count:]  # torch leaves out what is as by default
        axis = given[0] if given else None
        keepdims = given[1] if len(given) > 1 else False
        # One axis is the usual case, and has the shorter way.
        if axis is not None:
            axis = axis[0] if len(axis) == 1 else tuple(axis)
        values = map(plain, args[:count], names)
        return _outcome(one, call(*values, axis=axis, keepdims=keepdims))

    return run


def _raw(
    one: Operator, kernel: KernelCallable[Any], plain: _Plain, names: Sequence[str]
) -> Implementation:
    assert isinstance(one.declaration, RawDeclaration)
    order = [param.name for param in one.declaration.params or ()]
    call: Any = kernel
    follows = bool(one.declaration.rules)

    def run(*args: Any, **keywords: Any) -> None:
        values = {**dict(zip(names, map(plain, args, names), strict=True)), **keywords}
        sizes = [values.pop(name, None) for name in ("grid", "block")]
        grid, block = (None if size is None else tuple(size) for size in sizes)
        shared_mem = values.pop("shared_mem", None)
        if not follows:
            shared_mem = shared_mem or 0
        call(grid, block, tuple(values.get(name) for name in order), shared_mem=shared_mem)

    return run
