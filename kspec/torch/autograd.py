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
from torch.autograd import forward_ad

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
        names = [argument.name for argument in one.arguments]
        outputs = declaration.outputs.names
        self._defaults = tuple(map(one.defaults.get, names))
        self._outputs = outputs
        self._output_grads = tuple(f"{PREFIX}{name}" for name in outputs)
        self._names = tuple(names)
        known = [*names, *outputs]
        self._saved = tuple(
            (name, known.index(name)) for name in (*backward.takes, *one.indices) if name in known
        )
        self._arrays = tuple(k for k, other in enumerate(one.arguments) if other.is_array)
        # For each argument, the place of its gradient among those that the kernel computes.
        places = {name: k for k, name in enumerate(backward.differentiable)}
        self._places = tuple(map(places.get, names))
        self._form_arguments = tuple(
            (name, None if name in one.indices else names.index(name))
            for name in one.form_arguments
        )
        self._options = tuple((name, names.index(name)) for name in one.options)
        cores = {param.name: len(param.core) for param in declaration.inputs}
        self._cores = tuple(cores.get(name, 0) for name in names)

    def save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the gradients are made of."""
        given = (*inputs, *self._defaults[len(inputs) :])
        outputs = output if isinstance(output, tuple | list) else (output,)
        self._refuse_complex(given)
        known = (*given, *outputs)
        saved = [(name, known[place]) for name, place in self._saved]
        needed = [one for one in saved if isinstance(one[1], torch.Tensor)]
        ctx.save_for_backward(*[one for _, one in needed])
        ctx.needed = [name for name, _ in needed]
        ctx.numbers = [one for one in saved if not isinstance(one[1], torch.Tensor)]
        ctx.shapes = [one.shape if isinstance(one, torch.Tensor) else () for one in given]
        if self._is_reduction:
            arrays = {self._names[k]: given[k] for k in self._arrays}
            types = abstract(self._declaration.inputs, arrays)
            ctx.shape = loop_shape(self._declaration, types, broadcast=broadcast)
        else:
            first = self._declaration.outputs.params[0]
            ctx.shape = tuple(outputs[0].shape[: outputs[0].ndim - len(first.core)])
        ctx.form = {
            name: None if place is None else given[place] for name, place in self._form_arguments
        }
        ctx.options = {name: given[place] for name, place in self._options}

    def _refuse_complex(self, given: Sequence[Any]) -> None:
        wanted = [
            self._names[k]
            for k in self._arrays
            if isinstance(given[k], torch.Tensor)
            and given[k].is_complex()
            and given[k].requires_grad
        ]
        if wanted:
            self._backward.refuse_complex(self._declaration.name, wanted)

    def compute(self, ctx: Any, *grads: Any) -> tuple[Any, ...]:
        """Return the gradient of each argument of the operator, None for those without."""
        known = dict(zip(ctx.needed, ctx.saved_tensors, strict=True))
        known.update(ctx.numbers)
        known.update(zip(self._output_grads, grads, strict=True))
        if self._operator.form != REDUCE:
            known |= self._of_elements(ctx, known)
        elif self._is_reduction:
            axis = ctx.form["axis"]
            axis = None if axis is None else tuple(axis)
            known = with_kept_axes(known, self._outputs, ctx.shape, axis)
        found = self._run(ctx, known)
        made: list[torch.Tensor | None] = []
        for number, wanted in enumerate(ctx.needs_input_grad):
            place = self._places[number]
            one = None
            if wanted and place is not None:
                one = found[place]
                # That of a windowed input has its shape, but for batch axes, not the outputs'.
                shape = one.shape if self._is_adjoint else ctx.shape
                one = _summed(one, shape, ctx.shapes[number], self._cores[number])
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
        options = declaration.shared_options(ctx.options) if ctx.options else {}
        if not self._writes:
            if torch.is_grad_enabled() or forward_ad._current_level >= 0:
                results = self._call(*arguments, **options)
            else:  # autograd need not be asked
                with torch._C._AutoDispatchBelowAutograd():
                    results = self._call(*arguments, **options)
            return results if isinstance(results, tuple | list) else (results,)
        named = zip(declaration.inputs.names, arguments, strict=True)
        arrays = {name: one for name, one in named if isinstance(one, torch.Tensor)}
        binding = bind_types(declaration, abstract(declaration.inputs, arrays))
        device = next(iter(arrays.values())).device
        made, shapes = [], dict(zip(self._names, ctx.shapes, strict=False))
        for param in declaration.outputs:
            front = param.name.removeprefix(PREFIX)
            # A kernel may add to the elements of a raw one, and leave some of them as they are.
            make = torch.zeros if param.raw else torch.empty
            own = shapes.get(front, ())  # none of a number
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
