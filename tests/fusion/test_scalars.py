"""Scalars as NumPy 2 has them: Python's take on the type of what they meet, NumPy's have their own.

The function as it is is the reference: for the dtype of each result, for its values, and for what
a call returns that is computed from scalars alone.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kspec
from kspec import fuse
from kspec.fusion import types
from kspec.fusion.program import ShapedArray, trace
from tests.devices import CUPY, HOST, OWN_CUDA, ArrayDevice, ready
from tests.profiles import examples

ARRAYS = {
    "bool": np.array([True, False]),
    "int8": np.array([3, 4], "i1"),
    "uint16": np.array([3, 4], "u2"),
    "float16": np.array([1.5, 2], "f2"),
    "float32": np.array([1.5, 2.5], "f4"),
    "complex64": np.array([1.5, 2j], "c8"),
}
SCALARS = {
    "True": True,
    "2": 2,
    "1.5": 1.5,
    "2j": 1 + 2j,
    "np.True_": np.True_,
    "np.False_": np.False_,
    "np.int8": np.int8(3),
    "np.uint16": np.uint16(2),
    "np.int64": np.int64(2),
    "np.float16": np.float16(1.5),
    "np.float32": np.float32(1.5),
    "np.float64": np.float64(1.5),
    "np.complex64": np.complex64(1 + 2j),
    "array of int16": np.array(3, "i2"),
    "array of bool": np.array(True),
    "array of float32": np.array(2.5, "f4"),
}
BINARY = (
    *(f"s {one} t" for one in ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!="]),
    "divmod(s, t)[0]", "divmod(s, t)[1]", "np.add(s, t)", "np.where(s > 1, s, t)",
    "np.maximum(s, t)", "np.hypot(s, t)", "np.equal(s, t)", "np.logical_or(s, t)",
)  # fmt: skip
UNARY = (
    "-s", "~s", "+s", "abs(s)", "round(s)", "round(s, 1)", "s.real", "s.imag", "s.conjugate()",
    "np.negative(s)", "np.invert(s)", "np.real(s)", "np.imag(s)", "np.angle(s)", "np.sinc(s)",
    "np.around(s)", "np.around(s, 1)", "np.sqrt(s)", "np.square(s)", "np.sign(s)", "np.conj(s)",
    "np.isnan(s)", "np.nan_to_num(s)", "np.logical_not(s)", "np.copy(s)", "np.clip(s, 0, 2)",
    "np.sum(s)", "np.prod(s)", "np.nansum(s)", "np.nanprod(s)", "np.all(s)", "np.any(s)",
    "np.max(s)", "np.mean(s)", "np.var(s)", "np.argmax(s)", "np.count_nonzero(s)",
    "s + 1", "1 - s", "s * 1.5", "s * 1j", "s * True", "s ** 2", "2 ** s", "s ** 2.0", "s < 2",
    "s == 1", "s ** np.int8(2)", "np.float32(2) * s", "np.True_ + s", "(s < 2) + (s > 1)",
    "(s == 2) * True", "np.array(3) + s", "-(s + 1)", "s + np.True_ + np.True_",
)  # fmt: skip
WITH_ARRAYS = (
    "np.where(a > 1, s, 1)", "np.where(a > 1, s, np.int8(1))", "np.clip(a, s, 3)",
    "np.clip(a, np.int8(1), s)", "np.maximum(a, s)", "np.isclose(a, s)", "np.full_like(a, s)",
    "s * a", "s - a", "s / a", "s // a", "s % a", "a ** s", "a / s", "a // s", "a % s", "a & s",
    "a << s", "a < s", "s >= a", "a == s", "divmod(a, s)", "divmod(s, a)", "np.arctan2(a, s)",
    "(a + s, s + a)", "a + (s + s)", "a * (s < 2)",
)  # fmt: skip
# NumPy's arrays of bool look at what their exponent is; a scalar that a call is given has no value
# yet when it is traced.
BY_VALUE = {("a ** s", "bool", "2"), ("s ** t", "array of bool", "2")}


def function_of(text: str, names: str = "a, s", **known: Any) -> Callable[..., Any]:
    """Return an expression as a function."""
    made: Callable[..., Any] = eval(f"lambda {names}: ({text})", {"np": np, **known})
    return made


def quietly(function: Callable[..., Any], *args: Any) -> Any:
    """Return what a function returns, or the error that it raises."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return function(*args)
        except (TypeError, ValueError, OverflowError, AttributeError) as error:
            return error


