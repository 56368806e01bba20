"""Inputs read between elements: equality with SciPy's map_coordinates, and what SciPy leaves open."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec.model.stages import CudaSource, Target
from kspec.render import render_file, specializations
from kspec.spec.loader import load_specs
from tests.compiling import compiled
from tests.devices import HOST, ArrayDevice
from tests.profiles import examples
from tests.windows.reference import BOUNDARIES

ndimage = pytest.importorskip("scipy.ndimage")

ORDERS = (0, 1, 3)
LIST = list(BOUNDARIES)
SCIPY = {"wrap": "grid-wrap", "constant": "grid-constant"}


def warp(order: int, axes: int, value: float = 2.5) -> kspec.ElementwiseKernel:
    names = "abc"[:axes]
    return kspec.ElementwiseKernel(
        ", ".join(["raw T x", *(f"C {name}" for name in names)]),
        "T z",
        f"z = x.sample({', '.join(names)})",
        f"warp_{order}_{axes}",
        samples={"x": {"order": order, "boundary": LIST, "value": value}},
    )


WARP = {(order, axes): warp(order, axes) for order in ORDERS for axes in (1, 2, 3)}


def expected(x: Any, at: Any, order: int, boundary: str, value: float = 2.5) -> Any:
    """Return SciPy's result, in double precision."""
    wide = x.astype("complex128" if x.dtype.kind == "c" else "float64")
    mode = SCIPY.get(boundary, boundary)
    at = np.broadcast_arrays(*at)
    return ndimage.map_coordinates(wide, at, order=order, mode=mode, cval=value, prefilter=False)


def normal(*shape: int, dtype: Any = "float64", seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).normal(size=shape)
    if np.dtype(dtype).kind == "c":
        numbers = numbers + 1j * np.random.default_rng(seed + 1).normal(size=shape)
    return numbers.astype(dtype)


def places(shape: tuple[int, ...], count: int = 400, dtype: Any = "float64", seed: int = 3) -> Any:
    """Return coordinates inside, at the edges, far outside, and at elements."""
    random = np.random.default_rng(seed)
    found = []
    for extent in shape:
        near = random.uniform(-2, extent + 1, count - 100)
        far = random.uniform(-20 * extent - 9, 20 * extent + 9, 80)
        whole = random.integers(-2 * extent, 3 * extent, 20)
        found.append(random.permutation(np.concatenate([near, far, whole])).astype(dtype))
    return found


class TestScipy:
    @pytest.mark.parametrize("boundary", BOUNDARIES)
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("shape", [(9,), (1,), (6, 5), (1, 4), (2, 1), (4, 3, 5)], ids=str)
    def test_every_boundary(
        self, shape: tuple[int, ...], order: int, boundary: str, device: ArrayDevice
    ) -> None:
        x, at = normal(*shape), places(shape)
        kernel = WARP[order, len(shape)]
        z = device.numpy(kernel(device.array(x), *map(device.array, at), boundary=boundary))
        np.testing.assert_allclose(z, expected(x, at, order, boundary), rtol=0, atol=1e-13)

    @pytest.mark.parametrize("boundary", BOUNDARIES)
    def test_between_two_elements_order_0_takes_scipys(
        self, boundary: str, place: ArrayDevice
    ) -> None:
        x, a = np.arange(1.0, 6.0), np.arange(-12.5, 14, 0.5)
        z = place.numpy(WARP[0, 1](place.array(x), place.array(a), boundary=boundary))
        np.testing.assert_array_equal(z, expected(x, [a], 0, boundary))

    @pytest.mark.parametrize("boundary", ["reflect", "mirror", "wrap"])
    def test_coefficients_of_the_same_mode_interpolate(
        self, boundary: str, place: ArrayDevice
    ) -> None:
        x = normal(12, 9)
        mode: Any = SCIPY.get(boundary, boundary)
        coefficients = ndimage.spline_filter(x, order=3, mode=mode)
        a, b = np.mgrid[-20:30, -15:25].astype(float)
        arrays = map(place.array, (coefficients, a, b))
        z = place.numpy(WARP[3, 2](*arrays, boundary=boundary))
        direct = ndimage.map_coordinates(x, [a, b], order=3, mode=mode)
        np.testing.assert_allclose(z, direct, atol=1e-12)
        np.testing.assert_allclose(z[20:32, 15:24], x, atol=1e-12)

    @given(data=st.data())
    @settings(max_examples=examples(60), deadline=None)
    def test_any_place(self, data: st.DataObject) -> None:
        axes = data.draw(st.integers(1, 3))
        order = data.draw(st.sampled_from(ORDERS))
        boundary = data.draw(st.sampled_from(BOUNDARIES))
        shape = tuple(data.draw(st.integers(1, 6)) for _ in range(axes))
        # Eighths: SciPy moves coordinates into the array, which rounds others beside a half.
        eighths = st.integers(-400, 400) | st.integers(-(10**9), 10**9)
        places = st.lists(eighths.map(lambda n: n / 8), min_size=4, max_size=4)
        at = [np.array(data.draw(places)) for _ in shape]
        x = normal(*shape, seed=data.draw(st.integers(0, 9)))
        z = HOST.numpy(WARP[order, axes](x, *at, boundary=boundary))
        np.testing.assert_allclose(z, expected(x, at, order, boundary), atol=1e-12)


