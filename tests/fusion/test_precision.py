"""float16 and bfloat16 in fused functions: computed in float32, rounded where they are stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kspec import ElementwiseKernel, fuse
from kspec.fusion.types import common_dtype, loop
from tests.devices import ArrayDevice

NARROW = [np.dtype("float16"), np.dtype(ml_dtypes.bfloat16)]
Function = Callable[..., Any]
RANDOM = np.random.default_rng(5)
TWICE = ElementwiseKernel("T x", "T y", "y = x + x", "twice")


def drawn(dtype: np.dtype[Any], *shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(dtype)


# Functions whose operations are rounded correctly, so that all bits are known. `c` makes a number of
# a Python one, which fused functions take as it is; NumPy would make float32 of bfloat16 beside it.
EXACT: dict[str, Function] = {
    "polynomial": lambda x, y, c: (x * y + x) * y - x / c(3),
    "constants": lambda x, y, c: x * c(0.1) + y * c(1e-3),
    "beyond the largest": lambda x, y, c: (x * c(6e4) * c(6e4)) / c(6e4) / c(6e4) + y,
    "comparisons": lambda x, y, c: np.where(x * c(1.001) > x, x * y, y),
    "square root": lambda x, y, c: np.sqrt(x * x + y * y),
    "with bools": lambda x, y, c: x * (y > c(0)) + x,
    "moved": lambda x, y, c: (x * c(1.001))[::-1].T.T + y[:, ::-1],
}


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_what_is_stored_is_rounded_once(name: str, dtype: np.dtype[Any]) -> None:
    function = EXACT[name]
    x, y = drawn(dtype, 9, 7), drawn(dtype, 9, 7)
    got = fuse(device="host")(lambda x, y: function(x, y, float))(x, y)
    assert got.dtype == dtype
    wanted = function(x.astype("f4"), y.astype("f4"), np.float32).astype(dtype)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("name", EXACT)
def test_round_each_has_the_bits_of_numpy(name: str, dtype: np.dtype[Any]) -> None:
    function = EXACT[name]
    x, y = drawn(dtype, 9, 7), drawn(dtype, 9, 7)
    with np.errstate(all="ignore"):
        wanted = function(x, y, dtype.type)
    got = fuse(device="host", round_each=True)(lambda x, y: function(x, y, float))(x, y)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype("f4"), wanted.astype("f4"))


def test_reductions_are_not_rounded_in_between(place: ArrayDevice) -> None:
    x = drawn(NARROW[0], 64, 1000) + np.float16(1)

    def centred(x: Any) -> Any:
        return x - x.mean(-1, keepdims=True)

    exact = centred(x.astype("f8"))
    rounded = np.abs(
        place.numpy(fuse(device="host", round_each=True)(centred)(place.array(x))) - exact
    )
    once = np.abs(place.numpy(fuse(device="host")(centred)(place.array(x))) - exact)
    assert once.max() < 2e-3, "numbers between 4 and 8 are 4e-3 apart"
    assert once.mean() < 0.9 * rounded.mean()


def test_numbers_keep_their_digits() -> None:
    x = np.full(3, 1000, "f2")

    def moved(x: Any, s: Any) -> Any:
        return (x * s - 1000) * 100

    assert fuse(device="host")(moved)(x, 1.0002).tolist() == pytest.approx([20] * 3, rel=1e-2)
    assert fuse(device="host", round_each=True)(moved)(x, 1.0002).tolist() == [0] * 3
    given = np.float16(1.0002)  # 1.0, for NumPy's scalars have their own precision
    assert fuse(device="host")(moved)(x, given).tolist() == [0] * 3


ASKED: dict[str, tuple[Function, Function]] = {
    # What a function says to round, and what the type's own numbers decide.
    "astype": (
        lambda x: (x * 1.001).astype(x.dtype) - x,
        lambda x: (x * np.float32(1.001)).astype(x.dtype) - x,
    ),
    "nextafter": (lambda x: np.nextafter(x, x + x), lambda x: np.nextafter(x, x + x)),
    "isinf": (lambda x: np.isinf(x * 60000), lambda x: np.isinf(x * x.dtype.type(60000))),
    "a kernel": (lambda x: TWICE(x * 1.001), lambda x: (x * np.float32(1.001)).astype(x.dtype) * 2),
    "a copy in memory": (
        lambda x: (x * 1.001).reshape(-1)[::2] - x.reshape(-1)[::2],
        lambda x: (x * np.float32(1.001)).astype(x.dtype).reshape(-1)[::2] - x.reshape(-1)[::2],
    ),
}


@pytest.mark.parametrize("name", ASKED)
def test_rounded_where_it_counts(name: str) -> None:
    x = drawn(NARROW[0], 6, 11)
    function, plain = ASKED[name]
    with np.errstate(all="ignore"):
        wanted = plain(x)
    np.testing.assert_array_equal(fuse(device="host")(function)(x), wanted)


def test_arguments_are_written_in_their_type() -> None:
    x = drawn(NARROW[0], 5, 8)
    before = x.copy()

    def scaled(x: Any) -> Any:
        x *= 1.001
        x -= x.mean(-1, keepdims=True)
        return x * 2

    got = fuse(device="host")(scaled)(x)
    wide = before.astype("f4") * np.float32(1.001)
    wide -= wide.mean(-1, keepdims=True)
    np.testing.assert_allclose(x, wide, atol=1e-3)
    assert x.dtype == got.dtype == np.float16
    np.testing.assert_allclose(got, wide * 2, atol=2e-3)


def test_other_types_are_as_before() -> None:
    """A function without narrow types is the same program either way."""
    x = RANDOM.normal(size=(4, 8)).astype("f4")

    def function(x: Any) -> Any:
        return (x * 0.1).astype("f8") - x.sum(-1, keepdims=True)

    one, other = (
        fuse(device="host", round_each=each)(function).to_spec(x) for each in (False, True)
    )
    assert one == other


# What bfloat16 becomes beside others, whatever NumPy and ml_dtypes say; 8-bit floats likewise.
TOGETHER = {
    "bool": "bfloat16",
    "int8": "bfloat16",
    "uint8": "bfloat16",
    "int16": "float32",
    "uint16": "float32",
    "int32": "float64",
    "uint32": "float64",
    "int64": "float64",
    "uint64": "float64",
    "float16": "float32",
    "bfloat16": "bfloat16",
    "float8_e5m2": "float32",
    "float32": "float32",
    "float64": "float64",
    "complex64": "complex64",
    "complex128": "complex128",
}


@pytest.mark.parametrize("other", TOGETHER)
def test_types_beside_bfloat16(other: str) -> None:
    wanted = TOGETHER[other]
    assert common_dtype(("bfloat16", other)) == common_dtype((other, "bfloat16")) == wanted
    assert loop("add", (other, "bfloat16")) == ((wanted, wanted), (wanted,))
    assert loop("less", ("bfloat16", other)) == ((wanted, wanted), ("bool",))
    small = wanted.replace("bfloat16", "float8_e4m3fn")
    assert common_dtype((other.replace("bfloat16", "float8_e4m3fn"), "float8_e4m3fn")) == small


@pytest.mark.parametrize("number", [True, 2, 2.5, 2j, np.int32(2), np.float16(2.5)])
def test_numbers_beside_bfloat16(number: Any) -> None:
    x, alone = drawn(NARROW[1], 9), type(number) in (bool, int, float)
    got = fuse(device="host")(lambda x: x.astype(np.result_type(x, number)) * number)(x)
    wanted = np.dtype(TOGETHER["complex64" if number == 2j else np.asarray(number).dtype.name])
    wanted = x.dtype if alone else wanted
    assert got.dtype == wanted
    wide = np.result_type(wanted, np.float32)
    exact = x.astype(wide) * np.asarray(number).astype(wide)
    np.testing.assert_array_equal(got, exact.astype(wanted))


def test_arrays_that_are_no_arguments_have_types_too() -> None:
    got = fuse(device="host")(lambda x: x.astype(np.result_type(x, np.arange(3), "int8")))(
        drawn(NARROW[1], 9)
    )
    assert got.dtype == "float64"


def test_an_exponent_beside_bfloat16_stays_an_integer() -> None:
    x, n = drawn(NARROW[1], 9), np.arange(9)
    for dtype in ("i1", "i2", "i4"):
        got = fuse(device="host")(lambda x, n: np.ldexp(x, n))(x, n.astype(dtype))
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(got, (x.astype("f4") * 2.0**n).astype(x.dtype))