def traced(function: Callable[..., Any], *args: Any) -> Any:
    """Return dtypes of results, traced for such arguments; or the error that tracing raises."""
    described = [
        ShapedArray(one.dtype.name, one.shape)
        if isinstance(one, np.ndarray)
        else types.type_of_number(one)
        for one in args
    ]
    made = quietly(trace, function, described, [f"x{k}" for k in range(len(args))], "f")
    if isinstance(made, Exception):
        return made
    returned = made.returned if isinstance(made.returned, tuple) else (made.returned,)
    return tuple(one.dtype for one in returned)


def differs(function: Callable[..., Any], *args: Any) -> str:
    """Return how dtypes differ from NumPy's; an empty text if they do not."""
    wanted, found = quietly(function, *args), traced(function, *args)
    if isinstance(wanted, OverflowError):  # values are not looked at
        return ""
    if isinstance(wanted, Exception):
        return "" if isinstance(found, TypeError | ValueError) else f"{found}, not {wanted!r}"
    several = wanted if isinstance(wanted, tuple) else (wanted,)
    names = tuple(np.asarray(one).dtype.name for one in several)
    return "" if found == names else f"{found}, not {names}"


def _problems(text: str, names: tuple[str, ...], several: bool) -> list[str]:
    found = []
    has_array = "a" in names
    body = text if has_array else f"tuple(one + scalar for scalar in [{text}] for one in (a, b))"
    for array, first in itertools.product(("bool", "float16") if has_array else ("bool",), SCALARS):
        for second in SCALARS if several else ("2",):
            if (text, array, first) in BY_VALUE or (text, first, second) in BY_VALUE:
                continue
            a, b, s, t = ARRAYS[array], ARRAYS["float16"], SCALARS[first], SCALARS[second]
            function = function_of(body, "a, b, s, t")
            known = function_of(body, "a, b, s", t=t)
            for made, args in ((function, (a, b, s, t)), (known, (a, b, s))):
                if problem := differs(made, *args):
                    found.append(f"{array} {first} {second}: {problem}")
    return found


@pytest.mark.parametrize(
    "text",
    [pytest.param(text, marks=pytest.mark.slow if k % 4 else ()) for k, text in enumerate(BINARY)],
)
def test_types_of_two_scalars(text: str) -> None:
    assert not _problems(text, (), several=True)


@pytest.mark.parametrize("text", [one for one in UNARY if not one.startswith("round")])
def test_types_of_scalars(text: str) -> None:
    assert not _problems(text, (), several=False)


@pytest.mark.parametrize("text", WITH_ARRAYS)
def test_types_of_scalars_with_arrays(text: str) -> None:
    assert not _problems(text, ("a",), several=False)


@pytest.mark.parametrize("text", ["round(s)", "round(s, 1)"])
def test_types_of_rounded_scalars(text: str) -> None:
    for name, s in SCALARS.items():
        if not isinstance(s, np.ndarray):  # which Python cannot round
            assert not differs(function_of(f"a + {text}"), ARRAYS["int8"], s), name


def compare(found: Any, wanted: Any, device: ArrayDevice) -> None:
    """Compare a result on a device."""
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            compare(one, other, device)
        return
    wanted = np.asarray(wanted)
    values = device.numpy(found)
    assert values.dtype == wanted.dtype
    bound = 4e-3 if wanted.dtype == "f2" else 3e-5 if wanted.dtype.kind in "fc" else 0
    np.testing.assert_allclose(values, wanted, rtol=bound, atol=bound)


def on_device(value: Any, device: ArrayDevice) -> Any:
    return device.array(value) if isinstance(value, np.ndarray) else value