class TestCoordinates:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_infinite_and_nan(self, dtype: str, order: int, place: ArrayDevice) -> None:
        x = np.array([1, 2, 3, 4], dtype)
        a = np.array([np.inf, -np.inf, np.nan, 1e30, -1e30], dtype)
        nan = np.nan
        edges, outside = [4, 1, nan, 4, 1], [2.5, 2.5, nan, 2.5, 2.5]
        for boundary in BOUNDARIES:
            z = place.numpy(WARP[order, 1](place.array(x), place.array(a), boundary=boundary))
            if boundary in ("nearest", "constant"):
                wanted = edges if boundary == "nearest" else outside
                np.testing.assert_allclose(z, wanted, rtol=1e-6)
            else:
                assert np.isnan(z[:3]).all()
                assert (z[3:] >= 1).all()
                assert (z[3:] <= 4).all()

    @pytest.mark.parametrize("order", ORDERS)
    def test_one_nan_of_two(self, order: int, place: ArrayDevice) -> None:
        x, a, b = normal(3, 4), np.array([np.nan, 1.0, 1.0]), np.array([1.0, np.nan, 1.0])
        z = place.numpy(WARP[order, 2](*map(place.array, (x, a, b)), boundary="constant"))
        assert np.isnan(z).tolist() == [True, True, False]

    def test_integers_have_no_nan(self, place: ArrayDevice) -> None:
        a = np.array([0.6, np.nan, np.inf])
        x = place.array(np.array([5, 6, 7], "int32"))
        whole = kspec.ElementwiseKernel(
            "raw T x, C a",
            "T z",
            "z = x.sample(a)",
            "nearest_integer",
            samples={"x": {"order": 0, "boundary": ["wrap", "nearest"], "value": 9}},
        )
        assert place.numpy(whole(x, place.array(a))).tolist() == [6, 9, 9]
        assert place.numpy(whole(x, place.array(a), boundary="nearest")).tolist() == [6, 9, 7]

    def test_structs_of_order_0(self, place: ArrayDevice) -> None:
        """Their type was that of a product with a number, which they do not have."""
        taken = kspec.ElementwiseKernel(
            "raw T x, float64 a",
            "float32 z",
            "z = x.sample(a).q",
            "nearest_struct",
            samples={"x": {"order": 0, "boundary": ["wrap", "constant"]}},
        )
        x = np.zeros(5, [("p", "i4"), ("q", "f4")])
        x["q"] = [1, 2, 3, 4, 5]
        a = place.array(np.array([0, 1.2, 3.6, 7, -3, np.nan]))
        assert place.numpy(taken(place.array(x), a)).tolist() == [1, 2, 5, 3, 3, 0]
        z = place.numpy(taken(place.array(x), a, boundary="constant"))
        assert z.tolist() == [1, 2, 5, 0, 0, 0]

    @pytest.mark.parametrize("order", ORDERS)
    def test_empty_arrays(self, order: int, place: ArrayDevice) -> None:
        x, a = place.array(np.zeros(0)), place.array(np.array([-1.0, 0.0, 0.5, np.nan]))
        for boundary in BOUNDARIES:
            z = place.numpy(WARP[order, 1](x, a, boundary=boundary))
            wanted = 2.5 if boundary == "constant" else np.nan
            np.testing.assert_allclose(z, [wanted] * 3 + [np.nan], rtol=1e-15)

    def test_elements_of_weight_zero_do_not_count(self, place: ArrayDevice) -> None:
        x = place.array(np.array([1, np.nan, 3, np.inf, 5]))
        a = place.array(np.array([0.0, 2.0, 4.0, 3.0, 0.5]))
        z = place.numpy(WARP[1, 1](x, a))
        np.testing.assert_array_equal(z, [1, 3, 5, np.inf, np.nan])
        outside = place.numpy(warp(1, 1, np.nan)(x, a, boundary="constant"))
        np.testing.assert_array_equal(outside, [1, 3, 5, np.inf, np.nan])

    @pytest.mark.parametrize("order", ORDERS)
    def test_indices_of_more_than_32_bits(self, order: int, place: ArrayDevice) -> None:
        x = normal(5)
        sizes = np.array([2**30 - 0.75, 2**30, 2**30 + 0.25, 2**31 - 0.75, 2**31 + 0.25, 2**40])
        a = np.concatenate([sizes, -sizes])
        for boundary in BOUNDARIES:
            z = place.numpy(WARP[order, 1](place.array(x), place.array(a), boundary=boundary))
            np.testing.assert_allclose(z, expected(x, [a], order, boundary), atol=1e-12)

    @pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "float16", "bfloat16"])
    def test_types_of_coordinates(self, dtype: str, place: ArrayDevice) -> None:
        kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        x, a = normal(20), np.arange(12).astype(kind)
        if "float" in dtype:
            a = (a.astype("float32") / 4).astype(kind)
        z = place.numpy(WARP[1, 1](place.array(x), place.array(a)))
        np.testing.assert_allclose(z, expected(x, [a.astype(float)], 1, "nearest"), atol=1e-14)

    def test_float32_offsets_keep_their_fraction_far_from_the_origin(
        self, place: ArrayDevice
    ) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u, float32 d",
            "T v",
            "v = u.sample(d)",
            "shifted_far",
            windows={"u": {"reach": [1], "boundary": "nearest"}},
            samples={"u": {"order": 1}},
        )
        u = np.arange(70_000.0)
        v = place.numpy(kernel(place.array(u), np.float32(0.001)))
        np.testing.assert_allclose(v[:-1] - u[:-1], np.float32(0.001), rtol=1e-6)


