"""Atomic functions: each of CUDA's overloads against the same updates made one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

ATOMICS_SOURCE = r"""
#define UPDATE(NAME)                                                                   \
  template <class T> __global__ void k_##NAME(T* x, const T* values, T* old) {         \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                                     \
    old[i] = NAME(x, values[i]);                                                       \
  }
UPDATE(atomicAdd) UPDATE(atomicSub) UPDATE(atomicMin) UPDATE(atomicMax) UPDATE(atomicExch)
UPDATE(atomicAnd) UPDATE(atomicOr) UPDATE(atomicXor) UPDATE(atomicInc) UPDATE(atomicDec)
UPDATE(atomicAdd_block) UPDATE(atomicMax_system) UPDATE(atomicExch_block)
// Each thread puts its own number where its predecessor's is: a chain through all of them.
template <class T> __global__ void chain(T* x, int* failures) {
  T mine = (T)(blockIdx.x * blockDim.x + threadIdx.x);
  while (atomicCAS(x, mine, (T)(mine + 1)) != mine) atomicAdd(failures, 1);
}
extern "C" __global__ void compare_and_swap(unsigned short* s, int* i, unsigned long long* l) {
  i[1] = atomicCAS(i, 5, 6);
  i[2] = atomicCAS(i, 5, 7);
  l[1] = atomicCAS(l, ~0ull, 1ull << 40);
  s[1] = atomicCAS(s, (unsigned short)3, (unsigned short)40000);
}
// A lock by block: a warp's threads would wait for each other on older architectures.
extern "C" __global__ void lock(int* lock, int* count) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1) != 0) {}
    __threadfence();
    *(volatile int*)count = *(volatile int*)count + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
