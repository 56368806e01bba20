"""Derivatives of a call in JAX, by the kernel that the spec names as `backward`.

Reverse mode only (`jax.grad`, `jax.vjp`): a kernel that computes gradients does not compute
tangents.  For kernels without `backward` both modes are errors that say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from kspec.errors import ArgumentTypeError
from kspec.jax.adjoints import adjoint
from kspec.jax.calls import TracedCall
from kspec.jax.shards import varying, varying_axes
from kspec.model.backward import COUNT, PREFIX, Backward, form_gradient_fault, with_kept_axes
from kspec.model.declaration import SUMS_OF_ELEMENTS, ReductionDeclaration
from kspec.model.forms.kinds import REDUCE, SCAN
from kspec.model.forms.options import indices_of
from kspec.model.shapes import summed_axes
from kspec.runtime.memory import numpy_dtype

Outputs = tuple[Any, ...]


def differentiable(
    call: TracedCall, gradients: Callable[..., Any] | None
) -> Callable[..., Outputs]:
    """Return a call that JAX can differentiate, or refuses to with a reason.

    Parameters
    ----------
    call : TracedCall
        The call.
    gradients : callable or None
        The kernel that computes its gradients, as a function of JAX's.
    """
    rule = call.kernel.backward
    if rule is None or gradients is None or _form_fault(call):
        dtypes = (numpy_dtype(dtype) for _, dtype in call.evaluation.outputs)
        real = any(jnp.issubdtype(one, jnp.inexact) for one in dtypes)
        return _refusing(call) if real else _without_gradient(call)
    function: Callable[..., Outputs] = _Gradient(call, rule, gradients).function
    return function


def _refusing(call: TracedCall) -> Callable[..., Outputs]:
    def refuse(primals: Outputs, tangents: Outputs) -> tuple[Outputs, Outputs]:
        raw = "" if call.kernel.backward is None else " but a raw kernel, which JAX cannot run"
        reason = _form_fault(call)
        reason = f"{reason}; " if reason else f"its spec has no backward{raw}; add one, or "
        raise ArgumentTypeError(
            f"{call.kernel.name} cannot be differentiated: {reason}use jax.lax.stop_gradient on "
            "its arguments, or jax.custom_vjp around the call"
        )

    function: Any = jax.custom_jvp(call)
    function.defjvp(refuse)
    return function  # type: ignore[no-any-return]


def _form_fault(call: TracedCall) -> str:
    """Return why another form of a reduction has no gradients, though the reduction has."""
    rule, declaration = call.kernel.backward, call.kernel.declaration
    if call.form == REDUCE or rule is None:
        return ""
    assert isinstance(declaration, ReductionDeclaration)
    return form_gradient_fault(declaration, rule.kernel.declaration, call.form)


def _without_gradient(call: TracedCall) -> Callable[..., Outputs]:
    return lambda *arrays: call(*map(jax.lax.stop_gradient, arrays))


class _Gradient:
    """The two halves of a differentiated call, and the call that has them (`function`)."""

    def __init__(self, call: TracedCall, rule: Backward, gradients: Callable[..., Any]) -> None:
        self._call = call
        self._rule = rule
        self._gradients = gradients
        declaration = call.kernel.declaration
        self._names = [
            name
            for number, name in enumerate(declaration.inputs.names)
            if number not in call.numbers
        ]
        # Parameters may have the names of these arrays, but no such names.
        self._indices = tuple(f"{call.form}.{name}" for name in indices_of(call.form))
        self._names += self._indices
        self._numbers = {
            declaration.inputs.names[number]: value for number, value in call.numbers.items()
        }
        self._outputs = declaration.outputs.names
        self._cores = {param.name: len(param.core) for param in declaration.inputs}
        self.function: Any = jax.custom_vjp(call)
        self.function.defvjp(self.forward, self.backward, symbolic_zeros=True)

    def forward(self, *primals: Any) -> tuple[Outputs, dict[str, Any]]:
        """Return the outputs, and what `backward` needs again."""
        arrays = [one.value for one in primals]
        self._check(
            {
                name: one.value.dtype
                for name, one in zip(self._names, primals, strict=True)
                if one.perturbed and jnp.issubdtype(one.value.dtype, jnp.inexact)
            }
        )
        outputs = self.function(*arrays)  # which can be differentiated again
        known = dict(zip(self._names, arrays, strict=True))
        known |= dict(zip(self._outputs, outputs, strict=True))
        takes = (*self._rule.takes, *self._indices)
        return outputs, {name: known[name] for name in takes if name in known}

    def backward(self, saved: dict[str, Any], arrived: Sequence[Any]) -> list[Any]:
        """Return the gradient of each input; None where it is zero."""
        known: dict[str, Any] = {**self._numbers, **saved}
        for name, gradient in zip(self._outputs, arrived, strict=True):
            known[f"{PREFIX}{name}"] = _conjugate(_filled(gradient))
        if self._call.is_reduction:
            shape, axis = self._call.evaluation.shape, self._call.options.get("axis")
            known = with_kept_axes(known, self._outputs, shape, axis)
        with self._call.precision():
            if self._call.form != REDUCE:
                known |= self._of_elements(known)
            options = self._rule.kernel.declaration.shared_options(self._call.options)
            arguments = self._rule.arguments(known)
            found = self._gradients(*arguments, **self._raw_shapes, **options)
            found = found if isinstance(found, tuple) else (found,)
            made = dict(zip(self._rule.differentiable, found, strict=True))
            return [
                _fitted(made[name], shape, dtype, self._cores.get(name, 0))
                if name in made
                else None
                for name, shape, dtype in zip(
                    self._names, self._call.shapes, self._call.dtypes, strict=True
                )
            ]

    def _of_elements(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the kernel's arguments for a form: each element is a reduction of its own."""
        call, declaration = self._call, self._call.kernel.declaration
        assert isinstance(declaration, ReductionDeclaration)
        name = f"{PREFIX}{self._outputs[0]}"
        if call.form == SCAN and declaration.sums == SUMS_OF_ELEMENTS:
            reverse = not call.options.get("reverse", False)
            other = replace(call, options={**call.options, "reverse": reverse})
            (found,) = differentiable(other, self._gradients)(known[name])
        else:
            indices = tuple(known[one] for one in self._indices)
            found = adjoint(
                declaration, call.form, known[name], call.evaluation.shape, call.options, indices
            )
        return {name: found} | ({} if COUNT in declaration.inputs.names else {COUNT: 1})

    def _check(self, wanted: Mapping[str, Any]) -> None:
        """Raise unless there is a gradient of all inputs that have these names and dtypes."""
        kernel = self._call.kernel.name
        for name in wanted:
            if name not in self._rule.differentiable:
                raise ArgumentTypeError(
                    f"{kernel}: its backward has no gradient of {name}; use "
                    "jax.lax.stop_gradient on that argument, or add one to the spec"
                )
        self._rule.refuse_complex(
            kernel, (name for name, dtype in wanted.items() if dtype.kind == "c")
        )

    @property
    def _raw_shapes(self) -> dict[str, Any]:
        """Return the option for gradients of arrays that take no part in broadcasting."""
        shapes = dict(zip(self._names, self._call.shapes, strict=True))
        raw = [
            shapes[name]
            for name, param in zip(
                self._rule.differentiable, self._rule.kernel.declaration.outputs, strict=True
            )
            if param.raw
        ]
        return {"raw_shapes": raw} if raw else {}


def _filled(gradient: Any) -> Any:
    """Return a gradient that arrived as an array, also where nothing depends on the output."""
    if isinstance(gradient, jax.custom_derivatives.SymbolicZero):
        return varying(jnp.zeros(gradient.shape, gradient.dtype), varying_axes([gradient.aval]))
    return gradient


def _fitted(gradient: Any, shape: tuple[int, ...], dtype: str, core: int) -> Any:
    """Return a gradient as that of an input which was broadcast, but for its core dimensions."""
    axes, wanted = summed_axes(gradient.shape, shape, core)
    summed = gradient.sum(axes) if axes else gradient
    return _conjugate(jax.lax.convert_element_type(summed.reshape(wanted), numpy_dtype(dtype)))


def _conjugate(gradient: Any) -> Any:
    """Return the conjugate: complex gradients of JAX's are those of everybody else, conjugated."""
    return jnp.conj(gradient) if jnp.iscomplexobj(gradient) else gradient
