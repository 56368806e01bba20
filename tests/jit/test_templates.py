"""Functions that are called while a kernel is compiled: constants, and device functions made by them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import jit
from tests.devices import ArrayDevice


@jit.rawkernel(device=True)
def square(x):
    return x * x


def plus(n):
    @jit.rawkernel(device=True)
    def add(x):
        return x + n

    return add


def scaled(function, factor):
    return jit.rawkernel(device=True)(lambda x: function(x) * factor)


@functools.cache
def minus(n):
    @jit.rawkernel(device=True)
    def subtract(x):
        return x - n

    return subtract


def function_of(name):
    return {"square": square, "minus": minus(3)}[name]


@jit.rawkernel()
def templates(x):
    x[0] = plus(1)(x[0])
    x[1] = plus(n=2.5)(x[1])
    x[2] = scaled(square, 3)(x[2])
    x[3] = scaled(scaled(square, 2), 5)(x[3])
    f = function_of("square")
    x[4] = f(x[4]) + function_of("minus")(x[4])
    x[5] = minus(1)(minus(1)(x[5]))


def test_device_functions_are_made_by_calls(place: ArrayDevice) -> None:
    x = place.array([1.0, 2, 3, 4, 5, 6])
    templates[1, 1](x)
    assert place.numpy(x).tolist() == [2, 4.5, 27, 160, 27, 4]


def make_kernel(dtype, size, function):
    double = scaled(function, dtype(2))

    @jit.rawkernel()
    def kernel(x):
        x[0] = double(x[0]) + size
        x[1] = plus(dtype(size))(x[1])

    return kernel


def test_kernels_are_made_by_calls(place: ArrayDevice) -> None:
    for size in (3, 7):
        x = place.array([4, 5], "int32")
        make_kernel(np.int32, size, square)[1, 1](x)
        assert place.numpy(x).tolist() == [32 + size, 5 + size]


def power(n, base=2):
    return base**n


def halves(n):
    return n // 2, n % 2


class Config:
    """What `tile` is a method of."""

    def __init__(self, size: int) -> None:
        self.size = size

    def tile(self, times: int) -> int:
        return self.size * times


CONFIG = Config(4)


@jit.rawkernel()
def constants(x):
    memory = jit.local_array(np.float64, power(4))
    memory[power(4) - 1] = power(2, base=3)
    x[0] = memory[-1]
    a, b = halves(7)
    x[1] = a * 10 + b
    for k in range(CONFIG.tile(2)):
        x[2] += k
    x[3] = sum((1, 2, power(1)))


def test_functions_of_constants(place: ArrayDevice) -> None:
    x = place.zeros(4)
    constants[1, 1](x)
    assert place.numpy(x).tolist() == [9, 31, 28, 5]


def broken(n):
    return {}[n]


@jit.rawkernel()
def refused(x):
    x[0] = broken(3)
    x[1] = CONFIG.tile(x[2])
    x[2] = CONFIG(1)


def test_what_is_refused() -> None:
    with pytest.raises(kspec.JitError) as caught:
        refused[1, 1](np.zeros(4))
    text = str(caught.value)
    assert isinstance(caught.value, ValueError)  # a KeyError is no error of a kernel's
    assert "broken, called while compiling: 3" in text
    assert "Invalid function call: tile is not a function of kernels, and its arguments" in text
    assert "Config cannot be called" in text


OFFSET = 10


def offset():
    return OFFSET


@jit.rawkernel()
def shifted(x):
    x[0] += offset()


def test_a_function_is_called_again_when_its_names_change(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = place.zeros(1)
    for _ in range(3):
        shifted[1, 1](x)
    monkeypatch.setitem(globals(), "OFFSET", 100)
    for _ in range(3):
        shifted[1, 1](x)
    assert place.numpy(x).tolist() == [330]


CALLS: list[int] = []


def counted():
    CALLS.append(1)
    return len(CALLS)


def test_a_function_is_not_called_without_need(place: ArrayDevice) -> None:
    @jit.rawkernel()
    def count(x):
        x[0] += counted()

    CALLS.clear()
    x = place.zeros(1)
    for _ in range(4):
        count[1, 1](x)
    assert place.numpy(x).tolist() == [4] and len(CALLS) == 1


@pytest.mark.parametrize("dtype", [np.float32, "int64", np.dtype("float64")])
def test_cub_with_names_of_the_enclosing_function(place: ArrayDevice, dtype: Any) -> None:
    size = 64

    @jit.rawkernel()
    def reduce(x, y):
        i = jit.threadIdx.x
        BlockReduce = jit.cub.BlockReduce[dtype, size]
        storage = jit.shared_memory(BlockReduce.TempStorage, 1)
        total = BlockReduce(storage[0]).Sum(x[i])
        jit.syncthreads()
        of_warps = jit.shared_memory(jit.cub.WarpReduce[x.dtype].TempStorage, size // 32)
        largest = jit.cub.WarpReduce[x.dtype](of_warps[i // 32]).Reduce(x[i], jit.cub.Max())
        if i == 0:
            y[0] = total
            y[1] = largest

    x, y = place.array(np.arange(64), dtype), place.zeros(2, dtype)
    reduce[1, 64](x, y)
    assert place.numpy(y).tolist() == [2016, 31]


def test_cub_is_indexed_by_constants() -> None:
    @jit.rawkernel()
    def wrong(x, n):
        jit.shared_memory(jit.cub.BlockReduce[np.float64, n].TempStorage, 1)

    with pytest.raises(kspec.JitError, match="Template is indexed by constants only"):
        wrong[1, 32](np.zeros(1), 32)

    @jit.rawkernel()
    def short(x):
        jit.shared_memory(jit.cub.BlockReduce[np.float64].TempStorage, 1)

    with pytest.raises(kspec.JitError, match=r"write BlockReduce\[dtype, threads\]"):
        short[1, 32](np.zeros(1))
