"""Reductions: accumulators of one's own, the names of CuPy's kernel, and unusual expressions."""

from __future__ import annotations

import numpy as np

from tests.contract.foreign.declared import Foreign, View, drawn, reduction

_BEST = r"""
template <typename T> struct best {
  T value; int at;
  __device__ best() : value(-1e30), at(-1) {}
  __device__ best(T v, int k) : value(v), at(k) {}
};
template <typename T> __device__ best<T> better(best<T> a, best<T> b) {
  if (a.value != b.value) return a.value > b.value ? a : b;
  return a.at < b.at ? a : b;
}
"""
_MOMENTS = r"""
struct moments {
  double count, mean, spread;
  __device__ moments(double c = 0, double m = 0, double s = 0) : count(c), mean(m), spread(s) {}
};
__device__ inline moments merged(const moments& a, const moments& b) {
  const double count = a.count + b.count;
  if (count == 0) return moments();
  const double step = b.mean - a.mean;
  return moments(count, a.mean + step * b.count / count, a.spread + b.spread + step * step * a.count * b.count / count);
}
"""

REDUCTION = (
    Foreign(
        "a mean by the sizes of both index spaces",
        reduction("T x, T eps", "T y", "x * x", "a + b", "y = rsqrt(a / _type_reduce(_in_ind.size() / _out_ind.size()) + eps)", "0", "inverse_rms"),
        (drawn(6, 33), np.float32(0.01)),
        lambda x, eps: (1 / np.sqrt((x * x).mean(1) + eps)).astype("float32"),
        {"axis": 1},
        tolerance=1e-5,
    ),
    Foreign(
        "a structure as the accumulator, and the number of the element",
        reduction("T x", "int32 y", "best<T>(x, _j)", "better(a, b)", "y = a.at", "best<T>()", "arg_best", "best<T>", preamble=_BEST),
        (drawn(7, 40),),
        # _j counts the reduced axes first; with CUB, CuPy's choice for whole arrays, it is missing
        lambda x: (x.argmax(0) * 40 + np.arange(40)).astype("int32"),
        {"axis": 0},
    ),
    Foreign(
        "elements less the first of the array",
        reduction("T x", "T y", "x - _raw_x[0]", "a + b", "y = a", "0", "from_first"),
        (drawn(7, 40),),
        lambda x: (x - x[0, 0]).sum(0),
        {"axis": 0},
        tolerance=1e-5,
    ),
    Foreign(
        "elements by their index, weighted by the axes of the reduction",
        reduction("T x", "T y", "_raw_x[_in_ind.get()] * (_in_ind.get()[0] + 10 * _in_ind.get()[1])", "a + b", "y = a + _out_ind.get()[0]", "0", "by_index", reduce_dims=False),
        (drawn(7, 40),),
        lambda x: (x * (10 * np.arange(7)[:, None] + np.arange(40))).sum(1).astype("float32") + np.arange(7, dtype="float32"),
        {"axis": 1},
        tolerance=1e-5,
    ),
    Foreign(
        "elements of merged axes, by their index in all of them",
        reduction("T x", "T y", "_in_ind.ndim == 1 ? x * _in_ind.get()[0] : 0", "a + b", "y = a", "0", "by_flat_index"),
        (drawn(3, 4, 5),),
        lambda x: (x * np.arange(60).reshape(3, 4, 5)).sum((0, 1)).astype("float32"),
        {"axis": (0, 1)},
        tolerance=1e-5,
    ),
    Foreign(
        "a post-map that assigns through the array of the output",
        reduction("T x", "T y", "x", "a + b", "_raw_y[_out_ind.get()] = 2 * a", "0", "by_raw_output"),
        (drawn(5, 6, 7),),
        lambda x: 2 * x.sum(1),
        {"axis": 1},
        tolerance=1e-5,
    ),
    Foreign(
        "moments that are merged",
        reduction("T x", "float64 y", "moments(1, x, 0)", "merged(a, b)", "y = a.spread / a.count", "moments()", "variance_merged", "moments", preamble=_MOMENTS),
        (drawn(8, 50),),
        lambda x: x.astype("f8").var(0),
        {"axis": 0},
    ),
    Foreign(
        "a product of complex numbers with a wider accumulator",
        reduction("complex64 x, complex64 y", "complex128 z", "conj((complex<double>)x) * (complex<double>)y", "a + b", "z = a", "0", "dot_wide", reduce_type="complex<double>"),
        (drawn(200, dtype="complex64"), drawn(201, dtype="complex64")[:200].copy()),
        lambda x, y: np.vdot(x.astype("c16"), y.astype("c16")),
    ),
    Foreign(
        "bits that are combined",
        reduction("T x", "T y", "x", "a ^ b", "y = a", "0", "parity"),
        (drawn(9, 31, dtype="uint64", low=0, high=2**62),),
        lambda x: np.bitwise_xor.reduce(x, 1),
        {"axis": 1},
    ),
    Foreign(
        "booleans of a transposed array",
        reduction("T x", "bool y", "x != 0", "a && b", "y = a", "true", "none_zero", reduce_type="bool"),
        (View(drawn(20, 9, dtype="int32"), lambda a: a.T),),
        lambda x: x.all(1),
        {"axis": 1},
    ),
    Foreign(
        "two inputs that are broadcast, and axes that are kept",
        reduction("T p, T q", "T loss", "p * (log(p) - log(q))", "a + b", "loss = a", "0", "divergence"),
        (drawn(4, 3, 5, dtype="float64", low=0.1), drawn(5, dtype="float64", low=0.1)),
        lambda p, q: (p * (np.log(p) - np.log(q))).sum((0, 2), keepdims=True),
        {"axis": (0, 2), "keepdims": True},
    ),
    Foreign(
        "weights from a raw array by the number of the element",
        reduction("T x, raw T w", "T y", "x * w[_j]", "a + b", "y = a", "0", "weighted_sum"),
        (drawn(60, dtype="float64"), drawn(61, dtype="float64")[:60].copy()),
        lambda x, w: np.asarray(x @ w),
    ),
    Foreign(
        "a given output, and an identity from the preamble",
        reduction("T x", "T y", "abs(x)", "max(a, b)", "y = sqrt(a)", "LOWEST", "largest", preamble="#define LOWEST 0"),
        (drawn(5, 21, dtype="float64"), np.zeros(5)),
        lambda x, y: np.copyto(y, np.sqrt(abs(x).max(1))) or y,
        {"axis": 1},
    ),
    Foreign(
        "no elements",
        reduction("T x", "T y", "x", "a + b", "y = a + 1", "0", "sum_and_one"),
        (np.zeros((0, 4), "float32"),),
        lambda x: np.ones(4, "float32"),
        {"axis": 0},
    ),
)  # fmt: skip
