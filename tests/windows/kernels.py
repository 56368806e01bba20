"""Kernels with windows and sizes that several test modules call, and through several libraries."""

from __future__ import annotations

import kspec
from tests.windows.reference import ALL

LAPLACIAN = kspec.ElementwiseKernel(
    "T u, T h",
    "T v",
    "v = (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4 * u) / (h * h)",
    "laplacian",
    windows={"u": {"reach": [1, 1], "boundary": ["nearest", "wrap", "valid"]}},
)
BLUR = kspec.ElementwiseKernel(
    "T u, raw T w",
    "T v",
    "T sum = 0; for (int k = -R; k <= R; ++k) sum += w[k + R] * u(k); v = sum",
    "blur",
    windows={"u": {"reach": ["R"], "boundary": ["mirror", "nearest", "valid"]}},
    sizes={"R": [1, 2]},
)
POWER = kspec.ElementwiseKernel(
    "T x", "T y", "y = 1; for (int k = 0; k < N; ++k) y *= x", "power", sizes={"N": [3]}
)
SLOPE = kspec.ElementwiseKernel(
    "T u, T h",
    "T v",
    "v = 0; for (int k = 1; k <= R; ++k) v += (u(k) - 2 * u(-k)) / h",
    "slope",
    windows={"u": {"reach": ["R"], "boundary": ["nearest", "reflect", "wrap", "valid"]}},
    sizes={"R": [2]},
    backward={"u": "adjoint"},
)
# Weights that tell every element apart, and do not round: sums have the same bits in any order.
SKEWED = kspec.ElementwiseKernel(
    "T u",
    "T v",
    "v = 0; for (int a = -2; a <= 1; ++a) for (int b = -1; b <= 3; ++b)"
    " v += (5 * (a + 2) + b + 2) * u(a, b);",
    "skewed",
    windows={"u": {"reach": [[2, 1], [1, 3]], "boundary": ALL, "value": 2.5}},
)
# Windowed inputs of different reach, one with fewer axes, and one that broadcasts.
TWO = kspec.ElementwiseKernel(
    "T u, T c, T h",
    "T v, T w",
    "v = u(-1, 0) - 3 * u(0, 2) + c(-3) * h; w = c(1) + 7 * u(1, -2)",
    "two",
    windows={
        "u": {"reach": [1, 2], "boundary": ALL},
        "c": {"reach": [[3, 1]], "boundary": ALL, "value": 1},
    },
)
