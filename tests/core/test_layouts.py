"""Core dimensions of arrays in any layout and dtype."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from tests.core.kernels import Array, integers, weighted, weighted_result
from tests.core.layouts import LAYOUTS, shifted
from tests.devices import HOST, OWN_CUDA, ArrayDevice
from tests.profiles import examples

# Few, so that not every example is compiled anew.
CORES = [
    [(1,), (3,), (4,), (16,), (70,), (0,)],
    [(3, 3), (2, 8), (1, 5), (9, 9), (2, 0)],
    [(2, 3, 4), (1, 1, 7)],
    [(2, 1, 3, 2), (3, 3, 3, 3)],
]


@functools.cache
def kernel_of(axes: int) -> kspec.ElementwiseKernel:
    return weighted(axes)


def check(device: ArrayDevice, x: Any, values: Array, z: Any, core: int, *out: Any) -> None:
    """Compare outputs with NumPy's; `values` and `x` are the same array."""
    other = device.array(z) if isinstance(z, np.ndarray) else z
    found = kernel_of(core)(x, other, *out)
    for one, wanted in zip(found, weighted_result(values, z, core), strict=True):
        np.testing.assert_array_equal(device.numpy(one), wanted)


@given(data=st.data())
@settings(max_examples=examples(100), deadline=None)
def test_any_layout(data: st.DataObject) -> None:
    axes = data.draw(st.integers(1, 4), "axes")
    core = data.draw(st.sampled_from(CORES[axes - 1]), "core")
    loop = tuple(data.draw(st.lists(st.integers(0, 5), max_size=3), "loop"))
    dtype = data.draw(st.sampled_from(["int16", "complex128"]), "dtype")
    values = integers(*loop, *core, dtype=dtype, seed=data.draw(st.integers(0, 9)))
    layout = st.sampled_from(sorted(LAYOUTS))
    x = LAYOUTS[data.draw(layout, "x")](values, axes)
    stretched = data.draw(st.lists(st.sampled_from([1, 3]), max_size=2), "stretched")
    x = np.broadcast_to(x, (*stretched, *x.shape)) if data.draw(st.booleans()) else x
    loop = x.shape[: x.ndim - axes]
    z = integers(*(n if data.draw(st.booleans()) else 1 for n in loop), dtype=dtype, seed=20)
    z = LAYOUTS[data.draw(layout, "z")](z, 0) if z.ndim else z
    if not data.draw(st.booleans(), "given"):
        return check(HOST, x, x, z, axes)
    total = np.broadcast_shapes(loop, z.shape)
    y = LAYOUTS[data.draw(layout, "y")](np.full((*total, *core), 7, dtype), axes)
    w = np.full(total, 7, dtype)
    return check(HOST, x, x, z, axes, y, w)


@given(data=st.data())
@settings(max_examples=examples(40), deadline=None)
def test_any_view(data: st.DataObject) -> None:
    """Permuted axes, of steps that skip or go back, from any start."""
    axes = data.draw(st.integers(1, 2))
    ndim = data.draw(st.integers(axes, axes + 3))
    core = data.draw(st.sampled_from(CORES[axes - 1]))
    loop = tuple(data.draw(st.integers(1, 5)) for _ in range(ndim - axes))
    order = data.draw(st.permutations(range(ndim)))
    steps = [data.draw(st.sampled_from([1, -1, 2, -3])) for _ in range(ndim)]
    starts = [data.draw(st.integers(0, 2)) for _ in range(ndim)]
    shape = (*loop, *core)
    wide = [start + abs(step) * n for start, step, n in zip(starts, steps, shape, strict=True)]
    memory = integers(*(wide[axis] for axis in order), dtype="float32")
    view = memory.transpose(*np.argsort(order))
    rows = zip(starts, steps, shape, strict=True)
    view = view[tuple(_cut(start, step, n) for start, step, n in rows)]
    assert view.shape == shape
    check(HOST, view, view, 3, axes)


def _cut(start: int, step: int, count: int) -> slice:
    """Return `count` elements behind `start`, forwards or backwards."""
    if step > 0:
        return slice(start, start + step * count, step)
    end = start - 1
    return slice(start - step * count - 1, end if end >= 0 else None, step)


