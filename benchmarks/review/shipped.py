"""Calls of the shipped kernels, and of elementwise kernels and reductions made in Python.

What they launch is for kspec to decide, so a case has no grid of its own.  A call takes NumPy's
arrays, or the same ones on a GPU.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from kspec_kernels import (
    complex,
    filters,
    linear,
    norms,
    pairs,
    points,
    raw,
    sparse,
    statistics,
    stencils,
    vectors,
)
from kspec_kernels import math as differences

import kspec
from benchmarks.review.case import ELEMENTS, floats, integers, matrix_shape, zeros
from benchmarks.review.divergent import sparse_matrix

_ROW = 1024


@dataclass(frozen=True)
class Call:
    """A call that launches one kernel of kspec or more.

    Attributes
    ----------
    name : str
        Name of the case.
    call : callable
        ``call(*arguments)``; writes to the last of them.
    arguments : callable
        Makes NumPy arrays and numbers, always the same ones.
    expected : callable
        ``expected(*arguments)``: the elements of the last argument afterwards.
    bandwidth_bound : bool
        Whether the bandwidth of the memory should limit it.
    """

    name: str
    call: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    expected: Callable[..., Any]
    bandwidth_bound: bool = True


def _square(x: Any, y: Any) -> Any:
    return (x - y) ** 2


def _elementwise(n: int) -> list[Call]:
    rows, columns = matrix_shape(n)
    shape = (rows, columns)
    generic = differences.squared_diff_generic

    def matrices(*shapes: tuple[int, ...]) -> Callable[[], tuple[Any, ...]]:
        return lambda: (
            *(floats(math.prod(one), k).reshape(one) for k, one in enumerate(shapes)),
            zeros(n).reshape(shape),
        )

    return [
        Call(
            "squared_diff",
            differences.squared_diff,
            lambda: (floats(n, 1), floats(n, 2), zeros(n)),
            lambda x, y, z: _square(x, y),
        ),
        Call(
            "squared_diff_row",
            generic,
            matrices(shape, (columns,)),
            lambda x, y, z: _square(x, y),
        ),
        Call(
            "squared_diff_column",
            generic,
            matrices(shape, (rows, 1)),
            lambda x, y, z: _square(x, y),
        ),
        Call(
            "squared_diff_transposed",
            lambda x, y, z: generic(x.T, y, z),
            matrices((columns, rows), shape),
            lambda x, y, z: _square(x.T, y),
        ),
        Call(
            "squared_diff_both_transposed",
            lambda x, y, z: generic(x.T, y.T, z),
            matrices((columns, rows), (columns, rows)),
            lambda x, y, z: _square(x.T, y.T),
        ),
        Call(
            "squared_diff_strided",
            lambda x, y, z: generic(x[::2], y[::2], z),
            lambda: (floats(n, 1), floats(n, 2), zeros(n // 2)),
            lambda x, y, z: _square(x[::2], y[::2]),
        ),
        Call(
            "squared_diff_misaligned",
            lambda x, y, z: generic(x[1:], y[3:], z),
            lambda: (floats(n + 1, 1), floats(n + 3, 2), zeros(n)),
            lambda x, y, z: _square(x[1:], y[3:]),
        ),
        Call(
            "squared_diff_mixed",
            differences.squared_diff_super_generic,
            lambda: (floats(n, 1), floats(n, 2).astype("float64"), zeros(n, "float64")),
            lambda x, y, z: _square(x, y),
        ),
        Call(
            "add_reverse",
            differences.add_reverse,
            lambda: (floats(n, 1), floats(n, 2), zeros(n)),
            lambda x, y, z: x + y[::-1],
        ),
        Call(
            "abs_squared",
            complex.abs_squared,
            lambda: (floats(n // 2).view("complex64").astype("complex128"), zeros(n // 4, "d")),
            lambda z, y: np.abs(z) ** 2,
        ),
        Call(
            "quaternion_rotate",
            linear.quaternion_rotate,
            lambda: (
                floats(n // 2, 1).reshape(-1, 4),
                np.tile(np.float32([[1, 0, 0]]), (n // 8, 1)),
                zeros(3 * (n // 8)).reshape(-1, 3),
            ),
            _rotated,
        ),
        Call(
            "small_matmul",
            linear.small_matmul,
            lambda: (
                floats(n // 2, 1).reshape(-1, 4, 4),
                floats(n // 2, 2).reshape(-1, 4, 4),
                zeros(n // 2).reshape(-1, 4, 4),
            ),
            lambda a, b, c: a @ b,
        ),
        Call(
            "two_outputs",
            lambda x, y, s, d: _sums()(x, y, s, d),
            lambda: (floats(n, 1), floats(n, 2), zeros(n), zeros(n)),
            lambda x, y, s, d: x - y,
        ),
        Call(
            "gather_by_index",
            lambda index, x, y: _gather()(index, x, y),
            lambda: (integers(n // 4, n, seed=3), floats(n), zeros(n // 4)),
            lambda index, x, y: x[index],
        ),
    ]


@functools.cache
def _sums() -> Any:
    return kspec.ElementwiseKernel(
        "T x, T y", "T s, T d", "s = x + y; d = x - y", "sum_and_difference"
    )


@functools.cache
def _gather() -> Any:
    return kspec.ElementwiseKernel("int32 j, raw T x", "T y", "y = x[j]", "gather_by_index")


def _rotated(q: Any, v: Any, w: Any) -> Any:
    x, y, z, real = q.T
    return np.stack(
        [1 - 2 * (y * y + z * z), 2 * (x * y + z * real), 2 * (x * z - y * real)], axis=-1
    )


def _raw(n: int) -> list[Call]:
    point = np.dtype([("x", "f4"), ("y", "f4"), ("weight", "i4")])
    side = 32
    while (2 * side) ** 2 <= n // 128:
        side *= 2
    return [
        Call(
            "my_add",
            functools.partial(raw.my_add, (n // 256,), (256,)),
            lambda: (floats(n, 1), floats(n, 2), zeros(n)),
            lambda x, y, z: x + y,
        ),
        Call(
            "vector_add",
            lambda a, b, c: vectors.vector_add((c.size // 256 + 1,), (256,), a, b, c, c.size),
            lambda: (
                floats(n // 2, 1).astype("d"),
                floats(n // 2, 2).astype("d"),
                zeros(n // 2, "d"),
            ),
            lambda a, b, c: a + b,
        ),
        Call(
            "axpy",
            functools.partial(vectors.axpy, 0.5),
            lambda: (floats(n, 1), floats(n, 2)),
            lambda x, y: np.float32(0.5) * x + y,
        ),
        Call(
            "distance",
            lambda p, d: points.distance(p, (0.0, 0.0, 1), d),
            lambda: (floats(3 * (n // 4)).view(point), zeros(n // 4)),
            lambda p, d: np.hypot(p["x"], p["y"]),
        ),
        Call(
            "matmul",
            functools.partial(raw.matmul, TILE=16),
            lambda: (
                floats(side * side, 1).reshape(side, side),
                floats(side * side, 2).reshape(side, side),
                zeros(side * side).reshape(side, side),
            ),
            lambda a, b, c: a @ b,
            bandwidth_bound=False,
        ),
    ]


def _reductions(n: int) -> list[Call]:
    rows, columns = matrix_shape(n)
    matrix = lambda: floats(n).reshape(rows, columns)  # noqa: E731

    def norm(name: str, axis: int, count: int, dtype: str = "float32") -> Call:
        return Call(
            name,
            lambda x, y: norms.l2norm(x, y, axis=axis),
            lambda: (matrix().astype(dtype, copy=False), zeros(count, dtype)),
            lambda x, y: np.sqrt((x.astype("d") ** 2).sum(axis)),
        )

    return [
        norm("l2norm_rows", 1, rows),
        norm("l2norm_columns", 0, columns),
        norm("l2norm_rows_half", 1, rows, "float16"),
        Call(
            "l2_norm_sq_all",
            lambda x, y: norms.l2_norm_sq(x, y),
            lambda: (floats(n // 2).astype("d"), zeros(1, "d").reshape(())),
            lambda x, y: (x * x).sum(),
        ),
        Call(
            "total_short_rows",
            lambda x, y: statistics.total(x, y, axis=1),
            lambda: (floats(n).reshape(-1, 32), zeros(n // 32)),
            lambda x, y: x.sum(1),
        ),
        Call(
            "argmax_rows",
            lambda x, y: statistics.argmax(x, y, axis=1),
            lambda: (matrix(), zeros(rows, "int64")),
            lambda x, y: x.argmax(1),
        ),
        Call(
            "mean_var_rows",
            lambda x, mean, variance: statistics.mean_var(x, 0.0, mean, variance, axis=1),
            lambda: (matrix(), zeros(rows), zeros(rows)),
            lambda x, mean, variance: x.var(1, dtype="d"),
        ),
        Call(
            "logsumexp_rows",
            lambda x, y: norms.logsumexp(x, y, axis=1),
            lambda: (matrix(), zeros(rows)),
            lambda x, y: np.log(np.exp(x.astype("d")).sum(1)),
        ),
        Call(
            "dot_rows",
            lambda x, w, y: _dot()(x, w, y, axis=1),
            lambda: (matrix(), floats(columns, 2), zeros(rows)),
            lambda x, w, y: x @ w,
        ),
        Call(
            "gauss_sum",
            lambda x, y, w, r: pairs.gauss_sum(x[:, None], y, w, r, axis=1),
            lambda: (
                floats(3 * 4096, 1).reshape(-1, 3),
                floats(3 * 1024, 2).reshape(-1, 3),
                floats(1024, 3),
                zeros(4096),
            ),
            lambda x, y, w, r: (w * np.exp(-((x[:, None] - y).astype("d") ** 2).sum(-1))).sum(1),
            bandwidth_bound=False,
        ),
    ]


@functools.cache
def _dot() -> Any:
    return kspec.ReductionKernel("T xs, T ws", "T ys", "xs * ws", "a + b", "ys = a", "0", "dot")


def _forms(n: int) -> list[Call]:
    bounds = np.arange(0, n + 1, 512, dtype=np.int64)
    matrix = lambda: (floats(n).reshape(-1, _ROW), zeros(n).reshape(-1, _ROW))  # noqa: E731
    sparse_arrays = lambda: (*sparse_matrix(n // 64, 128, n // 8), zeros(n // 64))  # noqa: E731
    return [
        Call(
            "scan_rows",
            lambda x, y: statistics.total.scan(x, out=y, axis=1),
            matrix,
            lambda x, y: x.cumsum(1, dtype="d"),
        ),
        Call(
            "scan_columns",
            lambda x, y: statistics.total.scan(x, out=y, axis=0),
            matrix,
            lambda x, y: x.cumsum(0, dtype="d"),
        ),
        Call(
            "scan_all",
            lambda x, y: statistics.total.scan(x, out=y),
            lambda: (floats(n), zeros(n)),
            lambda x, y: x.cumsum(dtype="d"),
        ),
        Call(
            "segments",
            lambda x, indptr, y: statistics.total.segments(x, indptr, out=y),
            lambda: (floats(n), bounds, zeros(n // 512)),
            lambda x, indptr, y: x.reshape(-1, 512).sum(1),
        ),
        Call(
            "rolling_window",
            lambda x, y: statistics.total.window(x, 8, out=y),
            lambda: (floats(n + 7), zeros(n)),
            lambda x, y: (
                np.diff(x.cumsum(dtype="d"), 0)[7:] - np.append(0, x.cumsum(dtype="d")[: n - 1])
            ),
        ),
        Call(
            "histogram_by_key",
            lambda x, keys, total, count: statistics.histogram.by_key(
                x, keys, 256, out=(total, count)
            ),
            lambda: (floats(n), integers(n, 256), zeros(256), zeros(256, "int64")),
            lambda x, keys, total, count: np.bincount(keys, minlength=256),
        ),
        Call(
            "csr_product",
            lambda start, column, value, x, y: sparse.csr_product.segments(
                value, column, x, start, out=y
            ),
            sparse_arrays,
            _csr_product,
            bandwidth_bound=False,
        ),
        Call(
            "biquad_scan",
            lambda x, y: filters.biquad.scan(x, 0.2, 0.3, 0.2, -0.5, 0.2, out=y, axis=1),
            matrix,
            _biquad,
        ),
    ]


def _csr_product(start: Any, column: Any, value: Any, x: Any, y: Any) -> Any:
    sums = np.append(0.0, np.cumsum(value.astype("d") * x[column]))
    return sums[start[1:]] - sums[start[:-1]]


def _biquad(x: Any, y: Any) -> Any:
    out = np.zeros(x.shape)
    for k in range(x.shape[1]):
        for weight, back in ((0.2, 0), (0.3, 1), (0.2, 2)):
            if k >= back:
                out[:, k] += weight * x[:, k - back]
        for weight, back in ((-0.5, 1), (0.2, 2)):
            if k >= back:
                out[:, k] -= weight * out[:, k - back]
    return out


def _stencils(n: int) -> list[Call]:
    rows, columns = matrix_shape(n)
    image = lambda: (floats(n).reshape(rows, columns), zeros(n).reshape(rows, columns))  # noqa: E731

    def edge(u: Any, axis: int, by: int) -> Any:
        places = np.clip(np.arange(u.shape[axis]) + by, 0, u.shape[axis] - 1)
        return u.take(places, axis)

    def blurred(u: Any, axis: int) -> Any:
        weights = {k: math.exp(-0.5 * (k / 1.5) ** 2) for k in range(-4, 5)}
        parts = (weight * edge(u, axis, k) for k, weight in weights.items())
        return sum(parts) / sum(weights.values())

    return [
        Call(
            "laplacian",
            lambda u, v: stencils.laplacian(u, 0.5, v, boundary="nearest"),
            image,
            lambda u, v: 4 * (sum(edge(u, axis, by) for axis in (0, 1) for by in (-1, 1)) - 4 * u),
        ),
        Call(
            "gaussian_rows",
            lambda u, v: stencils.gaussian_rows(u, 1.5, v, boundary="nearest", R=4),
            image,
            lambda u, v: blurred(u, 1),
        ),
        Call(
            "gaussian_columns",
            lambda u, v: stencils.gaussian_columns(u, 1.5, v, boundary="nearest", R=4),
            image,
            lambda u, v: blurred(u, 0),
        ),
        Call(
            "sobel",
            lambda u, dy, dx: stencils.sobel(u, dy, dx, boundary="nearest"),
            lambda: (*image(), zeros(n).reshape(rows, columns)),
            lambda u, dy, dx: sum(
                weight * (edge(edge(u, 0, by), 1, 1) - edge(edge(u, 0, by), 1, -1))
                for by, weight in ((-1, 1), (0, 2), (1, 1))
            ),
        ),
    ]


def shipped_calls(elements: int = ELEMENTS) -> list[Call]:
    """Return the calls, for arrays of about so many elements: a power of two, at least 2**16."""
    tables = (_elementwise, _raw, _reductions, _forms, _stencils)
    return [call for table in tables for call in table(elements)]
