"""sanitize="race": races are found between threads, warps and blocks; order is understood."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kspec
from tests.host.checked import COMPILERS, FINE, Checked, place_of

RACES = r"""
extern "C" __global__ void no_barrier(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];        // write
  x[threadIdx.x] = s[63 - threadIdx.x];   // read
}
extern "C" __global__ void scan(float* x) {
  __shared__ float s[64];
  unsigned t = threadIdx.x;
  s[t] = x[t];
  __syncthreads();
  for (unsigned k = 1; k < 64; k <<= 1) {
    float v = t >= k ? s[t - k] : 0;      // a barrier is missing after this line
    s[t] += v;
    __syncthreads();
  }
  x[t] = s[t];
}
extern "C" __global__ void count(int* n) {
  *n += 1;                                // must be an atomicAdd
}
extern "C" __global__ void read_after_atomic(int* n) {
  atomicAdd(n, 1);
  if (*n == 7) n[1] = 1;                  // plain
}
extern "C" __global__ void warp_synchronous(float* x) {
  __shared__ volatile float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  s[threadIdx.x] = s[threadIdx.x ^ 1];    // needs __syncwarp()
  x[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void half_a_warp(float* x) {
  __shared__ float s[32];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp(threadIdx.x < 16 ? 0xffffu : 0xffff0000u);
  x[threadIdx.x] = s[threadIdx.x ^ 16];   // the other half
}
extern "C" __global__ void neighbours(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) x[i] = x[i + 1];         // in place
}
__device__ unsigned int tickets;
template <bool FENCE> __device__ void sum_blocks(float* part, float* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    part[blockIdx.x] = blockIdx.x;        // partial result
    if (FENCE) __threadfence();
    last = atomicInc(&tickets, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float total = 0;
    for (int i = 0; i < gridDim.x; i++) total += part[i];
    *out = total;
  }
}
extern "C" __global__ void ticket_without_fence(float* p, float* o) { sum_blocks<false>(p, o); }
"""
CLEAN = r"""
extern "C" __global__ void ticket(float* part, float* out) { sum_blocks<true>(part, out); }
extern "C" __global__ void reverse(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void histogram(const unsigned char* x, int* h, int n) {
  __shared__ int s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&s[x[i]], 1);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&h[i], s[i]);
}
extern "C" __global__ void exchange(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  float v = s[threadIdx.x ^ 1];
  __syncwarp();
  s[threadIdx.x] = v;
  x[threadIdx.x] = v;
}
extern "C" __global__ void double_buffer(float* x) {
  __shared__ float s[2][64];
  int t = threadIdx.x;
  s[0][t] = x[t];
  for (int k = 0; k < 5; k++) {
    __syncthreads();
    s[(k + 1) & 1][t] = s[k & 1][(t + 1) & 63];
  }
  __syncthreads();
  x[t] = s[1][t];
}
extern "C" __global__ void grid_stride(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += 1;
}
extern "C" __global__ void sum(float* x, float* out) {
  __shared__ float w[2];
  float v = x[threadIdx.x];
  for (int k = 16; k; k >>= 1) v += __shfl_down_sync(~0u, v, k);
  if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = v;
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(out, w[0] + w[1]);
}
extern "C" __global__ void bytes(unsigned char* x) { x[blockIdx.x * blockDim.x + threadIdx.x] += 1; }
__device__ int mutex;
extern "C" __global__ void locked(int* n) {
  for (bool done = false; !done;) {
    if (atomicCAS(&mutex, 0, 1) == 0) {
      __threadfence();
      *n += 1;
      __threadfence();
      atomicExch(&mutex, 0);
      done = true;
    }
  }
}
extern "C" __global__ void by_warps(float* x, float* part, float* out) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
    float total = 0;
    for (int i = 0; i < 32; i++) total += s[threadIdx.x + i];
    int warps = gridDim.x * 2, warp = blockIdx.x * 2 + threadIdx.x / 32;
    part[warp] = total;
    __threadfence();
    if (atomicAdd(&tickets, 1) == warps - 1) {
      total = 0;
      for (int i = 0; i < warps; i++) total += part[i];
      *out = total;
      tickets = 0;
    }
  }
}
"""
TEXT = FINE + RACES + CLEAN
ORDERS = ("forward", "reverse", "random:1")


@pytest.fixture(params=COMPILERS)
def program(request: pytest.FixtureRequest) -> Checked:
    return Checked(TEXT, "race", request.param)


def floats(n: int = 64) -> np.ndarray:
    return np.ones(n, np.float32)


def test_message(program: Checked) -> None:
    fault = program.fault("no_barrier", 1, 64, floats())
    write, read = place_of(TEXT, "// write"), place_of(TEXT, "// read")
    assert fault.kind == "race"
    assert fault.message == (
        "no_barrier: race: write-after-read hazard on shared memory: write of 4 bytes by thread 32 "
        f"at {write} conflicts with read by thread 31 at {read} [block (0,0,0) thread (32,0,0)]\n"
        "  at offset 128 of __shared__ s (256 bytes); no __syncthreads() orders them"
    )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "grid", "arguments", "snippet", "words"),
    [
        ("no_barrier", 1, (floats(),), "// read", "on shared memory"),
        ("scan", 1, (floats(),), "// a barrier is missing", "on shared memory"),
        ("count", 1, (np.zeros(2, np.int32),), "*n += 1;     ", "on global memory"),
        ("read_after_atomic", 1, (np.zeros(2, np.int32),), "// plain", "on global memory"),
        ("warp_synchronous", 1, (floats(),), "needs __syncwarp()", "no __syncwarp()"),
        ("half_a_warp", 1, (floats(),), "// the other half", "no __syncwarp()"),
        ("neighbours", 2, (floats(128), 128), "// in place", "on global memory"),
        (
            "ticket_without_fence",
            32,
            (floats(), floats()),
            "// partial result",
            "__threadfence() and an atomic",
        ),
    ],
)
def test_race(
    program: Checked,
    order: str,
    name: str,
    grid: int,
    arguments: tuple[object, ...],
    snippet: str,
    words: str,
) -> None:
    block = 32 if "warp" in name else 64
    fault = program.fault(name, grid, block, *arguments, order=order)
    assert fault.kind == "race"
    assert place_of(TEXT, snippet) in fault.message and words in fault.message
    assert re.search(r"(read|write|atomic) by thread \d+ .*at kernel.cu:\d+ \[block", fault.message)


def test_between_blocks_names_both(program: Checked) -> None:
    fault = program.fault("count", 2, 1, np.zeros(1, np.int32))
    assert "by thread 0 of block (0,0,0) at kernel.cu" in fault.message
    assert "[block (1,0,0) thread (0,0,0)]\n" in fault.message
    assert "blocks are not ordered" in fault.message


def test_threads_of_a_2d_block(program: Checked) -> None:
    fault = program.fault("count", 1, (8, 8), np.zeros(1, np.int32))
    assert "by thread (1,0,0) at kernel.cu" in fault.message


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("name", "grid", "arguments"),
    [
        ("ticket", 32, (floats(), floats())),
        ("reverse", 1, (floats(),)),
        ("histogram", 8, (np.arange(4096).astype(np.uint8), np.zeros(256, np.int32), 4096)),
        ("exchange", 1, (floats(),)),
        ("double_buffer", 1, (floats(),)),
        ("grid_stride", 3, (floats(1000), 1000)),
        ("sum", 1, (floats(), floats())),
        ("bytes", 4, (np.zeros(256, np.uint8),)),
        ("locked", 3, (np.zeros(1, np.int32),)),
        ("by_warps", 4, (floats(), floats(), floats())),
    ],
)
def test_no_false_alarm(
    program: Checked, order: str, name: str, grid: int, arguments: tuple[object, ...]
) -> None:
    program(name, grid, 64, *arguments, order=order)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_all_modes_together(compiler: str) -> None:
    program = Checked(TEXT, "init,memory,race,undefined", compiler)
    total = floats()
    program("ticket", 32, 64, floats(), total)
    assert total[0] == 31 * 16
    assert program.fault("scan", 1, 64, floats()).kind == "race"
    assert program.fault("grid_stride", 3, 64, floats(1000), 1001).kind == "illegal-address"


def test_elements_of_small_arrays_race() -> None:
    add = kspec.ElementwiseKernel("T a, int64 room", "raw T total", "total[room] += a", "add_up")
    with pytest.raises(kspec.HostFault, match=r"add_up.*: race: .* hazard on global memory"):
        add(np.ones(100), np.arange(100) % 2, np.zeros(2), sanitize="race")
    apart = kspec.ElementwiseKernel("T a, int64 room", "raw T total", "total[room] += a", "add_up")
    total = np.zeros(100)
    apart(np.ones(100), np.arange(100), total, sanitize="race")
    np.testing.assert_array_equal(total, 1)
