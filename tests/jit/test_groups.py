"""What groups of threads do together: cooperative groups, reductions and scans."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kspec import jit
from kspec.errors import JitTypeError
from tests.devices import ArrayDevice


@jit.rawkernel()
def groups(x, y):
    block = jit.cg.this_thread_block()
    rank = block.thread_rank()
    x[rank] = block.size() + block.group_dim().x + block.thread_index().x
    block.sync()
    jit.cg.sync(block)
    grid = jit.cg.this_grid()
    y[grid.thread_rank()] = grid.num_blocks()


def test_groups(place: ArrayDevice) -> None:
    x, y = place.zeros(4, np.int64), place.zeros(8, np.int64)
    groups[2, 4](x, y)
    assert place.numpy(x).tolist() == [8, 9, 10, 11]
    assert place.numpy(y).tolist() == [2] * 8


@jit.rawkernel()
def across_blocks(x, y):
    grid = jit.cg.this_grid()
    i = jit.grid(1)
    x[i] = i
    grid.sync()
    y[i] = x[len(x) - 1 - int(i)]


@pytest.mark.alone
def test_the_grid_waits(place: ArrayDevice) -> None:
    x, y = place.zeros(8, np.int64), place.zeros(8, np.int64)
    across_blocks[2, 4](x, y)
    assert place.numpy(y).tolist() == list(range(7, -1, -1))


@jit.rawkernel()
def copies(x, y):
    buffer = jit.shared_memory(np.float32, 8)
    block = jit.cg.this_thread_block()
    jit.cg.memcpy_async(block, buffer, 0, x, 2, 32)
    jit.cg.wait(block)
    y[jit.threadIdx.x] = buffer[7 - int(jit.threadIdx.x)]


def test_copies_by_a_group(place: ArrayDevice) -> None:
    x, y = place.array(np.arange(12), np.float32), place.zeros(8, np.float32)
    copies[1, 8](x, y)
    assert place.numpy(y).tolist() == [9, 8, 7, 6, 5, 4, 3, 2]


@jit.rawkernel(device=True)
def first_of(a, b):
    return a if b == b else b


@pytest.mark.parametrize("threads", [1, 20, 32, 100, 256])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "complex128"])
def test_reductions(place: ArrayDevice, dtype: str, threads: int) -> None:
    BlockReduce = jit.cub.BlockReduce[np.dtype(dtype), 256]

    @jit.rawkernel()
    def reduce(x, y):
        storage = jit.shared_memory(BlockReduce.TempStorage, 1)
        i = jit.threadIdx.x
        total = BlockReduce(storage[0]).Sum(x[i])
        jit.syncthreads()
        first = BlockReduce(storage[0]).Reduce(x[i], first_of)
        if i == 0:
            y[0] = total
            y[1] = first

    values = (np.arange(threads) % 7 + 3).astype(dtype)
    x, y = place.array(values), place.zeros(2, dtype)
    reduce[1, threads](x, y)
    assert place.numpy(y).tolist() == [values.sum(dtype=dtype), values[0]]


@pytest.mark.parametrize("op", ["Max", "Min"])
def test_extremes_of_a_warp(place: ArrayDevice, op: str) -> None:
    WarpReduce, Op = jit.cub.WarpReduce[np.float64], getattr(jit.cub, op)

    @jit.rawkernel()
    def extreme(x, y):
        storage = jit.shared_memory(WarpReduce.TempStorage, 1)
        found = WarpReduce(storage[0]).Reduce(x[jit.threadIdx.x], Op())
        if jit.laneid() == 0:
            y[jit.threadIdx.x // 32] = found

    values = np.random.default_rng(0).random(64)
    x, y = place.array(values), place.zeros(2)
    extreme[1, 64](x, y)
    halves = values.reshape(2, 32)
    assert place.numpy(y).tolist() == getattr(halves, op.lower())(axis=1).tolist()


def as_cub_adds(values: Any) -> Any:
    """Return the sum with the roundings of `cub::BlockReduce`: trees of warps, one after another."""
    warps = []
    for start in range(0, len(values), 32):
        warp = list(values[start : start + 32])
        for delta in (1, 2, 4, 8, 16):
            warp = [
                one + warp[k + delta] if k + delta < len(warp) else one
                for k, one in enumerate(warp)
            ]
        warps.append(warp[0])
    total = warps[0]
    for one in warps[1:]:
        total = total + one
    return total


@pytest.mark.parametrize("threads", [1, 20, 64, 100, 256, 1024])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_sums_have_the_bits_of_cubs(place: ArrayDevice, dtype: str, threads: int) -> None:
    BlockReduce = jit.cub.BlockReduce[np.dtype(dtype), 1024]

    @jit.rawkernel()
    def reduce(x, y):
        storage = jit.shared_memory(BlockReduce.TempStorage, 1)
        total = BlockReduce(storage[0]).Sum(x[jit.threadIdx.x])
        if jit.threadIdx.x == 0:
            y[0] = total
            y[1] = total / 3

    values = np.random.default_rng(threads).random(threads).astype(dtype)
    x, y = place.array(values), place.zeros(2, dtype)
    reduce[1, threads](x, y)
    # Of float16, CuPy's kernels have floats: the sum is rounded once.
    total = as_cub_adds(values.astype(np.promote_types(dtype, np.float32))).astype(dtype)
    assert place.numpy(y)[0] == total
    np.testing.assert_allclose(place.numpy(y)[1], total / 3, rtol=1e-3)
    if dtype == "float16":
        assert total == values.sum(dtype=dtype)  # NumPy adds in float, too


@jit.rawkernel(device=True)
def sum_of(a, b):
    return a + b


def test_half_numbers_are_computed_in_float(place: ArrayDevice) -> None:
    BlockReduce, BlockScan = jit.cub.BlockReduce[np.float16, 64], jit.cub.BlockScan["float16", 64]

    @jit.rawkernel()
    def reduce(x, y):
        storage = jit.shared_memory(BlockReduce.TempStorage, 1)
        i = jit.threadIdx.x
        total = BlockReduce(storage[0]).Reduce(x[i], sum_of)
        jit.syncthreads()
        largest = BlockReduce(storage[0]).Reduce(x[i], jit.cub.Max())
        if i == 0:
            y[64] = total
            y[65] = largest
        scanned = jit.shared_memory(BlockScan.TempStorage, 1)
        y[i] = BlockScan(scanned[0]).ExclusiveScan(x[i], 0.5, sum_of)

    values = np.ones(64, "float16")
    values[0] = 2048  # in half the spacing of numbers is two
    x, y = place.array(values), place.zeros(66, "float16")
    reduce[1, 64](x, y)
    found = place.numpy(y)
    before = np.concatenate([[0.5], 0.5 + np.cumsum(values[:-1], dtype="float32")])
    assert found[:64].tolist() == before.astype("float16").tolist()
    assert found[64:].tolist() == [np.float16(2048 + 63), 2048]


@pytest.mark.parametrize("op", ["Max", "Min"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_extremes_of_complex_numbers(place: ArrayDevice, dtype: str, op: str) -> None:
    """As NumPy orders them: by the real part, then the imaginary one; the first NaN wins."""
    BlockReduce, Op = jit.cub.BlockReduce[np.dtype(dtype), 64], getattr(jit.cub, op)

    @jit.rawkernel()
    def extreme(x, y):
        storage = jit.shared_memory(BlockReduce.TempStorage, 1)
        found = BlockReduce(storage[0]).Reduce(x[jit.threadIdx.x], Op())
        if jit.threadIdx.x == 0:
            y[0] = found

    ufunc = np.maximum if op == "Max" else np.minimum
    rng = np.random.default_rng(1)
    for nans in (0, 0, 1, 2):
        values = (rng.integers(-2, 3, 64) + 1j * rng.integers(-2, 3, 64)).astype(dtype)
        for k, place_of_nan in enumerate(rng.permutation(64)[:nans]):
            values[place_of_nan] = complex(np.nan, k) if k else complex(7, np.nan)
        x, y = place.array(values), place.zeros(1, dtype)
        extreme[1, 64](x, y)
        assert repr(place.numpy(y)[0]) == repr(ufunc.reduce(values))


@pytest.mark.parametrize("threads", [1, 20, 32, 100])
def test_scans(place: ArrayDevice, threads: int) -> None:
    BlockScan = jit.cub.BlockScan[np.int32, 128]

    @jit.rawkernel(device=True)
    def larger(a, b):
        return max(a, b)

    @jit.rawkernel()
    def scan(x, y):
        storage = jit.shared_memory(BlockScan.TempStorage, 1)
        i = jit.threadIdx.x
        scan = BlockScan(storage[0])
        y[0, i] = scan.InclusiveSum(x[i])
        jit.syncthreads()
        y[1, i] = scan.ExclusiveSum(x[i])
        jit.syncthreads()
        y[2, i] = scan.ExclusiveScan(x[i], 4, larger)

    values = np.random.default_rng(threads).integers(0, 9, threads).astype(np.int32)
    x, y = place.array(values), place.zeros((3, threads), np.int32)
    scan[1, threads](x, y)
    before = np.concatenate([[0], values[:-1]])
    found = place.numpy(y)
    assert found[0].tolist() == np.cumsum(values).tolist()
    assert found[1].tolist() == np.cumsum(before).tolist()
    assert found[2].tolist() == np.maximum(4, np.maximum.accumulate(before)).tolist()


def test_another_type_is_an_error() -> None:
    WarpReduce = jit.cub.WarpReduce[np.float64]

    @jit.rawkernel()
    def wrong(x):
        storage = jit.shared_memory(WarpReduce.TempStorage, 1)
        x[0] = WarpReduce(storage[0]).Sum(x[0])

    with pytest.raises(JitTypeError, match="this is of float64, not float32"):
        wrong[1, 32](np.zeros(1, np.float32))