DTYPES = ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
PRECISION = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "complex64": 2e-6}


class TestDtypes:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_numbers(self, dtype: str, order: int, place: ArrayDevice) -> None:
        kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
        x = normal(8, 9, dtype="complex64" if "complex" in dtype else "float32").astype(kind)
        at = places(x.shape, 300, "float32")
        z = place.numpy(WARP[order, 2](place.array(x), *map(place.array, at), boundary="mirror"))
        assert z.dtype == x.dtype
        wide = x.astype("complex128" if "complex" in dtype else "float64")
        wanted = expected(wide, [one.astype("float64") for one in at], order, "mirror")
        tolerance = PRECISION.get(dtype, 1e-13)
        np.testing.assert_allclose(z.astype(wide.dtype), wanted, rtol=tolerance, atol=tolerance)

    @pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
    def test_integers_are_sampled_to_the_type_of_the_coordinates(
        self, dtype: str, place: ArrayDevice
    ) -> None:
        x = np.array([0, 1, 1, 0, 1], dtype)
        kernel = kspec.ElementwiseKernel(
            "raw T x, C a",
            "C z, bool same",
            "z = x.sample(a); same = sizeof(x.sample(a)) == sizeof(C)",
            "of_integers",
            samples={"x": {"boundary": "nearest"}},
        )
        for coordinate in ("float32", "float64"):
            a = np.array([0.25, 1.5, 2.75, 9], coordinate)
            z, same = kernel(place.array(x), place.array(a))
            assert place.numpy(z).tolist() == [0.25, 1, 0.25, 1]
            assert place.numpy(same).all()

    def test_order_0_keeps_every_bit_of_an_integer(self, place: ArrayDevice) -> None:
        x = np.array([2**63 - 1, -(2**62) - 1], "int64")
        z = place.numpy(WARP[0, 1](place.array(x), place.array(np.array([0.2, 0.8]))))
        assert z.tolist() == x.tolist()


