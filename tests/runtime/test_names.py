"""What a kernel's text may say: macros of its options, names of the library."""

from __future__ import annotations

import numpy as np
import pytest

import kspec
from kspec import ElementwiseKernel, ReductionKernel
from tests.devices import ArrayDevice

# One letter macros, and words that headers use for themselves.
HOSTILE = ("-DA=3", "-DN=4", "-DT2=float", "-D", "B=1", "-DReal=double", "-DI=9", "-Dresult=1")


@pytest.mark.parametrize("dtype", ["float32", "complex64", "float16"])
def test_macros_of_options_stay_out_of_the_headers(dtype: str, place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "T x", "T y", "y = exp(x) * T(A) + T(N + B)", "macros", options=HOSTILE
    )
    x = np.linspace(0, 1, 5).astype(dtype)
    expected = np.exp(x.astype(np.complex128)) * 3 + 5
    result = place.numpy(kernel(place.array(x))).astype(np.complex128)
    np.testing.assert_allclose(result, expected, rtol=2e-3 if dtype == "float16" else 1e-6)


def test_macros_of_options_in_a_reduction(place: ArrayDevice) -> None:
    kernel = ReductionKernel(
        "complex128 x",
        "complex128 y",
        "x * (T2)A",
        "a + b",
        "y = a + T2(N)",
        "0",
        "macros",
        options=("-DA=3", "-DN=4", "-DT2=complex<double>"),
    )
    x = np.arange(10) * 1j
    assert place.numpy(kernel(place.array(x))) == 4 + 135j


def test_macros_of_options_reach_the_users_header(tmp_path, place: ArrayDevice) -> None:
    (tmp_path / "scale.h").write_text("__device__ double scaled(double v) { return v * A; }\n")
    kernel = ElementwiseKernel(
        "float64 x",
        "float64 y",
        "y = scaled(x)",
        "scale",
        preamble='#include "scale.h"',
        options=("-DA=3", f"-I{tmp_path}"),
    )
    np.testing.assert_array_equal(place.numpy(kernel(place.array([1.0, 2.0]))), [3, 6])


def test_a_macro_may_replace_a_name_that_is_known(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel(
        "", "float64 y", "y = M_PI", "three", options=("-DM_PI=3", "-DM_PI=3.0")
    )
    np.testing.assert_array_equal(place.numpy(kernel(place.empty(2))), [3, 3])


def test_a_macro_may_stand_for_the_index(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("", "int64 y", "y = WHERE", "where", options=("-DWHERE=i",))
    y = place.empty((2, 3), "int64")
    kernel(y.T)
    np.testing.assert_array_equal(place.numpy(y), [[0, 2, 4], [1, 3, 5]])


def test_a_wrong_macro_is_an_error_of_the_compiler(place: ArrayDevice) -> None:
    kernel = ElementwiseKernel("", "int64 y", "y = 1", "wrong", options=("-D=3",))
    with pytest.raises(kspec.CompileError):
        kernel(place.empty(2, "int64"))
