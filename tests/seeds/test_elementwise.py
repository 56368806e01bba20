"""Documented results of elementwise kernels, with CuPy's constructor and as generated functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.seeds.generated import generated_module

SQUARED_DIFF = kspec.ElementwiseKernel(
    "float32 x, float32 y", "float32 z", "z = (x - y) * (x - y)", "squared_diff"
)
SQUARED_DIFF_GENERIC = kspec.ElementwiseKernel(
    "T x, T y", "T z", "z = (x - y) * (x - y)", "squared_diff_generic"
)
SQUARED_DIFF_GENERIC_TYPE = kspec.ElementwiseKernel(
    "T x, T y",
    "T z",
    """
        T diff = x - y;
        z = diff * diff;
    """,
    "squared_diff_generic",
)
SQUARED_DIFF_SUPER_GENERIC = kspec.ElementwiseKernel(
    "X x, Y y", "Z z", "z = (x - y) * (x - y)", "squared_diff_super_generic"
)
ADD_REVERSE = kspec.ElementwiseKernel(
    "T x, raw T y", "T z", "z = x + y[_ind.size() - i - 1]", "add_reverse"
)
CLIPPED_RELU = kspec.ElementwiseKernel(
    "float64 x, float64 cap", "float64 y", "y = min(max(x, 0.0), cap)", "clipped_relu"
)
ABS_SQUARED = kspec.ElementwiseKernel(
    "complex128 z",
    "float64 mag2",
    "mag2 = z.real() * z.real() + z.imag() * z.imag()",
    "abs_squared",
)

DIFF_XY = np.array([[0, 0, 0, 0, 0], [25, 25, 25, 25, 25]], np.float32)
DIFF_X5 = np.array([[25, 16, 9, 4, 1], [0, 1, 4, 9, 16]], np.float32)


def either(stem: str, name: str, *constructed: Callable[..., Any]) -> pytest.MarkDecorator:
    """Run a test with the constructed kernels and with the generated function."""
    kernels = [pytest.param(lambda k=kernel: k, id="constructor") for kernel in constructed]
    generated = pytest.param(lambda: getattr(generated_module(stem), name), id="generated")
    return pytest.mark.parametrize("kernel_of", [*kernels, generated])


def x_and_y(device: ArrayDevice, dtype: str = "float32") -> tuple[Any, Any]:
    return device.array(np.arange(10, dtype=dtype).reshape(2, 5)), device.array(
        np.arange(5, dtype=dtype)
    )


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)


@either("math", "squared_diff", SQUARED_DIFF)
def test_squared_diff(kernel_of: Any, device: ArrayDevice) -> None:
    x, y = x_and_y(device)
    assert_same(device.numpy(kernel_of()(x, y)), DIFF_XY)


@either("math", "squared_diff", SQUARED_DIFF)
def test_squared_diff_of_a_scalar(kernel_of: Any, device: ArrayDevice) -> None:
    x, _ = x_and_y(device)
    assert_same(device.numpy(kernel_of()(x, 5)), DIFF_X5)


@either("math", "squared_diff", SQUARED_DIFF)
def test_squared_diff_into_a_given_output(kernel_of: Any, device: ArrayDevice) -> None:
    x, y = x_and_y(device)
    z = device.empty((2, 5), "float32")
    assert kernel_of()(x, y, z) is z
    assert_same(device.numpy(z), DIFF_XY)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16", "complex64"])
@either("math", "squared_diff_generic", SQUARED_DIFF_GENERIC, SQUARED_DIFF_GENERIC_TYPE)
def test_squared_diff_generic(kernel_of: Any, device: ArrayDevice, dtype: str) -> None:
    x, y = x_and_y(device, dtype)
    assert_same(device.numpy(kernel_of()(x, y)), DIFF_XY.astype(dtype))
    assert_same(device.numpy(kernel_of()(x, 5)), DIFF_X5.astype(dtype))


@either("math", "squared_diff_super_generic", SQUARED_DIFF_SUPER_GENERIC)
def test_squared_diff_super_generic(kernel_of: Any, device: ArrayDevice) -> None:
    x, _ = x_and_y(device, "int32")
    _, y = x_and_y(device, "float32")
    z = device.empty((2, 5), "float64")
    assert kernel_of()(x, y, z) is z
    assert_same(device.numpy(z), DIFF_XY.astype("float64"))


def test_squared_diff_super_generic_needs_its_output(place: ArrayDevice) -> None:
    x, y = x_and_y(place)
    # CuPy raises KeyError, which kspec's TypeError also is.
    with pytest.raises(KeyError, match="Z"):
        SQUARED_DIFF_SUPER_GENERIC(x, y)
    with pytest.raises(TypeError, match="no array decides the type Z"):
        SQUARED_DIFF_SUPER_GENERIC(x, y)
    # The generated function's signature says so, and type checkers with it.
    with pytest.raises(TypeError, match="'z'"):
        generated_module("math").squared_diff_super_generic(x, y)


@either("math", "add_reverse", ADD_REVERSE)
def test_add_reverse(kernel_of: Any, device: ArrayDevice) -> None:
    x = device.array(np.arange(5, dtype="float32"))
    y = device.array(np.array([10, 20, 30, 40, 50], "float32"))
    expected = np.array([50, 41, 32, 23, 14], "float32")
    assert_same(device.numpy(kernel_of()(x, y)), expected)
    # "y can be arbitrarily shaped and strode"
    assert_same(device.numpy(kernel_of()(x, y[::-1])), np.array([10, 21, 32, 43, 54], "float32"))


@either("activations", "clipped_relu", CLIPPED_RELU)
def test_clipped_relu(kernel_of: Any, device: ArrayDevice) -> None:
    source = np.random.default_rng(0).normal(scale=5, size=10_000)
    y = kernel_of()(device.array(source), 6.0)
    assert_same(device.numpy(y), np.minimum(np.maximum(source, 0), 6))


@either("complex", "abs_squared", ABS_SQUARED)
def test_abs_squared(kernel_of: Any, device: ArrayDevice) -> None:
    random = np.random.default_rng(1)
    z = random.normal(size=10_000) + 1j * random.normal(size=10_000)
    result = device.numpy(kernel_of()(device.array(z)))
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, np.abs(z) ** 2, rtol=1e-14)