extern "C" __global__ void shared_histogram(const unsigned char* x, unsigned* out, int n) {
  __shared__ unsigned mine[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) mine[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
    atomicAdd(&mine[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&out[i], mine[i]);
}
// The last block to arrive adds up what the others left.
__device__ unsigned arrived;
extern "C" __global__ void last_block(const int* x, int* partial, int* out) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = x[blockIdx.x] * 2;
    __threadfence();
    last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int total = 0;
    for (int i = 0; i < gridDim.x; i++) total += ((volatile int*)partial)[i];
    out[0] = total;
  }
}
"""
TYPES: dict[str, Any] = {
    "int": np.int32,
    "unsigned int": np.uint32,
    "unsigned long long": np.uint64,
    "long long": np.int64,
    "float": np.float32,
    "double": np.float64,
}
ALL_INTEGERS = ("int", "unsigned int", "unsigned long long")
# CUDA's overloads (CUDA C++ Programming Guide, atomic functions), and what the result is when
# the order of the updates does not matter.
OVERLOADS: dict[str, tuple[tuple[str, ...], Callable[[Any, Any], Any]]] = {
    "atomicAdd": ((*ALL_INTEGERS, "float", "double"), lambda x, v: x + v.sum(dtype=v.dtype)),
    "atomicAdd_block": (ALL_INTEGERS, lambda x, v: x + v.sum(dtype=v.dtype)),
    "atomicSub": (ALL_INTEGERS[:2], lambda x, v: x - v.sum(dtype=v.dtype)),
    "atomicMin": ((*ALL_INTEGERS, "long long"), lambda x, v: min(x, v.min())),
    "atomicMax": ((*ALL_INTEGERS, "long long"), lambda x, v: max(x, v.max())),
    "atomicMax_system": (ALL_INTEGERS, lambda x, v: max(x, v.max())),
    "atomicAnd": ((*ALL_INTEGERS, "long long"), lambda x, v: x & np.bitwise_and.reduce(v)),
    "atomicOr": ((*ALL_INTEGERS, "long long"), lambda x, v: x | np.bitwise_or.reduce(v)),
    "atomicXor": ((*ALL_INTEGERS, "long long"), lambda x, v: x ^ np.bitwise_xor.reduce(v)),
}
CASES = [(name, ctype) for name, (ctypes, _) in OVERLOADS.items() for ctype in ctypes]


def values_of(dtype: Any, count: int) -> np.ndarray:
    rng = np.random.default_rng(count)
    if np.dtype(dtype).kind == "f":  # multiples of 1/8: every order of additions is exact
        return (rng.integers(-800, 800, count) / 8).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, count, dtype, endpoint=True)


@pytest.mark.parametrize(("name", "ctype"), CASES)
def test_update(name: str, ctype: str, place: ArrayDevice) -> None:
    # One block for the functions of one block.
    grid = (1,) if name.endswith("_block") else (4,)
    values = values_of(TYPES[ctype], 100 * grid[0])
    start = values_of(TYPES[ctype], 1)
    kernel = f"k_{name}<{ctype}>"
    x, _, old = run(
        place, ATOMICS_SOURCE, kernel, grid, (100,), start, values, np.zeros_like(values)
    )
    with np.errstate(over="ignore"):
        assert x[0] == OVERLOADS[name][1](start[0], values)
        if "Add" in name:  # each old value and its addend lead to the next old value
            seen = np.sort([*old, x[0]])
            np.testing.assert_array_equal(seen, np.sort([start[0], *(old + values)]))


@pytest.mark.parametrize("name", ["atomicExch", "atomicExch_block"])
@pytest.mark.parametrize("ctype", [*ALL_INTEGERS, "float"])
def test_exchange(name: str, ctype: str, place: ArrayDevice) -> None:
    values = np.arange(1, 101).astype(TYPES[ctype])
    kernel = f"k_{name}<{ctype}>"
    x, _, old = run(
        place, ATOMICS_SOURCE, kernel, (1,), (100,), np.zeros(1, values.dtype), values, 0 * values
    )
    # Every value but the last one written was taken out again, and so was the first.
    np.testing.assert_array_equal(np.sort([*old, x[0]]), np.arange(101))


@pytest.mark.parametrize("limit", [6, 1000])
def test_counting_round(limit: int, place: ArrayDevice) -> None:
    values = np.full(200, limit, np.uint32)
    for name, expected in (("atomicInc", 200 % (limit + 1)), ("atomicDec", -200 % (limit + 1))):
        x, _, old = run(
            place, ATOMICS_SOURCE, f"k_{name}<unsigned int>", (2,), (100,),
            np.zeros(1, np.uint32), values, 0 * values,
        )  # fmt: skip
        assert x[0] == expected
        visited = np.arange(200) if name == "atomicInc" else -np.arange(200)
        np.testing.assert_array_equal(np.sort(old), np.sort(visited % (limit + 1)))


def test_values_past_the_limit_wrap(place: ArrayDevice) -> None:
    for name in ("atomicInc", "atomicDec"):
        x, _, old = run(
            place, ATOMICS_SOURCE, f"k_{name}<unsigned int>", (1,), (1,),
            np.array([50], np.uint32), np.array([9], np.uint32), np.zeros(1, np.uint32),
        )  # fmt: skip
        assert old[0] == 50 and x[0] == (0 if name == "atomicInc" else 9)


def test_compare_and_swap(place: ArrayDevice) -> None:
    s, i = np.array([3, 0], np.uint16), np.array([5, 0, 0], np.int32)
    long = np.array([2**64 - 1, 0], np.uint64)
    s, i, long = run(place, ATOMICS_SOURCE, "compare_and_swap", (1,), (1,), s, i, long)
    assert s.tolist() == [40000, 3]
    assert i.tolist() == [6, 5, 6]
    assert long.tolist() == [1 << 40, 2**64 - 1]


@pytest.mark.parametrize("ctype", ["int", "unsigned long long"])
def test_chain_of_swaps(ctype: str, place: ArrayDevice) -> None:
    x, failures = np.zeros(1, TYPES[ctype]), np.zeros(1, np.int32)
    # Blocks wait for earlier ones, which CUDA does not promise: only the usual order gets there.
    arguments, options = (x, failures), {"order": "forward"}
    x, _ = run(place, ATOMICS_SOURCE, f"chain<{ctype}>", (2,), (64,), *arguments, **options)
    assert x[0] == 128


def test_lock(place: ArrayDevice) -> None:
    _, count = run(
        place, ATOMICS_SOURCE, "lock", (50,), (32,), np.zeros(1, np.int32), np.zeros(1, np.int32)
    )
    assert count[0] == 50


def test_shared_histogram(place: ArrayDevice) -> None:
    x = np.random.default_rng(0).integers(0, 256, 20_000, dtype=np.uint8)
    out = np.zeros(256, np.uint32)
    _, out = run(place, ATOMICS_SOURCE, "shared_histogram", (5,), (192,), x, out, x.size)
    np.testing.assert_array_equal(out, np.bincount(x, minlength=256))


def test_last_block_adds_up(place: ArrayDevice) -> None:
    x = np.arange(100, dtype=np.int32)
    zeros = np.zeros_like(x)
    _, _, out = run(place, ATOMICS_SOURCE, "last_block", (100,), (64,), x, zeros, zeros[:1])
    assert out[0] == 2 * x.sum()


# Instantiated by test_sources.py.
ATOMICS_NAMES = (
    *(f"k_{name}<{ctype}>" for name, ctype in CASES),
    *(f"k_atomicExch<{ctype}>" for ctype in (*ALL_INTEGERS, "float")),
    "k_atomicInc<unsigned int>",
    "k_atomicDec<unsigned int>",
    "chain<int>",
    "chain<unsigned long long>",
)
