"""Raw parameters of generated kernels: every way to index them, for any strides and axes."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import ElementwiseKernel, ReductionKernel
from kspec.model.stages import FLAT, Specialization, Target
from kspec.pipeline import LazySource
from tests.compiling import compiled
from tests.devices import ArrayDevice

BASE = np.arange(24.0).reshape(2, 3, 4)
STRIDED = np.s_[:, ::-1, ::2]  # (2, 3, 2), not contiguous, one stride negative
VECTOR = np.s_[1, ::-1, 1]
SCALAR = np.s_[1, 2, 3, ...]  # an array of no axes

# Statement and index of the element it finds.
FORMS: list[tuple[Any, str, Any]] = [
    *((STRIDED, f"y = x[{k}]", (0, 2, 1)) for k in ("5", "5u", "5ll", "5ull", "(short)5")),
    (STRIDED, "y = x[0]", (0, 0, 0)),
    (STRIDED, "y = x[x.size() - 1]", (1, 2, 1)),
    (STRIDED, "y = x[sizeof(int)]", (0, 2, 0)),
    (STRIDED, "y = x[{1, 2, 1}]", (1, 2, 1)),
    (STRIDED, "y = x[{0, 0, 0}]", (0, 0, 0)),
    (STRIDED, "int one = n; y = x[{one, one + 1, i}]", (1, 2, 0)),
    (STRIDED, "ptrdiff_t at[3] = {1, 2, 1}; y = x[at]", (1, 2, 1)),
    (STRIDED, "const ptrdiff_t at[] = {1, 2, 1}; y = x[at]", (1, 2, 1)),
    (STRIDED, "int at[3] = {1, 2, 1}; y = x[at]", (1, 2, 1)),
    (STRIDED, "int at[x.ndim] = {1, 2, 1}; const int* p = at; y = x[p]", (1, 2, 1)),
    (STRIDED, "size_t at[64] = {1, 2, 1}; y = x[at]", (1, 2, 1)),
    (VECTOR, "y = x[{2}]", (2,)),
    (VECTOR, "y = x[{0}]", (0,)),
    (VECTOR, "y = x[{n}]", (1,)),
    (VECTOR, "y = x[_ind.get()]", (0,)),
    (VECTOR, "ptrdiff_t at[1] = {2}; y = x[at]", (2,)),
    *((SCALAR, f"y = x[{k}]", ()) for k in ("0", "3", "i", "{0}", "{}", "_ind.get()")),
    (SCALAR, "ptrdiff_t at[1] = {7}; y = x[at]", ()),
]


@pytest.mark.parametrize(("view", "operation", "index"), FORMS, ids=lambda value: str(value)[:40])
def test_indexing(view: Any, operation: str, index: Any, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("raw T x", "T y", operation, "indexed")
    y = kernel(place.array(BASE)[view], place.empty(1))
    assert place.numpy(y)[0] == BASE[view][index]
    wanted = Specialization("indexed", (("T", "float64"),), FLAT, (np.ndim(BASE[view]),))
    assert compiled(LazySource(kernel.spec)(wanted), Target("sm_90")).log == ""


LAYOUT = """
y = i == 0 ? x.size() : i == 1 ? x.ndim : i == 2 ? (x.shape() == nullptr) + (x.strides() == nullptr)
  : i < 3 + x.ndim ? x.shape()[i - 3] : x.strides()[i - 3 - x.ndim];
"""


@pytest.mark.parametrize("view", [np.s_[...], STRIDED, VECTOR, SCALAR, np.s_[:, :0], np.s_[None]])
def test_layout(view: Any, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("raw T x", "int64 y", LAYOUT, "layout")
    x = BASE[view]
    y = kernel(place.array(BASE)[view], place.empty(3 + 2 * x.ndim, "int64"))
    nulls = 2 if x.ndim == 0 else 0
    strides = [
        stride if extent > 1 else seen
        for extent, stride, seen in zip(
            x.shape, x.strides, place.numpy(y)[3 + x.ndim :], strict=True
        )
    ]
    np.testing.assert_array_equal(place.numpy(y), [x.size, x.ndim, nulls, *x.shape, *strides])


@pytest.mark.parametrize("ndim", [3, 8, 9, 32, 64])
def test_many_axes(ndim: int, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("raw T x", "int64 y", "y = x[i] + 1000 * x.ndim", "many_axes")
    shape = (2, *(1,) * (ndim - 3), 3, 2)
    x = np.arange(12).reshape(shape)
    y = place.numpy(kernel(place.array(x)[::-1], place.empty(12, "int64")))
    np.testing.assert_array_equal(y, x[::-1].ravel() + 1000 * ndim)


def test_more_axes_than_precompiled(place: ArrayDevice) -> None:
    add_reverse = importlib.import_module("kspec_kernels.math").add_reverse
    x = np.arange(24, dtype=np.float32)
    y = place.numpy(add_reverse(place.array(x), place.array(x.reshape(2, 3, 4))))
    np.testing.assert_array_equal(y, np.full(24, 23))


def test_wrong_number_of_indices(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("raw T x", "T y", "y = x[{0, 1, 2}]", "not_two_axes")
    assert place.numpy(kernel(place.array(BASE), place.empty(1)))[0] == 6
    with pytest.raises(kspec.ShapeError, match=r"argument x has 2 dimensions; .* raw T x\[3\]"):
        kernel(place.array(BASE[0]), place.empty(1))


def test_inputs_are_constant(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("raw T x", "", "x[i] = 0", "constant")
    with pytest.raises(kspec.CompileError):
        kernel(place.zeros(3), size=3)


def test_inputs_declared_otherwise_are_not(place: ArrayDevice) -> None:
    for keywords in ("raw _non_const", "_non_const raw"):
        kernel = ElementwiseKernel(f"{keywords} T x", "", "x[{i, 0}] += i", "changed")
        x = place.zeros((3, 2))
        assert kernel(x, size=3) == ()
        np.testing.assert_array_equal(place.numpy(x), [[0, 0], [1, 0], [2, 0]])


def test_a_reference_to_an_element(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "raw complex64 x",
        "raw complex64 y",
        "const complex<float>& from = x[i]; complex<float>& to = y[n - 1 - i]; to = from * from",
        "references",
    )
    x = np.arange(4).astype("complex64") * 1j
    y = kernel(place.array(x), place.zeros(4, "complex64"), size=4)
    np.testing.assert_array_equal(place.numpy(y), (x * x)[::-1])


@pytest.mark.parametrize("axis", [0, 1, (0, 2), None])
def test_in_reductions_of_any_axes(axis: Any, place: ArrayDevice) -> None:
    kernel = ReductionKernel(
        "T x, raw T w", "T y", "x * w[_J]", "a + b", "y = a + w[{0}]", "0", "raw_weights"
    )
    length = BASE.size // max(1, np.sum(BASE, axis=axis).size)
    w = np.arange(2.0 * length)[::2]
    result = place.numpy(kernel(place.array(BASE), place.array(np.repeat(w, 2))[::2], axis=axis))
    axes = tuple(range(3)) if axis is None else (axis if isinstance(axis, tuple) else (axis,))
    kept = tuple(k for k in range(3) if k not in axes)
    rows = BASE.transpose(*kept, *axes).reshape(*(BASE.shape[k] for k in kept), -1)
    np.testing.assert_allclose(result, rows @ w + w[0])
