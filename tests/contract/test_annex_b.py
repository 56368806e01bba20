"""The wrong answers of CuPy's reductions and raw kernels, each with kspec right.

Annex B, 1-4, of the contract.  CuPy's fast path takes contiguous input of at least 128 elements
(smaller ones go another way), so every case has both sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.stages import CudaSource
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider
from kspec.runtime.raw.declared import RawCallable
from tests.devices import ArrayDevice

SIZES = pytest.mark.parametrize("size", [5, 127, 128, 129, 1000, 100_000])
SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_of")


def values(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(7).integers(-9, 9, shape).astype(dtype)


class TestNames:
    """B1: nothing depends on how parameters and kernels are called."""

    @pytest.mark.parametrize(
        ("name", "expression", "reference"),
        [
            ("x", "exp(x)", np.exp),
            ("x", "max(x, x * 2)", lambda x: np.maximum(x, 2 * x)),
            ("e", "exp(e) * e", lambda x: np.exp(x) * x),
            ("s", "sin(s) + s", lambda x: np.sin(x) + x),
            ("abs_", "abs(abs_)", np.abs),
            ("min_", "min(min_, 2.0 + min_)", lambda x: x),
            ("T_", "T(T_)", lambda x: x),
            ("J", "J * (_J >= 0)", lambda x: x),
            ("ind", "ind * (_in_ind.size() > 0)", lambda x: x),
            ("a", "a * 2", lambda x: 2 * x),
            ("b", "b - 1", lambda x: x - 1),
        ],
    )
    def test_parameters_that_are_parts_of_other_words(
        self,
        name: str,
        expression: str,
        reference: Callable[[Any], Any],
        place: ArrayDevice,
    ) -> None:
        kernel = kspec.ReductionKernel(
            f"T {name}", "T out", expression, "a + b", "out = a", "0", "part_of_a_word"
        )
        for size in (127, 128):
            x = np.random.default_rng(0).normal(size=size)
            y = place.numpy(kernel(place.array(x)))
            np.testing.assert_allclose(y, reference(x).sum(), rtol=1e-12)

    ELSEWHERE = (
        *("mean", "argmax", "argmin", "sum", "max", "min", "reduce", "cub", "in0", "out0"),
        *("block_size", "array_size", "type_in0_raw", "blockDim_x", "total", "plan", "op", "lanes"),
    )

    @pytest.mark.parametrize("number", range(len(ELSEWHERE)))
    def test_names_that_mean_something_elsewhere(self, number: int, place: ArrayDevice) -> None:
        """Each is that of a kernel, of an input and of an output."""
        name, x, y = (self.ELSEWHERE[number - step] for step in range(3))
        kernel = kspec.ReductionKernel(f"T {x}", f"T {y}", x, "a + b", f"{y} = a + 3", "0", name)
        for size in (100, 1000):
            given = values(size)
            rows = given.reshape(2, -1)
            total = place.numpy(kernel(place.array(given)))
            np.testing.assert_array_equal(total, given.sum() + 3)
            totals = place.numpy(kernel(place.array(rows), axis=1))
            np.testing.assert_array_equal(totals, rows.sum(axis=1) + 3)

    @pytest.mark.parametrize("name", ["x", "exp_x", "mean", "in0", "size", "total", "first"])
    def test_elementwise_kernels_too(self, name: str, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(f"T {name}", "T out0", f"out0 = exp({name})", "out1")
        x = np.linspace(-1, 1, 300)
        np.testing.assert_allclose(place.numpy(kernel(place.array(x))), np.exp(x), rtol=1e-15)


class TestOptions:
    """B1: options reach the compiler whatever the size and layout."""

    KERNEL = kspec.ReductionKernel(
        "T x", "T y", "x * FACTOR", "a + b", "y = a", "0", "with_macro", options=("-DFACTOR=3",)
    )

    @SIZES
    def test_options_of_a_reduction(self, size: int, place: ArrayDevice) -> None:
        x = values(size)
        np.testing.assert_array_equal(place.numpy(self.KERNEL(place.array(x))), 3 * x.sum())

    @pytest.mark.parametrize("step", [1, 2, -1])
    def test_for_every_layout(self, step: int, place: ArrayDevice) -> None:
        x = values(40, 300)
        array = place.array(x)
        for axis in (None, 0, 1):
            for view, own in ((x[::step], array[::step]), (x[::step].T, array[::step].T)):
                y = place.numpy(self.KERNEL(own, axis=axis))
                np.testing.assert_array_equal(y, 3 * view.sum(axis=axis))

    def test_two_kernels_that_differ_in_options_only(self, place: ArrayDevice) -> None:
        fields = ("T x", "T y", "x * FACTOR", "a + b", "y = a", "0", "with_macro")
        other = kspec.ReductionKernel(*fields, options=("-DFACTOR=5",))
        x = place.array(np.ones(200))
        assert place.numpy(self.KERNEL(x)) == 600 and place.numpy(other(x)) == 1000


class TestOutputLayouts:
    """B1: outputs are written where they are and keep their strides."""

    @pytest.mark.parametrize("view", [np.s_[::2], np.s_[::-3], np.s_[5:55:5]], ids=str)
    def test_nothing_beside_a_view_is_touched(self, view: Any, device: ArrayDevice) -> None:
        for length in (3, 128, 1000):
            whole = np.full(60, -77.0)
            x = values(whole[view].size, length)
            own = device.array(whole)
            target = own[view]
            strides = target.strides
            assert SUM(device.array(x), target, axis=1) is target
            assert target.strides == strides
            whole[view] = x.sum(axis=1)
            np.testing.assert_array_equal(device.numpy(own), whole)

    def test_nothing_beside_a_2d_view_is_touched(self, device: ArrayDevice) -> None:
        for length in (3, 128, 500):
            whole = np.full((9, 12), -77.0)
            own = device.array(whole)
            for view in (lambda a: a[1::2, ::-3], lambda a: a[1::2, ::-3].T):
                shape = view(whole).shape
                x = values(*shape, length)
                assert SUM(device.array(x), view(own), axis=2) is not None
                view(whole)[...] = x.sum(axis=2)
                np.testing.assert_array_equal(device.numpy(own), whole)

    @pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), None])
    def test_a_fortran_input_leaves_the_strides_of_the_output(
        self, axis: Any, device: ArrayDevice
    ) -> None:
        x = values(200, 7, 6)
        fortran = device.array(x.T).T  # the axes of a C-ordered array, reversed
        for keepdims in (False, True):
            expected = x.sum(axis=axis, keepdims=keepdims)
            out = device.empty(expected.shape)
            strides = out.strides
            assert SUM(fortran, out, axis=axis, keepdims=keepdims) is out
            assert out.strides == strides and out.shape == expected.shape
            np.testing.assert_array_equal(device.numpy(out), expected)

    @pytest.mark.parametrize("axis", [0, 2])
    def test_fresh_outputs_are_c_ordered_for_fortran_inputs(
        self, axis: int, place: ArrayDevice
    ) -> None:
        x = values(200, 7, 6)
        y = SUM(place.array(x.T).T, axis=axis)
        assert y.strides == x.sum(axis=axis).copy("C").strides
        np.testing.assert_array_equal(place.numpy(y), x.sum(axis=axis))

    def test_fortran_outputs(self) -> None:
        x, out = values(7, 6, 200), np.full((7, 6), -77.0, order="F")
        assert SUM(x, out, axis=2) is out
        assert out.flags.f_contiguous and not out.flags.c_contiguous
        np.testing.assert_array_equal(out, x.sum(axis=2))


class TestIdentity:
    """B1 and B2: folded in once for each output, and None is none."""

    TEN = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "10", "plus_ten")
    MINIMUM = kspec.ReductionKernel("T x", "T y", "x", "min(a, b)", "y = a", None, "minimum")
    PRODUCT = kspec.ReductionKernel("T x", "T y", "x", "a * b", "y = a", None, "product_of")

    def test_ten_ones_and_ten_are_twenty(self, device: ArrayDevice) -> None:
        assert device.numpy(self.TEN(device.array(np.ones(10)))) == 20

    @SIZES
    def test_once_for_any_size(self, size: int, place: ArrayDevice) -> None:
        assert place.numpy(self.TEN(place.array(np.ones(size)))) == size + 10

    @pytest.mark.parametrize("shape", [(3, 5), (300, 400), (2, 100_000), (100_000, 2)], ids=str)
    def test_once_for_each_output(self, shape: Any, place: ArrayDevice) -> None:
        x = np.ones(shape)
        for axis in (0, 1, ()):
            y = place.numpy(self.TEN(place.array(x), axis=axis))
            np.testing.assert_array_equal(y, x.sum(axis=axis) + 10)

    @SIZES
    def test_without_one_nothing_is_added(self, size: int, place: ArrayDevice) -> None:
        assert place.numpy(self.MINIMUM(place.array(np.full(size, 5.0)))) == 5
        assert place.numpy(self.MINIMUM(place.array(np.full(size, 5, "int8")))) == 5
        x = np.ones(size)
        x[size // 2] = 3
        assert place.numpy(self.PRODUCT(place.array(x))) == 3

    @pytest.mark.parametrize("shape", [(3, 5), (300, 400), (2, 100_000), (100_000, 2)], ids=str)
    def test_by_axis(self, shape: Any, place: ArrayDevice) -> None:
        x = 5 + np.abs(values(*shape))
        for axis in (0, 1, ()):
            y = place.numpy(self.MINIMUM(place.array(x), axis=axis))
            np.testing.assert_array_equal(y, x.min(axis=axis))


class TestAllOutputs:
    """B3: every output comes back."""

    @pytest.mark.parametrize("count", [1, 2, 3, 6])
    def test_as_many_as_declared(self, count: int, place: ArrayDevice) -> None:
        outputs = ", ".join(f"T y{k}" for k in range(count))
        post_map = "; ".join(f"y{k} = a + {k}" for k in range(count))
        kernel = kspec.ReductionKernel("T x", outputs, "x", "a + b", post_map, "0", "several")
        for size in (10, 1000):
            x = values(size, 3)
            result = kernel(place.array(x), axis=0)
            if count == 1:
                result = (result,)
            assert len(result) == count
            for k, y in enumerate(result):
                np.testing.assert_array_equal(place.numpy(y), x.sum(axis=0) + k)


TOUCH = r"""
extern "C" __global__ void touch(double* out, int count, double value) {
  for (int k = 0; k < count; ++k) out[k] = value;
}
"""


class TestRawKernels:
    """B4: no surprise launches, no unchecked arguments, no silently lost strides."""

    KERNEL = kspec.RawKernel(TOUCH, "touch")

    @staticmethod
    def declared() -> RawCallable:
        params = parse_c_params("double* out, int count, double value")
        source = CudaSource("touch.cu", TOUCH)
        loader = KernelLoader([CompilingProvider(lambda wanted: source)])
        return RawCallable(RawDeclaration("touch", ("touch",), params), loader)

    @pytest.mark.parametrize("grid", [(0,), (-1,), (1, 0), (1, 1, 0), (1, -5), (0, 0, 0)], ids=str)
    def test_an_empty_grid_is_refused(
        self, grid: tuple[int, ...], place: ArrayDevice, launches: list[str]
    ) -> None:
        out = place.zeros(4)
        for kernel in (self.KERNEL, self.declared()):
            with pytest.raises(kspec.LaunchError, match=r"grid\.[xyz] is -?\d; it must be in 1"):
                kernel(grid, (1,), (out, 4, 1.0))
            with pytest.raises(kspec.LaunchError, match=r"block\.[xyz] is -?\d; it must be in 1"):
                kernel((1,), grid, (out, 4, 1.0))
        assert launches == []
        np.testing.assert_array_equal(place.numpy(out), np.zeros(4))

    @pytest.mark.parametrize("count", [0, 1, 2, 4, 5])
    def test_arguments_are_counted(self, count: int, place: ArrayDevice) -> None:
        out = place.zeros(4)
        arguments = (out, 4, 1.0, 2.0, None)[:count]
        for kernel in (self.KERNEL, self.declared()):
            with pytest.raises(TypeError, match="touch takes 3 parameters"):
                kernel((1,), (1,), arguments)
        np.testing.assert_array_equal(place.numpy(out), np.zeros(4))

    def test_undeclared_arguments_are_measured(self, place: ArrayDevice) -> None:
        out = place.zeros(4)
        for wrong in ((out, 4, np.float32(1)), (out, np.float16(4), 1.0), (np.int32(0), 4, 1.0)):
            with pytest.raises(TypeError, match="but the parameter is"):
                self.KERNEL((1,), (1,), wrong)
        np.testing.assert_array_equal(place.numpy(out), np.zeros(4))

    def test_declared_arguments_are_checked_and_converted(
        self, place: ArrayDevice, launches: list[str]
    ) -> None:
        out, narrow = place.zeros(4), place.zeros(4, "float32")
        kernel = self.declared()
        for wrong, message in (
            ((narrow, 4, 1.0), r"out is declared double\* out .*has dtype float32"),
            ((8, 4, 1.0), "must be an array, not int"),
            ((out, 4.5j, 1.0), "cannot pass 4.5j as int32"),
            ((out, "4", 1.0), "must be a number, not str"),
            ((out, out, 1.0), "must be a number, not an array"),
        ):
            with pytest.raises(TypeError, match=message):
                kernel((1,), (1,), wrong)
        assert launches == []
        np.testing.assert_array_equal(place.numpy(out), np.zeros(4))
        kernel((1,), (1,), (out, np.uint64(2), 3))
        np.testing.assert_array_equal(place.numpy(out), [3, 3, 0, 0])

    @pytest.mark.parametrize(
        "view",
        [
            lambda x: x[:, ::2],
            lambda x: x[::-1],
            lambda x: x.T,
            lambda x: x[:, :2],
            lambda x: x[:, 1],
        ],
        ids=["stepped", "reversed", "transposed", "columns", "one-column"],
    )
    def test_a_declared_pointer_takes_contiguous_arrays_only(
        self, view: Callable[[Any], Any], device: ArrayDevice, launches: list[str]
    ) -> None:
        out = device.zeros((3, 4))
        with pytest.raises(
            TypeError, match=r"argument out .*C-contiguous.* pass a contiguous copy"
        ) as caught:
            self.declared()((1,), (1,), (view(out), 3, 1.0))
        assert isinstance(caught.value, kspec.ArgumentTypeError)
        assert launches == []
        np.testing.assert_array_equal(device.numpy(out), np.zeros((3, 4)))

    @pytest.mark.parametrize(
        "view",
        [lambda x: x, lambda x: x[1:], lambda x: x[2], lambda x: x[1:2, :], lambda x: x[2:2, ::2]],
        ids=["whole", "rows", "one-row", "kept-row", "empty"],
    )
    def test_and_every_view_that_is_contiguous(
        self, view: Callable[[Any], Any], device: ArrayDevice
    ) -> None:
        out = device.zeros((3, 4))
        expected = np.zeros((3, 4))
        view(expected)[...] = 2
        self.declared()((1,), (1,), (view(out), view(expected).size, 2.0))
        np.testing.assert_array_equal(device.numpy(out), expected)

    def test_an_undeclared_pointer_is_the_address_of_the_first_element(
        self, device: ArrayDevice
    ) -> None:
        # The kernel's author passes the strides, as in CuPy.
        out = device.zeros((3, 4))
        self.KERNEL((1,), (1,), (out[1:, ::2], 2, 5.0))
        expected = np.zeros((3, 4))
        expected[1, :2] = 5
        np.testing.assert_array_equal(device.numpy(out), expected)