class TestArrays:
    def test_strides(self, device: ArrayDevice) -> None:
        x = normal(6, 8, 10)
        whole, at = device.array(x), places((4, 5), 300)
        for view in (
            lambda x: x[1, ::-1, ::2],
            lambda x: x[::2, :, 3].T,
            lambda x: x.transpose(2, 0, 1)[4],
            lambda x: x[2:3, 3, :],
        ):
            for order, boundary in itertools.product(ORDERS, ("reflect", "constant")):
                z = WARP[order, 2](view(whole), *map(device.array, at), boundary=boundary)
                wanted = expected(view(x), at, order, boundary)
                np.testing.assert_allclose(device.numpy(z), wanted, atol=1e-13)

    def test_broadcast_arrays(self) -> None:
        x, at = np.broadcast_to(normal(5), (4, 5)), places((4, 5), 300)
        z = WARP[1, 2](x, *at, boundary="wrap")
        np.testing.assert_allclose(z, expected(x, at, 1, "wrap"), atol=1e-13)

    def test_coordinates_broadcast(self, place: ArrayDevice) -> None:
        x, a, b = normal(6, 7), np.linspace(-2, 8, 11)[:, None], np.linspace(-1, 7, 9)
        z = place.numpy(WARP[1, 2](*map(place.array, (x, a, b)), boundary="mirror"))
        assert z.shape == (11, 9)
        np.testing.assert_allclose(z, expected(x, [a, b], 1, "mirror"), atol=1e-13)

    def test_slices_of_a_batch(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x, float64 a, float64 b",
            "T z",
            "z = x.slice(_ind.get()[0]).sample(a, b)",
            "batched_warp",
            reduce_dims=False,
            samples={"x": {"order": 3, "boundary": "reflect"}},
        )
        x = normal(3, 6, 7)
        at = [np.stack([one, 2 * one, one - 1]) for one in places((6, 7), 200)]
        z = device.numpy(kernel(device.array(x), *map(device.array, at)))
        for k in range(3):
            wanted = expected(x[k], [one[k] for one in at], 3, "reflect")
            np.testing.assert_allclose(z[k], wanted, atol=1e-12)

    def test_repeated_calls_take_other_arrays(self, place: ArrayDevice) -> None:
        at = places((5, 6), 200)
        arrays = [place.array(one) for one in at]
        for seed in range(3):
            x = normal(5, 6, seed=seed)
            for boundary in ("nearest", "constant"):
                z = place.numpy(WARP[1, 2](place.array(x), *arrays, boundary=boundary))
                np.testing.assert_allclose(z, expected(x, at, 1, boundary), atol=1e-13)

    def test_a_bound_call(self, place: ArrayDevice) -> None:
        x, at = normal(5, 6), places((5, 6), 200)
        bound = WARP[3, 2].bind(place.array(x), *map(place.array, at), boundary="wrap")
        np.testing.assert_allclose(
            place.numpy(bound()), expected(x, at, 3, "wrap"), rtol=0, atol=1e-13
        )


