"""sanitize="memory" and "init": every access outside of an array is found, with its line."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kspec.host.buffers import HostBuffer
from tests.host.checked import COMPILERS, FINE, Checked, place_of

TEXT = (
    FINE
    + r"""__constant__ float table[4] = {1, 2, 3, 4};
extern "C" __global__ void store(float* x, int i) { if (threadIdx.x == 7) x[i] = 1; }
extern "C" __global__ void load(float* x, int i) { if (threadIdx.x == 7) x[0] = x[i]; }
extern "C" __global__ void add(float* x, int i) { atomicAdd(&x[i], 1.0f); }
extern "C" __global__ void maximum(int* x, int i) { atomicMax(&x[i], 1); }
extern "C" __global__ void dynamic(float* x, int i) {
  extern __shared__ float s[];
  s[(int)threadIdx.x + i] = 1;
  x[threadIdx.x] = 0;
}
extern "C" __global__ void two_arrays(float* x, int i) {
  __shared__ float a[64], b[64];
  a[threadIdx.x + i] = 1;
  b[threadIdx.x] = 2;
  x[threadIdx.x] = b[threadIdx.x];
}
extern "C" __global__ void constant(float* x) { x[threadIdx.x] = table[threadIdx.x & 3]; }
extern "C" __global__ void local(float* x) {
  float a[8];
  for (int k = 0; k < 8; k++) a[k] = x[k];
  x[threadIdx.x] = a[threadIdx.x & 7];
}
struct Point { char tag; double value; };
extern "C" __global__ void partly(float* x, int n) {
  __shared__ float s[64];
  if (threadIdx.x < n) s[threadIdx.x] = 1;
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x];  // partly
}
extern "C" __global__ void padded(float* x) {
  __shared__ Point a[64], b[64];
  a[threadIdx.x].tag = 1;
  a[threadIdx.x].value = 2;
  b[threadIdx.x] = a[threadIdx.x];
  x[threadIdx.x] = b[threadIdx.x].value;
}
extern "C" __global__ void counted(int* x) {
  __shared__ int count;
  atomicAdd(&count, 1);
  __syncthreads();
  x[0] = count;
}
extern "C" __global__ void unwritten_dynamic(float* x) {
  extern __shared__ float s[];
  x[threadIdx.x] = s[threadIdx.x];  // dynamic
}
"""
)


@pytest.fixture(params=COMPILERS)
def program(request: pytest.FixtureRequest) -> Checked:
    return Checked(TEXT, "init,memory", request.param)


@pytest.fixture
def floats() -> np.ndarray:
    return np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("name", "index", "words"),
    [
        ("store", 64, "write of 4 bytes at 0 bytes past the end of argument 0 (256 bytes)"),
        ("store", -1, "write of 4 bytes at 4 bytes before argument 0 (256 bytes)"),
        ("load", 70, "read of 4 bytes at 24 bytes past the end of argument 0 (256 bytes)"),
    ],
)
def test_numpy_array(
    program: Checked, floats: np.ndarray, name: str, index: int, words: str
) -> None:
    fault = program.fault(name, (2, 3), 64, floats, index)
    assert fault.kind == "illegal-address"
    place = place_of(TEXT, "x[i] = 1" if name == "store" else "x[0] = x[i]")
    assert fault.message.endswith(f"{words} at {place} [block (0,0,0) thread (7,0,0)]")


@pytest.mark.parametrize(("name", "snippet"), [("add", "atomicAdd(&x"), ("maximum", "atomicMax")])
def test_atomic(program: Checked, floats: np.ndarray, name: str, snippet: str) -> None:
    fault = program.fault(name, 1, 1, floats, 64)
    assert fault.kind == "illegal-address"
    words = "atomic of 4 bytes at 0 bytes past the end of argument 0 (256 bytes)"
    assert f"{words} at {place_of(TEXT, snippet)}" in fault.message


def test_buffer_of_the_device(program: Checked) -> None:
    buffer = HostBuffer(99)  # the last float lies half outside
    program("store", 1, 64, buffer, 23)
    fault = program.fault("store", 1, 64, buffer, 24)
    assert fault.kind == "illegal-address" and "offset 96 of buffer #" in fault.message


def test_null(program: Checked) -> None:
    fault = program.fault("store", 1, 64, ctypes.c_void_p(0), 0)
    assert fault.kind == "illegal-address" and "address 0x0: a null pointer" in fault.message


def test_memory_nobody_passed(program: Checked, floats: np.ndarray) -> None:
    fault = program.fault("store", 1, 64, ctypes.c_void_p(floats.ctypes.data), 0)
    assert "which is in no array argument" in fault.message


def test_dynamic_shared_memory(program: Checked, floats: np.ndarray) -> None:
    program("dynamic", 1, 64, floats, 0, shared_mem=256)
    fault = program.fault("dynamic", 1, 64, floats, 1, shared_mem=256)
    words = "0 bytes past the end of dynamic shared memory (256 bytes)"
    assert f"{words} at {place_of(TEXT, 's[(int)threadIdx.x + i] = 1')}" in fault.message
    fault = program.fault("dynamic", 1, 64, floats, -1, shared_mem=256)
    assert "4 bytes before dynamic shared memory" in fault.message


def test_from_one_shared_array_into_the_next(program: Checked, floats: np.ndarray) -> None:
    program("two_arrays", 3, 64, floats, 0)
    fault = program.fault("two_arrays", 1, 64, floats, 1)
    words = "0 bytes past the end of __shared__ a (256 bytes)"
    assert f"{words} at {place_of(TEXT, 'a[threadIdx.x + i] = 1')}" in fault.message
    assert "thread (63,0,0)]" in fault.message


@pytest.mark.parametrize("name", ["constant", "local", "padded"])
def test_no_alarm(program: Checked, floats: np.ndarray, name: str) -> None:
    program(name, 2, 64, floats)


def test_uninitialized_shared_memory(program: Checked, floats: np.ndarray) -> None:
    program("partly", 2, 64, floats, 64)
    fault = program.fault("partly", 2, 64, floats, 63)
    assert fault.kind == "uninitialized-read"
    words = "read of 4 unwritten bytes at offset 252 of __shared__ s (256 bytes)"
    place = place_of(TEXT, "x[threadIdx.x] = s[threadIdx.x];  // partly")
    assert fault.message.endswith(f"{words} at {place} [block (0,0,0) thread (63,0,0)]")


@pytest.mark.parametrize(
    ("name", "snippet"), [("counted", "atomicAdd(&count"), ("unwritten_dynamic", "// dynamic")]
)
def test_uninitialized_atomic_and_dynamic(
    program: Checked, floats: np.ndarray, name: str, snippet: str
) -> None:
    fault = program.fault(name, 1, 64, floats, shared_mem=256)
    assert fault.kind == "uninitialized-read"
    assert f"at {place_of(TEXT, snippet)} [" in fault.message
