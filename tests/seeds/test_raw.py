"""Documented results of raw kernels and modules, with CuPy's classes and as generated functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.seeds import sources
from tests.seeds.generated import generated_module
from tests.seeds.test_elementwise import assert_same

TABLE = 2 * np.arange(25, dtype=np.float32).reshape(5, 5)
TABLE_COMPLEX = (
    np.arange(25, dtype=np.complex64) + 2j * np.arange(25, dtype=np.complex64)
).reshape(5, 5)


def from_constructor(kernel: Any) -> Any:
    """Return a launcher with the generated functions' interface."""
    return lambda grid, block, *args: kernel(grid, block, args)


def raw(stem: str, name: str, code: str, symbol: str) -> pytest.MarkDecorator:
    kernel = kspec.RawKernel(code, symbol)
    return pytest.mark.parametrize(
        "kernel_of",
        [
            pytest.param(lambda: from_constructor(kernel), id="constructor"),
            pytest.param(lambda: getattr(generated_module(stem), name), id="generated"),
        ],
    )


@raw("raw", "my_add", sources.MY_ADD, "my_add")
def test_my_add(kernel_of: Any, device: ArrayDevice) -> None:
    x1 = device.array(np.arange(25, dtype=np.float32).reshape(5, 5))
    x2 = device.array(np.arange(25, dtype=np.float32).reshape(5, 5))
    y = device.zeros((5, 5), "float32")
    assert kernel_of()((5,), (5,), x1, x2, y) is None
    assert_same(device.numpy(y), TABLE)


@raw("complex", "complex_axpy", sources.MY_FUNC, "my_func")
def test_complex_kernel(kernel_of: Any, device: ArrayDevice) -> None:
    x1 = device.array(np.arange(25, dtype=np.complex64).reshape(5, 5))
    x2 = device.array(1j * np.arange(25, dtype=np.complex64).reshape(5, 5))
    y = device.zeros((5, 5), "complex64")
    kernel_of()((5,), (5,), x1, x2, y, np.float32(2.0))
    assert_same(device.numpy(y), TABLE_COMPLEX)


@raw("vectors", "vector_add", sources.VECTOR_ADD, "vector_add")
def test_vector_add_checks_its_bounds(kernel_of: Any, device: ArrayDevice) -> None:
    random = np.random.default_rng(3)
    n = 100_003
    a, b = random.normal(size=n), random.normal(size=n)
    c = device.empty(n)
    blocks = (n + 255) // 256
    kernel_of()((blocks,), (256,), device.array(a), device.array(b), c, n)
    assert_same(device.numpy(c), a + b)


MODULE = kspec.RawModule(code=sources.LOADED_FROM_SOURCE)


@pytest.mark.parametrize("origin", ["constructor", "generated"])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("test_sum", np.arange(100.0) + 1), ("test_multiply", np.arange(100.0))],
)
def test_module_with_two_kernels(
    device: ArrayDevice, origin: str, name: str, expected: np.ndarray
) -> None:
    size = 10
    x1 = device.array(np.arange(size**2, dtype=np.float32).reshape(size, size))
    x2 = device.array(np.ones((size, size), np.float32))
    y = device.zeros((size, size), "float32")
    if origin == "generated":
        kernel = getattr(generated_module("raw"), name)
        kernel((size,), (size,), x1, x2, y, size**2)
    else:
        MODULE.get_function(name)((size,), (size,), (x1, x2, y, size**2))
    assert_same(device.numpy(y), expected.astype(np.float32).reshape(size, size))


NAME_EXPRESSIONS = ["fx3<float>", "fx3<double>"]
TEMPLATE = kspec.RawModule(
    code=sources.FX3, options=("-std=c++11",), name_expressions=NAME_EXPRESSIONS
)


@pytest.mark.parametrize("origin", ["constructor", "generated"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_template_kernels(device: ArrayDevice, origin: str, dtype: str) -> None:
    size = 10
    a = device.array(np.arange(size, dtype=dtype))
    if origin == "generated":
        generated_module("raw").fx3((1,), (size,), a, size)
    else:
        expression = NAME_EXPRESSIONS[dtype == "float64"]
        TEMPLATE.get_function(expression)((1,), (size,), (a, size))
    assert_same(device.numpy(a), np.arange(0, 30, 3).astype(dtype))
