"""Derivatives that autograd finds for an operator: its gradients, or a refusal.

It is a function of the dispatcher, not of the kernel's: `torch.compile` asks autograd when it
traces, and never again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.autograd import forward_ad

from kspec.errors import ArgumentTypeError
from kspec.model.declaration import RawDeclaration
from kspec.model.operators import Operator
from kspec.torch.autograd import Gradients


def make_derivatives(
    one: Operator, call: Callable[..., Any], gradients: Gradients | None, fault: str = ""
) -> Callable[..., Any] | None:
    """Return the implementation of an operator for autograd; None if it has none.

    Parameters
    ----------
    one : Operator
        Which.
    call : callable
        The operator.
    gradients : Gradients or None
        Its gradients; None: it has none.
    fault : str
        Why it has none, where the kernel has some.
    """
    if not _has_gradients(one):
        return None
    names = [argument.name for argument in one.arguments]
    below = torch._C._AutoDispatchBelowAutograd
    tensor, is_grad_enabled = torch.Tensor, torch.is_grad_enabled
    apply = _function(one, call, gradients).apply if gradients is not None else None
    in_transform = getattr(torch._C, "_are_functorch_transforms_active", lambda: False)
    options, again = one.options, _without_frame(call)

    def refuse(name: str, reason: str) -> NoReturn:
        raise ArgumentTypeError(f"{one.packet}: {name} {reason}")

    def differentiate(args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if apply is None or in_transform():
            given = zip(names, args, strict=False)
            name = next(
                n for n, value in given if isinstance(value, tensor) and value.requires_grad
            )
            refuse(name, _TRANSFORM if apply else f"requires grad, but {_reason(one, fault)}")
        # Functions of autograd take no keywords.
        return apply(*args, *map(keywords.get, options))

    def run(*args: Any, **keywords: Any) -> Any:
        if forward_ad._current_level >= 0:
            for name, value in zip(names, args, strict=False):
                if isinstance(value, tensor) and forward_ad.unpack_dual(value).tangent is not None:
                    refuse(name, _FORWARD)
        if is_grad_enabled():
            for value in args:
                if isinstance(value, tensor) and value.requires_grad:
                    return differentiate(args, keywords)
        # The kernel could be run at once, 1.6 us sooner, but modes, subclasses and a
        # replacement (`torch.library`) are to be asked.
        with below():
            return again(*args, **keywords)

    return run


def _without_frame(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that `__call__` of an operator calls, and nothing else."""
    return getattr(call, "_op", call)


_FORWARD = (
    "has a tangent, but kernels have no forward derivatives; use reverse mode (`backward`), or "
    "call .detach() on it"
)
_TRANSFORM = (
    "is differentiated by torch.func, which does not know the gradients of kernels; use "
    "torch.autograd.grad or .backward()"
)


def _function(
    one: Operator, call: Callable[..., Any], gradients: Gradients
) -> type[torch.autograd.Function]:
    """Return the function of autograd's with the gradients of an operator."""
    below, save, options = torch._C._AutoDispatchBelowAutograd, gradients.save, one.options
    again = _without_frame(call)

    # With `setup_context` torch looks at the signature of `forward` in each call, for 15 us.
    def forward(ctx: Any, *args: Any) -> Any:
        with below():
            output = again(*args)
        save(ctx, args, output)
        return output

    def forward_with_options(ctx: Any, *args: Any) -> Any:
        given = zip(options, args[-len(options) :], strict=True)
        keywords = {name: value for name, value in given if value is not None}
        with below():
            output = again(*args[: -len(options)], **keywords)
        save(ctx, args, output)
        return output

    run = forward_with_options if options else forward
    members = {"forward": staticmethod(run), "backward": staticmethod(gradients.compute)}
    return type(one.packet, (torch.autograd.Function,), members)


def _reason(one: Operator, fault: str) -> str:
    if fault:
        return f"{fault}; call .detach() on it"
    if one.writes:
        return (
            "the kernel writes to its arguments, which autograd cannot follow; call .detach() on it"
        )
    if isinstance(one.declaration, RawDeclaration):
        return "autograd has no gradients of raw kernels; call .detach() on it"
    return "the kernel has no gradients; call .detach() on it, or declare `backward`"


def _has_gradients(one: Operator) -> bool:
    """Return whether a result could have gradients: indices, for one, have none."""
    declaration = one.declaration
    if isinstance(declaration, RawDeclaration):
        return True
    whole = ("int", "uint", "bool")
    return any(not param.type.startswith(whole) for param in declaration.outputs)