def test_bools_of_numpy_and_of_python(device: ArrayDevice) -> None:
    x = np.array([1, 5], "i4")
    text = "a + (s + t), a * (s * t), a + (s < t), a + (s == t) + (t == s), a + abs(s), a * (s + 1)"
    for s, t in itertools.product((True, np.True_, np.array(True)), repeat=2):
        function = function_of(text, "a, s, t")
        made = fuse(device="host")(function)
        given = (on_device(one, device) for one in (x, s, t))
        compare(made(*given), function(x, s, t), device)
        if not isinstance(t, np.ndarray):
            function = function_of(text, t=t)
            made = fuse(device="host")(function)
            compare(made(device.array(x), on_device(s, device)), function(x, s), device)


def test_the_next_call_with_another_kind_of_scalar(device: ArrayDevice) -> None:
    """What was traced for a Python number is not for a NumPy scalar of the same value."""
    function = function_of("a + (s + s)")
    made, x = fuse(device="host")(function), np.array([1, 5], "i1")
    for s in (True, np.True_, 1, np.int8(1), np.int16(1), 1.0, np.float64(1), np.float32(1), True):
        compare(made(device.array(x), s), function(x, s), device)


@pytest.mark.parametrize("text", ["-s", "+s", "s - s", "np.negative(s)", "round(s)"])
def test_operators_that_bools_of_numpy_do_not_have(place: ArrayDevice, text: str) -> None:
    function = function_of(f"a * ({text})")
    with pytest.raises(TypeError):
        function(np.ones(3), np.True_)
    with pytest.raises(TypeError):
        fuse(device="host")(function)(place.array(np.ones(3)), np.True_)


def test_orders_of_pythons_complex_numbers(place: ArrayDevice) -> None:
    with pytest.raises(TypeError, match="less is not defined for Python's complex numbers"):
        fuse(device="host")(function_of("a * (s < 2)"))(place.array(np.ones(3)), 2j)
    with pytest.raises(TypeError, match=r"round\(\) is not defined for complex; use np.round"):
        fuse(device="host")(function_of("a * round(s)"))(place.array(np.ones(3)), 2j)


# Values: several expressions in one function, of two scalars that are given or known.

texts = st.lists(
    st.sampled_from((*BINARY, *UNARY, *WITH_ARRAYS)), min_size=8, max_size=8, unique=True
)
scalars = st.sampled_from([*SCALARS])
drawn = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)
_of_values = given(texts, st.sampled_from([*ARRAYS]), scalars, scalars, st.booleans())


def _agrees(
    several: list[str], array: str, first: str, second: str, known: bool, device: ArrayDevice
) -> None:
    a, s, t = ARRAYS[array], SCALARS[first], SCALARS[second]
    names = "a, s" if known else "a, s, t"
    args = (a, s) if known else (a, s, t)
    kept = []
    for text in several:
        by_value = (text, array, first) in BY_VALUE or (text, first, second) in BY_VALUE
        whole = text if text in WITH_ARRAYS else f"a * 0 + ({text}), np.where(a == a, {text}, 0)"
        wanted = quietly(function_of(whole, names, t=t), *args)
        listed = wanted if isinstance(wanted, tuple) else (wanted,)
        if by_value or any(isinstance(one, Exception) or np.isnan(one).any() for one in listed):
            continue
        if not (text.startswith("round") and isinstance(s, np.ndarray)):
            kept.append(f"({whole}{'' if isinstance(wanted, tuple) else ','})")
    if not kept:
        return
    function = function_of(" + ".join(kept), names, t=t)
    if known and isinstance(t, np.ndarray):  # NumPy's own, next to arrays on a GPU as well
        function = function_of(" + ".join(kept), names, t=t[()])
    wanted = quietly(function, *args)
    # NumPy rounds float16 at every step, and its functions of single bytes give float16.
    halves = any(dtype == "f2" or dtype.itemsize == 1 for dtype in map(np.result_type, (a, s, t)))
    made = fuse(device="host", round_each=halves)(function)
    compare(made(*(on_device(one, device) for one in args)), wanted, device)


@_of_values
@settings(drawn, max_examples=examples(30))
def test_values_on_the_host(
    several: list[str], array: str, first: str, second: str, known: bool
) -> None:
    _agrees(several, array, first, second, known, HOST)


