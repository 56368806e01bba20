"""Cooperative groups: what only the host device does; the rest is in tests/semantics."""

import ctypes
from typing import Any

import numpy as np
import pytest

from kspec.errors import HostFault

from .conftest import Program

TEXT = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
__device__ float sum(cg::thread_block_tile<16, cg::thread_block> tile, float v) {
  for (int o = tile.size() / 2; o; o /= 2) v += tile.shfl_down(v, o);
  return v;
}
extern "C" __global__ void groups(const float* x, float* o, unsigned* n) {
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  __shared__ float s[64];
  float v = sum(tile, x[block.thread_rank()]);
  if (tile.thread_rank() == 0) s[tile.meta_group_rank()] = v;
  block.sync();
  if (block.thread_rank() == 0)
    for (int i = 0; i < tile.meta_group_size(); i++) o[0] += s[i];
  if (x[block.thread_rank()] > 0.5f) {
    auto active = cg::coalesced_threads();
    if (active.thread_rank() == 0) atomicAdd(n, active.size());
    if (active.ballot(1) != (active.size() == 32 ? ~0u : (1u << active.size()) - 1)) __trap();
  }
  auto warp = cg::tiled_partition<32>(block);
  float m = cg::reduce(warp, x[block.thread_rank()], cg::greater<float>());
  if (block.thread_rank() == 0) o[1] = m;
  cg::sync(tile);
}
"""


def test_groups():
    x = np.random.default_rng(1).random(256, dtype=np.float32)
    out, count = np.zeros(2, np.float32), np.zeros(1, np.uint32)
    Program(TEXT)("groups", 1, 256, x, out, count)
    np.testing.assert_allclose(out, [x.sum(), x[:32].max()], rtol=1e-5)
    assert count[0] == (x > 0.5).sum()


COOPERATIVE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void forever(int* x) { while (atomicAdd(x, 0) == 0) {} }
extern "C" __global__ void late(int* x) {
  cg::this_grid().sync();
  if (blockIdx.x == 3) for (;;) x[0]++;
}
extern "C" __global__ void order(int* x) {
  __shared__ int mine;
  if (threadIdx.x == 0) mine = atomicAdd(x, 1);
  __syncthreads();
  if (threadIdx.x == 0) x[1 + mine] = blockIdx.x;
  cg::this_grid().sync();
  if (threadIdx.x == 0 && x[1 + mine] != blockIdx.x) __trap();
}
"""


def launch(name: str, blocks: int, x: np.ndarray, **options: Any) -> None:
    pointer = ctypes.c_void_p(x.ctypes.data)
    table = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    kernel = Program(COOPERATIVE).module.get_kernel(name)
    address = ctypes.addressof(table)
    kernel.launch((blocks, 1, 1), (8, 1, 1), address, cooperative=True, **options)


@pytest.mark.parametrize("name", ["forever", "late"])
def test_timeout_of_a_cooperative_launch(name):
    with pytest.raises(HostFault) as caught:
        launch(name, 5, np.zeros(1, np.int32), timeout=0.2)
    assert caught.value.kind == "timeout"
    if name == "late":
        assert "[block (3,0,0)" in str(caught.value)


def test_order_of_blocks():
    x = np.zeros(6, np.int32)
    launch("order", 5, x, order="reverse")
    assert x[1:].tolist() == [4, 3, 2, 1, 0]
    x[0] = 0
    launch("order", 5, x, order="random:1")
    assert sorted(x[1:]) == [0, 1, 2, 3, 4]
