"""A kernel as a function that JAX traces: arguments in, a call of XLA's target out.

A call becomes, in this order: an evaluation (`abstract`), conversions of weakly typed values, the
call itself with its rule for gradients (`gradients`), and a conversion of 64-bit results where JAX
is set to have none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import jax
import numpy as np

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, UnsupportedDTypeError
from kspec.jax.abstract import AbstractValue, Evaluation, check_count, evaluate, evaluate_form
from kspec.jax.calls import TracedCall
from kspec.jax.gradients import differentiable
from kspec.jax.options import TRUTHS, hashable_options, option_names
from kspec.jax.request import Number
from kspec.jax.shards import varying, varying_axes
from kspec.jax.target import DTYPES, target
from kspec.model.declaration import ReductionDeclaration
from kspec.model.forms.kinds import BY_KEY, REDUCE, SCAN, SEGMENTS, WINDOW
from kspec.model.forms.options import FORM_OPTIONS, OptionKind, indices_of
from kspec.runtime.kernels.identity import Kernel, PackagedKernel, identity_of
from kspec.runtime.libraries.registry import check_no_mask
from kspec.runtime.memory import numpy_dtype

_ARRAYS = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)


@dataclass(frozen=True)
class _Fixed:
    """A number that a program is made for.

    Numbers may be equal and not the same (0.0 and -0.0, 1 and True), or the same and not equal.
    """

    value: Number = field(compare=False)
    text: str


class JaxFunction:
    """An elementwise or reduction kernel that JAX can trace.

    Parameters
    ----------
    kernel : kernel
        What runs.
    callback : bool
        Whether it runs on the host device, by `jax.pure_callback`.
    form : str
        The form of a reduction that it calls (`kspec.model.forms`).

    Attributes
    ----------
    kernel : kernel
        As given.
    """

    def __init__(self, kernel: Kernel, callback: bool = False, form: str = REDUCE) -> None:
        self.kernel = kernel
        self._form = form
        self.__name__ = kernel.name if form == REDUCE else f"{kernel.name}_{form}"
        self.__doc__ = kernel.__doc__
        self._name = _program_name(kernel)
        self._callback = callback
        declaration = kernel.declaration
        self._static = tuple(
            number
            for number, param in enumerate(declaration.inputs)
            if param.name in declaration.scalars
        )
        names = (*declaration.inputs.names, *indices_of(form))
        self._places = [f"{kernel.name}: argument {name}" for name in names]
        if not callback:
            target().add(self._name, kernel)
        # Profilers show the kernel's name, not that of the method.
        trace = functools.partial(self._trace)
        functools.update_wrapper(trace, self, ("__name__", "__doc__"), ())
        self._compiled = jax.jit(
            trace,
            static_argnums=self._static,
            static_argnames=(*option_names(declaration, form), TRUTHS),
            inline=True,
        )

    def __reduce__(self) -> tuple[object, ...]:
        return JaxFunction, (self.kernel, self._callback, self._form)

    def __repr__(self) -> str:
        form = "" if self._form == REDUCE else f".{self._form}"
        return f"<kspec.jax function {self._name}{form}>"

    @functools.cached_property
    def scan(self) -> JaxFunction:
        """Scan of a reduction: ``scan(x, axis=-1, exclusive=False, reverse=False)``."""
        return self._other(SCAN)

    @functools.cached_property
    def segments(self) -> JaxFunction:
        """Reduction of segments of the first axis: ``segments(x, indptr)``."""
        return self._other(SEGMENTS)

    @functools.cached_property
    def by_key(self) -> JaxFunction:
        """Reduction of the elements of each key: ``by_key(x, keys, n, deterministic=True)``.

        The number of outputs may also be given by name.
        """
        return self._other(BY_KEY)

    @functools.cached_property
    def window(self) -> JaxFunction:
        """Reduction of windows: ``window(x, size, axis=-1, boundary="valid", step=1)``.

        The size may also be given by name.
        """
        return self._other(WINDOW)

    def _other(self, form: str) -> JaxFunction:
        """Return another form of a reduction."""
        if not isinstance(self.kernel.declaration, ReductionDeclaration) or self._form != REDUCE:
            raise AttributeError(f"{self!r} has no {form}: it is not a reduction", name=form)
        return JaxFunction(self.kernel, self._callback, form)

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the kernel, now or as a part of the program that is being traced.

        Parameters
        ----------
        *args : arrays or numbers
            The inputs. Those that the kernel needs as numbers when it is launched must be numbers
            while a program is traced, too.
        size : int, optional
            Elementwise kernels: number of elements, when all arrays are raw.
        raw_shapes : sequence of tuple of int, optional
            Elementwise kernels: shapes of the raw outputs, in order; default: that of the others.
        axis : int, sequence of int or None
            Reductions: axes to reduce; None: all of them, ``()``: none.
        keepdims : bool, default False
            Reductions: keep reduced axes with extent 1.
        exclusive, reverse : bool, default False
            Scans: without the element itself; from the end of the axis.
        n : int
            Reductions by key: number of outputs.
        deterministic : bool, default True
            Reductions by key: elements keep their order, and equal calls give equal bits.
        step : int or tuple of int, default 1
            Windows: elements from one to the next.
        boundary : str, optional
            Kernels with windows or samples: what lies outside of their arrays.
        **sizes : int
            Values of integer placeholders. Each is a program of its own.
        dtype : dtype, optional
            That of outputs whose type no input decides.

        Returns
        -------
        jax.Array or tuple of jax.Array
            The outputs.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, a traced value for a number.
        ShapeError
            A `ValueError`: shapes do not fit.
        jax.errors.JaxRuntimeError
            When the program runs: what the kernel raises, as text.
        """
        declaration = self.kernel.declaration
        if isinstance(declaration, ReductionDeclaration):
            args, options = _with_named(declaration, self._form, args, options)
        options = hashable_options(declaration, options, self._form)
        check_count(declaration, args, self._form)
        given = [
            _number(where, value) if number in self._static else _array(where, value)
            for number, (where, value) in enumerate(zip(self._places, args, strict=True))
        ]
        # JAX has weak numbers, but no weak bools: those of Python are told apart here.
        truths = tuple(number for number, one in enumerate(given) if type(one) is bool)
        return self._compiled(*given, truths=truths, **options)

    @functools.cached_property
    def backward(self) -> JaxFunction | None:
        """Kernel that computes the gradients, if the spec names one that JAX can run."""
        gradients = self.kernel.backward
        if gradients is None or not isinstance(gradients.kernel, Kernel):
            return None
        return JaxFunction(gradients.kernel, self._callback)

    def _trace(self, *args: Any, truths: tuple[int, ...], **options: Any) -> Any:
        """Return the outputs of a call as JAX's values; `truths`: which were bools of Python's."""
        declaration = self.kernel.declaration
        values = [
            AbstractValue((), "", number=one.value)
            if number in self._static
            else _value(where, one, number in truths)
            for number, (where, one) in enumerate(zip(self._places, args, strict=True))
        ]
        evaluation = self._evaluated(values, options)
        numbers = {number: args[number].value for number in self._static}
        shapes = tuple(value.shape for value in values if value.number is None)
        call = TracedCall(
            *(self.kernel, self._name, evaluation, shapes, numbers, options),
            *(self._callback, self._form),
        )
        narrowed = [call.narrowed(dtype) for _, dtype in evaluation.outputs]
        with call.precision():
            given = (one for number, one in enumerate(args) if number not in self._static)
            arrays = [_converted(one, dtype) for one, dtype in zip(given, call.dtypes, strict=True)]
            # Gradients are those of values that all differ alike; JAX sums them for the others.
            axes = varying_axes(map(jax.typeof, arrays))
            arrays = [varying(one, axes) for one in arrays]
            # As everywhere in JAX, results have 64 bits only where it is set to have such.
            outputs = tuple(
                _converted(one, narrow)
                for one, narrow in zip(
                    differentiable(call, self.backward)(*arrays), narrowed, strict=True
                )
            )
        one = len(outputs) == 1 and not getattr(declaration, "return_tuple", False)
        return outputs[0] if one else outputs

    def _evaluated(self, values: Sequence[AbstractValue], options: Mapping[str, Any]) -> Evaluation:
        """Return the types of a call, in which arrays of integers count as inputs."""
        declaration = self.kernel.declaration
        if self._form == REDUCE:
            return evaluate(declaration, values, **options)
        assert isinstance(declaration, ReductionDeclaration)
        count = len(declaration.inputs)
        inputs, indices = values[:count], values[count:]
        found = evaluate_form(declaration, self._form, inputs, indices, **options)
        return replace(found, inputs=(*found.inputs, *(one.dtype for one in indices)))


