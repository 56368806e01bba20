"""Gradients of operators: the kernel that `backward` of the spec names, called as an operator.

So they are compiled, exported and captured as everything else.  `kspec.model.backward` has the
part that does not depend on torch, `adjoints` what is between the outputs of a scan, of segments,
of keys or of windows and the elements that they are sums of.  What is the same in all calls is
prepared once: a call with gradients is mostly Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kspec.model.backward import COUNT, PREFIX, Backward, with_kept_axes
from kspec.model.declaration import ReductionDeclaration
from kspec.model.forms.kinds import REDUCE
from kspec.model.infer import bind_types, loop_shape, param_dtype
from kspec.model.operators import Operator
from kspec.model.shapes import summed_axes
from kspec.torch.adjoints import adjoint
from kspec.torch.fake import abstract, broadcast, dtype_named


class Gradients:
    """Derivatives of an operator: the two parts of its `torch.autograd.Function`.

    Parameters
    ----------
    one : Operator
        Which.
    backward : Backward
        Of its kernel.
    front : callable
        The operator itself.
    call : callable
        The operator that computes the gradients.
    writes : bool
        Whether it writes them to tensors that it is given.
    """

    def __init__(
        self,
        one: Operator,
        backward: Backward,
        front: Callable[..., Any],
        call: Callable[..., Any],
        writes: bool,
    ) -> None:
        assert one.declaration.kind != "raw"
        declaration: Any = one.declaration
        self._operator = one
        self._declaration = declaration
        self._backward = backward
        self._front = front
        self._call = call
        self._writes = writes
        self._is_reduction = isinstance(declaration, ReductionDeclaration)
        self._is_adjoint = getattr(backward.kernel.declaration, "adjoint", None) is not None
        self._names = tuple(argument.name for argument in one.arguments)
        self._defaults = one.defaults
        self._outputs = declaration.outputs.names
        self._differentiable = backward.differentiable
        self._form_arguments = one.form_arguments
        self._indices = one.indices
        self._takes = (*backward.takes, *one.indices)
        self._options = one.options
        self._cores = {param.name: len(param.core) for param in declaration.inputs}

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the gradients are made of."""
        given = {**self._defaults, **dict(zip(self._names, inputs, strict=False))}
        outputs = output if isinstance(output, tuple | list) else (output,)
        arrays = {name: one for name, one in given.items() if isinstance(one, torch.Tensor)}
        self._backward.refuse_complex(
            self._declaration.name,
            (name for name, one in arrays.items() if one.requires_grad and one.is_complex()),
        )
        known = {**given, **dict(zip(self._outputs, outputs, strict=True))}
        saved = {name: known[name] for name in self._takes if name in known}
        needed = {name: one for name, one in saved.items() if isinstance(one, torch.Tensor)}
        ctx.save_for_backward(*needed.values())
        ctx.needed = tuple(needed)
        ctx.numbers = {name: one for name, one in saved.items() if name not in needed}
        if self._is_reduction:
            types = abstract(self._declaration.inputs, arrays)
            ctx.shape = loop_shape(self._declaration, types, broadcast=broadcast)
        else:
            first = self._declaration.outputs.params[0]
            ctx.shape = tuple(outputs[0].shape[: outputs[0].ndim - len(first.core)])
        ctx.shapes = {name: one.shape for name, one in arrays.items()}
        ctx.form = {
            name: None if name in self._indices else given[name] for name in self._form_arguments
        }
        ctx.options = {name: given[name] for name in self._options}

    def compute(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument of the operator, None for those without."""
        known = {**ctx.numbers, **dict(zip(ctx.needed, ctx.saved_tensors, strict=True))}
        for name, one in zip(self._outputs, grads, strict=True):
            known[f"{PREFIX}{name}"] = one
        if self._operator.form != REDUCE:
            known |= self._of_elements(ctx, known)
        elif self._is_reduction:
            axis = ctx.form["axis"]
            axis = None if axis is None else tuple(axis)
            known = with_kept_axes(known, self._outputs, ctx.shape, axis)
        found = dict(zip(self._differentiable, self._run(ctx, known), strict=True))
        made: list[torch.Tensor | None] = []
        for name, wanted in zip(self._names, ctx.needs_input_grad, strict=False):
            one = found.get(name) if wanted else None
            if one is not None:
                # That of a windowed input has its shape, but for batch axes, not the outputs'.
                shape = one.shape if self._is_adjoint else ctx.shape
                one = _summed(one, shape, ctx.shapes[name], self._cores[name])
            made.append(one)
        return tuple(made)

    def _of_elements(self, ctx: Any, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kernel's arguments for a form: each element is a reduction of its own."""
        (output,) = self._outputs
        name = f"{PREFIX}{output}"
        given = {one: known.get(one, value) for one, value in ctx.form.items()}
        gradient = adjoint(self._operator, self._front, known[name], ctx.shape, given)
        counted = {} if COUNT in self._declaration.inputs.names else {COUNT: 1}
        return {name: gradient, **counted}

    def _run(self, ctx: Any, known: Mapping[str, Any]) -> Sequence[torch.Tensor]:
        arguments = self._backward.arguments(known)
        declaration = self._backward.kernel.declaration
        options = declaration.shared_options(ctx.options)
        if not self._writes:
            results = self._call(*arguments, **options)
            return results if isinstance(results, tuple | list) else (results,)
        named = zip(declaration.inputs.names, arguments, strict=True)
        arrays = {name: one for name, one in named if isinstance(one, torch.Tensor)}
        binding = bind_types(declaration, abstract(declaration.inputs, arrays))
        device = next(iter(arrays.values())).device
        made = []
        for param in declaration.outputs:
            front = param.name.removeprefix(PREFIX)
            # A kernel may add to the elements of a raw one, and leave some of them as they are.
            make = torch.zeros if param.raw else torch.empty
            own = ctx.shapes.get(front, ())  # none of a number
            shape = own if param.raw else (*ctx.shape, *own[len(own) - len(param.core) :])
            dtype = dtype_named(param_dtype(param, binding))
            made.append(make(shape, dtype=dtype, device=device))
        self._call(*arguments, *made, **options)
        return made


def _summed(
    gradient: torch.Tensor, shape: Sequence[Any], wanted: Sequence[Any], core: int
) -> torch.Tensor:
    """Return the gradient of an input from that of all inputs broadcast to the shape of the loop.

    `core`: number of its core dimensions.
    """
    if tuple(gradient.shape) == tuple(wanted):
        return gradient
    whole_shape = (*shape, *gradient.shape[gradient.ndim - core :])
    axes, extents = summed_axes(whole_shape, wanted, core)
    whole = gradient.expand(whole_shape)
    return (whole.sum(axes) if axes else whole).reshape(extents)
