"""Kernels made of Python functions compute what the functions say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kspec import jit
from tests.devices import ArrayDevice


@jit.rawkernel()
def saxpy(x, y, a, n):
    """Multiply and add."""
    for i in range(jit.grid(1), n, jit.gridsize(1)):
        y[i] = a * x[i] + y[i]


def test_both_ways_to_launch(place: ArrayDevice) -> None:
    x, y = place.array(np.arange(10), np.float32), place.zeros(10, np.float32)
    saxpy((2,), (4,), (x, y, 2.0, np.uint32(10)))
    saxpy[2, 4](x, y, 2.0, np.uint32(10))
    saxpy[(2, 1), (4,)](x, y, n=np.uint32(10), a=2.0)
    assert place.numpy(y).tolist() == [6.0 * k for k in range(10)]


@jit.rawkernel()
def branches(x, y):
    i = jit.threadIdx.x
    if x[i] < 0:
        sign = -1
    elif 0 < x[i] < 10:
        sign = 1
    else:
        sign = 0
    k = 0
    while True:
        k += 1
        if k % 2:
            continue
        if k > 6:
            break
        sign += k
    y[i] = sign


def test_branches_and_loops(place: ArrayDevice) -> None:
    x, y = place.array([-3, 0, 5, 20], np.int32), place.zeros(4, np.int32)
    branches[1, 4](x, y)
    assert place.numpy(y).tolist() == [11, 12, 13, 12]


@jit.rawkernel()
def counters(x):
    for j in range(3):  # int32
        x[0] += j
    for j in range(x[0] + 2):  # of the type of x
        x[1] += j
    for k in range(3):
        x[2] += k
    for k in (1, 4, 2):
        x[2] += k
    for m in (1, 4, 2):
        x[3] += m
    for m in range(x[5]):
        x[3] += m
    x[4] = m


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_loops_with_one_name(place: ArrayDevice, dtype: str) -> None:
    for turns in (0, 3):
        x = np.array([0, 0, 0, 0, 0, turns], dtype)
        wanted, given = x.copy(), place.array(x)
        counters[1, 1](given)
        counters.__wrapped__(wanted)
        np.testing.assert_array_equal(place.numpy(given), wanted)


@jit.rawkernel()
def leaves_inner_loops(x):
    for j in (1, 4, 2):
        for i in range(3):
            if i == j:
                break
            x[0] += j
        k = 0
        while k < 5:
            k += 1
            if k == j:
                continue
            x[1] += k


def test_inner_loops_of_loops_over_tuples_are_left(place: ArrayDevice) -> None:
    x = place.zeros(2, np.int32)
    leaves_inner_loops[1, 1](x)
    assert place.numpy(x).tolist() == [17, 38]


@jit.rawkernel()
def transpose(x, y):
    j, i = jit.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@pytest.mark.parametrize("cut", [slice(None), slice(None, None, 2), slice(None, None, -1)])
def test_arrays_of_any_layout(place: ArrayDevice, cut: slice) -> None:
    base = np.arange(6 * 10, dtype=np.float64).reshape(6, 10)
    x, y = place.array(base)[cut, cut], place.zeros((10, 6))
    expected = base[cut, cut].T
    y = y[: expected.shape[0], : expected.shape[1]]
    transpose[(1, 1), (16, 8)](x, y)
    assert np.array_equal(place.numpy(y), expected)


@jit.rawkernel()
def block_sum(x, y):
    buffer = jit.shared_memory(np.float32, 64)
    i = jit.threadIdx.x
    buffer[i] = x[i]
    jit.syncthreads()
    width = 32
    while width > 0:
        if i < width:
            buffer[i] += buffer[i + np.uint32(width)]
        jit.syncthreads()
        width //= 2
    if i == 0:
        y[0] = buffer[0]
    jit.atomic_add(y, 1, x[i])


def test_shared_memory_and_atomics(place: ArrayDevice) -> None:
    x, y = place.array(np.arange(64), np.float32), place.zeros(2, np.float32)
    block_sum[1, 64](x, y)
    assert place.numpy(y).tolist() == [2016, 2016]


@jit.rawkernel(device=True)
def square(x):
    return x * x


@jit.rawkernel()
def squares(x, y):
    i = jit.threadIdx.x
    y[i] = square(x[i]) + square(jit.threadIdx.x + 1)


def test_device_functions(place: ArrayDevice) -> None:
    x, y = place.array(np.arange(4), np.float32), place.zeros(4, np.float32)
    squares[1, 4](x, y)
    assert place.numpy(y).tolist() == [1, 5, 13, 25]


FACTOR = 2


@jit.rawkernel()
def scaled(x):
    x[jit.threadIdx.x] *= FACTOR


def test_a_global_that_changes_makes_a_new_kernel(
    place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = place.array(np.ones(4), np.float32)
    for factor in (2, 2, 2, 5, 5):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        scaled[1, 4](x)
    assert place.numpy(x).tolist() == [200.0] * 4


def test_lambdas(place: ArrayDevice) -> None:
    y: Any = place.zeros(4, np.float32)
    jit.rawkernel()(lambda y: jit.atomic_add(y, jit.threadIdx.x, 3))[1, 4](y)
    assert place.numpy(y).tolist() == [3.0] * 4


def test_messages_name_the_argument() -> None:
    x, swapped = np.ones(3), np.ones(3, ">f8")
    with pytest.raises(TypeError, match=r"^saxpy: argument y: .* not in native byte order"):
        saxpy[1, 4](x, swapped, 2.0, 3)