def _with_named(
    declaration: ReductionDeclaration, form: str, args: tuple[Any, ...], options: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a form, with the last by name that is required and no array."""
    required = [one for one in FORM_OPTIONS[form] if one.is_required]
    if not required or required[-1].kind == OptionKind.INDICES or required[-1].name in options:
        return args, options
    names = [str(declaration.inputs), *(one.name for one in required)]
    count = len(declaration.inputs) + len(required)
    if len(args) != count:
        raise ArgumentTypeError(
            f"{declaration.name}.{form}() takes {count} positional arguments "
            f"({', '.join(names)}) in JAX, not {len(args)}; outputs are returned"
        )
    return args[:-1], {**options, names[-1]: args[-1]}


def _program_name(kernel: Kernel) -> str:
    """Return the name of a kernel in compiled programs: the same in every process that has it."""
    identity = identity_of(kernel)
    if isinstance(identity, PackagedKernel):
        return f"{identity.module}.{identity.name}"
    # Kernels that are declared in Python may share a name.
    return f"{kernel.name}-{identity.digest[:16]}"


def _array(where: str, value: Any) -> Any:
    """Return an argument that JAX takes for an array; raise for all others."""
    check_no_mask(value, where)
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        raise UnsupportedDTypeError(
            f"{where}: dtype {value.dtype.str!r} is not in native byte order; convert the array "
            "first"
        )
    if not isinstance(value, _ARRAYS) and not hasattr(value, "__jax_array__"):
        raise ArgumentTypeError(
            f"{where} must be an array of JAX's or NumPy's, or a number, not "
            f"{type(value).__name__}; jax.dlpack.from_dlpack takes arrays of other libraries"
        )
    return value


def _number(where: str, value: Any) -> _Fixed:
    """Return a number that the kernel needs when it is launched."""
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, bool | int | float | complex):
        raise ArgumentTypeError(
            f"{where} must be a number when the program is traced, for the kernel reads it outside "
            f"its loop over elements, not {type(value).__name__}; under jax.jit, name it in "
            "static_argnames"
        )
    return _Fixed(value, repr(value))


def _value(where: str, value: Any, truth: bool) -> AbstractValue:
    """Return the abstract value of an array or a Python bool while a program is traced."""
    kind = jax.typeof(value)
    name = str(kind.dtype)
    if name not in DTYPES:
        raise UnsupportedDTypeError(
            f"{where} has dtype {name}, which kernels do not take from JAX; they take "
            f"{', '.join(sorted(DTYPES))}"
        )
    return AbstractValue(kind.shape, name, truth or kind.weak_type)


def _converted(array: Any, dtype: str) -> Any:
    return jax.lax.convert_element_type(array, numpy_dtype(dtype))
