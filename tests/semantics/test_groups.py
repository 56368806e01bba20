"""Cooperative groups: blocks, tiles, coalesced threads, and the grid of a cooperative launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import kspec
from kspec.errors import HostFault, LaunchError
from tests.devices import ArrayDevice
from tests.semantics.harness import run

Part = tuple[list[int], int, int]

GROUPS_SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void block(int* out) {
  cg::thread_block b = cg::this_thread_block();
  __shared__ int s[128];
  s[b.thread_rank()] = b.thread_rank();
  b.sync();
  int* o = out + 6 * (blockIdx.x * b.size() + b.thread_rank());
  o[0] = s[b.size() - 1 - b.thread_rank()]; o[1] = b.size(); o[2] = b.group_index().x;
  o[3] = b.thread_index().y; o[4] = b.group_dim().y;
  cg::sync(b);
  o[5] = b.num_threads();
}
template <int N> __global__ void tiles(int* out) {
  auto tile = cg::tiled_partition<N>(cg::this_thread_block());
  int t = threadIdx.x, *o = out + 10 * t, r = tile.thread_rank();
  o[0] = r; o[1] = tile.size(); o[2] = tile.meta_group_rank(); o[3] = tile.meta_group_size();
  o[4] = tile.shfl(t, 0); o[5] = tile.shfl_down(t, 1); o[6] = tile.shfl_up(t, 1);
  o[7] = tile.shfl_xor(t, N / 2); o[8] = tile.any(r == 0) + 2 * tile.all(r == 0);
  o[9] = tile.ballot(r % 2);
  tile.sync();
}
extern "C" __global__ void coalesced(const int* x, int* out, int* count) {
  int t = threadIdx.x;
  if (x[t] > 0) {
    auto group = cg::coalesced_threads();
    int first = 0;
    if (group.thread_rank() == 0) first = atomicAdd(count, (int)group.size());
    out[group.shfl(first, 0) + group.thread_rank()] = x[t];
  }
}
"""
REDUCE_SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void reduces(const int* x, int* out) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int v = x[threadIdx.x], *o = out + 5 * threadIdx.x;
  o[0] = cg::reduce(tile, v, cg::plus<int>()); o[1] = cg::reduce(tile, v, cg::less<int>());
  o[2] = cg::reduce(tile, v, cg::greater<int>()); o[3] = cg::reduce(tile, v, cg::bit_xor<int>());
  o[4] = cg::reduce(tile, v, [](int a, int b) { return a > b ? a : b; });
}
"""
SCAN_SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void scans(const int* x, const float* f, int* out, float* floats) {
  auto tile = cg::tiled_partition<8>(cg::this_thread_block());
  int t = threadIdx.x, v = x[t], *o = out + 5 * t;
  o[0] = cg::inclusive_scan(tile, v); o[1] = cg::exclusive_scan(tile, v);
  o[2] = cg::inclusive_scan(tile, v, cg::greater<int>());
  o[3] = cg::exclusive_scan(tile, v, [](int a, int b) { return a ^ b; });
  floats[t] = cg::exclusive_scan(tile, f[t], cg::plus<float>());
  o[4] = -1;
  if (v > 0) {
    auto group = cg::coalesced_threads();
    o[4] = cg::exclusive_scan(group, 1);
  }
}
"""
PARTITION_SOURCE = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
template <class Group> __device__ void describe(const Group& group, int value, int* o) {
  o[0] = group.thread_rank(); o[1] = group.size();
  o[2] = group.meta_group_rank(); o[3] = group.meta_group_size();
  o[4] = cg::reduce(group, value, cg::plus<int>());
  group.sync();
}
extern "C" __global__ void partitions(const int* x, int* out) {
  auto tile = cg::tiled_partition<16>(cg::this_thread_block());
  int t = threadIdx.x, v = x[t], *o = out + 22 * t, same = -1;
  describe(cg::labeled_partition(tile, v), t, o);
  auto half = cg::binary_partition(tile, v > 2);
  describe(half, t, o + 5);
  describe(cg::labeled_partition(half, v % 2 == 0), t, o + 10);
  describe(cg::binary_partition(tile, true), t, o + 15);
  o[20] = half.match_all(v > 2, same) == (1u << half.size()) - 1;
  o[21] = same;
}
"""
GRID_SOURCE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// Each step reads what another block wrote in the step before.
extern "C" __global__ void rotate(int* x, int* y, int steps) {
  cg::grid_group grid = cg::this_grid();
  int n = grid.size(), i = grid.thread_rank();
  for (int k = 0; k < steps; k++) {
    y[i] = x[(i + blockDim.x) % n];
    grid.sync();
    x[i] = y[i];
    grid.sync();
  }
}
extern "C" __global__ void sum(const float* x, float* partial, float* out, int n) {
  cg::grid_group grid = cg::this_grid();
  extern __shared__ float s[];
  __shared__ float first;
  float v = 0;
  for (int i = grid.thread_rank(); i < n; i += grid.size()) v += x[i];
  s[threadIdx.x] = v;
  for (int k = blockDim.x / 2; k; k /= 2) {
    __syncthreads();
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = first = s[0];
  cg::sync(grid);
  // Shared memory is still that of this block.
  if (threadIdx.x == 0 && first != partial[blockIdx.x]) __trap();
  if (grid.thread_rank() == 0)
    for (int b = 0; b < gridDim.x; b++) out[0] += partial[b];
}
extern "C" __global__ void figures(int* out) {
  cg::grid_group grid = cg::this_grid();
  int* o = out + 6 * grid.thread_rank();
  o[0] = grid.is_valid(); o[1] = grid.size(); o[2] = grid.group_dim().y;
  o[3] = blockIdx.x + gridDim.x * blockIdx.y; o[4] = grid.num_threads(); o[5] = threadIdx.x;
  grid.sync();
}
// A barrier of the user's own, by spinning: all blocks have to be resident.
extern "C" __global__ void own_barrier(int* arrived, int* x, int* y) {
  x[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x + 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    atomicAdd(arrived, 1);
    while (atomicAdd(arrived, 0) < gridDim.x) __nanosleep(20);
    __threadfence();
  }
  __syncthreads();
  int total = 0;
  for (int b = 0; b < gridDim.x; b++) total += ((volatile int*)x)[b * blockDim.x];
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}
"""


