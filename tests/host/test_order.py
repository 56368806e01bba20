"""order=: threads and blocks run in another order, and a missing barrier shows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.host.checked import COMPILERS, FINE, Checked

TEXT = (
    FINE
    + r"""
extern "C" __global__ void shift(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = threadIdx.x;
  x[threadIdx.x] = threadIdx.x ? s[threadIdx.x - 1] : 0;   // right only in forward order
}
extern "C" __global__ void turns(int* next, int* threads, int* blocks) {
  int rank = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  int block = blockIdx.x + gridDim.x * blockIdx.y;
  int turn = atomicAdd(next, 1);
  threads[turn] = rank;
  blocks[turn] = block;
}
extern "C" __global__ void after_barrier(int* next, int* threads) {
  __syncthreads();
  threads[atomicAdd(next, 1)] = threadIdx.x;
}
extern "C" __global__ void sum(const float* x, float* out) {
  __shared__ float s[64];
  int t = threadIdx.x;
  s[t] = x[blockIdx.x * 64 + t];
  for (int k = 32; k; k >>= 1) {
    __syncthreads();
    if (t < k) s[t] += s[t + k];
  }
  if (t == 0) out[blockIdx.x] = s[0];
}
"""
)


@pytest.fixture(params=COMPILERS)
def program(request: pytest.FixtureRequest) -> Checked:
    return Checked(TEXT, "", request.param)


def turns(program: Checked, order: str) -> tuple[list[int], list[int]]:
    """Return the threads and the blocks in the order they ran."""
    next_, threads, blocks = (np.zeros(n, np.int32) for n in (1, 240, 240))
    program("turns", (3, 2), (4, 5, 2), next_, threads, blocks, order=order)
    return threads.tolist(), blocks.tolist()


def test_a_missing_barrier_shows(program: Checked) -> None:
    right = np.maximum(np.arange(64) - 1, 0)
    results = {}
    for order in ("forward", "reverse", "random:3"):
        x = np.zeros(64, np.float32)
        program("shift", 1, 64, x, order=order)
        results[order] = bool((x == right).all())
    assert results == {"forward": True, "reverse": False, "random:3": False}


def test_forward(program: Checked) -> None:
    threads, blocks = turns(program, "forward")
    if blocks == sorted(blocks):  # one operating-system thread, or a quick one
        assert threads == [*range(40)] * 6


def test_reverse(program: Checked) -> None:
    threads, blocks = turns(program, "reverse")
    assert threads == [*range(39, -1, -1)] * 6
    assert blocks == [block for block in range(5, -1, -1) for _ in range(40)]


def test_random(program: Checked) -> None:
    threads, blocks = turns(program, "random:7")
    assert sorted(zip(blocks, threads, strict=True)) == [
        (block, thread) for block in range(6) for thread in range(40)
    ]
    assert threads[:40] not in ([*range(40)], threads[40:80])
    assert turns(program, "random:7") == (threads, blocks)  # a seed is an order
    assert turns(program, "random:8") != (threads, blocks)


def test_random_also_after_barriers(program: Checked) -> None:
    next_, threads = np.zeros(1, np.int32), np.zeros(64, np.int32)
    program("after_barrier", 1, 64, next_, threads, order="random:1")
    assert sorted(threads.tolist()) == [*range(64)] != threads.tolist()


@pytest.mark.parametrize("order", ["reverse", "random:1", "random:999999999999999999"])
def test_right_kernels_do_not_care(program: Checked, order: str) -> None:
    x, out = np.arange(64 * 33, dtype=np.float32), np.zeros(33, np.float32)
    program("sum", 33, 64, x, out, order=order)
    np.testing.assert_array_equal(out, x.reshape(33, 64).sum(axis=1))
