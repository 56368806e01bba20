"""Kernels with core dimensions that several test modules call, and what NumPy says they return."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import kspec

Array = npt.NDArray[Any]


def anew(kernel: kspec.ElementwiseKernel) -> kspec.ElementwiseKernel:
    """Return a kernel of the same spec that has not been compiled yet."""
    return kspec.ElementwiseKernel.from_spec(kernel.spec)


def integers(*shape: int, dtype: Any = "float64", seed: int = 0) -> Array:
    """Return whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(0, 9, shape).astype(dtype)


MATVEC = kspec.ElementwiseKernel(
    "T A[n, m], T x[m]",
    "T y[n]",
    "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) y(r) += A(r, c) * x(c)",
    "core_matvec",
)
MATMUL = kspec.ElementwiseKernel(
    "T A[n, k], T B[k, m]",
    "T C[n, m]",
    """
    for (int r = 0; r < n; ++r)
      for (int c = 0; c < m; ++c) {
        T sum = 0;
        for (int j = 0; j < k; ++j) sum += A(r, j) * B(j, c);
        C(r, c) = sum;
      }
    """,
    "core_matmul",
)
SOLVE = kspec.ElementwiseKernel(
    "T A[n, n], T b[n]",
    "T x[n]",
    """
    T L[n][n];
    for (int r = 0; r < n; ++r) {
      x(r) = b(r);
      for (int c = 0; c < n; ++c) L[r][c] = A(r, c);
    }
    for (int p = 0; p < n; ++p)
      for (int r = p + 1; r < n; ++r) {
        const T factor = L[r][p] / L[p][p];
        for (int c = p; c < n; ++c) L[r][c] -= factor * L[p][c];
        x(r) -= factor * x(p);
      }
    for (int p = n - 1; p >= 0; --p) {
      for (int c = p + 1; c < n; ++c) x(p) -= L[p][c] * x(c);
      x(p) /= L[p][p];
    }
    """,
    "core_solve",
)
DET = kspec.ElementwiseKernel(
    "T A[3, 3]",
    "T d",
    "d = A(0, 0) * (A(1, 1) * A(2, 2) - A(1, 2) * A(2, 1))"
    " - A(0, 1) * (A(1, 0) * A(2, 2) - A(1, 2) * A(2, 0))"
    " + A(0, 2) * (A(1, 0) * A(2, 1) - A(1, 1) * A(2, 0))",
    "core_det",
)
CONVOLVE = kspec.ElementwiseKernel(
    "T a[n], T b[m]",
    "T c[n + m - 1]",
    "for (int j = 0; j < n; ++j) for (int k = 0; k < m; ++k) c(j + k) += a(j) * b(k)",
    "core_convolve",
)
CROSS = kspec.ElementwiseKernel(
    "T a[3], T b[3]",
    "T c[3]",
    "c(0) = a(1) * b(2) - a(2) * b(1); c(1) = a(2) * b(0) - a(0) * b(2);"
    " c(2) = a(0) * b(1) - a(1) * b(0);",
    "core_cross",
)
FIRST = kspec.ElementwiseKernel(
    "T x[n]",
    "T y[k]",
    "for (int j = 0; j < k; ++j) y(j) = x(j % n)",
    "core_first",
    sizes={"k": [2]},
)
STATISTICS = kspec.ElementwiseKernel(
    "T x[n], T scale",
    "T centred[n], T mean, int64 number",
    """
    T sum = 0;
    for (int j = 0; j < n; ++j) sum += x(j);
    mean = scale * sum / n;
    for (int j = 0; j < n; ++j) centred(j) = scale * x(j) - mean;
    number = i;
    """,
    "core_statistics",
)


def weighted(axes: int) -> kspec.ElementwiseKernel:
    """Return a kernel of items with so many axes, which reverses each of them.

    Elements are multiplied by their places in C order, from one on; the operands without core
    dimensions are the sum of an item, and what is added to it.
    """
    names = "pqrs"[:axes]
    loops = "".join(f"for (int {a}_ = 0; {a}_ < {a}; ++{a}_) " for a in names)
    index = ", ".join(f"{a}_" for a in names)
    back = ", ".join(f"{a} - 1 - {a}_" for a in names)
    element = f"y({back}) = x({index}) * T(++place); w += x({index});"
    return kspec.ElementwiseKernel(
        f"T x[{', '.join(names)}], T z",
        f"T y[{', '.join(names)}], T w",
        f"int place = 0; w = z; {loops}{{ {element} }}",
        f"core_weighted_{axes}",
    )


def weighted_result(x: Array, z: Any, axes: int) -> tuple[Array, Array]:
    """Return the outputs of `weighted(axes)`."""
    items = tuple(range(x.ndim - axes, x.ndim))
    core = x.shape[x.ndim - axes :]
    places = np.arange(1, math.prod(core) + 1).reshape(core).astype(x.dtype)
    total = x.sum(items, dtype=x.dtype) + np.asarray(z, x.dtype)
    loop = total.shape
    y = np.flip(x * places, items)
    return np.broadcast_to(y, (*loop, *core)), total


@dataclass(frozen=True)
class Model:
    """A kernel and its reference.

    Attributes
    ----------
    kernel : ElementwiseKernel
        The kernel.
    expected : callable
        The same with NumPy.
    inputs : tuple of tuple of str
        Core dimensions of each input.
    """

    kernel: kspec.ElementwiseKernel
    expected: Callable[..., Any]
    inputs: tuple[tuple[str, ...], ...]

    def draw(self, loops: tuple[tuple[int, ...], ...], dtype: Any = "float64", **sizes: int) -> Any:
        """Return inputs with shapes of the loop, one for each, and values of the sizes."""
        found = []
        for seed, (loop, core) in enumerate(zip(loops, self.inputs, strict=True)):
            item = tuple(int(one) if one.isdecimal() else sizes[one] for one in core)
            found.append(integers(*loop, *item, dtype=dtype, seed=seed))
        return found


def vectorized(function: Callable[..., Any], signature: str) -> Callable[..., Any]:
    """Return a function of items as one of arrays, which may have no items."""
    return functools.partial(_vectorized, function, signature)


def _vectorized(function: Callable[..., Any], signature: str, *arrays: Array) -> Any:
    return np.vectorize(function, signature=signature)(*arrays)


MODELS = {
    "matvec": Model(
        MATVEC,
        lambda A, x: np.matmul(A, x[..., None])[..., 0],
        (("n", "m"), ("m",)),
    ),
    "matmul": Model(MATMUL, np.matmul, (("n", "k"), ("k", "m"))),
    "det": Model(DET, lambda A: np.rint(np.linalg.det(A)), (("3", "3"),)),
    "convolve": Model(CONVOLVE, vectorized(np.convolve, "(n),(m)->(k)"), (("n",), ("m",))),
    "cross": Model(CROSS, np.cross, (("3",), ("3",))),
}
