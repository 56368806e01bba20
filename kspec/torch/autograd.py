"""Gradients of operators: the kernel that `backward` of the spec names, called as an operator.

So they are compiled, exported and captured as everything else.  `kspec.model.backward` has the
part that does not depend on torch, `adjoints` what is between the outputs of a scan, of segments,
of keys or of windows and the elements that they are sums of.
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
    """Derivatives of an operator: the two functions that `torch.autograd.Function` asks for.

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
        self._operator = one
        self._declaration: Any = one.declaration
        self._backward = backward
        self._front = front
        self._call = call
        self._writes = writes

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the gradients are made of."""
        names = [argument.name for argument in self._operator.arguments]
        given = {**self._operator.defaults, **dict(zip(names, inputs, strict=False))}
        outputs = output if isinstance(output, tuple | list) else (output,)
        arrays = {name: one for name, one in given.items() if isinstance(one, torch.Tensor)}
        self._backward.refuse_complex(
            self._declaration.name,
            (name for name, one in arrays.items() if one.requires_grad and one.is_complex()),
        )
        known = {**given, **dict(zip(self._declaration.outputs.names, outputs, strict=True))}
        takes = (*self._backward.takes, *self._operator.indices)
        saved = [name for name in takes if name in known]
        needed = [name for name in saved if isinstance(known[name], torch.Tensor)]
        ctx.save_for_backward(*(known[name] for name in needed))
        ctx.needed = needed
        ctx.numbers = {name: known[name] for name in saved if name not in needed}
        reduced = isinstance(self._declaration, ReductionDeclaration)
        if reduced:
            types = abstract(self._declaration.inputs, arrays)
            ctx.shape = loop_shape(self._declaration, types, broadcast=broadcast)
        else:
            first = self._declaration.outputs.params[0]
            ctx.shape = tuple(outputs[0].shape[: outputs[0].ndim - len(first.core)])
        ctx.shapes = {name: one.shape for name, one in arrays.items()}
        ctx.form = {
            name: None if name in self._operator.indices else given[name]
            for name in self._operator.form_arguments
        }
        ctx.options = {name: given[name] for name in self._operator.options}

    def compute(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument of the operator, None for those without."""
        known = {**ctx.numbers, **dict(zip(ctx.needed, ctx.saved_tensors, strict=True))}
        outputs = self._declaration.outputs.names
        known |= {f"{PREFIX}{name}": one for name, one in zip(outputs, grads, strict=True)}
        if self._operator.form != REDUCE:
            known |= self._of_elements(ctx, known)
        elif isinstance(self._declaration, ReductionDeclaration):
            axis = ctx.form["axis"]
            axis = None if axis is None else tuple(axis)
            known = with_kept_axes(known, outputs, ctx.shape, axis)
        found = dict(zip(self._backward.differentiable, self._run(ctx, known), strict=True))
        names = [argument.name for argument in self._operator.arguments]
        # That of a windowed input has its shape, but for batch axes, not the shape of the outputs.
        adjoint = getattr(self._backward.kernel.declaration, "adjoint", None) is not None
        cores = {param.name: len(param.core) for param in self._declaration.inputs}
        return tuple(
            _summed(
                found[name],
                found[name].shape if adjoint else ctx.shape,
                ctx.shapes[name],
                cores[name],
            )
            if name in found and wanted
            else None
            for name, wanted in zip(names, ctx.needs_input_grad, strict=False)
        )

    def _of_elements(self, ctx: Any, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kernel's arguments for a form: each element is a reduction of its own."""
        (output,) = self._declaration.outputs.names
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
