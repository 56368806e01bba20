"""Fused and jitted functions, as they stand in programs that use CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.contract.foreign.declared import Foreign, Library, drawn


def _activation(library: Library) -> Any:
    xp = library.xp

    def activation(z, low, high):
        z = xp.clip(z, low, high)
        return 1.0 / (1.0 + xp.exp(-z))

    return library.fuse(activation)


def _update(library: Library) -> Any:
    xp = library.xp

    def update(weights, gradient, speed, rate):
        speed *= 0.9
        speed += rate * gradient
        weights -= speed * (xp.abs(speed) > 0.1)

    return library.fuse(update)


def _score(library: Library) -> Any:
    xp = library.xp

    def score(x, mean, sigma):
        z = (x - mean) / sigma
        return xp.sum(-xp.log(sigma) - 0.5 * z**2, axis=1)

    return library.fuse(score)


def _bytes(library: Library) -> Any:
    xp = library.xp

    def to_bytes(image, shift):
        image = image >> shift
        return xp.minimum(image, 200).astype(xp.uint8), image & 1

    return library.fuse(to_bytes)


def _checked(library: Library) -> Any:
    xp = library.xp

    def checked(x):
        return xp.all(xp.isfinite(x) & (x > -10), axis=0)

    return library.fuse(checked)


def _rounded(library: Library) -> Any:
    xp = library.xp

    def rounded(x, y):
        return xp.sinc(x) + xp.maximum(xp.rint(y), -2), xp.logical_xor(x > 0, y > 0)

    return library.fuse(rounded)


def _saxpy(library: Library) -> Any:
    jit = library.jit

    @jit.rawkernel()
    def saxpy(x, y, a, size):
        tid = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        ntid = jit.gridDim.x * jit.blockDim.x
        for i in range(tid, size, ntid):
            y[i] = a * x[i] + y[i]

    return saxpy


def _relax(library: Library) -> Any:
    jit = library.jit

    @jit.rawkernel()
    def relax(before, after, mask):
        i = 1 + jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        j = 1 + jit.blockIdx.y * jit.blockDim.y + jit.threadIdx.y
        if (i <= before.shape[0] - 2) and (j <= before.shape[1] - 2):
            if mask[i, j]:
                after[i, j] = 0.25 * (
                    before[i - 1, j] + before[i + 1, j] + before[i, j - 1] + before[i, j + 1]
                )
            else:
                after[i, j] = before[i, j]

    return relax


def _sums(library: Library) -> Any:
    jit = library.jit

    @jit.rawkernel()
    def sums(x, y):
        held = jit.shared_memory(np.float32, 64)
        tid = jit.threadIdx.x
        held[tid] = x[jit.blockIdx.x, tid]
        jit.syncthreads()
        step = np.uint32(32)
        while step > np.uint32(0):
            if tid < step:
                held[tid] += held[tid + step]
            jit.syncthreads()
            step = step // np.uint32(2)
        if tid == np.uint32(0):
            y[jit.blockIdx.x] = held[0]

    return sums


def _ranks(library: Library) -> Any:
    jit = library.jit

    @jit.rawkernel()
    def ranks(offsets, places, found):
        i = jit.grid(1)
        if i < places.shape[0]:
            found[i] = 0
            for k in range(offsets.shape[0]):
                found[i] += int(offsets[k] <= places[i])

    return ranks


def _counts(library: Library) -> Any:
    jit = library.jit

    @jit.rawkernel()
    def counts(x, bins):
        for i in range(jit.grid(1), x.size, jit.gridsize(1)):
            jit.atomic_add(bins, x[i] % 8, 1)

    return counts


def _powers(library: Library) -> Any:
    jit = library.jit

    def power(exponent):
        @jit.rawkernel(device=True)
        def raised(value):
            result = value
            for _ in range(exponent - 1):
                result *= value
            return result

        return raised

    cube = power(3)

    @jit.rawkernel()
    def powers(x, y):
        lane = jit.laneid()
        value = cube(x[jit.threadIdx.x])
        y[jit.threadIdx.x] = value + jit.shfl_xor_sync(0xFFFFFFFF, value, 1) * (lane % 2)

    return powers


def _after_update(weights, gradient, speed, rate):
    speed[...] = speed * np.float32(0.9) + rate * gradient
    weights -= speed * (np.abs(speed) > 0.1)


def _after_relax(old, new, mask):
    inner = 0.25 * (old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:])
    new[1:-1, 1:-1] = np.where(mask[1:-1, 1:-1], inner, old[1:-1, 1:-1])


def _after_saxpy(x, y, a, size):
    y += a * x


def _after_counts(x, bins):
    bins += np.bincount(x % 8, minlength=8).astype("int32")


def _after_sums(x, y):
    y[...] = x.sum(1)


def _after_ranks(offsets, places, found):
    found[...] = (offsets <= places[:, None]).sum(1)


def _after_powers(x, y):
    y[...] = x**3 + np.where(np.arange(32) % 2, (x**3).reshape(-1, 2)[:, ::-1].ravel(), 0)


PYTHON = (
    Foreign(
        "a fused activation with limits",
        _activation, (drawn(40, dtype="float64"), -1.0, 2.0),
        lambda z, low, high: 1 / (1 + np.exp(-np.clip(z, low, high))),
    ),
    Foreign(
        "a fused update of two arguments",
        _update, (drawn(40), drawn(41)[:40].copy(), drawn(42)[:40].copy(), np.float32(0.1)),
        _after_update, tolerance=1e-5,
    ),
    Foreign(
        "a fused sum over an axis",
        _score, (drawn(8, 30, dtype="float64"), drawn(30, dtype="float64"), drawn(30, dtype="float64", low=0.5)),
        lambda x, mean, sigma: (-np.log(sigma) - 0.5 * ((x - mean) / sigma) ** 2).sum(1),
    ),
    Foreign(
        "a fused shift with several results",
        _bytes, (drawn(50, dtype="int32", low=0, high=4000), 3),
        lambda image, shift: (np.minimum(image >> shift, 200).astype("uint8"), (image >> shift) & 1),
    ),
    Foreign(
        "a fused test of all",
        _checked, (drawn(9, 4, dtype="float64", low=-20),),
        lambda x: np.all(np.isfinite(x) & (x > -10), axis=0),
    ),
    Foreign(
        "fused functions of CuPy's that are no operators",
        _rounded, (drawn(50, dtype="float64"), drawn(51, dtype="float64")[:50].copy()),
        lambda x, y: (np.sinc(x) + np.maximum(np.rint(y), -2), np.logical_xor(x > 0, y > 0)),
    ),
    Foreign(
        "a jitted loop over the grid",
        _saxpy, (drawn(100), drawn(101)[:100].copy(), np.float32(2.5), np.uint32(100)),
        _after_saxpy, launch=((2,), (32,)),
    ),
    Foreign(
        "a jitted stencil of two axes",
        _relax, (drawn(9, 14, dtype="float64"), np.zeros((9, 14)), drawn(9, 14, dtype="bool")),
        _after_relax, launch=((2, 2), (8, 8)),
    ),
    Foreign(
        "jitted shared memory and a while loop",
        _sums, (drawn(5, 64), np.zeros(5, "float32")),
        _after_sums, launch=((5,), (64,)), tolerance=1e-4,
    ),
    Foreign(
        "a jitted search with a conversion",
        _ranks, (np.arange(0, 50, 7, dtype="int32"), drawn(40, dtype="int32", low=0, high=50), np.zeros(40, "int32")),
        _after_ranks, launch=((2,), (32,)),
    ),
    Foreign(
        "jitted atomics on a histogram",
        _counts, (drawn(300, dtype="int32", low=0, high=99), np.zeros(8, "int32")),
        _after_counts, launch=((2,), (64,)),
    ),
    Foreign(
        "a jitted device function that a function made, and a shuffle",
        _powers, (drawn(32), np.zeros(32, "float32")),
        _after_powers, launch=((1,), (32,)), tolerance=1e-5,
    ),
)  # fmt: skip
