"""The ziglang wheel as the only compiler: runtime, kernels and C++ headers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kspec.compiler.host.compile import compile_host
from kspec.model.stages import CudaSource

ziglang = pytest.importorskip("ziglang")

SCRIPT = r"""
import numpy as np
from kspec.compiler.host import find_compiler
from tests.host.checked import Checked
from tests.host.conftest import Program
from kspec.errors import HostFault

assert find_compiler().kind == "zig"
TEXT = '''
%s
#define KERNEL extern "C" __global__
KERNEL void meet(int* x) { if (threadIdx.x < 32) __syncthreads(); else __syncthreads(); }
extern "C" __global__ void sum(const float* x, float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = sinf(x[threadIdx.x]);
  for (int k = 32; k; k >>= 1) {
    __syncthreads();
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
  }
  if (threadIdx.x == 0) atomicAdd(out, s[0]);
}
extern "C" __global__ void divide(int* x) { x[threadIdx.x] = 7 / x[threadIdx.x]; }
extern "C" __global__ void pause() {
  long long begin = clock64();
  while (clock64() - begin < 100000000) ;
}
extern "C" __global__ void local(int* x, int i) {
  int a[4];
  for (int k = 0; k < 4; k++) a[k] = x[k];
  __syncthreads();
  a[threadIdx.x == 1 ? i : 0] = 1;
  __syncthreads();
  x[threadIdx.x] = a[i & 3];
}
extern "C" __global__ void invert(int* x) { x[threadIdx.x] = 1 / x[threadIdx.x]; }
'''
program = Program(TEXT)
x, out = np.linspace(0, 1, 64, dtype=np.float32), np.zeros(1, np.float32)
program("sum", 8, 64, x, out)
np.testing.assert_allclose(out[0], 8 * np.sin(x).sum(), rtol=1e-5)
values = np.ones(64, np.int32)
values[9] = 0
program("pause", 1, 1, timeout=600)
checked = Checked(TEXT, "bounds")
checked("local", 1, 4, values, 3)
for index in (*range(-20, 0), *range(4, 24), 10**6, -10**6):
    try:
        checked("local", 1, 4, values, index)
    except HostFault as fault:
        assert fault.kind == "illegal-address" and "thread (1,0,0)" in fault.message, fault
    else:
        raise AssertionError(index)
try:
    program("divide", 1, 64, values)
except HostFault as fault:
    assert fault.kind == "integer-division" and "thread (9,0,0)" in fault.message, fault
try:
    program("meet", 1, 64, values)
except HostFault as fault:
    assert ":4:50 (threads 0" in fault.message and ":4:72 (threads 32" in fault.message, fault
try:  # clang compares here instead of dividing
    program("invert", 1, 64, values)
except HostFault as fault:
    assert fault.kind == "integer-division" and "thread (9,0,0)" in fault.message, fault
    print("ok")
"""


@pytest.mark.slow
@pytest.mark.parametrize("include", ["", "#include <type_traits>"])
def test_zig(tmp_path, include):
    zig = Path(ziglang.__file__).parent / "zig"
    environment = dict(os.environ, KSPEC_CXX=f"{zig} c++", KSPEC_CACHE_DIR=str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT % include],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.stdout == "ok\n", done.stderr


def test_types_and_limits_need_no_library(monkeypatch):
    monkeypatch.setenv("KSPEC_CXX", f"{Path(ziglang.__file__).parent / 'zig'} c++")
    text = """
    #include <cfloat>
    #include <climits>
    #include <cstddef>
    #include <cstdint>
    extern "C" __global__ void k(std::uint64_t* x, std::nullptr_t) {
      for (std::size_t i = 0; i < 2; i++) atomicAdd(&x[i], INT_MAX + (FLT_MAX > 1) + UINT64_C(2));
    }
    """
    assert set(compile_host(CudaSource("k.cu", text)).symbols) == {"k"}
