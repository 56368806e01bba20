"""What a kernel's text may say: macros of its options, names of the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import ElementwiseKernel, ReductionKernel
from kspec.errors import ToolNotFoundError
from kspec.model.stages import COLUMNS, LINES, SHORT_LINES, Specialization, Target, strided
from kspec.pipeline import LazySource
from tests.compiling import compiled
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


class TestRawViews:
    @pytest.mark.parametrize(
        "index", [np.s_[...], np.s_[::-1], np.s_[:, ::2, ::-1], np.s_[0, 0, 0:1], np.s_[1, 2, 3:]]
    )
    def test_is_the_array_and_its_elements(self, index: Any, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "float64 x",
            "float64 y, bool same",
            "y = _raw_x[_raw_x.size() - 1 - i];"
            " same = _raw_x[i] == x && _raw_x[_ind.get()] == x && _raw_x.ndim == _ind.ndim",
            "reversed_view",
        )
        x = np.arange(24.0).reshape(2, 3, 4)
        y, same = kernel(place.array(x)[index])
        expected = x[index].ravel()[::-1].reshape(x[index].shape)
        np.testing.assert_array_equal(place.numpy(y), expected)
        assert place.numpy(same).all()

    def test_has_the_shape_of_the_loop(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "float32 x, float32 w",
            "float32 y",
            "const ptrdiff_t* at = _ind.get();"
            " y = _raw_w[{at[0], at[1]}] + _raw_w.shape()[1] + _raw_w.strides()[0]",
            "row_weights",
            reduce_dims=False,
        )
        x, w = np.zeros((3, 5), np.float32), np.arange(5, dtype=np.float32)
        result = place.numpy(kernel(place.array(x), place.array(w)))
        np.testing.assert_array_equal(result, np.broadcast_to(w + 5, (3, 5)))

    def test_of_an_output_is_writable(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x", "T y", "_raw_y[n - 1 - i] = x", "scattered")
        x = np.arange(6, dtype=np.int32).reshape(2, 3)
        result = kernel(place.array(x))
        np.testing.assert_array_equal(place.numpy(result), x[::-1, ::-1])

    def test_of_an_input_is_constant(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x", "", "_raw_x[i] = 0", "constant_view")
        with pytest.raises(kspec.CompileError):
            kernel(place.zeros(3))

    def test_of_a_non_const_input_is_writable(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("_non_const T x", "", "_raw_x[i] = i", "counted")
        x = place.zeros((3, 2))
        kernel(x.T)
        np.testing.assert_array_equal(place.numpy(x), [[0, 3], [1, 4], [2, 5]])

    def test_around_the_loop_and_through_macros(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "float64 x",
            "float64 y",
            "y = x - first",
            "from_first",
            preamble="#define FIRST (_raw_x[0])",
            loop_prep="const double first = FIRST;",
        )
        x = np.arange(5.0)[::-1]
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), x - 4)

    def test_of_a_scalar_is_refused(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x, T w", "T y", "y = x + _raw_w[i]", "needs_w")
        with pytest.raises(TypeError, match=r"w must be an array, not float: .* reads _raw_w"):
            kernel(place.zeros(3), 1.0)

    def test_of_a_raw_parameter_is_refused(self) -> None:
        with pytest.raises(kspec.SpecError, match="parameter 'x' is raw: 'x' itself is the array"):
            ElementwiseKernel("raw T x", "T y", "y = _raw_x[i]", "twice_raw")


LAYOUTS = [np.s_[...], np.s_[::-1, ::2], np.s_[:, :, 1:3], np.s_[0:1, :, 2:3]]


class TestReductionViews:
    """``_raw_x``, ``_in_ind`` and ``_out_ind`` of reductions: axes that are reduced first, then others."""

    @pytest.mark.parametrize("reduce_dims", [True, False])
    @pytest.mark.parametrize("transposed", [False, True])
    @pytest.mark.parametrize("index", LAYOUTS)
    @pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (1, 2), ()])
    def test_is_the_array_and_its_elements(
        self, axis: Any, index: Any, transposed: bool, reduce_dims: bool, place: ArrayDevice
    ) -> None:
        kernel = ReductionKernel(
            "float64 x",
            "float64 y, int32 differ",
            "_Sum{x + _raw_x[0], (_raw_x[_in_ind.get()] != x) + (_raw_x[_j] != x)"
            " + (_raw_x.ndim != _in_ind.ndim)}",
            "_Sum{a.sum + b.sum, a.differ + b.differ}",
            "y = a.sum; differ = a.differ + (&_raw_y[_out_ind.get()] != &y)",
            "_Sum{0, 0}",
            f"seen_{'merged' if reduce_dims else 'all'}",
            "_Sum",
            reduce_dims=reduce_dims,
            preamble="struct _Sum { double sum; int differ; };",
        )
        x = np.arange(48.0).reshape(3, 4, 4)
        for keepdims in (False, True, True):
            x = x + 1  # other memory each time
            given = place.array(x).T[index] if transposed else place.array(x)[index]
            expected = x.T[index] if transposed else x[index]
            y, differ = kernel(given, axis=axis, keepdims=keepdims)
            first = expected.ravel()[0]
            np.testing.assert_array_equal(
                place.numpy(y), (expected + first).sum(axis=axis, keepdims=keepdims)
            )
            assert not place.numpy(differ).any()

    @pytest.mark.parametrize(
        ("axis", "map_expr", "weights"),
        [
            (1, "x * (_in_ind.get()[0] + 10 * _in_ind.get()[1])", [[0, 1, 2], [10, 11, 12]]),
            (0, "x * (_in_ind.get()[0] + 10 * _in_ind.get()[1])", [[0, 10, 20], [1, 11, 21]]),
            ((0, 1), "x * (_in_ind.get()[0] + 10 * _in_ind.get()[1])", [[0, 10, 20], [1, 11, 21]]),
            (1, "x * WEIGHT", [[0, 0, 0], [1, 1, 1]]),
        ],
    )
    def test_reduced_axes_come_first(
        self, axis: Any, map_expr: str, weights: list[list[int]], place: ArrayDevice
    ) -> None:
        kernel = ReductionKernel(
            "T x",
            "T y",
            map_expr,
            "a + b",
            "y = a",
            "0",
            "weighted_by_index",
            reduce_dims=False,
            preamble="#define WEIGHT (_out_ind.get()[0])",
        )
        x = np.array([[2.0, 3, 5], [7, 11, 13]])
        for given in (place.array(x), place.array(np.ascontiguousarray(x.T)).T):
            result = place.numpy(kernel(given, axis=axis))
            np.testing.assert_array_equal(result, (x * np.array(weights)).sum(axis))

    def test_contiguous_axes_are_merged(self, place: ArrayDevice) -> None:
        map_expr = "x * _in_ind.get()[0] + 1000 * (_in_ind.ndim - 1)"
        kernel = ReductionKernel("T x", "T y", map_expr, "a + b", "y = a", "0", "flat_index")
        x = np.arange(24.0).reshape(2, 3, 4)
        flat = np.arange(24.0).reshape(x.shape)
        for axis in (None, 0, (0, 1)):
            result = place.numpy(kernel(place.array(x), axis=axis))
            np.testing.assert_array_equal(result, (x * flat).sum(axis))

    def test_views_broadcast_with_their_inputs(self, place: ArrayDevice) -> None:
        kernel = ReductionKernel(
            "T x, T w, T s",
            "T y",
            "x * _raw_w[_in_ind.get()] + s * (_raw_w[_j] - w)",
            "a + b",
            "y = a + _raw_w[0]",
            "0",
            "weighted_sum",
        )
        x, w = np.arange(12.0).reshape(3, 4), np.array([2.0, 3, 5, 7])
        result = place.numpy(kernel(place.array(x), place.array(w), 8.0, axis=0))
        np.testing.assert_array_equal(result, (x * w).sum(0) + 2)

    @pytest.mark.parametrize("layout", [strided(1), LINES, SHORT_LINES, COLUMNS])
    def test_compile_in_every_layout(self, layout: str) -> None:
        kernel = ReductionKernel(
            "T x",
            "T y",
            "x * _raw_x[_in_ind.get()] + _out_ind.get()[0]",
            "a + b",
            "_raw_y[_out_ind.get()] = a + _in_ind.size()",
            "0",
            "in_layouts",
        )
        wanted = Specialization(kernel.name, (("T", "float32"),), layout, (2, 1, 2, 1))
        try:
            image = compiled(LazySource(kernel.spec)(wanted), Target("sm_90"))
        except ToolNotFoundError:
            pytest.skip("no NVRTC")
        assert set(image.symbols) == {wanted.name_expression}

    def test_of_nothing(self, place: ArrayDevice) -> None:
        kernel = ReductionKernel(
            "T x",
            "T y",
            "x + _raw_x[_in_ind.get()]",
            "a + b",
            "y = a + _out_ind.get()[0] + _in_ind.size() + _in_ind.get()[0]",
            "7",
            "of_nothing",
        )
        result = place.numpy(kernel(place.zeros((3, 0)), axis=1))
        np.testing.assert_array_equal(result, [7, 8, 9])

    def test_of_an_input_is_constant_unless_it_says_so(self, place: ArrayDevice) -> None:
        constant = ReductionKernel("T x", "T y", "_raw_x[_j] = 1", "a + b", "y = a", "0", "sets")
        with pytest.raises(kspec.CompileError):
            constant(place.zeros(3))
        negated = "_raw_x[_in_ind.get()] = -x"
        kernel = ReductionKernel("_non_const T x", "T y", negated, "a + b", "y = a", "0", "negates")
        x = place.array(np.arange(6.0).reshape(2, 3))
        np.testing.assert_array_equal(place.numpy(kernel(x, axis=1)), [-3, -12])
        np.testing.assert_array_equal(place.numpy(x), -np.arange(6.0).reshape(2, 3))

    def test_of_a_scalar_is_refused(self, place: ArrayDevice) -> None:
        kernel = ReductionKernel("T x, T w", "T y", "x + _raw_w[0]", "a + b", "y = a", "0", "one")
        message = r"one: w must be an array, not float: an expression reads _raw_w"
        with pytest.raises(TypeError, match=message):
            kernel(place.zeros(3), 1.0)

    def test_of_a_raw_parameter_is_refused(self) -> None:
        with pytest.raises(kspec.SpecError, match="parameter 'w' is raw: 'w' itself is the array"):
            ReductionKernel("T x, raw T w", "T y", "x + _raw_w[0]", "a + b", "y = a", "0")


INDEX = "for (int k = 0; k < 4; ++k) y[4 * i + k] = k < _ind.ndim ? _ind.get()[k] : -1"


class TestReduceDims:
    @pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3), (1, 1), (4,), (1,), ()])
    def test_all_axes_are_seen(self, shape: tuple[int, ...], place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "T x", "raw int64 y", INDEX, "all_axes", reduce_dims=False, no_return=True
        )
        x, y = place.zeros(shape), place.zeros((int(np.prod(shape)), 4), "int64")
        kernel(x, y)
        expected = np.full(tuple(y.shape), -1)
        expected[:, : len(shape)] = [index for index in np.ndindex(shape)]
        np.testing.assert_array_equal(place.numpy(y), expected)

    def test_axes_are_merged_by_default(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x", "raw int64 y", INDEX, "merged", no_return=True)
        x, y = place.zeros((2, 1, 3)), place.zeros((6, 4), "int64")
        kernel(x, y)
        np.testing.assert_array_equal(place.numpy(y)[:, 0], range(6))
        assert (place.numpy(y)[:, 1:] == -1).all()

    def test_the_index_is_that_of_the_broadcast_shape(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "T x, T w",
            "int64 y",
            "y = 100 * _ind.get()[0] + 10 * _ind.get()[1] + _ind.ndim",
            "broadcast_index",
            reduce_dims=False,
        )
        result = place.numpy(kernel(place.zeros((4, 1)), place.zeros(3)))
        np.testing.assert_array_equal(
            result, [[100 * j + 10 * k + 2 for k in range(3)] for j in range(4)]
        )

    def test_many_axes(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x", "int64 y", "y = _ind.ndim", "many", reduce_dims=False)
        shape = (1,) * 30 + (2, 3)
        np.testing.assert_array_equal(place.numpy(kernel(place.zeros(shape))), np.full(shape, 32))

    def test_unobserved_axes_are_merged_anyway(self) -> None:
        one = ElementwiseKernel("T x", "T y", "y = x", "unobserved", reduce_dims=False)
        assert not one.declaration.reduce_dims and not one.declaration.ordered


class TestAroundTheLoop:
    def test_scalars_are_visible(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel(
            "T x, T s, raw T w",
            "T y, raw T total",
            "y = x * root + s",
            "around",
            loop_prep="const T root = sqrt(s) + w[0];",
            after_loop="if (s > 3) total[0] = s;",
        )
        total = place.zeros(1)
        x, w, y = place.array([1.0, 2.0]), place.array([10.0]), place.zeros(2)
        kernel(x, 4, w, y, total)
        np.testing.assert_array_equal(place.numpy(y), [16, 28])
        np.testing.assert_array_equal(place.numpy(total), [4])

    def test_arrays_are_not(self, place: ArrayDevice) -> None:
        kernel = ElementwiseKernel("T x, T s", "T y", "y = x * t", "early", loop_prep="T t = s;")
        with pytest.raises(TypeError, match="early: s must be a scalar: it is read before or"):
            kernel(place.zeros(3), place.zeros(3))
