"""Reductions whose parameters have core dimensions: pairs, several outputs, vectors, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kspec
from kspec.errors import ArgumentTypeError, NotSupportedError, ShapeError, SpecError
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.item_schedule import ItemMember
from kspec.runtime.schedules.sweep_schedule import choose_sweep, swept_inputs
from tests.devices import ArrayDevice

_SQUARES = "T s = 0; for (int k = 0; k < d; ++k) s += (x(k) - y(k)) * (x(k) - y(k));"
WEIGHED = kspec.ReductionKernel(
    "T x[d], T y[d], T w",
    "T r",
    f"[&] {{ {_SQUARES} return s * w; }}()",
    "a + b",
    "r = a",
    "0",
    "weighed",
)
NEAREST = kspec.ReductionKernel(
    "T x[d], T y[d]",
    "int64 index, T distance",
    f"[&] {{ {_SQUARES} return Near{{(double)s, (long long)_J}}; }}()",
    "b.s < a.s || (b.s == a.s && b.j < a.j) ? b : a",
    "index = a.j; distance = a.s",
    None,
    "nearest",
    reduce_type="Near",
    preamble="struct Near { double s; long long j; };",
)
# Each output is a vector.
CENTRE = kspec.ReductionKernel(
    "T x[2], T w",
    "T c[2]",
    "Sum{(double)(w * x(0)), (double)(w * x(1)), (double)w}",
    "Sum{a.x + b.x, a.y + b.y, a.w + b.w}",
    "c(0) = a.x / a.w; c(1) = a.y / a.w",
    "Sum{0, 0, 0}",
    "centre",
    reduce_type="Sum",
    preamble="struct Sum { double x, y, w; };",
)
TRACE = kspec.ReductionKernel(
    "T A[n, n]",
    "T t",
    "[&] { T s = 0; for (int k = 0; k < n; ++k) s += A(k, k); return s; }()",
    "a + b",
    "t = a",
    "0",
    "trace",
)


def integers(*shape: int, seed: int = 0, dtype: str = "float64") -> np.ndarray[Any, Any]:
    """Return whole numbers, whose sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def pairs(n: int, m: int, d: int = 3, dtype: str = "float64") -> tuple[Any, Any, Any]:
    """Return points to hold, points to sweep and their weights."""
    x, y = integers(n, 1, d, dtype=dtype), integers(1, m, d, seed=1, dtype=dtype)
    return x, y, integers(1, m, seed=2, dtype=dtype)


def squares(x: Any, y: Any) -> Any:
    return ((x - y) ** 2).sum(-1)