class TestWindows:
    def test_a_value_a_read_and_a_sample_of_one_input(self, device: ArrayDevice) -> None:
        for number, order in enumerate(ORDERS):
            kernel = kspec.ElementwiseKernel(
                "T u, T d",
                "T v",
                "v = u.sample(d, -d / 2) + 100 * u + 1000 * u(1, 0)",
                f"three_reads_{order}",
                windows={"u": {"reach": [3, [3, 2]], "boundary": LIST, "value": 2.5}},
                samples={"u": {"order": order}},
            )
            u = normal(2, 12, 40)
            d = np.random.default_rng(1).uniform(-1.5, 1.4, u.shape)
            for boundary in BOUNDARIES[number::2]:
                v = device.numpy(kernel(device.array(u), device.array(d), boundary=boundary))
                for k in range(2):
                    row, column = np.mgrid[:12, :40]
                    at = [row + d[k], column - d[k] / 2]
                    wanted = expected(u[k], at, order, boundary) + 100 * u[k]
                    wanted += 1000 * expected(u[k], [row + 1, column], 0, boundary)
                    np.testing.assert_allclose(v[k], wanted, rtol=1e-12, atol=1e-11)

    def test_valid(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u",
            "T v",
            "v = u.sample(-0.5, 0.25)",
            "valid_samples",
            windows={"u": {"reach": [[1, 0], [0, 1]], "boundary": "valid"}},
            samples={"u": {"order": 1}},
        )
        u = normal(9, 70)
        v = device.numpy(kernel(device.array(u)))
        row, column = np.mgrid[1:9, :69]
        wanted = expected(u, [row - 0.5, column + 0.25], 1, "nearest")
        np.testing.assert_allclose(v, wanted, atol=1e-14)

    def test_three_axes(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u",
            "T v",
            "v = u.sample(0.5, -0.25, 1) + u.sample(0, 0.75, -0.5)",
            "three_axes",
            windows={"u": {"reach": [1, 1, 1], "boundary": "wrap"}},
            samples={"u": {"order": 1}},
        )
        u = normal(5, 6, 40)
        v = device.numpy(kernel(device.array(u)))
        a, b, c = np.mgrid[:5, :6, :40]
        wanted = expected(u, [a + 0.5, b - 0.25, c + 1], 1, "wrap")
        wanted += expected(u, [a, b + 0.75, c - 0.5], 1, "wrap")
        np.testing.assert_allclose(v, wanted, atol=1e-13)

    def test_macros_sample(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u, T d",
            "T v",
            'v = AT(d) + HALF + u; // u.sample(9) is "u.sample(9)"',
            "macros_sample",
            preamble="#define AT(k) u . sample(k)\n",
            options=("-DHALF=u.sample(0.5)",),
            windows={"u": {"reach": [1], "boundary": "nearest"}},
            samples={"u": {"order": 1}},
        )
        u = np.arange(5.0) ** 2
        v = place.numpy(kernel(place.array(u), place.array(np.full(5, 0.25))))
        np.testing.assert_array_equal(v, [0.75, 5.25, 15.75, 32.25, 48])

    def test_raw_and_windowed_inputs_choose_a_boundary(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T u, raw T x, raw T y",
            "T v",
            "v = u.sample(1) + 10 * x.sample(i + 1) + 100 * y.sample(i + 1)",
            "three_boundaries",
            windows={"u": {"reach": [1], "boundary": ["nearest", "wrap"]}},
            samples={
                "u": {"order": 1},
                "x": {"order": 1, "boundary": ["nearest", "wrap"]},
                "y": {"order": 1, "boundary": "constant", "value": 7},
            },
        )
        u = place.array(np.array([1.0, 2.0, 3.0]))
        assert place.numpy(kernel(u, u, u)).tolist() == [222, 333, 733]
        assert place.numpy(kernel(u, u, u, boundary="wrap")).tolist() == [222, 333, 711]


SPEC = """
[elementwise.warp]
inputs = ["raw T x", "float32 a", "float32 b"]
outputs = ["T z"]
operation = "z = x.sample(a, b) + w.slice(1).sample(a)"
samples = { x = { order = 3, boundary = ["mirror", "wrap"] }, w = { boundary = "nearest" } }
types = { T = ["float16", "float32", "float64", "complex64"] }

[elementwise.shift]
inputs = ["T u", "T d"]
outputs = ["T v"]
operation = "v = u.sample(d, 0.5f) + u + u(1, 0)"
windows = { u = { reach = [1, 1], boundary = "reflect" } }
samples = { u = { order = 1 } }
types = { T = ["float16", "float32", "float64"] }
""".replace('"raw T x", ', '"raw T x", "raw T w", ')


def test_precompiled_samples(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "samples.toml").write_text(SPEC)
    (file,) = load_specs(tmp_path / "specs", tmp_path)
    names = tuple(one.name_expression for spec in file.specs for one in specializations(spec))
    image = compiled(CudaSource("a.cu", render_file(file), names), Target("compute_80"))
    assert set(image.symbols) == set(names) and image.log == ""
