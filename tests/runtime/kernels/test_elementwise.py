"""Calls of elementwise kernels: shapes, strides, types, scalars, raw arguments, options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.model import dtypes
from tests.devices import ArrayDevice

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
SUBTRACT = kspec.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x - y", "subtract")
COPY = kspec.ElementwiseKernel("T x", "T y", "y = x", "copy")
CAST = kspec.ElementwiseKernel("S x", "T y", "y = x", "cast")


def arange(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


class TestShapes:
    @pytest.mark.parametrize(
        ("left", "right"),
        [
            ((2, 5), (5,)),
            ((2, 5), (2, 1)),
            ((4, 1), (1, 3)),
            ((), (3,)),
            ((), ()),
            ((1,), (1, 1, 1)),
            ((3, 1, 5), (4, 1)),
            ((2, 3, 1, 2), (4, 2)),
        ],
    )
    def test_inputs_broadcast(
        self, left: tuple[int, ...], right: tuple[int, ...], device: ArrayDevice
    ) -> None:
        x, y = arange(*left), np.float32(10) * arange(*right)
        z = device.numpy(ADD(device.array(x), device.array(y)))
        assert z.shape == np.broadcast_shapes(left, right)
        np.testing.assert_array_equal(z, x + y)

    def test_shapes_that_do_not_fit(self, place: ArrayDevice) -> None:
        message = r"could not be broadcast .* \(2, 3\) \(4,\) of x, y$"
        with pytest.raises(kspec.ShapeError, match=message):
            ADD(place.zeros((2, 3)), place.zeros(4))

    def test_outputs_are_new_c_ordered_arrays(self, device: ArrayDevice) -> None:
        x = device.array(arange(3, 4)).T
        z = ADD(x, x)
        assert z.shape == (4, 3)
        assert z.strides == (12, 4)

    def test_more_axes_than_the_precompiled_layout_holds(self, place: ArrayDevice) -> None:
        x = arange(*(2, 1) * 10, dtype="int32")
        y = 5000 * arange(*(1, 2) * 10, dtype="int32")[..., :1]
        z = place.numpy(ADD(place.array(x), place.array(y)))
        np.testing.assert_array_equal(z, x + y)

    def test_large_enough_for_many_threads(self, place: ArrayDevice) -> None:
        x = arange(300_001)
        np.testing.assert_array_equal(place.numpy(ADD(place.array(x), 1)), x + 1)


class TestStrides:
    @pytest.mark.parametrize(
        "index",
        [
            np.s_[::-1],
            np.s_[:, ::-1],
            np.s_[1::2, ::3],
            np.s_[::-2, ::-1],
            np.s_[2],
            np.s_[:, 3],
            np.s_[1:1],
            np.s_[..., None],
            np.s_[3, 4],
        ],
        ids=str,
    )
    def test_inputs_of_any_stride(self, index: Any, device: ArrayDevice) -> None:
        x, y = arange(4, 7), 100 * arange(4, 7)
        view = device.array(x)[index]
        z = device.numpy(ADD(view, device.array(y)[index])) if view.shape else None
        if z is not None:
            np.testing.assert_array_equal(z, (x + y)[index])

    def test_permuted_axes(self, device: ArrayDevice) -> None:
        x, y = arange(3, 4, 5), 100 * arange(5, 3, 4)
        z = ADD(device.array(x).transpose(2, 0, 1), device.array(y))
        np.testing.assert_array_equal(device.numpy(z), x.transpose(2, 0, 1) + y)

    def test_strided_outputs_leave_their_gaps_alone(self, device: ArrayDevice) -> None:
        z = device.zeros((4, 6), "float32")
        view = z[::2, ::-2]
        x = 1 + arange(2, 3)
        assert COPY(device.array(x), view) is view
        expected = np.zeros((4, 6), "float32")
        expected[::2, ::-2] = x
        np.testing.assert_array_equal(device.numpy(z), expected)

    def test_fortran_outputs(self, device: ArrayDevice) -> None:
        z = device.zeros((4, 3), "float32")
        COPY(device.array(arange(3, 4)), z.T)
        np.testing.assert_array_equal(device.numpy(z), arange(3, 4).T)

    def test_fortran_order(self) -> None:
        x = np.asfortranarray(arange(4, 5, 3))
        np.testing.assert_array_equal(ADD(x, x), x + x)

    def test_read_only_inputs_are_fine_and_outputs_are_not(self) -> None:
        x = arange(3)
        x.flags.writeable = False
        np.testing.assert_array_equal(COPY(x), x)
        with pytest.raises(TypeError, match="y is written to, but the array is read-only"):
            COPY(arange(3), x)

    def test_misaligned_arrays_are_refused(self) -> None:
        x = np.zeros(17, np.uint8)[1:].view(np.float32)
        with pytest.raises(TypeError, match="x is not aligned"):
            COPY(x)

    def test_strides_that_nobody_steps_along_may_be_odd(self) -> None:
        records = np.zeros(2, np.dtype([("x", "f8"), ("y", "f4")]))
        with pytest.raises(TypeError, match="x is not aligned"):
            COPY(records["x"])
        np.testing.assert_array_equal(COPY(records["x"][:1]), [0])


class TestTypes:
    @pytest.mark.parametrize("dtype", [row.name for row in dtypes.TABLE])
    def test_every_dtype_passes_through(self, dtype: str, place: ArrayDevice) -> None:
        x = np.array([0, 1, 1, 0, 1]).astype(np.dtype(dtype))
        y = place.numpy(COPY(place.array(x)))
        assert y.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(y, x)

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_16_bit_arithmetic_is_rounded_once(self, dtype: Any, place: ArrayDevice) -> None:
        multiply_add = kspec.ElementwiseKernel("T x, T y", "T z", "z = x * y + 1", "multiply_add")
        random = np.random.default_rng(0)
        x, y = (random.normal(size=1000).astype(dtype) for _ in range(2))
        z = place.numpy(multiply_add(place.array(x), place.array(y)))
        expected = (x.astype("f4").astype("f8") * y.astype("f4") + 1).astype("f4").astype(dtype)
        np.testing.assert_array_equal(z, expected)

    def test_complex_arithmetic(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x, T y", "T z", "z = x * conj(y) + exp(x)", "complex_kernel"
        )
        random = np.random.default_rng(1)
        x, y = (random.normal(size=50) + 1j * random.normal(size=50) for _ in range(2))
        z = place.numpy(kernel(place.array(x), place.array(y)))
        np.testing.assert_allclose(z, x * y.conj() + np.exp(x), rtol=1e-13)

    def test_arrays_are_never_cast(self, place: ArrayDevice) -> None:
        message = "T is float32 by x, but y has dtype float64; convert one of them, or declare"
        with pytest.raises(TypeError, match=rf"Type is mismatched.*{message}"):
            ADD(place.zeros(3, "float32"), place.zeros(3, "float64"))
        with pytest.raises(
            TypeError, match=r"Type is mismatched.*declared float32.*; convert it to float32"
        ):
            SUBTRACT(place.zeros(3, "float32"), place.zeros(3, "int32"))
        with pytest.raises(TypeError, match="Type is mismatched"):
            ADD(place.zeros(3, "float32"), 1, place.zeros(3, "float64"))

    def test_a_placeholder_needs_an_array(self, place: ArrayDevice) -> None:
        with pytest.raises(KeyError) as caught:
            CAST(place.zeros(3))
        assert str(caught.value).startswith("cast: no array decides the type T (of y)")
        with pytest.raises(kspec.UnboundPlaceholderError):
            CAST(np.float32(3), place.zeros(3))

    @pytest.mark.parametrize(
        ("signature", "message"),
        [
            (("T x, U z", "U y"), "type U (of z, y); numbers do not, so pass an array for z, or"),
            (("T x, U z", "T y"), "type U (of z); numbers do not, so pass an array for z"),
            (("T x, float32 z", "U y"), "type U (of y); give the output array, or declare y with"),
        ],
    )
    def test_what_decides_a_placeholder(self, signature: tuple[str, str], message: str) -> None:
        kernel = kspec.ElementwiseKernel(*signature, "y = x + z", "undecided")
        with pytest.raises(kspec.UnboundPlaceholderError, match=re.escape(message)):
            kernel(np.ones(3, "float32"), 2)

    def test_two_placeholders_convert(self, device: ArrayDevice) -> None:
        z = device.empty(4, "int32")
        CAST(device.array([1.7, -2.2, 3, 0]), z)
        np.testing.assert_array_equal(device.numpy(z), [1, -2, 3, 0])

    @pytest.mark.parametrize("dtype", [">f4", "datetime64[s]", "S3", "O", "longdouble"])
    def test_dtypes_no_kernel_knows(self, dtype: str) -> None:
        x = np.zeros(3, dtype)
        with pytest.raises(ValueError, match=r"argument x: (Unsupported dtype|dtype .* native)"):
            COPY(x)

    def test_preamble_of_a_constructor_may_use_placeholders(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "T y",
            "y = twice(x)",
            "uses_preamble",
            preamble="__device__ T twice(T value) { return value + value; }",
        )
        for dtype in ("float32", "int64"):
            y = place.numpy(kernel(place.array(arange(4, dtype=dtype))))
            np.testing.assert_array_equal(y, 2 * arange(4, dtype=dtype))


class TestScalars:
    def test_scalars_do_not_bind(self, device: ArrayDevice) -> None:
        z = device.numpy(ADD(device.array(arange(3)), np.float64(0.5)))
        assert z.dtype == np.float32
        np.testing.assert_array_equal(z, arange(3) + np.float32(0.5))

    @pytest.mark.parametrize("value", [2, 2.7, True, np.int8(2), np.float64(2.7), np.bool_(True)])
    def test_conversion_to_an_integer_truncates(self, value: Any, place: ArrayDevice) -> None:
        z = place.numpy(ADD(place.zeros(2, "int32"), value))
        np.testing.assert_array_equal(z, np.full(2, int(value), "int32"))

    def test_complex_scalars(self, place: ArrayDevice) -> None:
        z = place.numpy(ADD(place.zeros(2, "complex64"), 1 - 2j))
        np.testing.assert_array_equal(z, np.full(2, 1 - 2j, "complex64"))

    def test_elements_of_a_bfloat16_array(self, place: ArrayDevice) -> None:
        x = np.array([1, 2.5], ml_dtypes.bfloat16)
        np.testing.assert_array_equal(place.numpy(ADD(place.array(x), x[1])), [3.5, 5])
        np.testing.assert_array_equal(place.numpy(ADD(place.zeros(2), x[1])), [2.5, 2.5])

    def test_a_scalar_with_an_empty_array_is_not_converted(self, place: ArrayDevice) -> None:
        assert ADD(place.zeros(0, "int8"), 1000).shape == (0,)


class TestRaw:
    REVERSE = kspec.ElementwiseKernel(
        "raw T x", "T y", "y = x[x.size() - 1 - i]", "reverse_of_anything"
    )
    SHAPE = kspec.ElementwiseKernel(
        "raw float32 x",
        "int64 y",
        "y = i < x.ndim ? x.shape()[i] : -x.strides()[i - x.ndim]",
        "shape_and_strides",
    )
    GATHER = kspec.ElementwiseKernel(
        "raw T x, int32 row, int32 column", "T y", "y = x[{row, column}]", "gather"
    )

    @pytest.mark.parametrize("index", [np.s_[:], np.s_[::-1], np.s_[:, ::2], np.s_[1, 2:]], ids=str)
    def test_flat_index_of_any_strides(self, index: Any, device: ArrayDevice) -> None:
        x = arange(3, 4)
        view = device.array(x)[index]
        y = device.empty(x[index].size, "float32")
        self.REVERSE(view, y)
        np.testing.assert_array_equal(device.numpy(y), x[index].ravel()[::-1])

    def test_0d(self, place: ArrayDevice) -> None:
        y = place.empty(2, "float32")
        kernel = kspec.ElementwiseKernel("raw T x", "T y", "y = x[i]", "of_0d")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(np.float32(7)), y)), [7, 7])

    def test_shape_and_strides(self, place: ArrayDevice) -> None:
        x = place.array(arange(3, 4, 5))[:, ::2]
        y = self.SHAPE(x, place.empty(6, "int64"))
        np.testing.assert_array_equal(place.numpy(y), [3, 2, 5, -80, -40, -4])

    def test_multi_index(self, place: ArrayDevice) -> None:
        x = arange(3, 4)
        rows, columns = np.array([0, 2, 1], "int32"), np.array([3, 0, 1], "int32")
        y = self.GATHER(place.array(x).T[::-1].T, place.array(rows), place.array(columns))
        np.testing.assert_array_equal(place.numpy(y), x[:, ::-1][rows, columns])

    def test_size_is_refused_or_demanded(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("raw T x", "raw T y", "y[i] = x[i]", "all_raw_again")
        x = place.zeros(3)
        with pytest.raises(ValueError, match=r"Loop size is undecided."):
            kernel(x)
        with pytest.raises(ValueError, match=r"Loop size is undecided."):
            kernel(x, x)
        with pytest.raises(ValueError, match="Specified 'size' can"):
            ADD(x, x, size=3)
        with pytest.raises(ValueError, match="size must not be negative"):
            kernel(x, size=-2)
        for size in (2.0, "2"):
            with pytest.raises(TypeError, match="size must be an integer"):
                kernel(x, size=size)
        np.testing.assert_array_equal(place.numpy(ADD(x, x, size=-1)), [0, 0, 0])

    def test_all_raw_without_an_index(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("", "raw int32 y", "atomicAdd(&y[0], 1)", "all_raw_count")
        y = kernel(place.zeros(2, "int32"), size=999)
        np.testing.assert_array_equal(place.numpy(y), [999, 0])

    def test_a_raw_output_needs_a_size(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "raw T y", "y[i] = x", "raw_output")
        with pytest.raises(ValueError, match="Output array size is Undecided"):
            kernel(place.zeros(3))
        y = kernel(place.array(arange(3)), place.zeros(5, "float32"))
        np.testing.assert_array_equal(place.numpy(y), [0, 1, 2, 0, 0])

    def test_raw_arguments_must_be_arrays(self, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="argument x must be an array, not int"):
            self.REVERSE(3, place.zeros(3))

    def test_atomics_on_a_raw_output(self, place: ArrayDevice) -> None:
        count = kspec.ElementwiseKernel(
            "int32 bin", "raw uint32 counts", "atomicAdd(&counts[bin], 1u)", "histogram"
        )
        bins = np.random.default_rng(2).integers(0, 7, 5000).astype("int32")
        counts = count(place.array(bins), place.zeros(7, "uint32"))
        np.testing.assert_array_equal(place.numpy(counts), np.bincount(bins, minlength=7))


class TestNames:
    def test_i_is_the_c_order_index_whatever_the_strides(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "int64 y", "y = i", "index")
        y = kernel(device.array(arange(3, 4)).T)
        np.testing.assert_array_equal(device.numpy(y), arange(4, 3, dtype="int64"))

    def test_n_is_the_number_of_elements(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = n + _ind.size()", "count_elements")
        np.testing.assert_array_equal(place.numpy(kernel(place.zeros((2, 3)))), np.full((2, 3), 12))

    def test_ind_get_is_the_multi_index_of_collapsed_axes(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x", "int64 y", "y = _ind.ndim * 1000 + _ind.get()[0] * 10 + _ind.get()[1]", "get"
        )
        x = place.array(arange(3, 7))[:, ::2]
        row, column = np.indices((3, 4))
        np.testing.assert_array_equal(place.numpy(kernel(x)), 2000 + row * 10 + column)

    def test_outputs_keep_their_content_until_written(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y += x", "accumulate")
        y = device.array(arange(4))
        kernel(device.array(arange(4)), y)
        np.testing.assert_array_equal(device.numpy(y), 2 * arange(4))

    def test_continue_skips_an_element(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "if (x < 2) continue; y = x", "masked")
        y = kernel(device.array(arange(4)), device.zeros(4, "float32"))
        np.testing.assert_array_equal(device.numpy(y), [0, 0, 2, 3])

    @pytest.mark.parametrize("shape", [(4,), (1031,), (33, 64)])
    def test_outputs_that_macros_read_keep_their_content(
        self, shape: tuple[int, ...], device: ArrayDevice
    ) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x", "T y", "T t = OLD; y = t + x", "hidden_read", preamble="#define OLD y"
        )
        x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
        y = device.array(3 * x)
        kernel(device.array(x), y)
        np.testing.assert_array_equal(device.numpy(y), 4 * x)

    def test_loop_prep_and_after_loop(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "raw T total",
            "sum += x",
            "sum_by_thread",
            loop_prep="T sum = 0;",
            after_loop="atomicAdd(&total[0], sum);",
        )
        total = kernel(place.array(arange(100)), place.zeros(1, "float32"))
        np.testing.assert_array_equal(place.numpy(total), [4950])

    def test_a_header_does_not_hide_that_an_output_is_read(
        self, tmp_path: Path, place: ArrayDevice
    ) -> None:
        (tmp_path / "mine.cuh").write_text("#define OLD y\n")
        kernel = kspec.ElementwiseKernel(
            "T x",
            "T y",
            "T t = OLD; y = t + x",
            "hidden_in_a_header",
            preamble='#include "mine.cuh"',
            options=(f"-I{tmp_path}",),
        )
        x = np.arange(1031, dtype="float32")
        y = place.array(3 * x)
        kernel(place.array(x), y)
        np.testing.assert_array_equal(place.numpy(y), 4 * x)

    def test_a_header_does_not_hide_that_an_operation_reads_i(
        self, tmp_path: Path, place: ArrayDevice
    ) -> None:
        """Elements that are visited in the order of memory have no number to read."""
        (tmp_path / "mine.cuh").write_text("#define PLACE (long long)(i)\n")
        options = {"preamble": '#include "mine.cuh"', "options": (f"-I{tmp_path}",)}
        x = place.zeros((5, 40)).T
        for inputs in ("T x", "T x, raw T in_memory"):
            kernel = kspec.ElementwiseKernel(
                inputs, "int64 y", "y = PLACE", "hidden_place", **options
            )
            with pytest.raises(kspec.CompileError, match=r"\bi\b.* (?:undefined|not declared)"):
                kernel(*[x] * inputs.count("T"))
        kernel = kspec.ElementwiseKernel(
            "T x", "int64 y", "(void)i; y = PLACE", "shown_place", **options
        )
        want = np.arange(200).reshape(40, 5)
        np.testing.assert_array_equal(place.numpy(kernel(x)), want)

    @pytest.mark.parametrize("size", [1, 5, 130, 40_000])
    def test_every_element_begins_as_loop_prep_says(self, size: int, place: ArrayDevice) -> None:
        """As in CuPy, whose threads have one element each."""
        kernel = kspec.ElementwiseKernel(
            "T x", "T y", "s += x; y = s; s *= 2", "carries", loop_prep="T s = 0.5;"
        )
        x = np.arange(size, dtype="float32")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), x + 0.5)

    @pytest.mark.parametrize("step", ["next(s)", "NEXT", "T& r = s; r += 1", "++s", "(s)++"])
    def test_however_it_is_changed(self, step: str, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "T y",
            f"y = x + s; {step};",
            "carries_on",
            loop_prep="T s = 0;",
            preamble="#define NEXT s = s + 1\n"
            "template <class S> __device__ void next(S& s) { s += 1; }",
        )
        x = np.arange(40_000, dtype="float32")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), x)

    @pytest.mark.parametrize(
        "step",
        [
            "T* p = s; p[0] += 1",
            "*(s + 0) += 1",
            "auto&& r = s[0]; r += 1",
            "for (auto& v : s) v += 1",
        ],
    )
    def test_however_an_array_is_changed(self, step: str, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x", "T y", f"y = x + s[0]; {step};", "carries_array", loop_prep="T s[2] = {0, 0};"
        )
        x = np.arange(40_000, dtype="float32")
        np.testing.assert_array_equal(place.numpy(kernel(place.array(x))), x)

    @pytest.mark.parametrize(("size", "threads"), [(1, 1), (127, 127), (128, 128), (130, 256)])
    def test_after_loop_runs_in_as_many_threads_as_in_cupy(
        self, size: int, threads: int, place: ArrayDevice
    ) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "raw int32 count",
            "(void)x",
            "threads_of",
            after_loop="atomicAdd(&count[0], 1);",
        )
        count = kernel(place.zeros(size), place.zeros(1, "int32"))
        np.testing.assert_array_equal(place.numpy(count), [threads])

    @pytest.mark.parametrize("shape", [(300,), (3, 64)])
    def test_threads_are_those_of_cupy(self, shape: tuple[int, ...], place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "int64 y",
            "y = 1000000 * blockDim.x + thread + x",
            "numbers_of_threads",
            loop_prep="const long long thread = blockIdx.x * blockDim.x + threadIdx.x;",
        )
        x = place.zeros(shape[::-1], "int32").T
        count = np.arange(np.prod(shape)).reshape(shape)
        np.testing.assert_array_equal(place.numpy(kernel(x)), 128_000_000 + count)
        for size in (32, 64):  # repeated calls launch what the first one has planned
            y = place.numpy(kernel(x, block_size=size))
            np.testing.assert_array_equal(y, 1_000_000 * size + count)
            y = place.numpy(kernel(x[:40], block_size=size))
            count_of_fewer = np.arange(y.size).reshape(y.shape)
            block = min(size, y.size)
            np.testing.assert_array_equal(y, 1_000_000 * block + count_of_fewer)

    def test_a_const_input_can_not_be_written(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "x = 1; y = x", "writes_input")
        with pytest.raises(kspec.CompileError, match=r"<writes_input\.operation>"):
            kernel(place.zeros(3))

    def test_a_non_const_input_is_changed_in_place(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "_non_const T x", "T y", "y = x; x = 9", "swap_out", no_return=False
        )
        x = device.array(arange(3))
        y = kernel(x)
        np.testing.assert_array_equal(device.numpy(y), arange(3))
        np.testing.assert_array_equal(device.numpy(x), [9, 9, 9])
        with pytest.raises(TypeError, match="argument x must be an array"):
            kernel(1, y)

    def test_options_reach_the_compiler(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x", "T y", "y = x * FACTOR", "macro", options=("-DFACTOR=3",)
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array(arange(3)))), [0, 3, 6])

    def test_infinity_and_pi_are_named(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "float64 x", "float64 y", "y = x > 0 ? CUDART_INF : M_PI", "named_constants"
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array([0.0, 1]))), [np.pi, np.inf])


class TestReturns:
    def test_several_outputs_are_a_tuple(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x, T y", "T s, T d", "s = x + y; d = x - y", "both")
        x = device.array(arange(4))
        total, difference = kernel(x, 1)
        np.testing.assert_array_equal(device.numpy(total), arange(4) + 1)
        np.testing.assert_array_equal(device.numpy(difference), arange(4) - 1)
        given = device.empty(4, "float32"), device.empty(4, "float32")
        assert kernel(x, 1, *given)[1] is given[1]

    def test_outputs_by_keyword(self, device: ArrayDevice) -> None:
        both = kspec.ElementwiseKernel("T x, T y", "T s, T d", "s = x + y; d = x - y", "both_out")
        silent = kspec.ElementwiseKernel("T x", "T y", "y = x", "silent_out", no_return=True)
        x, y, z = device.array(arange(4)), device.empty(4, "float32"), device.empty(4, "float32")
        for _ in range(4):  # the last ones are answered by a plan
            assert ADD(x, x, out=y) is y
            assert ADD(x, 2, out=(z,)) is z
            np.testing.assert_array_equal(device.numpy(y), 2 * arange(4))
            np.testing.assert_array_equal(device.numpy(z), arange(4) + 2)
            total, difference = both(x, 1, out=(y, z))
            assert total is y and difference is z
            np.testing.assert_array_equal(device.numpy(y), arange(4) + 1)
            np.testing.assert_array_equal(device.numpy(z), arange(4) - 1)
            assert silent(x, out=z) is None
            np.testing.assert_array_equal(device.numpy(z), arange(4))
        wide = device.empty((2, 4), "float32")
        assert ADD(x, x, out=wide) is wide  # it takes part in broadcasting
        np.testing.assert_array_equal(device.numpy(wide), np.tile(2 * arange(4), (2, 1)))

    def test_outputs_by_keyword_of_other_calls(self, device: ArrayDevice) -> None:
        fill = kspec.ElementwiseKernel("float32 a", "raw float32 y", "y[i] = a + i", "fill_out")
        many = kspec.ElementwiseKernel(
            "T a, T b, T c, T d, T e", "T y", "y = a + b + c + d + e", "many_out"
        )
        y = device.zeros(4, "float32")
        for _ in range(4):
            assert fill(2.5, out=y, size=3) is y
            np.testing.assert_array_equal(device.numpy(y), [2.5, 3.5, 4.5, 0])
        x = device.array(arange(4))
        for _ in range(4):
            assert many(x, x, x, x, x, out=y) is y
        np.testing.assert_array_equal(device.numpy(y), 5 * arange(4))

    @pytest.mark.parametrize(
        ("count", "error", "message"),
        [
            (0, TypeError, r"add\(\) takes 2 or 3 positional arguments \(T x, T y, T z\), not 0"),
            (1, TypeError, r"add\(\) takes 2 or 3 positional arguments \(T x, T y, T z\), not 1"),
            (3, ValueError, "add: cannot specify 'out' as both positional and keyword"),
        ],
    )
    def test_outputs_given_twice(
        self, count: int, error: type[Exception], message: str, place: ArrayDevice
    ) -> None:
        """A missing input is not what `out` says."""
        x, y = place.zeros(3), place.zeros(3)
        for _ in range(3):
            ADD(x, x, out=y)
        for call in (ADD, ADD.bind):
            with pytest.raises(error, match=message):
                call(*[x] * count, out=y)

    def test_outputs_by_keyword_that_do_not_fit(self, place: ArrayDevice) -> None:
        x, y = place.zeros(3), place.zeros(3)
        with pytest.raises(kspec.ShapeError, match="add: out must hold 1 arrays, not 2"):
            ADD(x, x, out=(y, y))
        with pytest.raises(kspec.ArgumentTypeError, match="argument z must be an array, not int"):
            ADD(x, x, out=3)
        with pytest.raises(kspec.ShapeError, match="Out shape is mismatched"):
            ADD(x, x, out=place.zeros(1))
        with pytest.raises(TypeError, match="Type is mismatched"):
            ADD(x, x, out=place.zeros(3, "float32"))

    def test_without_outputs_an_empty_tuple(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x, raw T y", "", "(void)x", "nothing")
        assert kernel(place.zeros(3), place.zeros(3)) == ()


class TestDevices:
    def test_masked_arrays_are_refused(self) -> None:
        with pytest.raises(TypeError, match="masked arrays are not supported"):
            COPY(np.ma.masked_array([1.0, 2.0], [True, False]))

    def test_a_tensor_on_the_cpu_is_no_cuda_array(self) -> None:
        class Tensor:
            @property
            def __cuda_array_interface__(self) -> dict[str, Any]:
                raise AttributeError("not on a GPU")

        with pytest.raises(TypeError, match=r"x: this Tensor is not a CUDA array \(not on a GPU\)"):
            COPY(Tensor())

    def test_numpy_and_host_device_arrays_mix(self) -> None:
        own = kspec.asarray(arange(3), device="host")
        assert isinstance(ADD(own, arange(3)), kspec.DeviceArray)
        assert isinstance(ADD(arange(3), own), np.ndarray)

    @pytest.mark.gpu
    def test_numpy_and_cuda_arrays_do_not(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        with pytest.raises(TypeError, match="different devices: x on cuda:0, y on host"):
            ADD(place.zeros(3), np.zeros(3))
        with pytest.raises(TypeError, match="different devices"):
            ADD(np.zeros(3), 1, place.zeros(3))


class TestDeclarations:
    @pytest.mark.parametrize("name", ["not a name", "2x", "a-b", ""])
    def test_names(self, name: str) -> None:
        with pytest.raises(ValueError, match="Invalid kernel name"):
            kspec.ElementwiseKernel("T x", "T y", "y = x", name)

    @pytest.mark.parametrize(
        ("inputs", "outputs", "message"),
        [
            ("T i", "T y", "'i' is the index"),
            ("T _ind", "T y", "'_ind' is a name of generated code"),
            ("T _raw_x", "T y", "'_raw_x' is a name of generated code"),
            ("T x, T x", "T y", "two parameters"),
            ("T x", "T x", "two parameters"),
            ("const T x", "T y", "const"),
            ("T x,", "T y", "comma"),
            ("flaot32 x", "T y", "unknown type"),
        ],
    )
    def test_parameters(self, inputs: str, outputs: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            kspec.ElementwiseKernel(inputs, outputs, "y = x", "wrong")

    def test_unknown_keywords_are_refused_at_once(self) -> None:
        with pytest.raises(TypeError):
            kspec.ElementwiseKernel("T x", "T y", "y = x", "wrong", colour="red")  # type: ignore[call-arg]

    def test_errors_of_the_compiler_name_the_fragment_and_its_line(
        self, place: ArrayDevice
    ) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "T z = x;\ny = undeclared + z", "mistaken")
        with pytest.raises(kspec.CompileError, match="undeclared") as caught:
            kernel(place.zeros(3))
        assert "<mistaken.operation>" in str(caught.value)
        assert caught.value.numbered_source()
        line = next(one for one in str(caught.value).splitlines() if "undeclared" in one)
        assert "(2)" in line or ":2:" in line


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2, 3], "not list; pass an array, such as numpy.asarray(...) of it"),
        ([], "not list; pass an array"),
        ([np.ones(3)], "not list; kspec.sharded.apply(add_y, ...) takes lists of arrays"),
        (np.array([None] * 3), "dtype 'object'; its elements are Python objects; pass x.astype("),
        (np.zeros(3, "M8[s]"), "dtype 'datetime64[s]'; pass x.view(\"int64\")"),
        (np.zeros(3, "S3"), "dtype 'bytes24'; kernels know bool, int8, "),
    ],
    ids=str,
)
def test_a_refused_argument_has_a_way_out(value: Any, message: str) -> None:
    kernel = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_y")
    with pytest.raises(TypeError) as caught:
        kernel(np.ones(3), value)
    assert str(caught.value).startswith("add_y: argument y") and message in str(caught.value)


@pytest.mark.parametrize("value", [[1.0], "a", {}])
def test_a_raw_kernel_says_what_it_takes(value: Any) -> None:
    kernel = kspec.RawKernel('extern "C" __global__ void one(float* x) { x[0] = 1; }', "one")
    name = type(value).__name__
    message = f"one: argument 0: cannot pass a {name} to a kernel; pass an array, a number or a"
    with pytest.raises(TypeError, match=message):
        kernel((1,), (1,), (value,))