class TestValues:
    @pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize(("n", "m"), [(7, 5), (300, 700), (1100, 70), (64, 5000)])
    def test_pairs(self, device: ArrayDevice, n: int, m: int, axis: Any, keepdims: bool) -> None:
        x, y, w = pairs(n, m)
        arrays = map(device.array, (x, y, w))
        found = WEIGHED(*arrays, axis=axis, keepdims=keepdims)
        wanted = (squares(x, y) * w).sum(axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(device.numpy(found), wanted)

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
    @pytest.mark.parametrize("d", [1, 2, 5, 9])
    def test_dtypes_and_sizes(self, device: ArrayDevice, dtype: str, d: int) -> None:
        x, y, w = pairs(130, 260, d, dtype)
        found = device.numpy(WEIGHED(*map(device.array, (x, y, w)), axis=1))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, (squares(x, y) * w).sum(1))

    def test_large_items_are_read_in_place(self, device: ArrayDevice) -> None:
        x, y, w = pairs(70, 80, 100)
        found = WEIGHED(*map(device.array, (x, y, w)), axis=1)
        np.testing.assert_array_equal(device.numpy(found), (squares(x, y) * w).sum(1))

    @pytest.mark.parametrize(("n", "m"), [(9, 4), (200, 3000), (2000, 100)])
    def test_the_first_of_the_nearest(self, device: ArrayDevice, n: int, m: int) -> None:
        x, y, _ = pairs(n, m)
        index, distance = NEAREST(device.array(x), device.array(y), axis=1)
        np.testing.assert_array_equal(device.numpy(index), squares(x, y).argmin(1))
        np.testing.assert_array_equal(device.numpy(distance), squares(x, y).min(1))

    def test_outputs_are_vectors(self, device: ArrayDevice) -> None:
        x, w = integers(40, 90, 2), np.abs(integers(40, 90, seed=3)) + 1
        wanted = (w[..., None] * x).sum(1) / w.sum(1)[:, None]
        arrays = device.array(x), device.array(w)
        np.testing.assert_array_equal(device.numpy(CENTRE(*arrays, axis=1)), wanted)
        kept = CENTRE(*arrays, axis=1, keepdims=True)
        np.testing.assert_array_equal(device.numpy(kept), wanted[:, None])

    def test_a_given_output(self, device: ArrayDevice) -> None:
        x, w = integers(40, 90, 2), np.abs(integers(40, 90, seed=3)) + 1
        arrays = device.array(x), device.array(w)
        into = device.array(np.zeros((2, 90)).T)
        for _ in range(3):
            assert CENTRE(*arrays, axis=0, out=into) is into
        wanted = (w[..., None] * x).sum(0) / w.sum(0)[:, None]
        np.testing.assert_array_equal(device.numpy(into), wanted)

    @pytest.mark.parametrize(
        "arrange",
        [
            lambda A: A,
            lambda A: A[::-1, ::2],
            lambda A: A.transpose(0, 1, 3, 2),
            lambda A: A.transpose(2, 3, 0, 1)[:, :, :3, :3],
            lambda A: A.transpose(1, 0, 2, 3)[:, :, ::-1],
        ],
    )
    @pytest.mark.parametrize("axis", [0, 1, None])
    def test_items_that_all_differ(self, axis: Any, arrange: Any, device: ArrayDevice) -> None:
        A = integers(30, 30, 30, 30)[:, :, :4, :4]
        found = TRACE(arrange(device.array(A)), axis=axis)
        wanted = np.trace(arrange(A), axis1=2, axis2=3).sum(axis=axis)
        np.testing.assert_array_equal(device.numpy(found), wanted)

    def test_nothing_to_reduce(self, device: ArrayDevice) -> None:
        x, y, w = pairs(5, 0)
        found = WEIGHED(*map(device.array, (x, y, w)), axis=1)
        np.testing.assert_array_equal(device.numpy(found), np.zeros(5))
        assert device.numpy(TRACE(device.array(np.zeros((3, 0, 0))), axis=0)) == 0
        with pytest.raises(ShapeError, match="zero-size array to reduction operation nearest"):
            NEAREST(device.array(x), device.array(y), axis=1)

    def test_repeated_calls_of_other_sizes(self, device: ArrayDevice) -> None:
        for n, m, d in [(70, 80, 2), (70, 80, 3), (80, 70, 3), (70, 80, 2), (3, 4, 1)] * 2:
            x, y, w = pairs(n, m, d)
            found = WEIGHED(*map(device.array, (x, y, w)), axis=1)
            np.testing.assert_array_equal(device.numpy(found), (squares(x, y) * w).sum(1))

    @given(
        st.integers(60, 700),
        st.integers(60, 3000),
        st.sampled_from([(1, 0, 2), (0, 1, 2)]),
        st.booleans(),
    )
    def test_layouts_of_pairs(self, n: int, m: int, axes: Any, reverse: bool) -> None:
        x, y, w = pairs(n, m)
        x, y = np.asfortranarray(x), np.ascontiguousarray(y.transpose(0, 2, 1)).transpose(0, 2, 1)
        if reverse:
            x, y, w = x[::-1], y[:, ::-1], w[:, ::-1]
        arrays = x.transpose(axes), y.transpose(axes), w.transpose(axes[:2])
        axis = axes.index(1)
        np.testing.assert_array_equal(WEIGHED(*arrays, axis=axis), (squares(x, y) * w).sum(1))