def test_block(place: ArrayDevice) -> None:
    out = np.zeros((2, 64, 6), np.int32)
    (out,) = run(place, GROUPS_SOURCE, "block", (2,), (16, 4), out)
    t = np.arange(64)
    assert (out[..., 0] == t[::-1]).all() and (out[..., 1] == 64).all()
    assert (out[..., 2] == [[0], [1]]).all() and (out[..., 3] == t // 16).all()
    assert (out[..., 4] == 4).all() and (out[..., 5] == 64).all()


@pytest.mark.parametrize("size", [4, 16, 32])
def test_tiles(size: int, place: ArrayDevice) -> None:
    out = np.zeros((64, 10), np.int32)
    (out,) = run(place, GROUPS_SOURCE, f"tiles<{size}>", (1,), (64,), out)
    t = np.arange(64)
    r = t % size
    odd = 0xAAAAAAAA & (2**size - 1)
    expected = [
        r, size, t // size, 64 // size, t - r, np.where(r < size - 1, t + 1, t),
        np.where(r > 0, t - 1, t), t ^ size // 2, 1, np.array(odd).astype(np.uint32).view(np.int32),
    ]  # fmt: skip
    for column, values in enumerate(expected):
        assert (out[:, column] == values).all(), column


def test_coalesced_threads(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).integers(-5, 5, 128).astype(np.int32)
    _, out, count = run(
        place, GROUPS_SOURCE, "coalesced", (1,), (128,), x, np.zeros_like(x), np.zeros(1, np.int32)
    )
    kept = x[x > 0]
    assert count[0] == kept.size
    np.testing.assert_array_equal(np.sort(out[: kept.size]), np.sort(kept))


def test_reduce(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, 64).astype(np.int32)
    _, out = run(place, REDUCE_SOURCE, "reduces", (1,), (64,), x, np.zeros((64, 5), np.int32))
    tiles = x.reshape(4, 16)
    results = [tiles.sum(1), tiles.min(1), tiles.max(1), np.bitwise_xor.reduce(tiles, 1)]
    expected = np.repeat(np.stack([*results, results[2]], -1), 16, axis=0)
    np.testing.assert_array_equal(out, expected)


def test_scan(place: ArrayDevice) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-1000, 1000, 64).astype(np.int32)
    f = rng.integers(-99, 99, 64).astype(np.float32)
    *_, out, floats = run(
        place,
        SCAN_SOURCE,
        "scans",
        (1,),
        (64,),
        x,
        f,
        np.zeros((64, 5), np.int32),
        np.zeros_like(f),
    )
    tiles = x.reshape(8, 8)
    sums, xors = np.cumsum(tiles, 1), np.bitwise_xor.accumulate(tiles, 1)
    before = np.zeros((8, 1), np.int32)
    expected = [
        sums, sums - tiles, np.maximum.accumulate(tiles, 1), np.hstack([before, xors[:, :-1]]),
    ]  # fmt: skip
    for column, values in enumerate(expected):
        np.testing.assert_array_equal(out[:, column], values.ravel(), str(column))
    totals = np.cumsum(f.reshape(8, 8), 1)
    np.testing.assert_array_equal(floats, (totals - f.reshape(8, 8)).ravel())
    warps = x.reshape(2, 32) > 0
    ranks = np.where(warps, np.cumsum(warps, 1) - 1, -1)
    np.testing.assert_array_equal(out[:, 4], ranks.ravel())


