"""The `example` and `reference` of a spec: random arguments in, results and the right ones out.

::

    call = make_call(spec)                                 # NumPy arrays and numbers
    got = bind_call(call, norms.l2norm)()                     # on the device `place` puts them
    worst_error(got, expected(call)) <= tolerance(call)

Demonstrations and tests run every kernel with these.  A `reference` is Python from the
spec file and is evaluated here and nowhere else: at author time, never by a deployed package.
"""

from __future__ import annotations

import builtins
import contextlib
import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.build.properties.windowed import WindowedArray
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.model import dtypes
from kspec.model.neighbours.binding import neighbours_of
from kspec.model.neighbours.windows import BoundWindow
from kspec.model.signature import CParam
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import device_array as arrays
from kspec.runtime.memory import dtype_name, numpy_dtype
from kspec.spec.base import Example
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec

Array = npt.NDArray[Any]

# Relative to the larger of one and the expected value; integers must be exact.
_TOLERANCES = {
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float32": 1e-5,
    "float64": 1e-12,
    "complex64": 1e-5,
    "complex128": 1e-12,
    # Half a unit in the last of their three or two bits, and a little.
    "float8_e4m3fn": 7e-2,
    "float8_e4m3fnuz": 7e-2,
    "float8_e4m3b11fnuz": 7e-2,
    "float8_e5m2": 1.3e-1,
    "float8_e5m2fnuz": 1.3e-1,
}
_EXACT: dict[str, type] = {name: np.float64 for name in _TOLERANCES if "float" in name}
_EXACT |= {"complex64": np.complex128}
# NumPy's methods import parts of NumPy through the caller's builtins.
_BUILTINS = {"__import__": builtins.__import__}
_INTEGER_SPAN = 100  # random integers reach this far if the example does not say


