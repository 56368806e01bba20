"""Kernels with core dimensions that have gradients, and the same functions of NumPy's.

Several adapters of array libraries call them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kspec

_ELIMINATE = """
template <class T, int N> __device__ void eliminate(T (&m)[N][N], T (&y)[N]) {
  for (int p = 0; p < N; ++p)
    for (int r = p + 1; r < N; ++r) {
      const T factor = m[r][p] / m[p][p];
      for (int c = p; c < N; ++c) m[r][c] -= factor * m[p][c];
      y[r] -= factor * y[p];
    }
  for (int r = N - 1; r >= 0; --r) {
    for (int c = r + 1; c < N; ++c) y[r] -= m[r][c] * y[c];
    y[r] /= m[r][r];
  }
}
"""
_SOLVE_BACKWARD = kspec.ElementwiseKernel(
    "T A[n, n], T x[n], T grad_x[n]",
    "T grad_A[n, n], T grad_b[n]",
    """
    T m[n][n], y[n];
    for (int r = 0; r < n; ++r) {
      y[r] = grad_x(r);
      for (int c = 0; c < n; ++c) m[r][c] = A(c, r);
    }
    eliminate(m, y);
    for (int r = 0; r < n; ++r) {
      grad_b(r) = y[r];
      for (int c = 0; c < n; ++c) grad_A(r, c) = -y[r] * x(c);
    }
    """,
    "core_solve_backward",
    preamble=_ELIMINATE,
)
SOLVE = kspec.ElementwiseKernel(
    "T A[n, n], T b[n]",
    "T x[n]",
    """
    T m[n][n], y[n];
    for (int r = 0; r < n; ++r) {
      y[r] = b(r);
      for (int c = 0; c < n; ++c) m[r][c] = A(r, c);
    }
    eliminate(m, y);
    for (int r = 0; r < n; ++r) x(r) = y[r];
    """,
    "core_solve_by",
    preamble=_ELIMINATE,
    backward=_SOLVE_BACKWARD,
)
# Squared distances, with a factor that has no core dimensions.
_DISTANCE_BACKWARD = kspec.ElementwiseKernel(
    "T x[d], T y[d], T b, T grad_r",
    "T grad_x[d], T grad_y[d], T grad_b",
    """
    grad_b = 0;
    for (int k = 0; k < d; ++k) {
      const T step = x(k) - y(k);
      grad_x(k) = 2 * step * b * grad_r;
      grad_y(k) = -2 * step * b * grad_r;
      grad_b += step * step * grad_r;
    }
    """,
    "core_distance_backward",
)
DISTANCE = kspec.ElementwiseKernel(
    "T x[d], T y[d], T b",
    "T r",
    "r = 0; for (int k = 0; k < d; ++k) r += (x(k) - y(k)) * (x(k) - y(k)); r *= b",
    "core_distance",
    backward=_DISTANCE_BACKWARD,
)
# A size that calls give, and two outputs with different core dimensions.
_POWERS_BACKWARD = kspec.ElementwiseKernel(
    "T x, T v[3], T grad_p[n, 3], T grad_s",
    "T grad_x, T grad_v[3]",
    """
    grad_x = 0;
    T power = 1;
    for (int c = 0; c < 3; ++c) grad_v(c) = grad_s;
    for (int r = 0; r < n; ++r) {
      for (int c = 0; c < 3; ++c) {
        grad_x += (r + 1) * power * v(c) * grad_p(r, c);
        grad_v(c) += power * x * grad_p(r, c);
      }
      power *= x;
    }
    """,
    "core_powers_backward",
)
POWERS = kspec.ElementwiseKernel(
    "T x, T v[3]",
    "T p[n, 3], T s",
    """
    s = v(0) + v(1) + v(2);
    T power = x;
    for (int r = 0; r < n; ++r) {
      for (int c = 0; c < 3; ++c) p(r, c) = power * v(c);
      power *= x;
    }
    """,
    "core_powers",
    sizes={"n": [2]},
    backward=_POWERS_BACKWARD,
)
# An output whose extent is an expression; no input of the gradients can have that.
_PRODUCT_BACKWARD = kspec.ElementwiseKernel(
    "T a[n], T b[m], T grad_c[k]",
    "T grad_a[n], T grad_b[m]",
    """
    for (int r = 0; r < n; ++r) grad_a(r) = 0;
    for (int s = 0; s < m; ++s) grad_b(s) = 0;
    for (int r = 0; r < n; ++r)
      for (int s = 0; s < m; ++s) {
        grad_a(r) += b(s) * grad_c(r + s);
        grad_b(s) += a(r) * grad_c(r + s);
      }
    """,
    "core_product_backward",
)
PRODUCT = kspec.ElementwiseKernel(
    "T a[n], T b[m]",
    "T c[n + m - 1]",
    """
    for (int k = 0; k < n + m - 1; ++k) c(k) = 0;
    for (int r = 0; r < n; ++r)
      for (int s = 0; s < m; ++s) c(r + s) += a(r) * b(s);
    """,
    "core_product",
    backward=_PRODUCT_BACKWARD,
)
# Pairs: each element of x with each of y, where their axes are apart.
_GAUSS_BACKWARD = kspec.ElementwiseKernel(
    "T x[d], T y[d], T b, T grad_r",
    "T grad_x[d], T grad_y[d], T grad_b",
    """
    T sum = 0;
    for (int k = 0; k < d; ++k) sum += (x(k) - y(k)) * (x(k) - y(k));
    const T near = exp(-sum);
    grad_b = near * grad_r;
    for (int k = 0; k < d; ++k) {
      grad_x(k) = -2 * (x(k) - y(k)) * near * b * grad_r;
      grad_y(k) = 2 * (x(k) - y(k)) * near * b * grad_r;
    }
    """,
    "core_gauss_backward",
)
GAUSS = kspec.ReductionKernel(
    "T x[d], T y[d], T b",
    "T r",
    """[&] {
      T sum = 0;
      for (int k = 0; k < d; ++k) sum += (x(k) - y(k)) * (x(k) - y(k));
      return exp(-sum) * b;
    }()""",
    "a + b",
    "r = a",
    "0",
    "core_gauss",
    backward=_GAUSS_BACKWARD,
)
# Without gradients; the inputs of the first decide the extent of its output.
FIRSTS = kspec.ReductionKernel(
    "T x[d]",
    "T y[d]",
    "x(0)",
    "a + b",
    "for (int k = 0; k < d; ++k) y(k) = a + k",
    "0",
    "core_firsts",
)
MATVEC = kspec.ElementwiseKernel(
    "T A[n, m], T x[m]",
    "T y[n]",
    """
    for (int r = 0; r < n; ++r) {
      y(r) = 0;
      for (int c = 0; c < m; ++c) y(r) += A(r, c) * x(c);
    }
    """,
    "core_apply",
)


def values(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return random numbers between 0 and 1."""
    return np.random.default_rng(seed).random(shape).astype(dtype)


