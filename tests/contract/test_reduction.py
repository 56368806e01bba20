"""What a reduction call does when nothing is wrong, rule by rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_of")
DOT = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot")
MINIMUM = kspec.ReductionKernel("T x", "T y", "x", "min(a, b)", "y = a", None, "minimum")
RANGE = kspec.ReductionKernel(
    "T x",
    "T low, T high",
    "Range{x, x}",
    "Range{min(a.low, b.low), max(a.high, b.high)}",
    "low = a.low; high = a.high",
    None,
    "range_of",
    reduce_type="Range",
    preamble="struct Range { T low, high; };",
)
PLACES = kspec.ReductionKernel(
    "T x", "int64 y", "x * (100000 * _i + _J)", "a + b", "y = a", "0", "places"
)


def values(*shape: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(5).integers(-9, 9, shape).astype(dtype)


class TestReturns:
    def test_one_output_is_an_array_and_several_a_tuple(self, device: ArrayDevice) -> None:
        x = values(3, 4)
        assert isinstance(SUM(device.array(x)), device.kind)
        both = RANGE(device.array(x), axis=1)
        assert isinstance(both, tuple) and len(both) == 2
        np.testing.assert_array_equal(device.numpy(both[0]), x.min(axis=1))
        np.testing.assert_array_equal(device.numpy(both[1]), x.max(axis=1))

    def test_given_outputs_are_the_same_objects(self, device: ArrayDevice) -> None:
        x = device.array(values(3, 4))
        one, two = device.empty(4), device.empty(8)[::2]
        assert SUM(x, one, axis=0) is one
        assert SUM(x, axis=0, out=two) is two
        np.testing.assert_array_equal(device.numpy(two), device.numpy(one))
        for result in (RANGE(x, one, two, axis=0), RANGE(x, axis=0, out=(one, two))):
            assert result[0] is one and result[1] is two
            np.testing.assert_array_equal(device.numpy(two), values(3, 4).max(axis=0))

    def test_a_full_reduction_is_0d(self, place: ArrayDevice) -> None:
        for x in (values(3, 4), values(1), values()):
            y = place.numpy(SUM(place.array(x)))
            assert y.shape == () and y == x.sum()

    def test_new_outputs_are_c_ordered(self, place: ArrayDevice) -> None:
        x = place.array(values(5, 4, 3)).T
        assert SUM(x, axis=0).strides == (40, 8)


class TestStreams:
    def test_stream(self, place: ArrayDevice, launches: list[str]) -> None:
        x = values(3, 4)
        np.testing.assert_array_equal(place.numpy(SUM(place.array(x), stream=0)), x.sum())
        launches.clear()
        out = place.empty(())
        for wrong in ("0", object(), 0.0, True):
            with pytest.raises(TypeError, match="stream must be"):
                SUM(place.array(x), out, stream=wrong)
        assert launches == [] and place.numpy(out) == -77

    @pytest.mark.gpu
    def test_streams_of_cupy(self) -> None:
        cupy = pytest.importorskip("cupy")
        x = cupy.ones((1000, 1000))
        y = cupy.empty(1000)
        stream = cupy.cuda.Stream(non_blocking=True)
        cupy.cuda.Device().synchronize()
        assert SUM(x, y, axis=0, stream=stream) is y
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(y), np.full(1000, 1000.0))
        with stream:
            z = SUM(x, axis=1)
        stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(z), np.full(1000, 1000.0))


class TestAxes:
    FORMS = (
        None,
        0,
        -1,
        np.int64(1),
        np.uint8(2),
        (),
        [],
        (0,),
        [1],
        (0, 2),
        [2, 0],
        (-1, 0),
        (np.int32(1), -1),
        (2, 1, 0),
        range(2),
    )

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("axis", FORMS, ids=repr)
    def test_forms(self, axis: Any, keepdims: bool, place: ArrayDevice) -> None:
        x = values(3, 4, 5)
        y = place.numpy(SUM(place.array(x), axis=axis, keepdims=keepdims))
        expected = x.sum(
            axis=axis if axis is None or isinstance(axis, int | np.integer) else tuple(axis),
            keepdims=keepdims,
        )
        assert y.shape == expected.shape
        np.testing.assert_array_equal(y, expected)

    @pytest.mark.parametrize("keepdims", [False, True])
    def test_keepdims_and_given_outputs(self, keepdims: bool, device: ArrayDevice) -> None:
        x = values(3, 4, 5)
        expected = x.sum(axis=(0, 2), keepdims=keepdims)
        out = device.empty(expected.shape)
        assert SUM(device.array(x), out, axis=(0, 2), keepdims=keepdims) is out
        np.testing.assert_array_equal(device.numpy(out), expected)

    @pytest.mark.parametrize("ndim", [1, 8, 9, 17, 33, 64])
    @pytest.mark.parametrize("axes", ["all", "even", "odd", "first", "last", "none"])
    def test_up_to_64_dimensions(self, ndim: int, axes: str, place: ArrayDevice) -> None:
        x = values(*(2 if axis % 5 == 0 else 1 for axis in range(ndim)))
        reduced = {
            "all": tuple(range(ndim)),
            "even": tuple(range(0, ndim, 2)),
            "odd": tuple(range(1, ndim, 2)),
            "first": (0,),
            "last": (-1,),
            "none": (),
        }[axes]
        view = place.array(x).transpose(*reversed(range(ndim)))
        y = place.numpy(SUM(view, axis=reduced))
        np.testing.assert_array_equal(y, x.transpose().sum(axis=reduced))

    def test_inputs_broadcast_and_outputs_do_not(self, device: ArrayDevice) -> None:
        x, y = values(4, 1, 3), values(5, 1)
        z = device.numpy(DOT(device.array(x), device.array(y), axis=1))
        np.testing.assert_array_equal(z, (x * y).sum(axis=1))
        with pytest.raises(ValueError, match="Out shape is mismatched"):
            SUM(device.zeros(3), device.zeros(3))


class TestEmpty:
    BROKEN = kspec.ReductionKernel("T x, T y", "T z", "not C++", "a", "z = a", "0", "broken_map")

    @pytest.mark.parametrize("axis", [1, -1, (1,)])
    def test_no_output_elements_need_no_kernel(
        self, axis: Any, place: ArrayDevice, launches: list[str]
    ) -> None:
        assert self.BROKEN(place.zeros((0, 3)), 1, axis=axis).shape == (0,)
        assert MINIMUM(place.zeros((0, 0)), axis=axis).shape == (0,)
        out = place.zeros((0, 1))
        assert self.BROKEN(place.zeros((0, 3)), 1, out, axis=axis, keepdims=True) is out
        assert launches == []

    @pytest.mark.parametrize("identity", [1 - 2j, np.complex64(1 - 2j)])
    @pytest.mark.parametrize("dtype", ["complex64", "complex128"])
    def test_complex_identities(self, identity: Any, dtype: str, place: ArrayDevice) -> None:
        product = kspec.ReductionKernel("T x", "T y", "x", "a * b", "y = a", identity)
        assert place.numpy(product(place.zeros(0, dtype))) == 1 - 2j

    @pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (0, 0, 2)], ids=str)
    def test_nothing_reduced_is_the_post_map_of_the_identity(
        self, shape: Any, device: ArrayDevice
    ) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a * 2", "4", "doubled")
        np.testing.assert_array_equal(device.numpy(kernel(device.zeros(shape))), 8)
        y = device.numpy(kernel(device.zeros((2, *shape)), axis=tuple(range(1, len(shape) + 1))))
        np.testing.assert_array_equal(y, [8, 8])


class TestExpressions:
    @pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (2, 0), (1, 2), ()])
    def test_positions(self, axis: Any, place: ArrayDevice) -> None:
        x = values(3, 4, 5)
        reduced = range(3) if axis is None else (axis,) if isinstance(axis, int) else axis
        last = sorted(reduced)
        rows = np.moveaxis(x, last, range(3 - len(last), 3))
        rows = rows.reshape(*rows.shape[: 3 - len(last)], -1)
        outputs = np.arange(rows[..., 0].size).reshape(rows.shape[:-1])
        places = 100000 * outputs[..., None] + np.arange(rows.shape[-1])
        for view in (place.array(x), place.array(x[::-1])[::-1]):
            y = place.numpy(PLACES(view, axis=axis))
            np.testing.assert_array_equal(y, (rows * places).sum(axis=-1))

    def test_sizes(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x",
            "T y, int64 n",
            "x",
            "a + b",
            "y = a * _out_ind.size() / _in_ind.size(); n = _in_ind.size() * 100 + _out_ind.size()",
            "0",
            "mean_of",
        )
        x = values(3, 4, 5)
        mean, sizes = kernel(place.array(x), axis=(0, 2))
        np.testing.assert_allclose(place.numpy(mean), x.mean(axis=(0, 2)), rtol=1e-15)
        np.testing.assert_array_equal(place.numpy(sizes), [6004] * 4)

    def test_sizes_in_the_map(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x",
            "T y",
            "x / (_in_ind.size() / _out_ind.size())",
            "a + b",
            "y = a",
            "0",
            "averaged",
        )
        np.testing.assert_array_equal(
            place.numpy(kernel(place.array([[1.0, 3], [5, 7]]), axis=1)), [2, 6]
        )

    def test_raw_inputs(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x, raw T w", "T y", "x * w[{_i, _J}]", "a + b", "y = a", "0", "weighted_rows"
        )
        x, w = values(3, 4), values(4, 3)
        y = kernel(device.array(x), device.array(w).T, axis=1)
        np.testing.assert_array_equal(device.numpy(y), (x * w.T).sum(axis=1))

    def test_statements_and_commas_in_the_post_map(self, place: ArrayDevice) -> None:
        for post_map in ("y = a; z = y + 1", "y = a, z = a + 1", "{ y = a; }\nz = a + 1;"):
            kernel = kspec.ReductionKernel("T x", "T y, T z", "x", "a + b", post_map, "0", "posted")
            y, z = kernel(place.array([1.0, 2.0]))
            assert place.numpy(y) == 3 and place.numpy(z) == 4

    def test_types_of_the_accumulator(self, place: ArrayDevice) -> None:
        fields = ("x", "a + b", "y = a", "0")
        x = place.array(np.full(300, 100, "int8"))
        own = kspec.ReductionKernel("T x", "T y", *fields, "narrow")
        np.testing.assert_array_equal(
            place.numpy(own(x)), np.full(300, 100).astype("int8").sum(dtype="int8")
        )
        wide = kspec.ReductionKernel("T x", "int64 y", *fields, "wide_output")
        np.testing.assert_array_equal(place.numpy(wide(x)), 30000)
        named = kspec.ReductionKernel(
            "T x", "T y", "x", "a + b", "y = a / 300", "0", "named", "int"
        )
        np.testing.assert_array_equal(place.numpy(named(x)), 100)

    def test_non_const_inputs(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "_non_const T x", "T y", "x += 1", "a + b", "y = a", "0", "bump_and_sum"
        )
        x = device.array(values(3, 4))
        y = kernel(x[:, ::2], axis=0)
        expected = values(3, 4)
        expected[:, ::2] += 1
        np.testing.assert_array_equal(device.numpy(x), expected)
        np.testing.assert_array_equal(device.numpy(y), expected[:, ::2].sum(axis=0))

    def test_names_of_the_fold_do_not_clash(self, place: ArrayDevice) -> None:
        # In CuPy reduce and post-map are macros of `a` and `b`: members of these names break.
        kernel = kspec.ReductionKernel(
            "T x",
            "T y",
            "Pair{x, T(1)}",
            "Pair{a.a + b.a, a.b + b.b}",
            "y = a.a / a.b",
            "Pair{0, 0}",
            "mean_by_pairs",
            reduce_type="Pair",
            preamble="struct Pair { T a, b; };",
        )
        np.testing.assert_array_equal(place.numpy(kernel(place.array([1.0, 2.0, 6.0]))), 3)


class TestTypes:
    def test_outputs_bind_first(self, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel("S x", "T y", "x", "a + b", "y = a", "0", "binds_output")
        for dtype in ("int64", "float32", "complex128"):
            y = kernel(place.array(values(5)), place.empty((), dtype))
            np.testing.assert_array_equal(place.numpy(y), values(5).sum().astype(dtype))

    @pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "complex64"])
    def test_scalars_never_bind(self, dtype: str, place: ArrayDevice) -> None:
        x = np.arange(4).astype(dtype)
        for scalar in (True, 2, np.float64(2), np.int64(2)):
            z = place.numpy(DOT(place.array(x), scalar))
            assert z.dtype == dtype
            np.testing.assert_array_equal(z, (x * np.array(scalar).astype(dtype)).sum(dtype=dtype))
            np.testing.assert_array_equal(place.numpy(DOT(scalar, place.array(x))), z)


class TestLayouts:
    VIEWS = (
        ("contiguous", lambda x: x),
        ("reversed", lambda x: x[::-1, :, ::-1]),
        ("stepped", lambda x: x[::2, 1::3, ::-2]),
        ("transposed", lambda x: x.transpose(2, 0, 1)),
        ("reordered", lambda x: x.transpose(1, 0, 2)[:, ::-1]),
        ("slice", lambda x: x[1:2]),
    )

    @pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 1), (0, 2), (1, 2)], ids=str)
    @pytest.mark.parametrize("view", [view for _, view in VIEWS], ids=[name for name, _ in VIEWS])
    def test_inputs_and_outputs(self, view: Any, axis: Any, device: ArrayDevice) -> None:
        x = values(4, 7, 6)
        expected = view(x).sum(axis=axis)
        out = device.empty(tuple(2 * extent + 1 for extent in expected.shape))
        gaps = (slice(-2, None, -2),) * expected.ndim
        target = out[gaps] if gaps else out
        SUM(view(device.array(x)), target, axis=axis)
        whole = np.full(out.shape, -77.0)
        whole[gaps] = expected
        np.testing.assert_array_equal(device.numpy(out), whole)

    def test_zero_strides_and_windows(self) -> None:
        x = np.broadcast_to(values(5), (4, 5))
        np.testing.assert_array_equal(SUM(x, axis=0), 4 * values(5))
        np.testing.assert_array_equal(SUM(x, axis=1), [values(5).sum()] * 4)
        windows = np.lib.stride_tricks.sliding_window_view(values(20), 6)
        np.testing.assert_array_equal(SUM(windows, axis=1), windows.sum(axis=1))
        np.testing.assert_array_equal(SUM(windows, axis=0), windows.sum(axis=0))

    @pytest.mark.parametrize("reduce_dims", [True, False])
    def test_reduce_dims_changes_no_result(self, reduce_dims: bool, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x", "T y", "x", "a + b", "y = a", "0", "dims", reduce_dims=reduce_dims
        )
        x = values(4, 5, 6)
        np.testing.assert_array_equal(
            place.numpy(kernel(place.array(x)[:, ::2], axis=(0, 2))), x[:, ::2].sum(axis=(0, 2))
        )