@dataclass(frozen=True)
class ExampleCall:
    """A kernel with arguments.

    Attributes
    ----------
    spec : Spec
        The kernel.
    values : mapping of str to array or number
        Every argument by name; outputs that must be given are among them.
    order : tuple
        Positional arguments: names of `values`, or numbers.
    written : tuple of str
        Arguments that hold the result; empty: the function returns it.
    keywords : mapping of str to object
        Keyword arguments.
    """

    spec: Spec
    values: Mapping[str, Any]
    order: tuple[Any, ...]
    written: tuple[str, ...]
    keywords: Mapping[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape that the arrays of an elementwise kernel broadcast to, or of the largest array."""
        arrays = {
            name: value.shape
            for name, value in self.values.items()
            if isinstance(value, np.ndarray)
        }
        if isinstance(self.spec, ElementwiseSpec):
            params = (*self.spec.inputs, *self.spec.outputs)
            looped = [one.name for one in params if one.name in arrays and not one.raw]
            if looped and not any(one.core for one in params):
                with contextlib.suppress(ValueError):  # which the call will say
                    return np.broadcast_shapes(*map(arrays.__getitem__, looped))
        return max(arrays.values(), key=math.prod, default=())

    @property
    def dtype(self) -> str:
        """Distinct dtypes of the arrays, in order; of structs only that they are."""
        arrays = [value for value in self.values.values() if isinstance(value, np.ndarray)]
        return ", ".join(dict.fromkeys(map(_short_name, (array.dtype for array in arrays))))


def has_example(spec: Spec) -> bool:
    """Whether a spec says how to call it and what must come out."""
    if isinstance(spec, ReductionSpec) and spec.declaration().forms_only:
        return False  # examples are calls of the reduction
    return spec.example is not None and spec.reference is not None


def make_call(spec: Spec, types: Mapping[str, str] | None = None) -> ExampleCall:
    """Return a call with the random arguments of the spec's example; equal each time.

    Parameters
    ----------
    spec : Spec
        A kernel with an example.
    types : mapping of str to str, optional
        Placeholder to dtype, instead of the example's.

    Raises
    ------
    SpecError
        If the example does not say enough.
    """
    example = spec.example
    if example is None:
        raise SpecError(f"kernel {spec.name!r} has no example")
    wanted = {letter: dtypes.canonical_name(name) for letter, name in example.types.items()}
    wanted |= types or {}
    if isinstance(spec, RawSpec):
        return _raw_call(spec, example, wanted)
    return _generated_call(spec, example, wanted)


def bind_call(
    call: ExampleCall, function: Callable[..., Any], place: Callable[[Array], Any] = np.copy
) -> Callable[[], tuple[Any, ...]]:
    """Return a function that calls the generated function, with its arguments placed already.

    Parameters
    ----------
    call : ExampleCall
        The arguments.
    function : callable
        The generated function.
    place : callable
        Copies a NumPy array to the device.

    Returns
    -------
    callable
        Returns the results, on their device.
    """
    placed = {
        name: place(value) if isinstance(value, np.ndarray) else value
        for name, value in call.values.items()
    }
    arguments = [placed[one] if isinstance(one, str) else one for one in call.order]
    if isinstance(call.spec, RawSpec) and call.spec.params is None:
        arguments = [tuple(arguments)]
    leading = launch_sizes(call.spec)
    keywords = {name: placed.get(name, value) for name, value in call.keywords.items()}

    def make() -> tuple[Any, ...]:
        result = function(*leading, *arguments, **keywords)
        if call.written:
            return tuple(placed[name] for name in call.written)
        return result if isinstance(result, tuple) else (result,)

    return make


def launch_sizes(spec: Spec) -> tuple[Any, ...]:
    """Return grid and block, where the spec does not say how the kernel is launched."""
    if not isinstance(spec, RawSpec) or spec.launch_rules.complete or spec.example is None:
        return ()
    sizes = {"grid": spec.example.grid, "block": spec.example.block}
    return tuple(size for name, size in sizes.items() if name not in spec.launch_rules.fixed)


def on_device(value: Any, device: Device) -> Any:
    """Return a copy of a NumPy array that kernels on a device take; numbers as they are."""
    if not isinstance(value, np.ndarray):
        return value
    return np.copy(value) if device.is_host else arrays.from_numpy(value, device)


def as_numpy(results: Iterable[Any]) -> tuple[Array, ...]:
    """Return results as NumPy arrays, from whatever device they are on."""
    return tuple(
        arrays.to_numpy(one) if isinstance(one, arrays.DeviceArray) else np.asarray(one)
        for one in results
    )


def expected(call: ExampleCall, exact: bool = True) -> tuple[Array, ...]:
    """Evaluate the reference of a call's spec.

    Parameters
    ----------
    call : Call
        The arguments.
    exact : bool
        Floating-point arguments are given in double precision; else in their own dtype, as for
        a fair comparison of times.

    Returns
    -------
    tuple of array
        One for each result.

    Raises
    ------
    SpecError
        If the reference fails.
    """
    spec = call.spec
    values = {name: _exact(value) if exact else value for name, value in call.values.items()}
    values |= _windowed(spec, values, call.keywords)
    names = {**values, **call.keywords, "np": np, "math": math, "__builtins__": _BUILTINS}
    try:
        with np.errstate(all="ignore"):
            result = eval((spec.reference or "").strip(), names)
    except Exception as error:
        known = "; it knows the arguments, np and math" if isinstance(error, NameError) else ""
        raise SpecError(
            f"reference of kernel {spec.name!r}: {type(error).__name__}: {error}{known}"
        ) from error
    if isinstance(result, Mapping):
        result = tuple(result.values())
    return tuple(map(np.asarray, result if isinstance(result, tuple) else (result,)))


def windows_of(spec: Spec, keywords: Mapping[str, Any]) -> dict[str, BoundWindow]:
    """Return the windows of the inputs of a call with keyword arguments, by name."""
    if not isinstance(spec, ElementwiseSpec):
        return {}
    windows = neighbours_of(spec.declaration(), keywords).windows
    return {one.param: one for one in windows if one.param in spec.windows}


def _windowed(
    spec: Spec, values: Mapping[str, Any], keywords: Mapping[str, Any]
) -> dict[str, WindowedArray]:
    """Return the windowed inputs of a call as arrays that the reference calls with offsets."""
    windows = windows_of(spec, keywords)
    return {name: WindowedArray.of(values[name], one) for name, one in windows.items()}


def worst_error(got: Sequence[Array], want: Sequence[Array]) -> float:
    """Return the largest deviation, relative to the larger of one and the expected value.

    Infinite when the number of results or a shape differs, or where only one of two is NaN.
    """
    if len(got) != len(want):
        return math.inf
    return max((_error(a, b) for a, b in zip(got, want, strict=True)), default=0.0)


def tolerance(call: ExampleCall, results: Sequence[Array]) -> float:
    """Return the error that a result may have: the example's, or by the least precise dtype."""
    example = call.spec.example
    given = example.tolerance if example is not None else None
    if isinstance(given, float):
        return given
    return max((_dtype_tolerance(array.dtype, given or {}) for array in results), default=0.0)


def _short_name(dtype: np.dtype[Any]) -> str:
    return dtype_name(dtype) if dtype.names is None else "struct"


def _dtype_tolerance(dtype: np.dtype[Any], given: Mapping[str, float]) -> float:
    if dtype.names is not None:
        return max(_dtype_tolerance(dtype[name].base, given) for name in dtype.names)
    return given.get(dtype.name, _TOLERANCES.get(dtype.name, 0.0))


def _error(got: Array, want: Array) -> float:
    if got.shape != want.shape:
        return math.inf
    if got.dtype.names is not None:
        if got.dtype.names != want.dtype.names:
            return math.inf
        return max(_error(got[name], want[name]) for name in got.dtype.names)
    return float(errors_of(got, want).max(initial=0.0))


def errors_of(got: Array, want: Array) -> Array:
    """Return the deviation of each element of two arrays of one shape, of no struct."""
    with np.errstate(all="ignore"):
        wide_got, wide_want = _exact(got), _exact(want)
        difference = np.abs(wide_got - wide_want) / np.maximum(1, np.abs(wide_want))
    same = (wide_got == wide_want) | ((wide_got != wide_got) & (wide_want != wide_want))
    return np.where(same, 0.0, np.where(np.isnan(difference), np.inf, difference))


def _exact(value: Any) -> Any:
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind in "iub":  # differences of unsigned numbers would wrap around
        return value.astype(np.int64) if value.dtype != np.uint64 else value.astype(np.float64)
    return value.astype(_EXACT.get(value.dtype.name, value.dtype))


def _generated_call(
    spec: ElementwiseSpec | ReductionSpec, example: Example, types: Mapping[str, str]
) -> ExampleCall:
    bindings = spec.bindings()
    binding = {letter: "float32" for letter in spec.placeholders}
    binding |= dict(bindings[0]) if bindings else {}
    binding |= types
    values: dict[str, Any] = {}
    for param in spec.inputs:
        dtype = binding.get(param.type, param.type)
        values[param.name] = _value(spec, example, param.name, dtype)
    order = [param.name for param in spec.inputs]
    written = [param.name for param in spec.inputs if param.non_const]
    if all(param.name in example.shapes for param in spec.outputs):
        for param in spec.outputs:
            kind = numpy_dtype(binding.get(param.type, param.type))
            values[param.name] = np.zeros(example.shapes[param.name], kind)
            order.append(param.name)
            written.append(param.name)
    keywords: dict[str, Any] = {}
    if isinstance(spec, ReductionSpec):
        keywords = {"axis": example.axis, "keepdims": example.keepdims}
    else:
        keywords = {"size": example.size} if example.size is not None else {}
        keywords |= window_keywords(spec, example)
    returns = isinstance(spec, ReductionSpec) or not spec.no_return
    return ExampleCall(spec, values, tuple(order), () if returns else tuple(written), keywords)


def window_keywords(spec: ElementwiseSpec, example: Example) -> dict[str, Any]:
    """Return the boundary and the sizes of the example, or else those that are listed first."""
    keywords: dict[str, Any] = {}
    if spec.boundaries:
        keywords["boundary"] = example.boundary or spec.boundaries[0]
    for name, known in spec.given_sizes.items():
        if name not in example.sizes and not known:
            raise SpecError(f"example of {spec.name!r}: give size {name!r} a value under 'sizes'")
        keywords[name] = example.sizes.get(name, next(iter(known), 0))
    return keywords


def _raw_call(spec: RawSpec, example: Example, types: Mapping[str, str]) -> ExampleCall:
    values: dict[str, Any] = {}
    given = (*example.shapes, *example.scalars)
    # Keyword-only parameters stand in front of others, so all of these are given by name.
    left_out = spec.optional
    params = {
        param.name: param
        for param in spec.params or ()
        if param.name in given or param.name not in left_out
    }
    bound = {**_template_arguments(spec, example), **types}
    for name in (*params, *(name for name in example.shapes if name not in params)):
        if name in params:
            dtype = _c_dtype(spec, params[name], bound)
        else:
            dtype = types.get(name, "float32")
        value = _value(spec, example, name, dtype)
        # A struct by value is a scalar, which stays where it is.
        by_value = name in params and not params[name].pointer and isinstance(value, np.ndarray)
        values[name] = value[()] if by_value else value
    values |= {name: value for name, value in example.scalars.items() if name not in values}
    order = example.args or tuple(name for name in values if name not in left_out)
    keywords: dict[str, Any] = {
        name: value for name, value in values.items() if name in left_out and name not in order
    }
    keywords |= template_keywords(spec, example)
    keywords |= {"shared_mem": example.shared_mem} if example.shared_mem else {}
    if spec.launch_rules.complete:
        sizes = {"grid": example.grid, "block": example.block}
        keywords |= {name: size for name, size in sizes.items() if size}
    return ExampleCall(spec, values, order, _written(spec, params, values, order), keywords)


def _written(
    spec: RawSpec, params: Mapping[str, CParam], values: Mapping[str, Any], order: Sequence[Any]
) -> tuple[str, ...]:
    """Return the argument that holds the result; none if the function returns it."""
    if spec.returns:
        return ()
    writable = [param.name for param in params.values() if param.is_written]
    if spec.params is None:
        writable = [str(one) for one in order if isinstance(values.get(str(one)), np.ndarray)]
    if not writable:
        raise SpecError(f"kernel {spec.name!r} writes to none of its arguments")
    return (writable[-1],)


def template_keywords(spec: RawSpec, example: Example) -> dict[str, int]:
    """Return the integers of the template in an example's call: its own, or the first ones."""
    declaration = spec.declaration()
    first = declaration.template.values_of(_example_expression(spec, example))
    chosen = {name: first[name] for name in declaration.values if name in first}
    if not example.name_expression:
        chosen = {name: value for name, value in chosen.items() if name not in spec.defaults}
    return {**chosen, **example.sizes}


def _example_expression(spec: RawSpec, example: Example) -> str:
    return example.name_expression or spec.declaration().name_expressions[0]


def _template_arguments(spec: RawSpec, example: Example) -> dict[str, str]:
    """Bind placeholders by the name expression that the example calls: T of ``f<float>``."""
    found = spec.declaration().template.types_of(_example_expression(spec, example))
    rows = {letter: dtypes.from_ctype(text) for letter, text in found.items()}
    return {letter: row.name for letter, row in rows.items() if row}


def _c_dtype(spec: RawSpec, param: CParam, bound: Mapping[str, str]) -> str:
    row = dtypes.from_ctype(param.type)
    known = {**spec.structs, **bound}
    if param.type in known:
        return known[param.type]
    if row is None:
        raise SpecError(f"example of {spec.name!r}: no dtype is known for {param}")
    return row.name


def _value(spec: Spec, example: Example, name: str, dtype: str) -> Any:
    """Return a random array, or the number the example gives as the kernel will see it."""
    if name in example.shapes:
        seed = zlib.crc32(f"{spec.name}.{name}".encode())
        found = random_array(example.shapes[name], dtype, seed, (example.low, example.high))
        return with_values(name, found, example.values.get(name, ""))
    if name in example.scalars:
        return numpy_dtype(dtype).type(example.scalars[name]).item()
    raise SpecError(
        f"example of {spec.name!r}: give {name!r} a shape under 'shapes' or a value under 'scalars'"
    )


def with_values(name: str, array: Array, expression: str) -> Array:
    """Return a random array as an expression of the example changes it.

    Parameters
    ----------
    name : str
        Name of the argument, which is that of the array in the expression.
    array : array
        Random numbers.
    expression : str
        From the example's `values`; empty: the numbers are the argument.

    Raises
    ------
    SpecError
        If the expression fails, or its value has another shape.
    """
    if not expression:
        return array
    names = {name: array, "np": np, "math": math, "__builtins__": _BUILTINS}
    try:
        with np.errstate(all="ignore"):
            found = np.asarray(eval(expression.strip(), names))
            return np.broadcast_to(found, array.shape).astype(array.dtype)
    except Exception as error:
        raise SpecError(f"example: values of {name!r}: {type(error).__name__}: {error}") from error


def integer_span(kind: str, span: tuple[float, float]) -> tuple[int, int]:
    """Return the least and the largest of the random integers of a kind of dtype."""
    low, high = span if span != (-1.0, 1.0) else (-_INTEGER_SPAN, _INTEGER_SPAN)
    return int(max(0, low) if kind == "u" else low), int(high)


def random_array(
    shape: tuple[int, ...], dtype: str, seed: int, span: tuple[float, float] = (-1.0, 1.0)
) -> Array:
    """Return random numbers of a dtype, the same for the same arguments."""
    generator = np.random.default_rng(seed)
    kind = dtypes.lookup(dtype).kind
    if kind == "b":
        return generator.integers(0, 2, shape).astype(bool)
    if kind in "iu":
        low, high = integer_span(kind, span)
        return generator.integers(low, high + 1, shape).astype(numpy_dtype(dtype))
    values = generator.uniform(*span, shape)
    if kind == "c":
        values = values + 1j * generator.uniform(*span, shape)
    return np.asarray(values).astype(numpy_dtype(dtype))
