"""Elementwise kernels that fused functions call become part of theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import ElementwiseKernel, FusionError, fuse
from tests.devices import ArrayDevice

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(5, 24)).astype("f4")
W = RANDOM.normal(size=24).astype("f4")
HELPED = ElementwiseKernel(
    "T x, float32 s",
    "T y, T z",
    "y = scaled(x) * s;\nz = -x",
    "helped",
    preamble="#define FACTOR 3\n__device__ inline float scaled(float v) { return FACTOR * v; }",
)
ADD = ElementwiseKernel("T x, T y", "T z", "z = x + y + T(100)", "add")  # not NumPy's
ROOT = ElementwiseKernel("T x", "float64 y", "if (x < T(0)) { y = -1; continue; } y = sqrt(x)", "r")


def check(function: Any, wanted: Any, place: ArrayDevice, *args: Any) -> None:
    fused = fuse(device="host")(function)
    found = fused(*map(place.array, args))
    several = found if isinstance(found, tuple) else (found,)
    for one, other in zip(several, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        got = place.numpy(one)
        assert (got.dtype, got.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(got, other, rtol=2e-5, atol=2e-5)


def test_before_and_behind(place: ArrayDevice) -> None:
    def f(x: Any, w: Any) -> Any:
        y, z = HELPED(2 * x, 0.5)
        return ADD(y, z * w) + 1, z

    check(f, (X * np.float32(3) - 2 * X * W + 101, -2 * X), place, X, W)


def test_one_that_is_called_as_a_ufunc_is(place: ArrayDevice) -> None:
    check(lambda x: ADD(x, x), 2 * X + 100, place, X)
    check(lambda x: ADD(ADD(x, 1), x)[::-1, 1:], (2 * X + 201)[::-1, 1:], place, X)


@pytest.mark.parametrize("mode", ["always", "never"])
def test_in_reductions_and_rows(
    mode: str, place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_FUSE_ROWS", mode)
    total = (3 * X * 0.5).sum(-1, keepdims=True) + W[:5, None] + 100

    def behind(x: Any, w: Any) -> Any:
        return ADD(HELPED(x, 0.5)[0].sum(-1, keepdims=True), w)

    check(behind, total.astype("f4"), place, X, W[:5, None])
    check(lambda x, w: x / behind(x, w), (X / total).astype("f4"), place, X, W[:5, None])


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_types(dtype: str, place: ArrayDevice) -> None:
    x = np.array([[-4, 0, 4, 9]], dtype)
    check(lambda x: ROOT(x), np.array([[-1.0, 0, 2, 3]]), place, x)


def test_numbers_are_given(place: ArrayDevice) -> None:
    fused = fuse(device="host")(lambda x, a: ADD(x, a))
    for number in (2, 2.5, np.float64(1.5)):
        np.testing.assert_allclose(place.numpy(fused(place.array(X), number)), X + 100 + number)


def test_what_returns(place: ArrayDevice) -> None:
    one = ElementwiseKernel("T x", "T y", "y = x", "one", return_tuple=True)
    none = ElementwiseKernel("T x", "T y", "y = x", "none", no_return=True)
    (found,) = fuse(device="host")(lambda x: one(x))(place.array(X))
    np.testing.assert_array_equal(place.numpy(found), X)
    assert fuse(device="host")(lambda x: none(x))(place.array(X)) is None


def test_to_spec_is_whole() -> None:
    (spec,) = fuse(device="host")(lambda x: HELPED(x, 2)[0]).to_spec(X)
    again = ElementwiseKernel.from_spec(spec)
    np.testing.assert_allclose(again(X), 6 * X, rtol=1e-6)


REFUSED = [
    (ElementwiseKernel("raw T x, T k", "T y", "y = x[0]", "a"), 2, "its parameter x is raw"),
    (ElementwiseKernel("T x", "T y", "y = i", "b"), 1, "depends on where an element is"),
    (ElementwiseKernel("T x", "T y", "y = n", "c"), 1, "reads n, the number of elements"),
    (ElementwiseKernel("T x", "T y", "y = x; return;", "d"), 1, "its operation returns"),
    (ElementwiseKernel("T x", "T y", "y = x", "e", loop_prep="int k = 0"), 1, "it has a loop_prep"),
    (
        ElementwiseKernel("T x", "T y", "y = x", "f", options=("--use_fast_math",)),
        1,
        r"options of its own \(--use_fast_math\)",
    ),
    (
        ElementwiseKernel("T x, int32 k", "T y", "y = x", "g"),
        2,
        "k is declared int32, but the array has",
    ),
    (
        ElementwiseKernel(
            "T x", "T y", "y = x(1)", "h", windows={"x": {"reach": [1], "boundary": "wrap"}}
        ),
        1,
        "its operation reads neighbours of x",
    ),
    (
        ElementwiseKernel("T x", "T y", "y = x * N", "k", sizes={"N": [2]}),
        1,
        r"it has sizes \(N\)",
    ),
    (
        ElementwiseKernel("T x[n]", "T y", "y = x(0)", "l"),
        1,
        r"its parameter T x\[n\] has core dimensions",
    ),
    (
        ElementwiseKernel("T x", "T y[2]", "y(0) = y(1) = x", "m"),
        1,
        r"its parameter T y\[2\] has core dimensions",
    ),
    (ADD, 3, "takes 2 inputs .*not 3; assign what it returns"),
]


@pytest.mark.parametrize(("kernel", "count", "message"), REFUSED, ids=lambda one: str(one)[:9])
def test_what_can_not_be_part(kernel: Any, count: int, message: str) -> None:
    with pytest.raises(FusionError, match=rf"{message}(.*\n)*.*test_inline.py"):
        fuse(device="host")(lambda x: kernel(*[x] * count))(X)


def test_types_that_do_not_fit() -> None:
    with pytest.raises(FusionError, match="add: T is float32 by x, but y has dtype float64"):
        fuse(device="host")(lambda x: ADD(x, x.astype("f8")))(X)
    mixed = ElementwiseKernel("T x, S k", "S y", "y = k", "mixed")
    with pytest.raises(
        FusionError, match=r"mixed: no array decides the type S \(of k, y\); numbers"
    ):
        fuse(device="host")(lambda x: mixed(x, 1))(X)
    with pytest.raises(FusionError, match="add takes no size in a fused function"):
        fuse(device="host")(lambda x: ADD(x, x, size=3))(X)


def test_reductions() -> None:
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum")  # not NumPy's
    with pytest.raises(TypeError, match=r"sum: argument x .*a traced array; call the kernel"):
        fuse(device="host")(lambda x: total(x))(X)


def test_generated_kernels() -> None:
    math = pytest.importorskip("kspec_kernels.math")
    with pytest.raises(FusionError, match=r"kernel squared_diff is not fused: make it with kspec"):
        fuse(device="host")(lambda x: math.squared_diff(x, x))(X)
