"""Operators under autocast: inputs become what the kernel takes, and no narrower.

Kernels say what their types are, so autocast does not choose one: floating inputs that share a
placeholder are promoted to the widest of them, and inputs declared with a floating dtype are
converted to it.  What a kernel writes to is never converted, but decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kspec.model.declaration import RawDeclaration
from kspec.model.operators import Operator


def make_autocast(
    one: Operator, call: Callable[..., Any], device: str
) -> Callable[..., Any] | None:
    """Return the implementation of an operator under autocast; None if it has none.

    Parameters
    ----------
    one : Operator
        Which.
    call : callable
        The operator.
    device : str
        ``"cpu"`` or ``"cuda"``.
    """
    declaration = one.declaration
    if isinstance(declaration, RawDeclaration):
        return None
    names = [argument.name for argument in one.arguments]
    types = {param.name: param.type for param in declaration.params}
    written = {argument.name for argument in one.arguments if argument.written}

    def run(*args: Any, **keywords: Any) -> Any:
        given = dict(zip(names, args, strict=False))
        wanted = _wanted(given, types, written)
        values = [
            value.to(wanted[types[name]])
            if name in types and _is_floating(value) and name not in written
            else value
            for name, value in given.items()
        ]
        with torch.autocast(device, enabled=False):
            return call(*values, **keywords)

    return run


def _wanted(
    given: Mapping[str, Any], types: Mapping[str, str], written: set[str]
) -> dict[str, torch.dtype]:
    """Return the dtype of each parameter type: declared, that of written ones, or the widest."""
    found: dict[str, torch.dtype] = {}
    floating = {name: one for name, one in given.items() if name in types and _is_floating(one)}
    for name, one in floating.items():
        type_ = types[name]
        if len(type_) > 1:
            declared = getattr(torch, type_)
            # It is not converted to an integer implicitly: the call refuses it.
            found[type_] = declared if declared.is_floating_point else one.dtype
        else:
            found[type_] = torch.promote_types(found.get(type_, one.dtype), one.dtype)
    return found | {types[name]: floating[name].dtype for name in written if name in floating}


def _is_floating(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
