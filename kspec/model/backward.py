"""Gradients: the kernel that computes them, and what is the same for every library that wants them.

The `backward` of a spec names a kernel whose parameters say what it needs and makes: inputs
and outputs of the kernel in front under their own names, ``grad_y`` for the gradient that arrives
for the output ``y``, ``grad_x`` for the gradient of the input ``x``.

>>> l2norm = Backward(None, takes=("x", "y", "grad_y"), gives=("grad_x",))
>>> l2norm.differentiable
('x',)

Reductions lose axes.  What belongs to their outputs keeps these with extent 1 in front of the
kernel, which then broadcasts it against the inputs:

>>> from kspec.model.shapes import kept_shape, reduced_count, summed_axes
>>> kept_shape((4, 1024), axis=-1), reduced_count((4, 1024), axis=-1)
((4, 1), 1024)

Gradients have the shape of all inputs broadcast; those of an input that is smaller are sums:

>>> summed_axes((8, 4, 1024), (4, 1))
((0, 2), (4, 1))

Other forms of a reduction have gradients where its outputs are sums or means.  An element then gets
the gradients of all outputs that it is in, added up (the form's *adjoint*), times the derivative
of the map: the kernel computes that as for a reduction of single elements, whose count is 1.

`kspec.spec.gradients.kernels` makes such kernels of expressions, `kspec.torch` and `kspec.jax` call
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model.declaration import MEANS, Declaration, RawDeclaration, ReductionDeclaration
from kspec.model.shapes import kept_shape, reduced_count

PREFIX = "grad_"
# How many elements of its inputs a reduction folds into each element of its outputs.
COUNT = "count"


def with_kept_axes(
    known: Mapping[str, Any],
    outputs: Iterable[str],
    shape: Sequence[int],
    axis: int | Sequence[int] | None,
) -> dict[str, Any]:
    """Return the values of a reduction as the kernel that computes its gradients takes them.

    Parameters
    ----------
    known : mapping of str to array or scalar
        Inputs, outputs and the gradients of these, as far as they are needed.
    outputs : iterable of str
        Names of the outputs, which get the reduced axes with extent 1, as do their gradients.
    shape : sequence of int
        Of all inputs broadcast.
    axis : int, sequence of int or None
        The reduced axes.
    """
    kept = kept_shape(shape, axis)
    names = [one for name in outputs for one in (name, f"{PREFIX}{name}") if one in known]
    reshaped = {name: known[name].reshape(kept) for name in names}
    return {COUNT: reduced_count(shape, axis), **known, **reshaped}


def form_gradient_fault(
    declaration: ReductionDeclaration, gradients: Declaration, form: str
) -> str:
    """Return why another form of a reduction has no gradients; empty if it has.

    Parameters
    ----------
    declaration : ReductionDeclaration
        The reduction.
    gradients : Declaration
        The kernel that computes its gradients.
    form : str
        The form.
    """
    if not declaration.sums:
        return (
            f"gradients of its {form} are derived only where outputs are sums or means "
            "(reduce = 'a + b', post_map = 'y = a')"
        )
    if isinstance(gradients, RawDeclaration):
        return f"a raw kernel computes its gradients, which has no gradients of its {form}"
    own, takes = declaration.inputs.names, gradients.inputs
    read = next((name for name in declaration.outputs.names if name in takes.names), "")
    if read:
        return f"its backward reads the output {read}, which is another one in its {form}"
    whole = {one.name for one in takes if one.raw}.union(gradients.raw_views).difference(own)
    if whole:
        name = min(whole)
        return f"its backward reads {name} as a whole, which has another shape in its {form}"
    if declaration.sums == MEANS and (COUNT in own or COUNT not in takes.names):
        return f"its backward does not read {COUNT}, by which a mean divides"
    return ""


@dataclass(frozen=True)
class Backward:
    """The gradients of a kernel.

    Attributes
    ----------
    kernel : kernel
        What computes them, called as any other kernel.
    takes : tuple of str
        Its inputs, in order: parameters of the kernel in front, ``grad_<output>``, and `COUNT`.
    gives : tuple of str
        Its outputs, in order: ``grad_<input>``.  Inputs without one are not differentiated.
    """

    kernel: Any
    takes: tuple[str, ...]
    gives: tuple[str, ...]

    @property
    def differentiable(self) -> tuple[str, ...]:
        """Inputs of the kernel in front that have gradients, in the order of `gives`."""
        return tuple(name.removeprefix(PREFIX) for name in self.gives)

    @property
    def writes_arrays(self) -> bool:
        """Whether its outputs must be given: some have the shape of their input, not of the rest.

        These are the ones that it declares raw.
        """
        return any(param.raw for param in self.kernel.declaration.outputs)

    def refuse_complex(self, kernel: str, wanted: Iterable[str]) -> None:
        """Raise unless it computes gradients of complex numbers.

        Expressions are of real numbers: those of complex ones need conjugates.

        Parameters
        ----------
        kernel : str
            Name of the kernel in front.
        wanted : iterable of str
            Its inputs that are complex, and whose gradients are asked for.

        Raises
        ------
        ArgumentTypeError
            If there is one whose gradient is an expression.
        """
        if not getattr(self.kernel.declaration, "forward", ""):
            return
        for name in wanted:
            if name in self.differentiable:
                raise ArgumentTypeError(
                    f"{kernel}: {name} is complex and requires grad, but the expressions of "
                    "'backward' are gradients of real numbers; name a kernel there"
                )

    def arguments(self, known: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return the arguments of the call that computes the gradients.

        Parameters
        ----------
        known : mapping of str to array or scalar
            What was saved, and the gradients that arrived, by the names in `takes`.
        """
        return tuple(known[name] for name in self.takes)