class TestSchedule:
    def test_what_is_swept(self) -> None:
        held, swept, still, both = (8, 0), (0, 12), (0, 0), (8, 12)
        kept = Axes((9,), tuple((one[0],) for one in (held, swept, still)))
        reduced = Axes((7,), tuple((one[1],) for one in (held, swept, still)))
        assert swept_inputs(kept, reduced, 3) == 0b010
        kept = Axes((9,), tuple((one[0],) for one in (held, both)))
        reduced = Axes((7,), tuple((one[1],) for one in (held, both)))
        assert swept_inputs(kept, reduced, 2) == 0

    @pytest.mark.parametrize(
        ("outputs", "length", "resident", "tiles", "splits"),
        [
            (65536, 65536, 1056, 128, 8),
            (1000, 10**6, 1056, 2, 489),
            (10**6, 1000, 1056, 1954, 1),
            (64, 64, 1056, 1, 1),
        ],
    )
    def test_blocks(
        self, outputs: int, length: int, resident: int, tiles: int, splits: int
    ) -> None:
        kept = Axes((outputs,), ((12,), (0,), (4,)))
        reduced = Axes((length,), ((0,), (12,)))
        points = [ItemMember(4, 4096, False, (3,), (4,))] * 2
        schedule = choose_sweep(kept, reduced, points, lambda layout, threads: resident)
        assert schedule is not None
        assert (schedule.layout, schedule.threads) == ("kspec::Sweep<2>", 256)
        assert (schedule.tiles, schedule.splits) == (tiles, splits)

    @pytest.mark.parametrize(
        ("outputs", "length", "shape"), [(63, 1000, (3,)), (1000, 63, (3,)), (1000, 1000, (40,))]
    )
    def test_other_reductions(self, outputs: int, length: int, shape: tuple[int, ...]) -> None:
        kept, reduced = Axes((outputs,), ((12,), (0,), (4,))), Axes((length,), ((0,), (12,)))
        points = [ItemMember(4, 4096, False, shape, (4,))] * 2
        assert choose_sweep(kept, reduced, points, lambda layout, threads: 1056) is None


class TestRefusals:
    def test_sizes(self, device: ArrayDevice) -> None:
        x, _, w = map(device.array, pairs(4, 5))
        message = (
            r"^weighed: argument y has a mismatch in its core dimension 0, with signature "
            r"\(d\),\(d\),\(\)->\(\) \(size 2 is different from 3\)$"
        )
        with pytest.raises(ShapeError, match=message):
            WEIGHED(x, device.array(np.zeros((1, 5, 2))), w)
        with pytest.raises(ShapeError, match=r"T y\[d\] requires 1\)$"):
            WEIGHED(x, device.array(np.zeros(())), w)
        with pytest.raises(ShapeError, match="argument c has a mismatch in its core dimension 0"):
            CENTRE(x[..., :2], w, axis=1, out=device.array(np.zeros((4, 3))))

    def test_numbers(self, device: ArrayDevice) -> None:
        x, _, w = map(device.array, pairs(4, 5))
        with pytest.raises(ArgumentTypeError, match="argument y must be an array, not float"):
            WEIGHED(x, 1.0, w)

    def test_other_forms(self, device: ArrayDevice) -> None:
        x, y, w = map(device.array, pairs(4, 5))
        with pytest.raises(NotSupportedError, match=r"^weighed has no scan: its parameters have"):
            WEIGHED.scan(x, y, w)

    @pytest.mark.parametrize(
        ("inputs", "outputs", "map_expr", "post_map", "message"),
        [
            ("T x[a]", "T y", "x(0)", "y = a", "Invalid size 'a'"),
            ("T x[d]", "T y[k]", "x(0)", "y(0) = a", "'k' is not a size: no input has it"),
            ("T x[3]", "T y", "x(3)", "y = a", "map_expr: index 3 of x is outside"),
            ("T x[3]", "T y[2]", "x(0)", "y(2) = a", "post_map_expr: index 2 of y is outside"),
            ("T x[3]", "T y", "x(0)", "y = a + x(0)", "which only the map can read"),
            ("T x[3]", "T y", "_raw_x[0]", "y = a", "have no _raw_x"),
            ("T x[3]", "T y", "x[0]", "y = a", r"are in round brackets: x\(i\)"),
        ],
    )
    def test_declarations(
        self, inputs: str, outputs: str, map_expr: str, post_map: str, message: str
    ) -> None:
        with pytest.raises(SpecError, match=message):
            kspec.ReductionKernel(inputs, outputs, map_expr, "a + b", post_map, 0, "wrong")

    @pytest.mark.parametrize(
        ("where", "given"),
        [("preamble", {"preamble": "#define X _raw_x"}), ("options", {"options": ("-DX=_raw_x",)})],
    )
    def test_views_in_macros(self, where: str, given: dict[str, Any]) -> None:
        with pytest.raises(SpecError, match=f"{where}: kernels with core .* have no _raw_x"):
            kspec.ReductionKernel("T x[3]", "T y", "X[0]", "a + b", "y = a", 0, "wrong", **given)

    def test_sizes_that_no_input_has(self) -> None:
        with pytest.raises(SpecError, match="'k' is not a core dimension of any input"):
            kspec.ReductionKernel(
                "T x[d]", "T y", "x(0)", "a + b", "y = a", 0, "wrong", sizes={"k": [3]}
            )
