"""What an elementwise call does when nothing is wrong, rule by rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
COPY = kspec.ElementwiseKernel("T x", "T y", "y = x", "copy")
BOTH = kspec.ElementwiseKernel("T x, T y", "T s, T d", "s = x + y; d = x - y", "both")
INDEX = kspec.ElementwiseKernel("T x", "int64 y", "y = i", "index_of")
ALL_RAW = kspec.ElementwiseKernel("raw T x", "raw T y", "y[i] = x[i] + i", "all_raw")
BROKEN = kspec.ElementwiseKernel("T x, T y", "T z", "z = this is not C++", "broken_body")


def arange(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)


class TestReturns:
    @pytest.mark.parametrize(
        ("outputs", "keywords", "kind"),
        [
            ("", {}, ()),
            ("T y", {}, "array"),
            ("T y", {"return_tuple": True}, 1),
            ("T y, T z", {}, 2),
            ("T y, T z", {"return_tuple": True}, 2),
            ("", {"return_tuple": True}, ()),
            ("", {"no_return": True}, None),
            ("T y", {"no_return": True}, None),
            ("T y, T z", {"no_return": True, "return_tuple": True}, None),
        ],
    )
    @pytest.mark.parametrize("shape", [(3,), (0,)], ids=["some", "empty"])
    def test_what_comes_back(
        self, outputs: str, keywords: Any, kind: Any, shape: Any, place: ArrayDevice
    ) -> None:
        names = [one.split()[1] for one in outputs.split(",") if one]
        body = "".join(f"{name} = x;" for name in names) or "(void)x"
        kernel = kspec.ElementwiseKernel("T x", outputs, body, "returns", **keywords)
        x = place.zeros(shape)
        given = [place.empty(shape) for _ in names]
        for arguments in ([x], [x, *given]):
            result = kernel(*arguments)
            if kind is None or kind == ():
                assert result == kind and type(result) is type(kind)
                continue
            parts = [result] if kind == "array" else list(result)
            assert len(parts) == len(names) and (kind == "array" or isinstance(result, tuple))
            for part, own in zip(parts, given, strict=True):
                assert (part is own) == (len(arguments) > 1)
                assert part.shape == shape
                np.testing.assert_array_equal(place.numpy(part), np.zeros(shape))

    def test_given_outputs_are_the_same_objects(self, device: ArrayDevice) -> None:
        s, d = device.empty(3), device.empty((2, 6))[:, ::2]
        result = BOTH(device.array(arange(3)), device.array(arange(2, 1)), device.empty((2, 3)), d)
        assert result[1] is d
        np.testing.assert_array_equal(device.numpy(d), arange(3) - arange(2, 1))
        assert COPY(device.array(arange(3)), s) is s

    def test_0d_stays_0d(self, device: ArrayDevice) -> None:
        for y in (ADD(device.array(2.5), 1), ADD(device.array(2.5), device.array(1.0))):
            assert device.numpy(y).shape == () and device.numpy(y) == 3.5

    def test_new_outputs_are_c_ordered(self, place: ArrayDevice) -> None:
        x = place.array(arange(4, 3, 2)).transpose(2, 0, 1)
        y = COPY(x)
        assert y.strides == (96, 24, 8)
        np.testing.assert_array_equal(place.numpy(y), arange(4, 3, 2).transpose(2, 0, 1))


class TestBroadcasting:
    @pytest.mark.parametrize(
        "shapes",
        [
            ((3,), (1,), (3,)),
            ((1,), (1,), (5,)),
            ((), (), (2, 3)),
            ((3, 1), (4,), (2, 3, 4)),
            ((1, 1), (1,), (4, 1, 1)),
        ],
        ids=str,
    )
    def test_outputs_larger_than_inputs(self, shapes: Any, device: ArrayDevice) -> None:
        x, y = 1 + arange(*shapes[0]), 10 * arange(*shapes[1])
        z = device.empty(shapes[2])
        assert ADD(device.array(x), device.array(y), z) is z
        np.testing.assert_array_equal(device.numpy(z), np.broadcast_to(x + y, shapes[2]))

    def test_an_output_shapes_another(self, place: ArrayDevice) -> None:
        s, d = place.empty((2, 3)), place.empty((2, 3))
        BOTH(place.array(arange(3)), 1.0, s, d)
        np.testing.assert_array_equal(place.numpy(d), np.broadcast_to(arange(3) - 1, (2, 3)))

    def test_only_an_output_has_a_shape(self, place: ArrayDevice) -> None:
        np.testing.assert_array_equal(place.numpy(ADD(1, 2, place.empty((2, 2)))), [[3, 3], [3, 3]])

    def test_raw_arrays_take_no_part(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x, raw T w", "T y", "y = x + w.size()", "with_raw")
        y = kernel(place.array(arange(3)), place.zeros((4, 5)))
        np.testing.assert_array_equal(place.numpy(y), arange(3) + 20)


class TestEmpty:
    @pytest.mark.parametrize(
        "shapes", [((0,), (0,)), ((0,), (1,)), ((2, 0), (1, 1)), ((0, 1), (1, 5))], ids=str
    )
    def test_nothing_is_compiled_or_launched(
        self, shapes: Any, device: ArrayDevice, launches: list[str]
    ) -> None:
        x, y = (device.zeros(shape) for shape in shapes)
        z = device.numpy(BROKEN(x, y))
        assert z.shape == np.broadcast_shapes(*shapes) and z.dtype == np.float64
        assert launches == []

    def test_given_outputs_come_back(self, place: ArrayDevice, launches: list[str]) -> None:
        z = place.zeros((0, 3))
        assert BROKEN(place.zeros(3), place.zeros(1), z) is z
        assert launches == []

    def test_size_zero(self, place: ArrayDevice, launches: list[str]) -> None:
        broken = kspec.ElementwiseKernel("raw T x", "raw T y", "not C++", "broken_raw")
        assert broken(place.zeros(3), size=0).shape == (0,)
        y = place.empty(3)
        assert broken(place.zeros(3), y, size=0) is y
        assert launches == []
        np.testing.assert_array_equal(place.numpy(y), [-77] * 3)

    def test_every_other_check_is_made(self, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="Type is mismatched"):
            BROKEN(place.zeros(0), place.zeros(0, "float32"))
        with pytest.raises(ValueError, match="Out shape is mismatched"):
            BROKEN(place.zeros(0), place.zeros(1), place.zeros(1))


class TestKeywords:
    def test_size_is_the_loop_of_raw_arrays(self, device: ArrayDevice) -> None:
        y = ALL_RAW(device.array(arange(2, 3)), size=6)
        np.testing.assert_array_equal(device.numpy(y), 2 * arange(6))
        given = device.zeros((2, 4))
        assert ALL_RAW(device.array(arange(5)), given, size=np.int32(3)) is given
        np.testing.assert_array_equal(device.numpy(given).ravel(), [0, 2, 4, 0, 0, 0, 0, 0])

    def test_size_minus_one_is_not_given(self, place: ArrayDevice) -> None:
        np.testing.assert_array_equal(place.numpy(ADD(place.zeros(3), 1, size=-1)), [1, 1, 1])

    @pytest.mark.parametrize("block_size", [1, 7, 32, 1000, 1024, 10**9, 128.0, np.int64(64)])
    def test_block_size_changes_no_result(self, block_size: Any, place: ArrayDevice) -> None:
        x = arange(1000)
        y = place.numpy(ADD(place.array(x), 1, block_size=block_size))
        np.testing.assert_array_equal(y, x + 1)

    def test_stream(self, place: ArrayDevice) -> None:
        x = place.array(arange(3))
        np.testing.assert_array_equal(place.numpy(ADD(x, x, stream=0)), 2 * arange(3))
        for wrong in ("0", object(), 0.0, True):
            with pytest.raises(TypeError, match="stream must be"):
                ADD(x, x, stream=wrong)

    @pytest.mark.gpu
    def test_streams_of_cupy(self) -> None:
        cupy = pytest.importorskip("cupy")
        x = cupy.arange(1000.0)
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        y = cupy.empty(1000)
        ADD(x, x, y, stream=stream)
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(y), 2 * np.arange(1000.0))
        with stream:
            z = ADD(x, x)
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(z), 2 * np.arange(1000.0))


class TestTypes:
    def test_outputs_bind_first(self, place: ArrayDevice) -> None:
        for dtype in ("int8", "float32", "complex64"):
            z = place.empty(2, dtype)
            np.testing.assert_array_equal(place.numpy(ADD(1, 2, z)), np.full(2, 3, dtype))

    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "complex64"])
    def test_scalars_never_bind(self, dtype: str, place: ArrayDevice) -> None:
        for scalar in (True, 1, np.float64(1), np.int64(1)):
            assert place.numpy(ADD(place.zeros(2, dtype), scalar)).dtype == dtype
            assert place.numpy(ADD(scalar, place.zeros(2, dtype))).dtype == dtype

    def test_a_0d_array_binds(self, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="Type is mismatched"):
            ADD(place.zeros(2, "float32"), place.array(1.0))

    def test_raw_arrays_bind(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("S x, raw T w", "T y", "y = x + w[0]", "raw_binds")
        y = place.numpy(kernel(place.zeros(2, "float32"), place.zeros(1, "int16")))
        assert y.dtype == "int16"

    def test_typedefs_in_every_fragment(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "raw S y",
            "T one = x; mine += (S)one",
            "typedefs",
            preamble="__device__ S zero(T) { return S(0); }",
            loop_prep="S mine = zero(T());",
            after_loop="if (mine != S(0)) atomicAdd(&y[0], mine);",
        )
        y = kernel(place.array(arange(10, dtype="int32")), place.zeros(1, "float32"))
        np.testing.assert_array_equal(place.numpy(y), [45])


class TestBody:
    def test_continue_skips_an_element_and_return_leaves_the_thread(
        self, place: ArrayDevice
    ) -> None:
        skip = kspec.ElementwiseKernel(
            "T x",
            "T y, raw int32 left",
            "if (x == 3) continue; y = x",
            "skips",
            after_loop="atomicAdd(&left[0], 1);",
        )
        y, left = skip(place.array(arange(6)), place.empty(6), place.zeros(1, "int32"))
        np.testing.assert_array_equal(place.numpy(y), [0, 1, 2, -77, 4, 5])
        assert place.numpy(left)[0] > 0
        leave = kspec.ElementwiseKernel(
            "T x", "raw int32 left", "return", "leaves", after_loop="atomicAdd(&left[0], 1);"
        )
        np.testing.assert_array_equal(
            place.numpy(leave(place.zeros(6), place.zeros(1, "int32"))), [0]
        )

    def test_outputs_hold_what_they_held(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "if (x > 1) y += x", "masked_add")
        y = device.array(10 * arange(4))
        kernel(device.array(arange(4)), y)
        np.testing.assert_array_equal(device.numpy(y), [0, 10, 22, 33])

    def test_non_const_inputs_are_changed_where_they_are(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("_non_const T x", "T y", "y = x; x = -1", "take_out")
        x = device.array(arange(6))
        y = kernel(x[::2])
        np.testing.assert_array_equal(device.numpy(y), [0, 2, 4])
        np.testing.assert_array_equal(device.numpy(x), [-1, 1, -1, 3, -1, 5])

    @pytest.mark.parametrize(
        "operation", ["atomicAdd(&count, x)", "T& c = count; atomicAdd(&c, x)", "add_to(count, x)"]
    )
    def test_one_element_for_all_threads(self, operation: str, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x, _non_const T count",
            "",
            operation,
            "count_up",
            preamble="__device__ void add_to(T& sum, T x) { atomicAdd(&sum, x); }",
        )
        count = place.zeros(1, "int32")
        kernel(place.array(np.ones(500_000, "int32")), count)
        np.testing.assert_array_equal(place.numpy(count), [500_000])

    def test_i_and_n(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "int64 y", "y = i * 100 + n", "i_and_n")
        expected = np.arange(6).reshape(2, 3) * 100 + 6
        for x in (arange(2, 3), np.ones((3, 2)).T):
            view = place.array(x) if x.flags.c_contiguous else place.array(x.T).T
            np.testing.assert_array_equal(place.numpy(kernel(view)), expected)

    def test_i_is_64_bits_wide(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x", "int64 y", "y = sizeof(i) * 10 + ((i - 1) < i)", "width"
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.zeros(2))), [81, 81])

    def test_ind(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x",
            "int64 y",
            "y = _ind.size() * 1000 + _ind.ndim * 100 + _ind.get()[_ind.ndim - 1]",
            "index_object",
        )
        y = place.numpy(kernel(place.array(arange(2, 3))))
        np.testing.assert_array_equal(y.ravel(), 6100 + np.arange(6))
        y = place.numpy(kernel(place.array(arange(3, 5))[:, :2]))
        np.testing.assert_array_equal(y, np.broadcast_to(6200 + np.arange(2), (3, 2)))


VIEWS = {
    "contiguous": lambda x: x,
    "reversed": lambda x: x[::-1],
    "reversed-both": lambda x: x[::-1, ::-1],
    "stepped": lambda x: x[::2, 1::3],
    "stepped-back": lambda x: x[::-2, ::-1],
    "transposed": lambda x: x.T,
    "one-row": lambda x: x[2:3],
    "one-column": lambda x: x[:, 2:3],
}
OVERLAPPING = {
    "neighbours": lambda x: (x[:-1], x[1:]),
    "shifted": lambda x: (x[:, :-3], x[:, 3:]),
    "reversed": lambda x: (x, x[::-1]),
    "mirrored": lambda x: (x[:, ::-1], x),
    "transposed": lambda x: (x, x.T),
    "one-row": lambda x: (x, x[1]),
    "one-element": lambda x: (x, x[2:3, 2:3]),
    "same": lambda x: (x[::2], x[::2]),
}


class TestLayouts:
    """Views of every kind as inputs and outputs; overlapping inputs are fine."""

    @pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
    def test_inputs_and_outputs(self, view: Any, device: ArrayDevice) -> None:
        x = arange(6, 9)
        out = device.empty((6, 9))
        target = view(out)
        assert ADD(view(device.array(x)), 1, target) is target
        expected = np.full((6, 9), -77.0)
        view(expected)[...] = view(x) + 1
        np.testing.assert_array_equal(device.numpy(out), expected)

    @pytest.mark.parametrize("views", OVERLAPPING.values(), ids=OVERLAPPING)
    def test_overlapping_inputs(self, views: Any, device: ArrayDevice) -> None:
        x = arange(6, 6)
        first, second = views(x)
        y = device.numpy(ADD(*views(device.array(x))))
        np.testing.assert_array_equal(y, first + second)

    def test_zero_strides(self) -> None:
        row = np.broadcast_to(arange(3), (4, 3))
        np.testing.assert_array_equal(ADD(row, row), row + row)
        everywhere = np.broadcast_to(np.float64(2), (4, 3))
        np.testing.assert_array_equal(ADD(everywhere, everywhere), everywhere + 2)

    def test_sliding_windows(self) -> None:
        x = arange(10)
        windows = np.lib.stride_tricks.sliding_window_view(x, 4)
        np.testing.assert_array_equal(ADD(windows, windows[:, ::-1]), windows + windows[:, ::-1])

    def test_fortran_order(self) -> None:
        x = np.asfortranarray(arange(3, 4, 5))
        out = np.full((3, 4, 5), -77.0, order="F")
        np.testing.assert_array_equal(ADD(x, arange(3, 4, 5), out), x + x)
        assert out.flags.f_contiguous and not out.flags.c_contiguous
        np.testing.assert_array_equal(INDEX(x), np.arange(60).reshape(3, 4, 5))

    def test_an_input_that_is_the_output(self, device: ArrayDevice) -> None:
        x = device.array(arange(5))
        ADD(x, x, x)
        np.testing.assert_array_equal(device.numpy(x), 2 * arange(5))

    @pytest.mark.parametrize("reduce_dims", [True, False])
    def test_reduce_dims_changes_no_result(self, reduce_dims: bool, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + i", "dims", reduce_dims)
        x = arange(4, 6, 5)
        y = place.numpy(kernel(place.array(x)[:, ::2].transpose(2, 0, 1)))
        view = x[:, ::2].transpose(2, 0, 1)
        np.testing.assert_array_equal(y, view + np.arange(view.size).reshape(view.shape))

    @pytest.mark.parametrize("ndim", [1, 8, 9, 16, 32, 63, 64])
    def test_up_to_64_dimensions(self, ndim: int, place: ArrayDevice) -> None:
        # Axes alternate in direction and order, so that they do not merge.
        extents = tuple(2 if axis % 4 == 0 else 1 for axis in range(ndim))
        x = arange(*extents)
        view = place.array(x).transpose(*reversed(range(ndim)))[(slice(None, None, -1),) * ndim]
        y = place.numpy(INDEX(view))
        assert y.shape == extents[::-1]
        np.testing.assert_array_equal(y.ravel(), np.arange(x.size))
        expected = x.transpose()[(slice(None, None, -1),) * ndim]
        np.testing.assert_array_equal(place.numpy(ADD(view, 1)), expected + 1)

    def test_64_axes_that_do_not_merge(self) -> None:
        # Every axis is its own: 64 extents of 2 at most once each in memory.
        x = arange(2**12)
        shape = (2,) * 12 + (1,) * 52
        strides = tuple(8 * (2**axis) for axis in range(12)) + (8,) * 52
        view = np.lib.stride_tricks.as_strided(x, shape, strides)
        np.testing.assert_array_equal(ADD(view, 1), view + 1)


class TestRaw:
    def test_flat_and_multi_indices_agree(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x",
            "T y",
            """
            ptrdiff_t index[] = {i / (x.shape()[1] * x.shape()[2]),
                                 i / x.shape()[2] % x.shape()[1], i % x.shape()[2]};
            y = x[i] == x[index] && x[i] == x[{index[0], index[1], index[2]}] ? x[i] : T(-1);
            """,
            "indices",
        )
        x = 1 + arange(4, 5, 6)
        for view in (
            lambda a: a,
            lambda a: a[::-1, ::2, 1:],
            lambda a: a.transpose(2, 0, 1),
            lambda a: a[:, :, ::-2],
        ):
            expected = view(x)
            y = device.numpy(kernel(view(device.array(x)), device.empty(expected.shape)))
            np.testing.assert_array_equal(y, expected)

    def test_the_object(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x",
            "raw int64 y",
            """
            y[0] = x.ndim; y[1] = x.size();
            for (int k = 0; k < x.ndim; ++k) { y[2 + 2 * k] = x.shape()[k]; y[3 + 2 * k] = x.strides()[k]; }
            """,
            "object_of",
        )
        x = place.array(arange(4, 5, 6))[1:, ::-2]
        y = place.numpy(kernel(x, place.zeros(8, "int64"), size=1))
        np.testing.assert_array_equal(y, [3, 54, 3, 240, 3, -96, 6, 8])

    def test_0d(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x",
            "raw T y",
            "y[0] = x[0] + x[12] + x.ndim + x.size() + (x.shape() == nullptr)",
            "of_0d",
        )
        y = kernel(place.array(3.0), place.zeros(()), size=1)
        np.testing.assert_array_equal(place.numpy(y), 8)

    def test_an_input_can_not_be_written(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel("raw T x", "T y", "x[0] = 1; y = 0", "writes_raw")
        with pytest.raises(kspec.CompileError):
            kernel(place.zeros(3), place.zeros(3))

    def test_non_const_and_outputs_can(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw _non_const T x", "raw T y", "x[i] += 1; y[n - 1 - i] = x[i]", "writes_both"
        )
        x, y = device.array(arange(6)), device.zeros((2, 6))
        kernel(x[::2], y[:, ::-2], size=3)
        np.testing.assert_array_equal(device.numpy(x), [1, 1, 3, 3, 5, 5])
        np.testing.assert_array_equal(device.numpy(y)[0], [0, 1, 0, 3, 0, 5])
        np.testing.assert_array_equal(device.numpy(y)[1], np.zeros(6))

    def test_neighbours(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x", "T y", "y = (x[i] + x[i + 1] + x[i + 2]) / 3", "three_points"
        )
        y = device.numpy(kernel(device.array(arange(10)), device.empty(8)))
        np.testing.assert_array_equal(y, arange(8) + 1)