def test_partitions(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).integers(0, 5, 64).astype(np.int32)
    x[:16] = 4
    _, out = run(
        place, PARTITION_SOURCE, "partitions", (1,), (64,), x, np.zeros((64, 22), np.int32)
    )

    def parts(threads: list[int], label: Callable[[int], int], by_label: bool) -> Iterator[Part]:
        """Yield the threads of each part, its number and how many there are."""
        labels = [*dict.fromkeys(label(x[t]) for t in threads)]
        labels = sorted(labels) if by_label else labels
        for number, one in enumerate(labels):
            yield [t for t in threads if label(x[t]) == one], number, len(labels)

    def check(found: Iterator[Part], column: int) -> None:
        for threads, number, count in found:
            for rank, t in enumerate(threads):
                expected = [rank, len(threads), number, count, sum(threads)]
                assert out[t, column : column + 5].tolist() == expected, (t, column)

    for first in range(0, 64, 16):
        tile = [*range(first, first + 16)]
        check(parts(tile, lambda v: v, False), 0)
        check(parts(tile, lambda v: v > 2, True), 5)
        for half, _, _ in parts(tile, lambda v: v > 2, True):
            check(parts(half, lambda v: v % 2 == 0, True), 10)
        check(parts(tile, lambda v: True, True), 15)
    assert (out[:, 20:] == 1).all()


def cooperative(name: str) -> kspec.RawKernel:
    return kspec.RawKernel(GRID_SOURCE, name, enable_cooperative_groups=True)


@pytest.mark.alone
@pytest.mark.parametrize(("grid", "block"), [((1,), (64,)), ((7,), (33,)), ((16,), (128,))])
def test_grid_barrier(grid: tuple[int], block: tuple[int], place: ArrayDevice) -> None:
    size = grid[0] * block[0]
    x, y = place.array(np.arange(size, dtype=np.int32)), place.zeros(size, "int32")
    cooperative("rotate")(grid, block, (x, y, 5))
    np.testing.assert_array_equal(place.numpy(x), np.roll(np.arange(size), -5 * block[0]))


@pytest.mark.alone
def test_shared_memory_survives_a_grid_barrier(place: ArrayDevice) -> None:
    values = np.random.default_rng(0).random(10_000, dtype=np.float32)
    x, partial, out = place.array(values), place.zeros(12, "float32"), place.zeros(1, "float32")
    cooperative("sum")((12,), (64,), (x, partial, out, values.size), shared_mem=256)
    np.testing.assert_allclose(place.numpy(out)[0], values.sum(dtype=np.float64), rtol=1e-5)


@pytest.mark.alone
def test_figures_of_a_grid(place: ArrayDevice) -> None:
    out = place.zeros((3 * 2 * 32, 6), "int32")
    cooperative("figures")((3, 2), (32,), (out,))
    found = place.numpy(out).reshape(6, 32, 6)
    assert (found[..., :3] == [1, 192, 2]).all() and (found[..., 4] == 192).all()
    assert (found[..., 3] == np.arange(6)[:, None]).all()
    assert (found[..., 5] == np.arange(32)).all()


@pytest.mark.alone
def test_spinning_blocks_make_progress(place: ArrayDevice) -> None:
    arrived, x, y = (place.zeros(n, "int32") for n in (1, 8 * 32, 8))
    cooperative("own_barrier")((8,), (32,), (arrived, x, y))
    assert (place.numpy(y) == sum(range(1, 9))).all()


def test_a_grid_that_can_not_be_resident(place: ArrayDevice) -> None:
    x = place.zeros(1, "int32")
    for kernel, arguments in (("rotate", (x, x, 0)), ("figures", (x,))):
        with pytest.raises(
            LaunchError, match=rf"{kernel}: .*100000 blocks.*the limit .*launch few"
        ):
            cooperative(kernel)((100_000,), (256,), arguments)


@pytest.mark.alone
def test_a_module_of_cooperative_kernels(place: ArrayDevice) -> None:
    module = kspec.RawModule(code=GRID_SOURCE, enable_cooperative_groups=True)
    kernel = module.get_function("figures")
    assert kernel.enable_cooperative_groups
    out = place.zeros((64, 6), "int32")
    kernel((2,), (32,), (out,))
    assert (place.numpy(out)[:, 0] == 1).all()


