"""Warp operations: shuffles, votes, match, reduce, and the warp barrier."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

SHUFFLE_SOURCE = r"""
template <class T> __global__ void shuffles(const T* x, T* out, int amount, int width) {
  unsigned t = threadIdx.x, all = 0xffffffffu;
  T v = x[t];
  out[t] = __shfl_sync(all, v, amount, width);
  out[32 + t] = __shfl_up_sync(all, v, amount, width);
  out[64 + t] = __shfl_down_sync(all, v, amount, width);
  out[96 + t] = __shfl_xor_sync(all, v, amount, width);
}
"""
WARP_SOURCE = r"""
extern "C" __global__ void votes(unsigned* out) {
  unsigned t = threadIdx.x, all = 0xffffffffu;
  unsigned* o = out + 8 * t;
  o[0] = __ballot_sync(all, t % 3 == 0);
  o[1] = __any_sync(all, t == 5) != 0;
  o[2] = __any_sync(all, t == 77) != 0;
  o[3] = __all_sync(all, t < 32) != 0;
  o[4] = __all_sync(all, t < 31) != 0;
  o[5] = t < 16 ? __ballot_sync(0x0000ffffu, t & 2) : __ballot_sync(0xffff0000u, t & 4);
  o[6] = t == 3 || t == 9 ? __any_sync(1u << 3 | 1u << 9, t == 9) : 0;
  o[7] = __ballot_sync(all, (int)t - 4);
}
extern "C" __global__ void matches(const int* x, const double* d, unsigned* out) {
  unsigned t = threadIdx.x, all = 0xffffffffu;
  int same = -1, different = -1;
  unsigned* o = out + 5 * t;
  o[0] = __match_any_sync(all, x[t]);
  o[1] = __match_any_sync(all, d[t]);
  o[2] = __match_all_sync(all, 7ll, &same);
  o[3] = __match_all_sync(all, t / 31, &different);
  o[4] = (same != 0) * 2 + (different != 0);
}
extern "C" __global__ void reduces(const unsigned* x, unsigned* out) {
  unsigned t = threadIdx.x, v = x[t], all = 0xffffffffu;
  unsigned* o = out + 9 * t;
  o[0] = __reduce_add_sync(all, v);
  o[1] = __reduce_min_sync(all, v);
  o[2] = __reduce_max_sync(all, v);
  o[3] = __reduce_and_sync(all, v);
  o[4] = __reduce_or_sync(all, v);
  o[5] = __reduce_xor_sync(all, v);
  o[6] = (unsigned)__reduce_min_sync(all, (int)v);
  o[7] = (unsigned)__reduce_max_sync(all, (int)v);
  o[8] = t < 8 ? __reduce_add_sync(0xffu, v) : 0;
}
// Memory written before __syncwarp is seen after it.
extern "C" __global__ void exchange(int* x) {
  __shared__ int s[64];
  int t = threadIdx.x, warp = t & ~31;
  s[t] = x[t];
  __syncwarp();
  int v = s[warp + 31 - (t & 31)];
  __syncwarp();
  s[t] = v + 1;
  __syncwarp();
  x[t] = s[warp + ((t + 1) & 31)];
}
extern "C" __global__ void half_a_warp(int* x) {
  __shared__ int s[32];
  int t = threadIdx.x;
  if (t < 16) {
    s[t] = x[t];
    __syncwarp(0xffffu);
    x[t] = s[15 - t];
  }
}
extern "C" __global__ void block_sum(const int* x, int* out, int n) {
  __shared__ int sums[32];
  int v = 0, t = threadIdx.x;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) v += x[i];
  for (int o = 16; o; o /= 2) v += __shfl_down_sync(0xffffffffu, v, o);
  if (t % 32 == 0) sums[t / 32] = v;
  __syncthreads();
  if (t < 32) {
    v = t < blockDim.x / 32 ? sums[t] : 0;
    for (int o = 16; o; o /= 2) v += __shfl_xor_sync(0xffffffffu, v, o);
    if (t == 0) atomicAdd(out, v);
  }
}
"""
TYPES = {
    "int": np.int32,
    "unsigned int": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
    "float": np.float32,
    "double": np.float64,
}
LANE = np.arange(32)


def shuffled(amount: int, width: int) -> list[np.ndarray]:
    """Return the lane each of the four shuffles reads (CUDA C++ Programming Guide)."""
    start, inside = LANE // width * width, LANE % width
    up, down = LANE - amount, LANE + amount
    other = LANE ^ amount
    return [
        start + amount % width,
        np.where(inside >= amount, up, LANE),
        np.where(inside + amount < width, down, LANE),
        np.where(other < start + width, other, LANE),
    ]


@pytest.mark.parametrize("ctype", TYPES)
@pytest.mark.parametrize("width", [2, 8, 32])
@pytest.mark.parametrize("amount", [0, 1, 5, 16])
def test_shuffles(ctype: str, width: int, amount: int, place: ArrayDevice) -> None:
    x = (np.arange(32) * 3 - 7).astype(TYPES[ctype])
    out = np.zeros((4, 32), x.dtype)
    name = f"shuffles<{ctype}>"
    _, out = run(place, SHUFFLE_SOURCE, name, (1,), (32,), x, out, amount, width)
    for row, lanes in zip(out, shuffled(amount, width), strict=True):
        np.testing.assert_array_equal(row, x[lanes])


def test_votes(place: ArrayDevice) -> None:
    (out,) = run(place, WARP_SOURCE, "votes", (1,), (32,), np.zeros((32, 8), np.uint32))
    assert (out[:, 0] == 0x49249249).all()
    assert (out[:, 1:5] == [1, 0, 1, 0]).all()
    assert (out[:16, 5] == 0xCCCC).all() and (out[16:, 5] == 0xF0F00000).all()
    assert np.flatnonzero(out[:, 6]).tolist() == [3, 9]
    assert (out[:, 7] == 0xFFFFFFEF).all()


def test_match(place: ArrayDevice) -> None:
    x = np.array([5, -1, 5, 0] * 8, np.int32)
    d = np.array([0.5] * 20 + [-0.5] * 12)
    out = np.zeros((32, 5), np.uint32)
    _, _, out = run(place, WARP_SOURCE, "matches", (1,), (32,), x, d, out)
    assert out[:4, 0].tolist() == [0x55555555, 0x22222222, 0x55555555, 0x88888888]
    assert (out[:20, 1] == (1 << 20) - 1).all() and (out[20:, 1] == 0xFFF00000).all()
    assert (out[:, 2:] == [0xFFFFFFFF, 0, 2]).all()


def test_reduce(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 32, np.uint32)
    _, out = run(place, WARP_SOURCE, "reduces", (1,), (32,), x, np.zeros((32, 9), np.uint32))
    signed = x.view(np.int32)
    expected = [
        x.sum(dtype=np.uint32), x.min(), x.max(), np.bitwise_and.reduce(x),
        np.bitwise_or.reduce(x), np.bitwise_xor.reduce(x),
        np.uint32(int(signed.min()) % 2**32), np.uint32(int(signed.max()) % 2**32),
    ]  # fmt: skip
    assert (out[:, :8] == expected).all()
    assert (out[:8, 8] == x[:8].sum(dtype=np.uint32)).all()


def test_warp_barrier(place: ArrayDevice) -> None:
    x = np.arange(64, dtype=np.int32)
    (out,) = run(place, WARP_SOURCE, "exchange", (1,), (64,), x)
    expected = np.roll(x.reshape(2, 32)[:, ::-1] + 1, -1, axis=1)
    np.testing.assert_array_equal(out, expected.ravel())
    (out,) = run(place, WARP_SOURCE, "half_a_warp", (1,), (32,), x[:32])
    np.testing.assert_array_equal(out, [*range(15, -1, -1), *range(16, 32)])


def test_reduction_over_a_grid(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).integers(-1000, 1000, 12345).astype(np.int32)
    _, out = run(place, WARP_SOURCE, "block_sum", (7,), (160,), x, np.zeros(1, np.int32), x.size)
    assert out[0] == x.sum()


# Instantiated by test_sources.py.
SHUFFLE_NAMES = tuple(f"shuffles<{ctype}>" for ctype in TYPES)
