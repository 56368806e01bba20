"""Atomic functions that CUDA has not, in operations and in `jit`, against the same updates in turn."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec import jit
from tests.devices import ArrayDevice

SMALL = ("int8", "uint8", "int16", "uint16")
HALVES = ("float16", "bfloat16")
SUMS = (*SMALL, "int64", "uint64", *HALVES, "float32", "float64", "complex64", "complex128")
ORDERED = (*SMALL, "int64", *HALVES, "float32", "float64")
BITS = (*SMALL, "int32", "int64", "uint64")
CELLS = 7  # odd: nothing behind the last one belongs to the array

UPDATES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "Add": (np.add, SUMS),
    "Sub": (np.subtract, SUMS),
    "Min": (np.minimum, ORDERED),
    "Max": (np.maximum, ORDERED),
    "And": (np.bitwise_and, BITS),
    "Or": (np.bitwise_or, BITS),
    "Xor": (np.bitwise_xor, BITS),
}


def dtype_of(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, name, name))


def drawn(dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
    """Numbers whose sums are exact, in each type's range: from each thread -1, 0 or 1."""
    rng = np.random.default_rng(size)
    values = rng.integers(-1, 2, size).astype(dtype)
    return values + 1j * rng.integers(-1, 2, size).astype(dtype) if dtype.kind == "c" else values


@pytest.mark.parametrize("dtype", dict.fromkeys((*SUMS, *ORDERED, *BITS)))
def test_in_operations(device: ArrayDevice, dtype: str) -> None:
    names = [name for name, (_, dtypes) in UPDATES.items() if dtype in dtypes]
    outputs = [f"raw T y{name}, T old{name}" for name in names]
    text = "; ".join(f"old{name} = atomic{name}(&y{name}[j], x)" for name in names)
    kernel = kspec.ElementwiseKernel("T x, int32 j", ", ".join(outputs), text, "own_atomics")
    x = drawn(dtype_of(dtype), 3000).astype(dtype_of(dtype))
    where = np.random.default_rng(1).integers(0, CELLS, x.size).astype(np.int32)
    start = np.full(CELLS, 3, x.dtype)
    results = [device.array(one) for _ in names for one in (start, np.zeros_like(x))]
    kernel(device.array(x), device.array(where), *results)
    for name, y, old in zip(names, results[::2], results[1::2], strict=True):
        wanted = start.copy()
        UPDATES[name][0].at(wanted, where, x)
        np.testing.assert_array_equal(device.numpy(y), wanted, name)
        if x.dtype.kind != "c":  # whose parts are read one after the other
            found = device.numpy(old)
            assert all(start[cell] in found[where == cell] for cell in range(CELLS)), name


@pytest.mark.parametrize("dtype", [*SMALL, "int64", "uint64", *HALVES, "float64"])
def test_exchange(device: ArrayDevice, dtype: str) -> None:
    kernel = kspec.ElementwiseKernel(
        "T x", "raw T y, T old", "old = atomicExch(&y[i % 3], x)", "exchanged"
    )
    x = (np.arange(96) + 4).astype(dtype_of(dtype))
    y, old = device.array(np.arange(3).astype(x.dtype)), device.array(np.zeros_like(x))
    kernel(device.array(x), y, old)
    everything = np.append(np.arange(3).astype(x.dtype), x)
    np.testing.assert_array_equal(
        np.sort(np.append(device.numpy(old), device.numpy(y))), np.sort(everything)
    )


@pytest.mark.parametrize("dtype", [*SMALL, "int64", "uint64"])
def test_compare_and_swap(device: ArrayDevice, dtype: str) -> None:
    kernel = kspec.ElementwiseKernel(
        "T x", "raw T y, T old", "old = atomicCAS(&y[i % 3], T(1), x)", "swapped"
    )
    x = (np.arange(90) + 2).astype(dtype)
    y, old = device.array(np.array([0, 1, 2], dtype)), device.array(np.zeros_like(x))
    kernel(device.array(x), y, old)
    found = device.numpy(old)
    assert (found[::3] == 0).all()
    assert (found[2::3] == 2).all()
    assert (found[1::3] == 1).sum() == 1
    winner = x[1::3][found[1::3] == 1]
    np.testing.assert_array_equal(device.numpy(y), [0, winner[0], 2])


def test_nan_gives_way(device: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel(
        "T x", "raw T y", "atomicMin(&y[0], x); atomicMax(&y[1], x)", "bounds"
    )
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        x = np.array([np.nan, 3, np.nan, -2], dtype_of(dtype))
        y = device.array(np.full(2, np.nan, x.dtype))
        kernel(device.array(x), y)
        np.testing.assert_array_equal(device.numpy(y).astype(float), [-2, 3])


@jit.rawkernel()
def update(x: Any, where: Any, total: Any, least: Any, most: Any) -> None:
    i = jit.grid(1)
    if i < x.size:
        jit.atomic_add(total, where[i], x[i])
        jit.atomic_min(least, where[i], x[i])
        jit.atomic_max(most, where[i], x[i])


@jit.rawkernel()
def update_complex(x: Any, where: Any, total: Any, least: Any) -> None:
    i = jit.grid(1)
    if i < x.size:
        jit.atomic_add(total, where[i], x[i])
        jit.atomic_sub(least, where[i], x[i])


@pytest.mark.parametrize("dtype", [*SMALL, *HALVES, "complex64", "complex128"])
def test_in_jit(device: ArrayDevice, dtype: str) -> None:
    x = drawn(dtype_of(dtype), 1000).astype(dtype_of(dtype))
    where = np.random.default_rng(2).integers(0, CELLS, x.size).astype(np.int32)
    is_complex = dtype.startswith("complex")
    names = ["Add", "Sub"] if is_complex else ["Add", "Min", "Max"]
    cells = [device.array(np.full(CELLS, 3, x.dtype)) for _ in names]
    kernel = update_complex if is_complex else update
    kernel((4,), (256,), (device.array(x), device.array(where), *cells))
    for name, got in zip(names, cells, strict=True):
        wanted = np.full(CELLS, 3, x.dtype)
        UPDATES[name][0].at(wanted, where, x)
        np.testing.assert_array_equal(device.numpy(got), wanted)
