"""Sums and means with gradients, for tests of the adapters of PyTorch and JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

import kspec

# A map of two inputs that broadcast against each other.
SQUARES = kspec.ReductionKernel(
    "T x, T w",
    "T y",
    "x * x * w",
    "a + b",
    "y = a",
    "0",
    "form_squares",
    backward={"x": "2 * grad_y * x * w", "w": "grad_y * x * x"},
)
MEAN_SQUARE = kspec.ReductionKernel(
    "T x",
    "T y",
    "x * x",
    "a + b",
    "y = a / (_in_ind.size() / _out_ind.size())",
    "0",
    "form_mean_square",
    backward={"x": "2 * x * grad_y / count"},
)
# A sparse matrix times a vector, whose gradients a kernel computes that is named.
CSR_GRADIENTS = kspec.ElementwiseKernel(
    "T value, int32 column, raw T x, T grad_y",
    "T grad_value, raw T grad_x",
    "grad_value = x[column] * grad_y; atomicAdd(&grad_x[column], value * grad_y)",
    "form_product_gradients",
)
CSR_PRODUCT = kspec.ReductionKernel(
    "T value, int32 column, raw T x",
    "T y",
    "value * x[column]",
    "a + b",
    "y = a",
    "0",
    "form_product",
    backward=CSR_GRADIENTS,
)
# Its gradient reads the result of the reduction, which no scan has.
NORM = kspec.ReductionKernel(
    "T x",
    "T y",
    "x * x",
    "a + b",
    "y = sqrt(a)",
    "0",
    "form_norm",
    backward={"x": "grad_y * x / y"},
)
READS_SUM = kspec.ReductionKernel(
    "T x", "T y", "x", "a + b", "y = a", "0", "form_reads_sum", backward={"x": "grad_y * (y / y)"}
)
WITHOUT = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "form_without")

BOUNDS = np.array([1, 1, 3, 4])  # an empty segment, and elements that belong to none
# Size, axis and step of windows, and of such that are longer than the axes.
WINDOWS: tuple[tuple[Any, Any, Any], ...] = ((2, 0, 3), (3, -1, 1), ((3, 2), (1, 0), (2, 1)))
LONG_WINDOWS: tuple[tuple[Any, Any, Any], ...] = (((5, 11), (0, 1), (1, 2)),)
BOUNDARIES = ("valid", "nearest", "reflect", "mirror", "wrap", "shrink")
