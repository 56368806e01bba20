"""Execution of an operator: the kernel, on the tensors as they are.

Autograd and autocast are done by then: gradients are no longer tracked, and
`kspec.torch.derivatives` has refused calls that must not be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from kspec.model.declaration import RawDeclaration, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.model.operators import Operator
from kspec.runtime.kernels import KernelCallable

Implementation = Callable[..., Any]


def make_implementation(one: Operator, kernel: KernelCallable[Any]) -> Implementation:
    """Return the function that runs an operator.

    Parameters
    ----------
    one : Operator
        Which.
    kernel : kernel
        What it calls.
    """
    names = [argument.name for argument in one.parameters if not argument.keyword]
    if isinstance(one.declaration, RawDeclaration):
        return _raw(one, kernel, names)
    if one.form != REDUCE:
        return _form(one, kernel)
    if isinstance(one.declaration, ReductionDeclaration):
        return _reduction(one, kernel, len(names))
    call: Any = kernel
    if one.sized:
        return lambda *args, **options: _outcome(
            one, call(*map(_plain, args[:-1]), size=args[-1], **options)
        )
    if one.options:
        return lambda *args, **options: _outcome(one, call(*map(_plain, args), **options))
    if one.results == 1 and not call.return_tuple:
        return lambda *args: call(*map(_plain, args))
    return lambda *args: _outcome(one, call(*map(_plain, args)))


def _plain(value: Any) -> Any:
    """Return a tensor without the history that autograd keeps; everything else as it is."""
    return value.detach() if isinstance(value, torch.Tensor) and value.requires_grad else value


def _outcome(one: Operator, result: Any) -> Any:
    """Return the results by the schema: nothing, a tensor, or a tuple of several."""
    if not one.results:
        return None
    return result[0] if one.results == 1 and isinstance(result, tuple) else result


def _reduction(one: Operator, kernel: KernelCallable[Any], count: int) -> Implementation:
    call: Any = kernel

    def run(*args: Any) -> Any:
        given = args[count:]  # torch leaves out what is as by default
        axis = given[0] if given else None
        keepdims = given[1] if len(given) > 1 else False
        # One axis is the usual case, and has the shorter way.
        if axis is not None:
            axis = axis[0] if len(axis) == 1 else tuple(axis)
        values = map(_plain, args[:count])
        return _outcome(one, call(*values, axis=axis, keepdims=keepdims))

    return run


def _form(one: Operator, kernel: KernelCallable[Any]) -> Implementation:
    """Return the function that runs another form of a reduction."""
    assert isinstance(one.declaration, ReductionDeclaration)
    call: Any = getattr(kernel, one.form)
    count, inputs = len(one.parameters), len(one.declaration.inputs)
    names, indices, defaults = one.form_arguments, one.indices, one.defaults

    def run(*args: Any) -> Any:
        given = {**defaults, **dict(zip(names, args[count:], strict=False))}
        arrays = [given.pop(name) for name in indices]
        values = [*args[:inputs], *arrays, *args[inputs:count]]
        options = {name: _single(value) for name, value in given.items()}
        return _outcome(one, call(*map(_plain, values), **options))

    return run


def _single(value: Any) -> Any:
    """Return integers as calls are quickest with them: one, or a tuple."""
    if not isinstance(value, tuple | list):
        return value
    return value[0] if len(value) == 1 else tuple(value)


def _raw(one: Operator, kernel: KernelCallable[Any], names: Sequence[str]) -> Implementation:
    assert isinstance(one.declaration, RawDeclaration)
    order = [param.name for param in one.declaration.params or ()]
    integers = list(one.declaration.values)
    call: Any = kernel
    follows = bool(one.declaration.rules)

    def run(*args: Any, **keywords: Any) -> Any:
        values = {**dict(zip(names, map(_plain, args), strict=True)), **keywords}
        sizes = [values.pop(name, None) for name in ("grid", "block")]
        grid, block = (None if size is None else tuple(size) for size in sizes)
        shared_mem = values.pop("shared_mem", None)
        arguments = tuple(values.get(name) for name in order)
        if not follows:
            return call(grid, block, arguments, shared_mem=shared_mem or 0)
        template = tuple(values.get(name) for name in integers)
        return call(grid, block, arguments, shared_mem=shared_mem, template=template)

    return run
