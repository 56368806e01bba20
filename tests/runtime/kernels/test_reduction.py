"""Calls of reduction kernels: axes, identities, accumulators, outputs, strides."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.runtime.kernels.forms.by_key import ByKeyCallable
from kspec.runtime.kernels.forms.scan import ScanCallable
from kspec.runtime.kernels.forms.segments import SegmentsCallable
from kspec.runtime.kernels.forms.window import WindowCallable
from kspec.runtime.kernels.reduction import ReductionCallable
from tests.devices import ArrayDevice

SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_of")
DOT = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot")
MINIMUM = kspec.ReductionKernel("T x", "T y", "x", "min(a, b)", "y = a", None, "minimum")
SUM_AND_MEAN = kspec.ReductionKernel(
    "T x",
    "T s, float64 m",
    "x",
    "a + b",
    "s = a; m = (double)a * _out_ind.size() / _in_ind.size()",
    0,
    "sum_and_mean",
)


def values(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(0).integers(-9, 9, shape).astype(dtype)


class TestAxes:
    @pytest.mark.parametrize(
        "shape", [(1, 1), (1, 70_000), (70_000, 1), (300, 7), (7, 300), (33, 33, 33)], ids=str
    )
    @pytest.mark.parametrize("axis", [0, 1, None])
    def test_shapes_of_every_schedule(
        self, shape: tuple[int, ...], axis: Any, place: ArrayDevice
    ) -> None:
        x = values(*shape)
        np.testing.assert_array_equal(
            place.numpy(SUM(place.array(x), axis=axis)), np.sum(x, axis=axis)
        )

    def test_a_long_reduction_is_shared_by_blocks(self, place: ArrayDevice) -> None:
        x = values(1_000_003)
        np.testing.assert_array_equal(place.numpy(SUM(place.array(x))), np.sum(x))

    def test_equal_calls_give_equal_bits(self, place: ArrayDevice) -> None:
        x = place.array(np.random.default_rng(1).normal(size=(3, 500_000)).astype("float32"))
        first = place.numpy(SUM(x, axis=1))
        for _ in range(3):
            np.testing.assert_array_equal(place.numpy(SUM(x, axis=1)), first)


class TestIdentity:
    def test_it_is_folded_in_once(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "10", "plus_ten")
        for size in (1, 10, 1000, 200_000):
            y = place.numpy(kernel(place.array(np.ones(size))))
            np.testing.assert_array_equal(y, size + 10)

    def test_a_number_is_fine(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "x", "a * b", "y = a", 1, "product")
        np.testing.assert_array_equal(place.numpy(kernel(place.array([2.0, 3.0, 4.0]))), 24)

    @pytest.mark.parametrize("axis", [None, 0, 1])
    def test_none_starts_with_the_first_element(self, axis: Any, device: ArrayDevice) -> None:
        x = 5 + np.abs(values(40, 30))
        y = device.numpy(MINIMUM(device.array(x), axis=axis))
        np.testing.assert_array_equal(y, np.min(x, axis=axis))


class TestAccumulators:
    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_16_bit_sums_are_kept_in_float(self, dtype: Any, place: ArrayDevice) -> None:
        x = np.ones(5000, dtype)
        y = place.numpy(SUM(place.array(x)))
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, np.array(5000).astype(dtype))

    def test_complex(self, place: ArrayDevice) -> None:
        x = values(4, 50) + 1j * values(4, 50)[::-1]
        y = place.numpy(DOT(place.array(x), place.array(x), axis=1))
        np.testing.assert_array_equal(y, np.sum(x * x, axis=1))

    def test_reduce_type(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x", "T y", "x", "a + b", "y = a / 1000", "0", "wide_sum", reduce_type="long long"
        )
        x = np.full(1000, 2**30, "int32")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), 2**30)

    def test_reduce_type_may_be_a_placeholder(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x", "int32 y", "x", "a + b", "y = a", "0", "placeholder_sum", reduce_type="T"
        )
        x = np.full(4, 0.75)
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), 3)

    @pytest.mark.parametrize("axis", [None, 0, 1])
    def test_a_struct_of_the_preamble(self, axis: Any, place: ArrayDevice) -> None:
        arg_max = kspec.ReductionKernel(
            "T x",
            "int64 y",
            "Best(x, _J)",
            "a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b",
            "y = a.index",
            "Best()",
            "arg_max",
            reduce_type="Best",
            preamble="""
            struct Best {
              T value;
              long long index;
              __device__ Best() : value(-1e30), index(-1) {}
              __device__ Best(T v, long long k) : value(v), index(k) {}
            };
            """,
        )
        x = np.random.default_rng(3).normal(size=(123, 77)).astype("float32")
        y = place.numpy(arg_max(place.array(x), axis=axis))
        np.testing.assert_array_equal(y, np.argmax(x, axis=axis))


class TestArguments:
    def test_scalars(self, device: ArrayDevice) -> None:
        x = values(4, 3)
        z = device.numpy(DOT(device.array(x), 3, axis=0))
        np.testing.assert_array_equal(z, np.sum(3 * x, axis=0))

    def test_a_scalar_in_the_post_map(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x, T scale", "T y", "x", "a + b", "y = a * scale", "0", "scaled_sum"
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1.0, 2.0]), 10)), 30)
        with pytest.raises(TypeError, match="scale is read by the reduce or post-map expression"):
            kernel(place.zeros(2), place.zeros(2))

    def test_raw_inputs(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x, raw T weights", "T y", "x * weights[_J]", "a + b", "y = a", "0", "weighted"
        )
        x, weights = values(6, 4), values(6)
        y = place.numpy(kernel(place.array(x), place.array(weights), axis=0))
        np.testing.assert_array_equal(y, weights @ x)

    def test_position_along_the_axes_and_index_of_the_output(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x", "int64 y", "_J + 100 * _i", "max(a, b)", "y = a", None, "positions"
        )
        y = place.numpy(kernel(place.zeros((3, 5, 4)), axis=(0, 2)))
        np.testing.assert_array_equal(y, 11 + 100 * np.arange(5))

    def test_a_non_const_input(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "_non_const T x", "T y", "x *= 2", "a + b", "y = a", "0", "double_and_sum"
        )
        x = place.array([1.0, 2.0, 3.0])
        np.testing.assert_array_equal(place.numpy(kernel(x)), 12)
        np.testing.assert_array_equal(place.numpy(x), [2, 4, 6])


class TestOutputs:
    def test_given_by_position_or_keyword(self, device: ArrayDevice) -> None:
        x = values(3, 4)
        for call in (
            lambda y: SUM(device.array(x), y, axis=0),
            lambda y: SUM(device.array(x), axis=0, out=y),
            lambda y: SUM(device.array(x), axis=0, out=(y,)),
        ):
            y = device.empty(4)
            assert call(y) is y
            np.testing.assert_array_equal(device.numpy(y), x.sum(axis=0))

    @pytest.mark.parametrize("length", [3, 300])
    def test_strided_outputs_leave_their_gaps_alone(self, length: int, device: ArrayDevice) -> None:
        x = values(5, length)
        y = device.zeros(10)
        view = y[::-2]
        SUM(device.array(x), view, axis=1)
        expected = np.zeros(10)
        expected[::-2] = x.sum(axis=1)
        np.testing.assert_array_equal(device.numpy(y), expected)

    def test_all_of_several_come_back(self, device: ArrayDevice) -> None:
        x = values(3, 4)
        total, mean = SUM_AND_MEAN(device.array(x), axis=1)
        np.testing.assert_array_equal(device.numpy(total), x.sum(axis=1))
        np.testing.assert_allclose(device.numpy(mean), x.mean(axis=1))
        given = device.empty(3), device.empty(3)
        assert SUM_AND_MEAN(device.array(x), axis=1, out=given)[1] is given[1]
        with pytest.raises(ValueError, match="out must hold 2 arrays"):
            SUM_AND_MEAN(device.array(x), axis=1, out=given[0])


class TestStrides:
    @pytest.mark.parametrize("axis", [None, 0, 1])
    @pytest.mark.parametrize(
        "index", [np.s_[::-1], np.s_[:, ::-3], np.s_[::2, 1:], np.s_[5:5], np.s_[:1]], ids=str
    )
    def test_views(self, index: Any, axis: Any, device: ArrayDevice) -> None:
        x = values(9, 20)
        y = device.numpy(SUM(device.array(x)[index], axis=axis))
        np.testing.assert_array_equal(y, x[index].sum(axis=axis))

    @pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (1, 2), None])
    def test_permuted(self, axis: Any, device: ArrayDevice) -> None:
        x = values(4, 5, 6)
        y = device.numpy(SUM(device.array(x).transpose(1, 2, 0), axis=axis))
        np.testing.assert_array_equal(y, x.transpose(1, 2, 0).sum(axis=axis))

    def test_more_axes_than_the_precompiled_layout_holds(self, place: ArrayDevice) -> None:
        x = values(*(2,) * 20)
        axes = tuple(range(0, 20, 2))
        y = place.numpy(SUM(place.array(x), axis=axes))
        np.testing.assert_array_equal(y, x.sum(axis=axes))


class TestDeclarations:
    def test_a_reduction_needs_an_output(self) -> None:
        with pytest.raises(ValueError, match="needs at least one output"):
            kspec.ReductionKernel("T x", "", "x", "a + b", "a", "0", "no_output")

    def test_invalid_name(self) -> None:
        with pytest.raises(ValueError, match="Invalid kernel name"):
            kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "l2-norm")

    def test_numpy_names_are_no_c_types(self) -> None:
        with pytest.raises(ValueError, match="write 'double'"):
            kspec.ReductionKernel(
                "T x", "T y", "x", "a + b", "y = a", "0", "wrong", reduce_type="float64"
            )

    def test_i_and_n_are_free(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("T i, T n", "T y", "i * n", "a + b", "y = a", "0", "free")
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1.0, 2.0]), 3)), 9)

    def test_parameter_names_are_not_replaced_inside_words(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "exp(x)", "max(a, b)", "y = a", "0", "exps")
        x = np.zeros(1000)
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), 1)

    def test_names_that_contain_mean_or_argmax(self, place: ArrayDevice) -> None:
        for name in ("my_mean", "argmaxish"):
            kernel = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", name)
            np.testing.assert_array_equal(place.numpy(kernel(place.array(np.ones(500)))), 500)


@pytest.mark.parametrize("form", [ScanCallable, SegmentsCallable, ByKeyCallable, WindowCallable])
def test_a_reduction_has_all_methods_of_its_forms(form: type) -> None:
    methods = {name: one for name, one in vars(form).items() if not name.startswith("__")}
    assert methods == {name: getattr(ReductionCallable, name) for name in methods}
