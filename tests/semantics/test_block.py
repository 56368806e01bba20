"""Shared memory and barriers of a block."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

BLOCK_SOURCE = r"""
extern "C" __global__ void reverse_static(int* x) {
  __shared__ int s[256];
  int t = threadIdx.x, n = blockDim.x;
  x += blockIdx.x * n;
  s[t] = x[t];
  __syncthreads();
  x[t] = s[n - 1 - t];
}
extern "C" __global__ void reverse_dynamic(int* x) {
  extern __shared__ int d[];
  int t = threadIdx.x, n = blockDim.x;
  x += blockIdx.x * n;
  d[t] = x[t];
  __syncthreads();
  x[t] = d[n - 1 - t];
}
extern "C" __global__ void transpose(const float* x, float* y, int n) {
  __shared__ float tile[16][17];
  int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
  if (i < n && j < n) tile[threadIdx.y][threadIdx.x] = x[i * n + j];
  __syncthreads();
  i = blockIdx.x * 16 + threadIdx.y, j = blockIdx.y * 16 + threadIdx.x;
  if (i < n && j < n) y[i * n + j] = tile[threadIdx.x][threadIdx.y];
}
extern "C" __global__ void two_types(double* out) {
  extern __shared__ __align__(16) unsigned char raw[];
  double* numbers = reinterpret_cast<double*>(raw);
  int* counts = reinterpret_cast<int*>(numbers + blockDim.x);
  numbers[threadIdx.x] = 0.5 * threadIdx.x;
  counts[threadIdx.x] = 2 * threadIdx.x;
  __syncthreads();
  unsigned other = threadIdx.x ^ 1;
  out[threadIdx.x] = numbers[other] + counts[other];
}
extern "C" __global__ void counts(int* out) {
  int t = threadIdx.x;
  int* o = out + 5 * (blockIdx.x * blockDim.x + t);
  o[0] = __syncthreads_count(t % 3 == 0);
  o[1] = __syncthreads_and(t >= 0) != 0;
  o[2] = __syncthreads_and(t > 0) != 0;
  o[3] = __syncthreads_or(t == 17) != 0;
  o[4] = __syncthreads_or(t < 0) != 0;
}
// A ring: every step needs two barriers.
extern "C" __global__ void shift(int* x, int steps) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = x[t];
  for (int k = 0; k < steps; k++) {
    __syncthreads();
    int v = s[(t + 1) % blockDim.x];
    __syncthreads();
    s[t] = v;
  }
  x[t] = s[t];
}
// Threads that have returned no longer take part in barriers.
extern "C" __global__ void early_return(int* out, int active) {
  __shared__ int s[64];
  int t = threadIdx.x;
  if (t >= active) return;
  s[t] = t;
  __syncthreads();
  out[t] = s[active - 1 - t];
}
"""


@pytest.mark.parametrize("kernel", ["reverse_static", "reverse_dynamic"])
@pytest.mark.parametrize("threads", [1, 32, 77, 256])
def test_shared_memory(kernel: str, threads: int, place: ArrayDevice) -> None:
    x = np.arange(5 * threads, dtype=np.int32).reshape(5, threads)
    dynamic = 4 * threads if kernel == "reverse_dynamic" else 0
    (out,) = run(place, BLOCK_SOURCE, kernel, (5,), (threads,), x, shared_mem=dynamic)
    np.testing.assert_array_equal(out, x[:, ::-1])


def test_two_dimensional_tile(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).random((50, 50), dtype=np.float32)
    _, out = run(place, BLOCK_SOURCE, "transpose", (4, 4), (16, 16), x, np.zeros_like(x), 50)
    np.testing.assert_array_equal(out, x.T)


def test_dynamic_memory_of_two_types(place: ArrayDevice) -> None:
    (out,) = run(place, BLOCK_SOURCE, "two_types", (1,), (64,), np.zeros(64), shared_mem=64 * 12)
    np.testing.assert_array_equal(out, 2.5 * (np.arange(64) ^ 1))


def test_barriers_that_count(place: ArrayDevice) -> None:
    (out,) = run(place, BLOCK_SOURCE, "counts", (2,), (100,), np.zeros((200, 5), np.int32))
    assert (out == [34, 1, 0, 1, 0]).all()


def test_many_barriers(place: ArrayDevice) -> None:
    x = np.arange(128, dtype=np.int32)
    (out,) = run(place, BLOCK_SOURCE, "shift", (1,), (128,), x, 50)
    np.testing.assert_array_equal(out, np.roll(x, -50))


def test_threads_that_returned_are_not_waited_for(place: ArrayDevice) -> None:
    (out,) = run(place, BLOCK_SOURCE, "early_return", (1,), (64,), np.zeros(64, np.int32), 40)
    np.testing.assert_array_equal(out, [*range(39, -1, -1), *[0] * 24])
