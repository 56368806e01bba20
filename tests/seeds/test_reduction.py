"""Documented results of reduction kernels, with CuPy's constructor and as generated functions."""

from __future__ import annotations

from typing import Any

import numpy as np

import kspec
from tests.devices import ArrayDevice
from tests.seeds.test_elementwise import assert_same, either

L2NORM = kspec.ReductionKernel(
    "T x",  # input params
    "T y",  # output params
    "x * x",  # map
    "a + b",  # reduce
    "y = sqrt(a)",  # post-reduction map
    "0",  # identity value
    "l2norm",  # kernel name
)
L2_NORM_SQ = kspec.ReductionKernel(
    "float64 x", "float64 y", "x * x", "a + b", "y = a", "0", "l2_norm_sq"
)


@either("norms", "l2norm", L2NORM)
def test_l2norm(kernel_of: Any, device: ArrayDevice) -> None:
    x = device.array(np.arange(10, dtype=np.float32).reshape(2, 5))
    assert_same(device.numpy(kernel_of()(x, axis=1)), np.array([5.477226, 15.9687195], np.float32))


@either("norms", "l2norm", L2NORM)
def test_l2norm_is_generic(kernel_of: Any, device: ArrayDevice) -> None:
    source = np.arange(10, dtype=np.float64).reshape(2, 5)
    result = device.numpy(kernel_of()(device.array(source)))
    assert result.shape == ()
    np.testing.assert_allclose(result, np.linalg.norm(source))


@either("norms", "l2_norm_sq", L2_NORM_SQ)
def test_l2_norm_sq(kernel_of: Any, device: ArrayDevice) -> None:
    source = np.random.default_rng(2).normal(size=100_000)
    result = device.numpy(kernel_of()(device.array(source)))
    assert result.shape == () and result.dtype == np.float64
    np.testing.assert_allclose(result, np.sum(source**2), rtol=1e-12)
