"""The least a launch from Python can cost: the driver through ctypes, everything prepared.

What a bound launch is compared with: no check, no look-up, nothing packed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.machines import address_of
from kspec.compiler import compile_source
from kspec.compiler.target import target_for_capability
from kspec.model.stages import CudaSource
from kspec.runtime import driver
from kspec.runtime.driver.module import DriverModule

CODE = """
extern "C" __global__ void add(const float* x, const float* y, float* z, long long n) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
"""
_THREADS = 128


class _LaunchConfig(ctypes.Structure):
    """``CUlaunchConfig``."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_mem", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


def floor_call(arrays: Sequence[Any], n: int) -> Callable[[], object]:
    """Return a call that adds n floats of two arrays into a third, by ``cuLaunchKernelEx``."""
    ordinal = driver.current_ordinal()
    target = target_for_capability(*driver.compute_capability(ordinal))
    image = compile_source(CudaSource("floor.cu", CODE), target)
    module = DriverModule(ordinal, image.code)
    function = module.get_function("add")
    values: list[Any] = [ctypes.c_void_p(address_of(array)) for array in arrays]
    values.append(ctypes.c_longlong(n))
    table = (ctypes.c_void_p * 4)(*map(ctypes.addressof, values))
    config = _LaunchConfig()
    config.grid[:] = (-(-n // _THREADS), 1, 1)
    config.block[:] = (_THREADS, 1, 1)
    launch = ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx
    handle = ctypes.c_void_p(int(function))
    # Made once: converting an argument costs more than passing it.
    arguments = (ctypes.byref(config), ctypes.c_void_p.from_param(handle), table, None)

    def call() -> object:
        if launch(*arguments):
            raise RuntimeError("cuLaunchKernelEx failed")
        return keep

    keep = (arrays, values, config, module)
    return call