@pytest.mark.parametrize("core", [(3,), (3, 3), (9, 9), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("loop", [(), (1,), (33,), (130,), (5, 40)], ids=str)
def test_views(loop: tuple[int, ...], core: tuple[int, ...], device: ArrayDevice) -> None:
    values = integers(*loop, *core, dtype="float32")
    x, ndim, split = device.array(values), values.ndim, len(loop)
    for view in (
        lambda one: one,
        lambda one: one[(..., *(slice(None, None, -1),) * len(core))],
        lambda one: one[(slice(None, None, -1),) * ndim],
        lambda one: one[(slice(None, None, 2),) * split],
        lambda one: one.transpose(*range(split), *range(ndim - 1, split - 1, -1)),
        lambda one: one.transpose(*range(split - 1, -1, -1), *range(split, ndim)),
        lambda one: one[..., 1:],
        lambda one: one[..., :1],
    ):
        check(device, view(x), view(values), 2, len(core))


@pytest.mark.parametrize("shape", [(40, 3), (40, 4), (7, 16), (40, 3, 3), (40, 9)], ids=str)
def test_starts(shape: tuple[int, ...], device: ArrayDevice) -> None:
    """Whole accesses need items that are aligned to them."""
    memory = integers(2000, dtype="float32")
    whole, size = device.array(memory), int(np.prod(shape))
    for start in range(6):
        x, values = (one[start : start + size].reshape(shape) for one in (whole, memory))
        check(device, x, values, 2, len(shape) - 1)
        y = device.empty(2000, "float32")
        out = y[start : start + size].reshape(shape), device.empty(shape[:1], "float32")
        check(device, x, values, 2, len(shape) - 1, *out)
        rest = device.numpy(y)
        assert (rest[:start] == -77).all()
        assert (rest[start + size :] == -77).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_on_gpus(name: str) -> None:
    cupy = pytest.importorskip("cupy")
    for core in [(3,), (4, 4), (9, 9), (64,)]:
        for loop in [(33,), (5, 40)]:
            values = integers(*loop, *core, dtype="float32")
            placed = LAYOUTS[name](values, len(core))
            base = placed
            while isinstance(base.base, np.ndarray):
                base = base.base
            offset = placed.ctypes.data - base.ctypes.data
            memory = cupy.asarray(base)
            x = cupy.ndarray(
                placed.shape, placed.dtype, memory.data + offset, strides=placed.strides
            )
            found = kernel_of(len(core))(x, 2)
            for one, wanted in zip(found, weighted_result(values, 2, len(core)), strict=True):
                np.testing.assert_array_equal(cupy.asnumpy(one), wanted)


def test_broadcast_items() -> None:
    """The loop goes over an item many times; its elements are distinct."""
    x = np.broadcast_to(integers(3, 4), (6, 3, 4))
    check(HOST, x, x, np.arange(6.0), 2)
    check(HOST, x[0], x[0], np.arange(6.0), 2)


def test_broadcast_cores() -> None:
    """Elements of an item may be one and the same."""
    x = np.broadcast_to(integers(6, 1, 1), (6, 3, 4))
    check(HOST, x, x, 1, 2)
    x = np.broadcast_to(integers(6, 4)[:, None], (6, 3, 4))
    check(HOST, x, x, 1, 2)


DTYPES = [
    *("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
]


def numbers(dtype: str, *shape: int, seed: int = 0) -> Any:
    """Return numbers whose sums of some are exact in any dtype."""
    kind: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    return np.random.default_rng(seed).integers(0, 3, shape).astype(kind)


class TestDtypes:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_numbers(self, dtype: str, place: ArrayDevice) -> None:
        # Large items are not copied, and more axes are a matter of indices.
        more = ((40, 2, 2), (20, 66)) if dtype in ("int8", "bfloat16", "complex128") else ()
        for shape in ((33, 3), *more):
            values = numbers(dtype, *shape)
            for view in (lambda one: one, lambda one: one[..., ::-1]):
                x = place.array(values)
                axes = len(shape) - 1
                y, w = map(place.numpy, kernel_of(axes)(view(x), 1))
                expected, total = weighted_result(view(values), 1, axes)
                np.testing.assert_array_equal(y, expected)
                np.testing.assert_array_equal(w, total)
                assert y.dtype == w.dtype == values.dtype

    def test_bool(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]",
            "T y[n], bool any",
            "any = false; for (int j = 0; j < n; ++j) { y(j) = !x(j); any = any || x(j); }",
            "core_bool",
        )
        for n in (3, 16, 100):
            x = np.random.default_rng(n).integers(0, 4, (50, n)) == 0
            y, some = map(place.numpy, kernel(place.array(x)))
            np.testing.assert_array_equal(y, ~x)
            np.testing.assert_array_equal(some, x.any(-1))

    @pytest.mark.parametrize("n", [4, 100])
    def test_odd_bools(self, n: int) -> None:
        """Bytes other than 0 and 1 are true, and what is written is 1."""
        kernel = kspec.ElementwiseKernel(
            "bool x[n]", "int32 y[n]", "for (int j = 0; j < n; ++j) y(j) = x(j)", "core_odd"
        )
        x = np.random.default_rng(n).integers(0, 3, (9, n)).astype("uint8") * 100
        np.testing.assert_array_equal(kernel(x.view(bool)), x != 0)
        invert = kspec.ElementwiseKernel(
            "_non_const bool x[n]", "", "for (int j = 0; j < n; j += 2) x(j) = !x(j)", "core_invert"
        )
        wanted = x != 0
        wanted[:, ::2] = ~wanted[:, ::2]
        invert(x.view(bool))
        np.testing.assert_array_equal(x.view(bool) != 0, wanted)

    def test_structs(self, place: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(n - 1 - j) = x(j)", "core_structs"
        )
        packed = np.dtype([("a", "f4"), ("b", "i4")])
        gaps = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True)
        for dtype in (packed, gaps):
            for n in (2, 3, 80):
                x = np.zeros((70, n), dtype)
                for seed, name in enumerate(dtype.names or ()):
                    x[name] = integers(70, n, dtype="i1", seed=seed)
                y = place.numpy(kernel(place.array(x)))
                np.testing.assert_array_equal(y, x[:, ::-1])

    @pytest.mark.parametrize("n", [2, 4, 80])
    def test_gaps_of_structs_are_not_written(self, n: int) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(j) = x(j)", "core_gaps"
        )
        dtype = np.dtype([("a", "i1"), ("b", "f4")], align=True)
        x, y = np.zeros((40, n), dtype), np.zeros((40, n), dtype)
        y.view("u1")[...] = 9
        kernel(x, y)
        assert set(y.view("u1").reshape(-1, 8)[:, 1:4].ravel()) == {9}
        assert not y["a"].any()
        assert not y["b"].any()

    def test_several_dtypes(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n], S w[n], uint8 k",
            "S y[n], bool big, T last[2]",
            "big = false; for (int j = 0; j < n; ++j) { y(j) = x(j) * w(j); big = big || y(j) > 20; }"
            " last(1) = x(n - 1) + k",
            "core_mixed",
        )
        x, w = integers(50, 3, dtype="int16"), integers(50, 3, seed=1)
        k = integers(50, dtype="uint8", seed=2)
        y, big, last = map(device.numpy, kernel(*map(device.array, (x, w, k))))
        np.testing.assert_array_equal(y, x * w)
        np.testing.assert_array_equal(big, (x * w > 20).any(-1))
        np.testing.assert_array_equal(last, np.stack([0 * k, x[:, 2] + k], -1))


def test_a_start_within_an_access() -> None:
    """The key of a repeated call has the address, as far as accesses need it."""
    values = integers(64, 4, dtype="float32")
    for start in (0, 1, 0, 2, 3, 4, 1):
        check(HOST, shifted(values, start), values, 0, 1)


@pytest.mark.gpu
def test_many_items() -> None:
    values = integers(100_003, 3, 3, dtype="float32")
    check(OWN_CUDA, OWN_CUDA.array(values), values, 1, 2)
