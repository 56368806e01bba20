"""`cache_info()` of every kind of kernel."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from tests.devices import ArrayDevice

CODE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }'


@jit.rawkernel()
def doubled(x: Any, n: Any) -> None:
    i = jit.grid(1)
    if i < n:
        x[i] *= 2


def test_elementwise_kernels(place: ArrayDevice) -> None:
    kernel = kspec.ElementwiseKernel("T x", "T y", "y = x", "counted")
    assert kernel.cache_info() == kspec.CacheInfo(0, 0, 0)
    for size in (3, 3, 3, 5, 5):
        kernel(place.zeros(size, "float32"))
    assert kernel.cache_info() == kspec.CacheInfo(1, 2, 0)
    for _ in range(3):
        kernel(place.zeros(3, "float32"), place.zeros(3, "float32"))
    assert kernel.cache_info() == kspec.CacheInfo(2, 3, 0), "given outputs are other types"
    for size in range(10, 40):
        kernel(place.zeros(size, "float32"))
    assert kernel.cache_info() == kspec.CacheInfo(2, 9, 1)


def test_reductions(place: ArrayDevice) -> None:
    kernel = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "counted_sum")
    x = place.zeros((4, 4), "float32")
    for axis in (0, 0, 0, 1):
        kernel(x, axis=axis)
    # A launch of many blocks has memory of its own, which makes no difference here.
    assert kernel.cache_info().entries == 1
    assert kernel.cache_info().plans == 2


@pytest.mark.parametrize("params", [None, "float* x"])
def test_raw_kernels(params: str | None, place: ArrayDevice) -> None:
    kernel = kspec.RawKernel(CODE, "twice", params=params)
    x = place.zeros(4, "float32")
    for block in (4, 4, 4, 2):
        kernel((1,), (block,), (x,))
    assert kernel.cache_info() == kspec.CacheInfo(1, 2, 0)
    kernel.max_dynamic_shared_size_bytes = 2048
    assert kernel.cache_info() == kspec.CacheInfo(), "launches have another limit now"


def test_jitted_kernels(place: ArrayDevice) -> None:
    x = place.zeros(4, "float32")
    for _ in range(4):
        doubled[1, 32](x, 4)
    assert doubled.cache_info() == kspec.CacheInfo(1, 1, 0)


def test_fused_functions() -> None:
    function = kspec.fuse(device="host")(lambda x: (x - x.sum()) * 2)
    assert function.cache_info() == kspec.CacheInfo()
    for _ in range(4):
        function(np.ones(4, "float32"))
    assert function.cache_info() == kspec.CacheInfo(2, 2, 0), "a sum, and the rest"
    function.clear_cache()
    assert function.cache_info() == kspec.CacheInfo()


def test_it_is_frozen() -> None:
    info = kspec.CacheInfo()
    assert (info.max_entries, info.max_plans) == (64, 256)
    with pytest.raises(dataclasses.FrozenInstanceError):
        info.plans = 1  # type: ignore[misc]