@pytest.mark.gpu
@pytest.mark.parametrize("device", [CUPY, OWN_CUDA], ids=str)
@_of_values
@settings(drawn, max_examples=examples(200))
def test_values_on_a_gpu(
    device: ArrayDevice, several: list[str], array: str, first: str, second: str, known: bool
) -> None:
    _agrees(several, array, first, second, known, ready(device))


# What is returned of scalars alone

RETURNED = (
    "s", "s + 1", "(a * 2, s * 2)", "(s, s, -s)", "divmod(s, 2)", "s > 1", "s ** 2", "s * 1j",
    "np.sqrt(s)", "np.add(s, 1)", "np.modf(abs(s))", "np.where(s == 1, s, 0)", "np.sum(s)",
    "np.sinc(s)", "np.around(s, 1)", "round(s)", "round(s, 1)", "s.real", "(s.imag, s.real + 1)",
    "np.clip(s, 0, 1)", "s.conjugate()", "np.real(s)", "np.max(s)", "np.isclose(s, 1)", "abs(s) + np.float32(1)",
    "3", "(a + s, 2, None, np.float32(2.5))", "a.shape", "a.ndim", "(a.sum() * 0 + 1, s + s)",
    "a.size * s", "s * 10 ** 30",
)  # fmt: skip


@pytest.mark.parametrize("text", RETURNED)
def test_scalars_are_returned(device: ArrayDevice, text: str) -> None:
    function = function_of(text)
    made = fuse(device="host")(function)
    a = np.array([1.5, 2], "f4")
    for name, s in SCALARS.items():
        wanted = quietly(function, a, s)
        if isinstance(s, np.ndarray) or isinstance(wanted, Exception):
            continue
        found = quietly(made, device.array(a), s)
        assert isinstance(found, tuple) == isinstance(wanted, tuple)
        several = (
            zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        )
        for one, other in several:
            if isinstance(one, device.kind):
                compare(one, other, device)
            else:
                assert type(one) is type(other), name
                assert one == other, name


def test_returned_scalars_are_those_of_the_call(device: ArrayDevice) -> None:
    made = fuse(device="host")(lambda a, s, n=2: (a * s, s * n, n + 1))
    x = device.array(np.ones(3, "f4"))
    for s in (2, 3, 2.5, np.int8(25)):
        assert made(x, s)[1] == quietly(lambda s: s * 2, s)
        assert made(x, s, 4)[2] == 5


def test_many_steps_to_a_scalar(place: ArrayDevice) -> None:
    def function(a: Any, s: Any) -> Any:
        for _ in range(3000):
            s = s + 1
        return s

    assert fuse(device="host")(function)(place.array(np.ones(3)), 1) == 3001


def test_scalars_of_functions_that_kernels_alone_have(device: ArrayDevice) -> None:
    special = pytest.importorskip("scipy.special")
    found = fuse(device="host")(lambda a, s: special.erf(s))(device.array(np.ones(3)), 0.5)
    np.testing.assert_allclose(np.asarray(found), 0.5204998778130465)


def test_scalars_of_kernels_are_arrays(device: ArrayDevice) -> None:
    twice = kspec.ElementwiseKernel("float64 x", "float64 y", "y = 2 * x", "twice")
    found = fuse(device="host")(lambda a, s: (a + twice(s), twice(s)))(device.array([1.0, 2.0]), 3)
    compare(found, (np.array([7.0, 8.0]), np.array(6.0)), device)


def test_what_is_no_scalar_is_not_returned(place: ArrayDevice) -> None:
    x = place.array(np.ones((5, 7)))
    for text, kind in {
        "[a]": "an array, a number, a tuple of these or None, not a list",
        "{'a': a}": "an array, a number, a tuple of these or None, not a dict",
        "'text'": "an array, a number, a tuple of these or None, not a str",
        "(a, a.shape)": "arrays and numbers in a tuple, not a tuple",
        "np.ones(3)": "an array, a number, a tuple of these or None, not a concrete ndarray",
    }.items():
        with pytest.raises(ValueError, match=f"a fused function returns {kind}"):
            fuse(device="host")(function_of(text))(x, 1)