def matrices(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    """Return matrices that can be eliminated without exchanging rows."""
    return (values(*shape, seed=seed) + shape[-1] * np.eye(shape[-1])).astype(dtype)


def solve(A: Any, b: Any) -> Any:
    """Return the vectors x for which ``A @ x`` is b, as `SOLVE`."""
    return np.linalg.solve(A, b[..., None])[..., 0]


def distance(x: Any, y: Any, b: Any) -> Any:
    """Return the squared distances of vectors times b, as `DISTANCE`."""
    return ((x - y) ** 2).sum(-1) * b


def gauss(x: Any, y: Any, b: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the sums of b, weighted by the distance of x and y, as `GAUSS`."""
    return (np.exp(-((x - y) ** 2).sum(-1)) * b).sum(axis, keepdims=keepdims)


def firsts(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the sums of first components, plus 0, 1, ... along the last axis, as `FIRSTS`."""
    return np.expand_dims(x[..., 0].sum(axis, keepdims=keepdims), -1) + np.arange(x.shape[-1])


def powers(x: Any, v: Any, n: int = 2) -> tuple[Any, Any]:
    """Return the first n powers of x times v, and the sums of v, as `POWERS`."""
    rows = np.asarray(x)[..., None, None] ** np.arange(1, n + 1)[:, None]
    loop = np.broadcast_shapes(np.shape(x), v.shape[:-1])
    return rows * v[..., None, :], np.broadcast_to(v.sum(-1), loop)


def matvec(A: Any, x: Any) -> Any:
    """Return the products of matrices and vectors, as `MATVEC`."""
    return (A @ x[..., None])[..., 0]
