"""Bool arrays whose bytes are neither 0 nor 1: as for NumPy, each of them is True."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from tests.devices import ArrayDevice

RANDOM = np.random.default_rng(7)
PATTERN = np.array([0, 1, 2, 255, 128, 0, 3, 64], np.uint8)


def odd(*shape: int) -> Any:
    return RANDOM.choice(PATTERN, shape).view(bool)


def views(device: ArrayDevice) -> list[tuple[Any, Any]]:
    """Return arrays in every layout that kernels know, each with NumPy's of the same bytes."""
    base, flat = odd(40, 48), odd(1037)
    on_device, flat_on_device = device.array(base), device.array(flat)
    slices: list[Any] = [
        np.s_[:],
        np.s_[1:, 3:],
        np.s_[:, ::3],
        np.s_[5],
        np.s_[:, 7],
        np.s_[3:4, 4:],
    ]
    found = [(on_device[one], base[one]) for one in slices]
    found += [(on_device.T, base.T), (flat_on_device, flat), (flat_on_device[1:], flat[1:])]
    return [*found, (flat_on_device[::-1], flat[::-1])]


def test_the_bytes_arrive(device: ArrayDevice) -> None:
    base = odd(64)
    x = device.numpy(device.array(base))
    assert set(x.view(np.uint8)) >= {2, 255}


OPERATIONS = {
    "y = x": lambda x: x.astype(np.int32),
    "y = x + 1": lambda x: x + np.int32(1),
    "y = x ? 10 : 20": lambda x: np.where(x, 10, 20),
    "y = !x": lambda x: np.logical_not(x),
    "y = x == true": lambda x: x,
    "y = x ^ true": lambda x: x ^ True,
    "if (x) y = 3; else y = 4": lambda x: np.where(x, 3, 4),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_elementwise(device: ArrayDevice, operation: str) -> None:
    kernel = kspec.ElementwiseKernel("bool x", "int32 y", operation, "of_odd_bools")
    for x, reference in views(device):
        np.testing.assert_array_equal(device.numpy(kernel(x)), OPERATIONS[operation](reference))


def test_results_are_zero_or_one(device: ArrayDevice) -> None:
    for operation in ("y = x", "y = x && z", "y = z ? x : z"):
        kernel = kspec.ElementwiseKernel("T x, T z", "T y", operation, "bools_of_bools")
        for x, _ in views(device):
            y = device.numpy(kernel(x, x)).view(np.uint8)
            assert set(y.ravel()) <= {0, 1}


def test_outputs_that_are_read(device: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel("bool x", "bool y, int32 z", "z = y + x; y = y != x", "read")
    x, y = odd(40, 48), odd(40, 48)
    for cut in (np.s_[:], np.s_[1:, 3:], np.s_[:, ::3]):
        mine, z = device.array(y), device.zeros((40, 48), "int32")
        kernel(device.array(x)[cut], mine[cut], z[cut])
        got = device.numpy(mine)[cut]
        assert (got.view(np.uint8) == (x[cut] != y[cut])).all()
        assert (device.numpy(z)[cut] == x[cut].astype(int) + y[cut]).all()


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_reductions(device: ArrayDevice, axis: int | None) -> None:
    total = kspec.ReductionKernel("bool x", "int64 y", "x", "a + b", "y = a", "0", "count_odd")
    every = kspec.ReductionKernel("T x", "T y", "x", "a && b", "y = a", "true", "every_odd")
    for shape in ((300, 48), (7, 2049), (2000, 3)):
        x = odd(*shape)
        for one, reference in ((device.array(x), x), (device.array(x)[:, ::-1], x[:, ::-1])):
            got = device.numpy(total(one, axis=axis))
            np.testing.assert_array_equal(got, reference.sum(axis=axis))
            np.testing.assert_array_equal(device.numpy(every(one, axis=axis)), reference.all(axis))


def test_fused(device: ArrayDevice) -> None:
    fuse = kspec.fuse(device="host" if device.place == "host" else None)

    @fuse
    def elements(x: Any, y: Any) -> Any:
        return np.where(x, y, 2.5) + x * 3 + (x == y) - np.logical_xor(x, y)

    @fuse
    def rows(x: Any, y: Any) -> Any:
        return (
            (x * y).sum(axis=1),
            (x & (y > 0)).any(axis=1),
            x.astype("int32") - x.mean(axis=1)[:, None],
        )

    x, y = odd(40, 48), RANDOM.random((40, 48))
    mine, other = device.array(x), device.array(y)
    np.testing.assert_allclose(device.numpy(elements(mine, other)), elements.func(x, y), rtol=1e-12)
    for got, want in zip(rows(mine, other), rows.func(x, y), strict=True):
        np.testing.assert_allclose(device.numpy(got), want, rtol=1e-12)


@jit.rawkernel()
def _jitted(x: Any, y: Any, z: Any, n: Any) -> None:
    i = jit.grid(1)
    if i < n:
        y[i] = x[i] + 1
        if x[i]:
            y[i] += 10
        z[i] = x[i]


def test_jitted(device: ArrayDevice) -> None:
    x = odd(200)
    y, z = device.zeros(200, "int32"), device.zeros(200, "bool")
    for cut in (np.s_[:], np.s_[::2]):
        mine = device.array(x)[cut]
        n = mine.shape[0]
        _jitted[(4,), (64,)](mine, y, z, n)
        np.testing.assert_array_equal(device.numpy(y)[:n], x[cut] * 11 + 1)
        np.testing.assert_array_equal(device.numpy(z)[:n].view(np.uint8), x[cut] * 1)