HOST_ONLY = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void some_return(int* x) {
  if (blockIdx.x == 1) return;
  if (threadIdx.x == 0) x[blockIdx.x] = 1;
  cg::this_grid().sync();
}
extern "C" __global__ void mixed(int* x) {
  if (threadIdx.x < 16) cg::this_grid().sync();
  else { if (threadIdx.x == 16) x[blockIdx.x] = 1; __syncthreads(); }
}
extern "C" __global__ void overrun(int* x) {
  __shared__ int s[4];
  s[threadIdx.x] = blockIdx.x;
  cg::this_grid().sync();
  if (s[threadIdx.x] != blockIdx.x) __trap();
  if (blockIdx.x == 2) x[1 << 20] = 1;
}
extern "C" __global__ void many(int* x) {
  cg::this_grid().sync();
  atomicAdd(x, 1);
}
extern "C" __global__ void unordered(int* x) {
  if (threadIdx.x == 0) x[blockIdx.x] = 0;
  cg::this_grid().sync();
  x[threadIdx.x] = 1;
}
extern "C" __global__ void valid(int* x) {
  bool answer = cg::this_grid().is_valid();
  if (blockIdx.x + threadIdx.x == 0) x[0] = answer;
}
"""


class TestFaults:
    """Mistakes that hang a GPU are faults of the host device."""

    def fault(self, name: str, grid: tuple[int], cooperative: bool = True) -> HostFault:
        x = kspec.zeros(64, "int32", device="host")
        kernel = kspec.RawKernel(HOST_ONLY, name, enable_cooperative_groups=cooperative)
        with pytest.raises(HostFault) as caught:
            kernel(grid, (4,) if name == "overrun" else (32,), (x,))
        # The next launch works.
        kspec.RawKernel(HOST_ONLY, "valid", enable_cooperative_groups=True)((3,), (32,), (x,))
        assert kspec.asnumpy(x)[0] == 1
        return caught.value

    def test_grid_barrier_in_an_ordinary_launch(self) -> None:
        fault = self.fault("many", (3,), cooperative=False)
        assert fault.kind == "grid-sync" and "enable_cooperative_groups=True" in str(fault)
        assert "at kernel.cu:22" in str(fault)
        x = np.ones(1, np.int32)
        kspec.RawKernel(HOST_ONLY, "valid")((1,), (1,), (x,))
        assert x[0] == 0

    def test_blocks_that_return(self) -> None:
        fault = self.fault("some_return", (3,))
        assert fault.kind == "barrier-divergence"
        assert "2 of 3 blocks wait in grid.sync(), but others, such as block (1,0,0)" in str(fault)
        assert "at kernel.cu:8" in str(fault)

    def test_two_kinds_of_barrier(self) -> None:
        fault = self.fault("mixed", (2,))
        assert fault.kind == "barrier-divergence"
        assert "16 of 32 threads wait in grid.sync() at kernel.cu:11" in str(fault)

    def test_a_fault_after_the_barrier(self) -> None:
        fault = self.fault("overrun", (4,))
        assert fault.kind == "illegal-address" and "[block (2,0,0) thread (" in str(fault)

    @pytest.mark.parametrize("mode", ["memory", "init", "race"])
    def test_checked(self, mode: str) -> None:
        values = np.arange(64, dtype=np.int32)
        x, y = kspec.asarray(values, device="host"), kspec.zeros(64, "int32", device="host")
        cooperative("rotate")((4,), (16,), (x, y, 3), sanitize=mode)
        np.testing.assert_array_equal(kspec.asnumpy(x), np.roll(values, -48))
        ones = kspec.asarray(np.ones(1000, np.float32), device="host")
        partial, out = (kspec.zeros(n, "float32", device="host") for n in (12, 1))
        arguments = (ones, partial, out, 1000)
        cooperative("sum")((12,), (64,), arguments, shared_mem=256, sanitize=mode)
        assert kspec.asnumpy(out)[0] == 1000
        kernel = kspec.RawKernel(HOST_ONLY, "unordered", enable_cooperative_groups=True)
        if mode == "race":
            with pytest.raises(HostFault, match=r"race: .*at kernel.cu:28"):
                kernel((3,), (8,), (x,), sanitize=mode)
        else:
            kernel((3,), (8,), (x,), sanitize=mode)

    def test_the_largest_grids(self) -> None:
        x = kspec.zeros(1, "int32", device="host")
        kernel = kspec.RawKernel(HOST_ONLY, "many", enable_cooperative_groups=True)
        for grid, block in (((1024,), (16,)), ((16,), (1024,))):
            kernel(grid, block, (x,))
        assert kspec.asnumpy(x)[0] == 2 * math.prod((16, 1024))


# Instantiated by test_sources.py.
GROUPS_NAMES = ("tiles<4>", "tiles<16>", "tiles<32>")
