"""Elementwise kernels that read neighbours: boundaries, shapes, strides, dtypes, sizes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from tests.devices import HOST, ArrayDevice
from tests.profiles import examples
from tests.windows.reference import ALL, BOUNDARIES, correlate, integers, neighbours


def windowed(
    outputs: str, operation: str, name: str, reach: Any, inputs: str = "T u", **keywords: Any
) -> kspec.ElementwiseKernel:
    table = {"u": {"reach": reach, "boundary": ALL, "value": keywords.pop("value", 0)}}
    return kspec.ElementwiseKernel(inputs, outputs, operation, name, windows=table, **keywords)


LAPLACIAN = windowed(
    "T v", "v = u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - T(4) * u", "laplacian", [1, 1]
)
STAR = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
# Sums that tell apart every element: each has a weight of its own.
WIDE = [
    windowed("T v", "v = 2 * u(-1) + 3 * u + 5 * u(1) + 7 * u(2)", "wide_1", [[1, 2]]),
    windowed(
        "T v",
        "v = 0; for (int a = -1; a <= 2; ++a) for (int b = -3; b <= 0; ++b)"
        " v += (4 * (a + 1) + b + 4) * u(a, b);",
        "wide_2",
        [[1, 2], [3, 0]],
    ),
    windowed(
        "T v",
        "v = 0; for (int a = -1; a <= 1; ++a) for (int b = 0; b <= 1; ++b)"
        " for (int c = -1; c <= 0; ++c) v += (4 * (a + 1) + 2 * b + c + 2) * u(a, b, c);",
        "wide_3",
        [[1, 1], [0, 1], [1, 0]],
    ),
    windowed(
        "T v",
        "v = u(-1, 0, 0, 0) + 2 * u(0, 1, 0, 0) + 3 * u(0, 0, -1, 0) + 5 * u(0, 0, 0, 1)"
        " + 7 * u(1, 1, 1, 1)",
        "wide_4",
        [1, 1, 1, 1],
    ),
]


def wide(number: int, u: Any, boundary: str) -> Any:
    """Return the expected output of ``WIDE[number]``."""
    if number == 0:
        near = neighbours(u, [(1, 2)], boundary)
        return 2 * near[-1,] + 3 * near[0,] + 5 * near[1,] + 7 * near[2,]
    if number == 1:
        near = neighbours(u, [(1, 2), (3, 0)], boundary)
        return sum((4 * (a + 1) + b + 4) * one for (a, b), one in near.items())
    if number == 2:
        near = neighbours(u, [(1, 1), (0, 1), (1, 0)], boundary)
        return sum((4 * (a + 1) + 2 * b + c + 2) * one for (a, b, c), one in near.items())
    near = neighbours(u, [(1, 1)] * 4, boundary)
    return (
        near[-1, 0, 0, 0]
        + 2 * near[0, 1, 0, 0]
        + 3 * near[0, 0, -1, 0]
        + 5 * near[0, 0, 0, 1]
        + 7 * near[1, 1, 1, 1]
    )


class TestBoundaries:
    @pytest.mark.parametrize("boundary", ALL)
    @pytest.mark.parametrize("shape", [(40, 50), (3, 33, 70), (2, 1, 5, 4), (257, 3), (3, 1030)])
    def test_every_boundary(
        self, shape: tuple[int, ...], boundary: str, device: ArrayDevice
    ) -> None:
        u = integers(*shape)
        v = device.numpy(LAPLACIAN(device.array(u), boundary=boundary))
        np.testing.assert_array_equal(v, correlate(u, STAR, boundary))

    @pytest.mark.parametrize("boundary", BOUNDARIES)
    @pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (2, 2), (2, 3), (0, 3), (3, 0)])
    def test_extents_below_the_reach(
        self, shape: tuple[int, ...], boundary: str, device: ArrayDevice
    ) -> None:
        u = integers(*shape)
        v = device.numpy(WIDE[1](device.array(u), boundary=boundary))
        assert v.shape == shape
        if u.size:
            np.testing.assert_array_equal(v, wide(1, u, boundary))

    @pytest.mark.parametrize("boundary", BOUNDARIES)
    def test_scipy_agrees(self, boundary: str) -> None:
        ndimage = pytest.importorskip("scipy.ndimage")
        for shape in [(7, 9), (1, 2), (2, 1), (30, 1), (1, 1)]:
            u, weights = integers(*shape), integers(3, 5, seed=1)
            expected = ndimage.correlate(u, weights, mode=boundary, cval=0)
            np.testing.assert_array_equal(correlate(u, weights, boundary), expected)

    def test_the_value_outside(self, device: ArrayDevice) -> None:
        kernel = windowed("T v", "v = u(-1) + u(1)", "value_outside", [1], value=100)
        v = device.numpy(kernel(device.array(np.array([1, 2, 3], "int32")), boundary="constant"))
        assert v.tolist() == [102, 4, 102]

    def test_the_first_is_the_default(self, place: ArrayDevice) -> None:
        table = {"u": {"reach": [1], "boundary": ["wrap", "nearest"]}}
        kernel = kspec.ElementwiseKernel("T u", "T v", "v = u(1)", "first", windows=table)
        u = place.array(np.arange(3.0))
        for _ in range(4):
            assert place.numpy(kernel(u)).tolist() == [1, 2, 0]
            assert place.numpy(kernel(u, boundary="nearest")).tolist() == [1, 2, 2]

    def test_valid_with_nothing_left(self, place: ArrayDevice) -> None:
        v = LAPLACIAN(place.array(np.ones((2, 5))), boundary="valid")
        assert v.shape == (0, 3)


class TestArrays:
    @pytest.mark.parametrize("number", range(4))
    @pytest.mark.parametrize("boundary", ALL)
    def test_one_to_four_axes(self, number: int, boundary: str, device: ArrayDevice) -> None:
        shape = [(300,), (9, 40), (5, 9, 33), (4, 5, 6, 7)][number]
        u = integers(2, *shape)
        v = device.numpy(WIDE[number](device.array(u), boundary=boundary))
        np.testing.assert_array_equal(v, wide(number, u, boundary))

    def test_strides(self, device: ArrayDevice) -> None:
        u = integers(3, 20, 30)
        whole = device.array(u)
        for view in (
            lambda x: x[:, ::-1, ::2],
            lambda x: x.transpose(0, 2, 1),
            lambda x: x.transpose(2, 1, 0),
            lambda x: x[1],
            lambda x: x[::-1, 3:, 5:-5],
            lambda x: x[:, :, :1],
        ):
            for boundary in ("mirror", "constant"):
                v = device.numpy(LAPLACIAN(view(whole), boundary=boundary))
                np.testing.assert_array_equal(v, correlate(view(u), STAR, boundary))

    def test_broadcast_arrays(self) -> None:
        u = np.broadcast_to(integers(30), (20, 30))
        np.testing.assert_array_equal(LAPLACIAN(u), correlate(u, STAR, "nearest"))

    def test_strided_outputs(self, device: ArrayDevice) -> None:
        u, out = integers(20, 30), np.zeros((30, 40))
        v = device.array(out).T[::2][:20, :30]
        assert LAPLACIAN(device.array(u), v) is v
        np.testing.assert_array_equal(kspec.asnumpy(v), correlate(u, STAR, "nearest"))

    def test_batch_axes_broadcast(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u, T h",
            "T v",
            "v = (u(1) - u(-1)) / h",
            "batched",
            windows={"u": {"reach": [1], "boundary": "wrap"}},
        )
        u, h = integers(4, 1, 10), integers(3, 1) + 20
        v = device.numpy(kernel(device.array(u), device.array(h)))
        near = neighbours(u, [(1, 1)], "wrap")
        np.testing.assert_allclose(v, (near[1,] - near[-1,]) / h, rtol=1e-15)

    def test_two_windows(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u, T c",
            "T v",
            "v = c(-2) * u(0, -1) + c * u(1, 0) + c(1)",
            "two_windows",
            windows={
                "u": {"reach": [1, 1], "boundary": "reflect"},
                "c": {"reach": [[2, 1]], "boundary": "constant", "value": 3},
            },
        )
        u, c = integers(2, 9, 21), integers(21, seed=3)
        v = device.numpy(kernel(device.array(u), device.array(c)))
        near, row = neighbours(u, [(1, 1)] * 2, "reflect"), neighbours(c, [(2, 1)], "constant", 3)
        expected = row[-2,] * near[0, -1] + row[0,] * near[1, 0] + row[1,]
        np.testing.assert_array_equal(v, expected)

    def test_many_batch_axes(self, device: ArrayDevice) -> None:
        u = integers(*[2] * 10, 3, 4)
        view = u.transpose(9, 0, 8, 1, 7, 2, 6, 3, 5, 4, 10, 11)
        x = device.array(u).transpose(9, 0, 8, 1, 7, 2, 6, 3, 5, 4, 10, 11)
        v = device.numpy(LAPLACIAN(x))
        np.testing.assert_array_equal(v, correlate(view, STAR, "nearest"))

    def test_raw_weights(self, device: ArrayDevice) -> None:
        kernel = windowed(
            "T v",
            "T s = 0; for (int k = -R; k <= R; ++k) s += w[k + R] * u(k); v = s",
            "blur_r",
            ["R"],
            "T u, raw T w",
            sizes={"R": [1, 2]},
        )
        u = integers(50)
        for reach in (1, 2, 3):
            w = integers(2 * reach + 1, seed=reach)
            for _ in range(3):
                v = kernel(device.array(u), device.array(w), R=reach, boundary="mirror")
                np.testing.assert_array_equal(device.numpy(v), correlate(u, w, "mirror"))

    def test_the_index(self, device: ArrayDevice) -> None:
        operation = "v = u(1) * 1000 + i + 10 * _ind.get()[1]"
        kernel = windowed("T v", operation, "with_index", [1], reduce_dims=False)
        u = integers(3, 4, 5)
        v = device.numpy(kernel(device.array(u)))
        near = neighbours(u, [(1, 1)], "nearest")[1,]
        expected = near * 1000 + np.arange(60).reshape(u.shape) + 10 * np.arange(4)[:, None]
        np.testing.assert_array_equal(v, expected)

    def test_several_outputs(self, device: ArrayDevice) -> None:
        kernel = windowed("T d, bool up", "d = u(1) - u(-1); up = d > 0", "slope", [1])
        u = integers(40)
        d, up = kernel(device.array(u), boundary="wrap")
        expected = np.roll(u, -1) - np.roll(u, 1)
        np.testing.assert_array_equal(device.numpy(d), expected)
        np.testing.assert_array_equal(device.numpy(up), expected > 0)


@pytest.mark.gpu
def test_more_than_2_31_elements() -> None:
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.Device(0).mem_info[0] < 3 * 2**32:
        pytest.skip("the device has too little memory")
    kernel = windowed("T v", "v = u(-1, 0) + 2 * u(0, 1) + 3 * u", "large", [1, 1])
    u = cupy.zeros((3, 2**30 + 77), "uint8")
    u[:, :9], u[:, -9:] = 5, cupy.arange(9, dtype="uint8")
    v = kernel(u)
    for part in (slice(0, 20), slice(2**30 - 10, 2**30 + 30), slice(-20, None)):
        # One more column on either side, where it exists.
        begin, end, _ = part.indices(u.shape[1])
        wider = cupy.asnumpy(u[:, max(begin - 1, 0) : end + 1])
        near = neighbours(wider, [(1, 1)] * 2, "nearest")
        expected = near[-1, 0] + 2 * near[0, 1] + 3 * near[0, 0]
        skipped = begin - max(begin - 1, 0)
        np.testing.assert_array_equal(
            cupy.asnumpy(v[:, part]), expected[:, skipped : skipped + end - begin]
        )


DTYPES = ["int8", "uint16", "int32", "int64", "float16", "bfloat16", "float64", "complex64"]


class TestDtypes:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_numbers(self, dtype: str, place: ArrayDevice) -> None:
        kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        u = np.random.default_rng(1).integers(0, 9, (9, 40)).astype(kind)
        kernel = windowed("T v", "v = u(-1, 0) + u(0, 1) + u", "sum_of_three", [1, 1])
        v = place.numpy(kernel(place.array(u)))
        near = neighbours(u, [(1, 1)] * 2, "nearest")
        np.testing.assert_array_equal(v, near[-1, 0] + near[0, 1] + near[0, 0])

    def test_bool(self, place: ArrayDevice) -> None:
        u = np.random.default_rng(1).integers(0, 2, (9, 40)).astype(bool)
        kernel = windowed("T v", "v = u(-1, 0) && (u(0, 1) || !u)", "logic", [1, 1])
        v = place.numpy(kernel(place.array(u), boundary="constant"))
        near = neighbours(u, [(1, 1)] * 2, "constant", value=False)
        np.testing.assert_array_equal(v, near[-1, 0] & (near[0, 1] | ~near[0, 0]))

    def test_odd_bools(self) -> None:
        u = np.array([0, 7, 1, 255], "uint8").view(bool)
        kernel = windowed("int32 v", "v = u(1) + u(-1)", "odd_bools", [1], "bool u")
        assert kernel(u, boundary="constant").tolist() == [1, 1, 2, 1]


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_any_shape(data: st.DataObject) -> None:
    """Arbitrary shapes, views and boundaries."""
    number = data.draw(st.integers(0, 3))
    axes = number + 1
    ndim = data.draw(st.integers(axes, axes + 2))
    shape = tuple(data.draw(st.integers(1, 7)) for _ in range(ndim))
    u = integers(*shape, seed=data.draw(st.integers(0, 9)))
    order = data.draw(st.permutations(range(ndim)))
    steps = tuple(slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in range(ndim))
    view = u.transpose(order)[steps]
    boundary = data.draw(st.sampled_from(BOUNDARIES))
    v = HOST.numpy(WIDE[number](view, boundary=boundary))
    np.testing.assert_array_equal(v, wide(number, view, boundary))
