"""The same Python functions as kernels of `cupyx.jit` and of `kspec.jit`: equal bits on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kspec import jit as ours

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]  # cupyx.jit is experimental

Make = Callable[[Any], Any]


def assert_same(make: Make, block: int, *arrays: Any) -> None:
    """Launch both kernels with copies of arrays, the last of which they write to."""
    cupy = pytest.importorskip("cupy")
    theirs = pytest.importorskip("cupyx.jit")
    found = []
    for jit in (ours, theirs):
        given = [cupy.asarray(one) for one in arrays]
        make(jit)[1, block](*given)
        found.append(cupy.asnumpy(given[-1]))
    assert found[0].tobytes() == found[1].tobytes(), found


def numbers(dtype: str, count: int) -> Any:
    rng = np.random.default_rng(count)
    values = rng.random(count) * 10
    return (values + 1j * rng.random(count) if dtype[0] == "c" else values).astype(dtype)


@pytest.mark.parametrize("name", ["Sum", "Max", "Min"])
@pytest.mark.parametrize(
    "dtype", ["float16", "float32", "float64", "complex64", "complex128", "int8", "uint64"]
)
@pytest.mark.parametrize("threads", [32, 256, 1024])
def test_reductions_of_blocks(threads: int, dtype: str, name: str) -> None:
    element = np.dtype(dtype).type

    def make(jit: Any) -> Any:
        Op = getattr(jit.cub, name)

        @jit.rawkernel()
        def reduce(x, y):
            BlockReduce = jit.cub.BlockReduce[element, threads]
            storage = jit.shared_memory(dtype=BlockReduce.TempStorage, size=1)
            i = jit.threadIdx.x
            found = BlockReduce(storage[0]).Reduce(x[i], Op())
            if i == 0:
                y[0] = found

        return reduce

    assert_same(make, threads, numbers(dtype, threads), np.zeros(1, dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_sums_of_warps(dtype: str) -> None:
    element = np.dtype(dtype).type

    def make(jit: Any) -> Any:
        @jit.rawkernel()
        def reduce(x, y):
            WarpReduce = jit.cub.WarpReduce[element]
            storage = jit.shared_memory(dtype=WarpReduce.TempStorage, size=1)
            i = jit.threadIdx.x
            found = WarpReduce(storage[0]).Sum(x[i])
            if i == 0:
                y[0] = found

        return reduce

    assert_same(make, 32, numbers(dtype, 32), np.zeros(1, dtype))


def test_device_functions_made_by_calls() -> None:
    def make(jit: Any) -> Any:
        def add(constant):
            @jit.rawkernel(device=True)
            def f(x, y):
                return x + y + constant

            return f

        def fold(step):
            @jit.rawkernel(device=True)
            def f(x):
                if step < 64:
                    tid = jit.threadIdx.x
                    if tid % (step * 2) == 0:
                        x[tid] += x[tid + step]
                    jit.syncthreads()
                    fold(step * 2)(x)

            return f

        @jit.rawkernel()
        def f(x, y):
            tid = jit.threadIdx.x
            y[tid] = add(10)(x[tid], x[63 - tid])
            y[tid] += add(20)(x[tid], x[tid])
            jit.syncthreads()
            fold(1)(y)

        return f

    assert_same(make, 64, numbers("int32", 64), np.zeros(64, "int32"))


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_extremes(dtype: str, name: str) -> None:
    extreme = {"min": min, "max": max}[name]

    def make(jit: Any) -> Any:
        @jit.rawkernel()
        def f(x, y):
            tid = jit.threadIdx.x
            y[tid] = extreme(x[tid], x[63 - tid], x[tid // 2])

        return f

    values = np.round(numbers(dtype, 64) / 4)  # many equal real parts
    assert_same(make, 64, values, np.zeros(64, dtype))


def test_barriers_of_a_computed_mask() -> None:
    def make(jit: Any) -> Any:
        @jit.rawkernel()
        def f(n, x):
            tid = jit.threadIdx.x
            if tid < n[0]:
                x[tid] = tid
                jit.syncwarp(mask=n[1])
                x[32 + tid] = x[tid ^ 1]

        return f

    assert_same(make, 32, np.array([4, 15], "int32"), np.zeros(64, "int32"))
