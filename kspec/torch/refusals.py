"""What stands in for autograd where an operator has no gradients: a check that nobody wants them.

It is a function of the dispatcher, not of the kernel's: `torch.compile` asks autograd when it
traces, and never again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kspec.declaration import RawDeclaration
from kspec.errors import ArgumentTypeError
from kspec.operators import Operator


def make_refusal(one: Operator, call: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return what an operator without gradients does for autograd; None if that is nothing.

    Parameters
    ----------
    one : Operator
        Which.
    call : callable
        The operator.
    """
    if not _has_gradients(one):
        return None
    names = [argument.name for argument in one.arguments]
    below = torch._C._AutoDispatchBelowAutograd
    tensor, is_grad_enabled = torch.Tensor, torch.is_grad_enabled

    def run(*args: Any, **keywords: Any) -> Any:
        if is_grad_enabled():
            for name, value in zip(names, args, strict=False):
                if isinstance(value, tensor) and value.requires_grad:
                    raise ArgumentTypeError(
                        f"{one.declaration.name}: {name} requires grad, but {_reason(one)}"
                    )
        with below():
            return call(*args, **keywords)

    return run


def _reason(one: Operator) -> str:
    if one.writes:
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
