"""Scans: values, layouts, dtypes, outputs, repeated calls."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from tests.devices import HOST, ArrayDevice
from tests.forms.kernels import (
    FIRST_ORDER,
    MODELS,
    NO_IDENTITY,
    OF_SEGMENT,
    PLUS_TEN,
    SCALED,
    SECOND_ORDER,
    SOFTMAX,
    SUM,
    TWO,
    WEIGHTED,
    WELFORD,
)
from tests.forms.reference import DTYPES, integers, numbers, scanned_sum
from tests.profiles import examples

WAYS = [
    {"exclusive": exclusive, "reverse": reverse}
    for exclusive, reverse in itertools.product([False, True], repeat=2)
]
ways = pytest.mark.parametrize(
    "way", WAYS, ids=lambda way: "-".join(k for k, v in way.items() if v) or "plain"
)


class TestValues:
    @ways
    @pytest.mark.parametrize("name", MODELS)
    def test_every_kernel(self, name: str, way: dict[str, bool], device: ArrayDevice) -> None:
        model = MODELS[name]
        for shape in [(1,), (700,), (3, 40), (2, 3, 5)]:
            inputs = model.draw(*shape)
            arrays = [device.array(one) for one in inputs]
            for axis in range(len(shape)):
                found = model.kernel.scan(*arrays, axis=axis, **way)
                outputs = found if isinstance(found, tuple) else (found,)
                wanted = model.scan(inputs, axis, **way)
                model.check(tuple(map(device.numpy, outputs)), wanted, f"{shape} axis {axis}")

    def test_numpy_agrees(self, device: ArrayDevice) -> None:
        x = integers(30, 40)
        for axis in (0, 1, -1, -2):
            found = device.numpy(SUM.scan(device.array(x), axis=axis))
            np.testing.assert_array_equal(found, np.cumsum(x, axis))

    def test_the_last_axis_is_the_default(self, place: ArrayDevice) -> None:
        x = integers(3, 4)
        np.testing.assert_array_equal(place.numpy(SUM.scan(place.array(x))), np.cumsum(x, 1))

    def test_exclusive_and_reverse(self, place: ArrayDevice) -> None:
        x = place.array([1, 10, 100])
        assert place.numpy(SUM.scan(x, exclusive=True)).tolist() == [0, 1, 11]
        assert place.numpy(SUM.scan(x, reverse=True)).tolist() == [111, 110, 100]
        assert place.numpy(SUM.scan(x, exclusive=True, reverse=True)).tolist() == [110, 100, 0]

    def test_an_identity_is_folded_in_once(self, place: ArrayDevice) -> None:
        x = place.array([1, 10, 100])
        assert place.numpy(PLUS_TEN.scan(x)).tolist() == [11, 21, 121]
        assert place.numpy(PLUS_TEN.scan(x, exclusive=True)).tolist() == [10, 11, 21]

    def test_without_an_identity(self, device: ArrayDevice) -> None:
        x = integers(5, 300)
        for axis, reverse in itertools.product((0, 1), (False, True)):
            found = device.numpy(NO_IDENTITY.scan(device.array(x), axis=axis, reverse=reverse))
            ordered = np.flip(x, axis) if reverse else x
            wanted = np.maximum.accumulate(ordered, axis)
            np.testing.assert_array_equal(found, np.flip(wanted, axis) if reverse else wanted)

    def test_linear_recurrences(self, device: ArrayDevice) -> None:
        signal = pytest.importorskip("scipy.signal")
        x = np.random.default_rng(0).normal(size=(4, 3000))
        c, d = 1.2, -0.5
        first = device.numpy(FIRST_ORDER.scan(device.array(x), 0.9))
        np.testing.assert_allclose(first, signal.lfilter([1], [1, -0.9], x), atol=1e-11)
        second = device.numpy(SECOND_ORDER.scan(device.array(x), c, d))
        np.testing.assert_allclose(second, signal.lfilter([1], [1, -c, -d], x), atol=1e-10)
        columns = device.numpy(SECOND_ORDER.scan(device.array(x.T), c, d, axis=0))
        np.testing.assert_allclose(columns, second.T, atol=1e-10)

    def test_a_coefficient_for_each_row(self, device: ArrayDevice) -> None:
        signal = pytest.importorskip("scipy.signal")
        x, c = np.random.default_rng(0).normal(size=(5, 200)), np.linspace(-0.9, 0.9, 5)
        found = device.numpy(FIRST_ORDER.scan(device.array(x), device.array(c[:, None])))
        for row, value, one in zip(x, c, found, strict=True):
            np.testing.assert_allclose(one, signal.lfilter([1], [1, -value], row), atol=1e-12)

    def test_sums_of_exponentials(self, device: ArrayDevice) -> None:
        """Sums that overflow unless the greatest exponent is taken out."""
        x = np.random.default_rng(0).normal(0, 1000, 2000)
        found = device.numpy(SOFTMAX.scan(device.array(x)))
        np.testing.assert_allclose(found, np.logaddexp.accumulate(x), rtol=1e-12)

    def test_running_moments(self, device: ArrayDevice) -> None:
        x = np.random.default_rng(0).normal(1e6, 1, 400)
        mean, variance = (device.numpy(one) for one in WELFORD.scan(device.array(x)))
        heads = [x[: n + 1] for n in range(len(x))]
        np.testing.assert_allclose(mean, [np.mean(head) for head in heads], rtol=1e-14)
        np.testing.assert_allclose(variance, [np.var(head) for head in heads], atol=1e-8)

    def test_raw_inputs_and_the_number_of_the_row(self, device: ArrayDevice) -> None:
        x, w = integers(3, 4, 50), integers(12, seed=1)
        found = device.numpy(OF_SEGMENT.scan(device.array(x), device.array(w)))
        np.testing.assert_array_equal(found, np.cumsum(x * w.reshape(3, 4, 1), 2))

    def test_numbers_in_the_post_map(self, device: ArrayDevice) -> None:
        x = integers(3, 40)
        for factor in (3, 3, 5):
            found = device.numpy(SCALED.scan(device.array(x), factor))
            np.testing.assert_array_equal(found, factor * np.cumsum(x, 1))


def reversed_everywhere(x: Any) -> Any:
    return x[tuple(slice(None, None, -1) for _ in x.shape)]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "c": lambda x: x,
    "fortran": lambda x: x.transpose(*reversed(range(x.ndim))),
    "turned": lambda x: x.transpose(*range(1, x.ndim), 0),
    "reversed": reversed_everywhere,
    "first reversed": lambda x: x[::-1],
    "last reversed": lambda x: x[..., ::-1],
    "steps": lambda x: x[..., ::3],
    "first steps": lambda x: x[1::2],
    "shifted": lambda x: x[..., 1:],
    "cropped": lambda x: x[1:, ..., 2:-1],
    "one": lambda x: x[..., 3:4],
    "first one": lambda x: x[1:2],
    "empty": lambda x: x[..., 5:5],
    "first empty": lambda x: x[2:2],
    "reversed steps": lambda x: x[::-2, ..., ::-2],
}


class TestLayouts:
    @pytest.mark.parametrize("name", VIEWS)
    def test_views(self, name: str, device: ArrayDevice) -> None:
        view = VIEWS[name]
        for shape in [(4, 11), (5, 3, 70), (3, 4, 2, 9), (3, 300)]:
            x = integers(*shape)
            wanted, given = view(x), view(device.array(x))
            for axis, way in itertools.product(range(x.ndim), WAYS):
                found = device.numpy(SUM.scan(given, axis=axis, **way))
                np.testing.assert_array_equal(
                    found, scanned_sum(wanted, axis=axis, **way), f"{shape}, axis {axis}, {way}"
                )

    @ways
    def test_inputs_broadcast(self, way: dict[str, bool], device: ArrayDevice) -> None:
        for shapes in [((4, 1), (1, 30)), ((30,), (5, 30)), ((5, 1, 30), (4, 1)), ((1,), (9,))]:
            x, w = integers(*shapes[0]), integers(*shapes[1], seed=1)
            for axis in range(-(x * w).ndim, 0):
                found = WEIGHTED.scan(device.array(x), device.array(w), axis=axis, **way)
                wanted = scanned_sum(x * w, axis=axis, **way)
                np.testing.assert_array_equal(device.numpy(found), wanted)

    def test_numbers_for_arrays(self, place: ArrayDevice) -> None:
        x = integers(3, 30)
        for _ in range(3):
            found = place.numpy(WEIGHTED.scan(place.array(x), 3, axis=0))
            np.testing.assert_array_equal(found, np.cumsum(3 * x, 0))

    def test_broadcast_arrays(self) -> None:
        x = np.broadcast_to(integers(4, 1, 30), (4, 3, 30))
        for axis in range(3):
            np.testing.assert_array_equal(SUM.scan(x, axis=axis), np.cumsum(x, axis))

    @pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3)])
    def test_no_elements(self, shape: tuple[int, ...], device: ArrayDevice) -> None:
        for axis, way in itertools.product(range(len(shape)), WAYS):
            found = device.numpy(SUM.scan(device.zeros(shape, "float32"), axis=axis, **way))
            assert (found.shape, found.dtype) == (shape, np.float32)

    def test_more_axes_than_the_small_layout_has(self, device: ArrayDevice) -> None:
        x = integers(*[2] * 12)
        order = (0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11)
        for axis in (0, 5, 11):
            found = device.numpy(SUM.scan(device.array(x).transpose(*order), axis=axis))
            np.testing.assert_array_equal(found, np.cumsum(x.transpose(order), axis))

    @pytest.mark.parametrize(
        "shape",
        [(7, 40_000), (40_000, 7), (300_000,), (3, 50_000, 2), (250, 9_000), (3_000, 40)],
        ids=str,
    )
    def test_several_blocks(self, shape: tuple[int, ...], device: ArrayDevice) -> None:
        x = integers(*shape)
        for axis in range(len(shape)):
            found = device.numpy(SUM.scan(device.array(x), axis=axis))
            np.testing.assert_array_equal(found, np.cumsum(x, axis))

    def test_results_are_c_contiguous(self, place: ArrayDevice) -> None:
        found = SUM.scan(place.array(integers(3, 4)).T, axis=0)
        assert kspec.asnumpy(found).flags.c_contiguous
        assert found.shape == (4, 3)


class TestOutputs:
    @ways
    def test_in_place(self, way: dict[str, bool], device: ArrayDevice) -> None:
        for shape in [(1,), (3000,), (3, 40), (5, 3, 33)]:
            for axis in range(len(shape)):
                x = integers(*shape)
                given = device.array(x)
                assert SUM.scan(given, out=given, axis=axis, **way) is given
                wanted = scanned_sum(x, axis=axis, **way)
                np.testing.assert_array_equal(device.numpy(given), wanted)

    @pytest.mark.parametrize("name", ["fortran", "reversed", "steps", "shifted", "reversed steps"])
    def test_in_place_in_views(self, name: str, device: ArrayDevice) -> None:
        for axis in range(2):
            x = integers(5, 70)
            whole = device.array(x)
            SUM.scan(VIEWS[name](whole), out=VIEWS[name](whole), axis=axis)
            view = VIEWS[name](x)
            view[...] = np.cumsum(view, axis)
            np.testing.assert_array_equal(device.numpy(whole), x)

    def test_in_place_of_either_input(self, device: ArrayDevice) -> None:
        x, w = integers(3, 40), integers(40, seed=1)
        first, second = device.array(x), device.array(x)
        WEIGHTED.scan(first, device.array(w), out=first)
        WEIGHTED.scan(device.array(w), second, out=second)
        for one in (first, second):
            np.testing.assert_array_equal(device.numpy(one), np.cumsum(x * w, 1))

    def test_strided_outputs(self, device: ArrayDevice) -> None:
        x = integers(20, 30)
        for view in (VIEWS["fortran"], VIEWS["reversed"], lambda out: out[::2, :20].T):
            for axis in range(2):
                whole = device.zeros((30, 20) if view is VIEWS["fortran"] else (60, 30), "int64")
                out = view(whole)[:20, :30]
                assert SUM.scan(device.array(x), out=out, axis=axis) is out
                np.testing.assert_array_equal(kspec.asnumpy(out), np.cumsum(x, axis))

    def test_gaps_of_outputs_are_left_alone(self, device: ArrayDevice) -> None:
        whole = device.empty((6, 40), "int64")
        SUM.scan(device.array(np.ones((3, 20), "int64")), out=whole[::2, ::2])
        found = device.numpy(whole)
        np.testing.assert_array_equal(found[::2, ::2], [np.arange(1, 21)] * 3)
        assert (found[1::2] == -77).all() and (found[:, 1::2] == -77).all()

    def test_several_outputs(self, device: ArrayDevice) -> None:
        x = integers(30, dtype="int32")
        y, n = device.zeros(30, "int32"), device.zeros(30, "int64")
        for found in (
            TWO.scan(device.array(x)),
            TWO.scan(device.array(x), y, n),
            TWO.scan(device.array(x), out=(y, n)),
        ):
            assert isinstance(found, tuple)
            np.testing.assert_array_equal(device.numpy(found[0]), np.cumsum(x))
            np.testing.assert_array_equal(device.numpy(found[1]), 2 * np.cumsum(x) + 1)

    def test_outputs_are_of_the_kind_of_the_first_array(self, place: ArrayDevice) -> None:
        found = SUM.scan(place.zeros((2, 3), "int8"))
        assert type(found) is place.kind and found.dtype == np.int8


class TestOverlap:
    def test_only_the_same_elements_may_be_shared(self, place: ArrayDevice) -> None:
        memory = place.array(np.arange(40))
        square = memory[:36].reshape(6, 6)
        row = memory[:6]
        pairs = [
            ((memory[:-1],), memory[1:], SUM),
            ((memory[1:],), memory[:-1], SUM),
            ((memory,), memory[::-1], SUM),
            ((square,), square.T, SUM),
            ((memory[:20],), memory[10:30], SUM),
            ((row, square), square, WEIGHTED),
        ]
        for _ in range(3):
            for inputs, out, kernel in pairs:
                with pytest.raises(kspec.OverlapError, match="its memory overlaps with that of"):
                    kernel.scan(*inputs, out=out)
        np.testing.assert_array_equal(place.numpy(memory), np.arange(40))

    def test_plans_see_new_overlaps(self, place: ArrayDevice) -> None:
        memory = place.array(np.arange(40))
        for _ in range(4):
            SUM.scan(memory[:8], out=memory[16:24])
            with pytest.raises(kspec.OverlapError, match="its memory overlaps with that of"):
                SUM.scan(memory[:8], out=memory[2:10])

    def test_outputs_that_share_memory(self, place: ArrayDevice) -> None:
        x, out = place.array(integers(5)), place.zeros(10, "int64")
        with pytest.raises(kspec.OverlapError, match="pass arrays of their own for z or y"):
            two = kspec.ReductionKernel("T x", "T y, T z", "x", "a + b", "y = a; z = a", 0, "both")
            two.scan(x, out=(out[:5], out[4:9]))


class TestDtypes:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype(self, dtype: str, device: ArrayDevice) -> None:
        x = numbers(dtype, 3, 300)
        given = device.array(x)
        for axis, way in itertools.product(range(2), WAYS):
            found = device.numpy(SUM.scan(given, axis=axis, **way))
            assert found.dtype == x.dtype
            np.testing.assert_array_equal(found, scanned_sum(x, axis=axis, **way))

    @given(data=st.data())
    @settings(max_examples=examples(150), deadline=None)
    def test_any_scan(self, data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(["int64", "float32", "complex64"]))
        ndim = data.draw(st.integers(1, 4))
        shape = tuple(data.draw(st.integers(0, 9)) for _ in range(ndim))
        x = numbers(dtype, *shape, seed=data.draw(st.integers(0, 9)))
        order = data.draw(st.permutations(range(ndim)))
        steps = tuple(
            slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in range(ndim)
        )
        view = x.transpose(order)[steps]
        axis = data.draw(st.integers(-ndim, ndim - 1))
        way = data.draw(st.sampled_from(WAYS))
        found = HOST.numpy(SUM.scan(view, axis=axis, **way))
        assert (found.dtype, found.shape) == (x.dtype, view.shape)
        np.testing.assert_array_equal(found, scanned_sum(view, axis=axis, **way))

    def test_half_precision_accumulates_in_single(self, device: ArrayDevice) -> None:
        x = np.full(5000, 1, "float16")
        found = device.numpy(SUM.scan(device.array(x)))
        np.testing.assert_array_equal(found, np.arange(1, 5001).astype("float16"))

    def test_integers_wrap(self, device: ArrayDevice) -> None:
        x = np.full(700, 100, "uint8")
        found = device.numpy(SUM.scan(device.array(x)))
        np.testing.assert_array_equal(found, np.cumsum(x, dtype="uint8"))


class TestRepeatedCalls:
    def kernel(self) -> kspec.ReductionKernel:
        return kspec.ReductionKernel.from_spec(SUM.spec)

    def test_they_have_plans(self, place: ArrayDevice) -> None:
        kernel, x = self.kernel(), integers(4, 4)
        for axis in (0, 0, 0, 1, 1, -1):
            found = place.numpy(kernel.scan(place.array(x), axis=axis))
            np.testing.assert_array_equal(found, np.cumsum(x, axis))
        info = kernel.cache_info()
        assert (info.entries, info.plans) == (1, 3)

    def test_plans_are_of_one_form(self, place: ArrayDevice) -> None:
        kernel, x = self.kernel(), integers(4, 4)
        given, bounds = place.array(x), place.array([0, 1, 4])
        for _ in range(4):
            np.testing.assert_array_equal(place.numpy(kernel.scan(given, axis=0)), np.cumsum(x, 0))
            np.testing.assert_array_equal(place.numpy(kernel(given, axis=0)), np.sum(x, 0))
            found = place.numpy(kernel.segments(given, bounds))
            np.testing.assert_array_equal(found, np.add.reduceat(x, [0, 1]))
        assert kernel.cache_info().entries == 3

    def test_options_are_part_of_the_key(self, place: ArrayDevice) -> None:
        kernel = self.kernel()
        x = integers(5, 6)
        given = place.array(x)
        for _, (axis, way) in itertools.product(range(4), itertools.product((0, 1), WAYS)):
            found = place.numpy(kernel.scan(given, axis=axis, **way))
            np.testing.assert_array_equal(found, scanned_sum(x, axis=axis, **way))

    def test_new_values_shapes_and_dtypes(self, place: ArrayDevice) -> None:
        kernel = self.kernel()
        for _ in range(3):
            for shape, dtype in itertools.product([(3, 4), (4, 3), (12,)], ["int32", "float64"]):
                for seed in range(3):
                    x = integers(*shape, dtype=dtype, seed=seed)
                    found = place.numpy(kernel.scan(place.array(x)))
                    np.testing.assert_array_equal(found, np.cumsum(x, -1))

    def test_new_alignments(self, device: ArrayDevice) -> None:
        """Packs of inputs and outputs that begin at other places than those of the first calls."""
        kernel = self.kernel()
        x = integers(70, dtype="float32")
        memory, room = device.array(x), device.zeros(90, "float32")
        starts = [(0, 0), (1, 1), (1, 0), (1, 1), (2, 1), (3, 3), (1, 2), (3, 0), (3, 3), (0, 3)]
        for start, to in starts * 3:
            out = room[to : to + 60]
            kernel.scan(memory[start : start + 60], out=out)
            np.testing.assert_array_equal(kspec.asnumpy(out), np.cumsum(x[start : start + 60]))

    def test_equal_calls_give_equal_bits(self, device: ArrayDevice) -> None:
        x = np.random.default_rng(1).normal(size=(3, 100_000)).astype("float32")
        given = device.array(x)
        for axis in range(2):
            first = device.numpy(SUM.scan(given, axis=axis)).tobytes()
            for _ in range(3):
                assert device.numpy(SUM.scan(given, axis=axis)).tobytes() == first

    def test_the_number_of_threads_changes_no_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = np.random.default_rng(1).normal(size=(40, 9_000)).astype("float32")
        found = []
        for threads in ("1", "2", "7"):
            monkeypatch.setenv("KSPEC_HOST_THREADS", threads)
            found.append(SUM.scan(x).tobytes())
        assert found[0] == found[1] == found[2]

    @pytest.mark.parametrize(
        "check", [{"sanitize": "memory"}, {"order": "reverse"}, {"timeout": 60}]
    )
    def test_checked_calls(self, check: dict[str, Any]) -> None:
        x = integers(5, 70)
        for _ in range(3):
            np.testing.assert_array_equal(SUM.scan(x, axis=0, **check), np.cumsum(x, 0))

    def test_declaring_a_kernel_anew_forgets_its_plans(self) -> None:
        kernel = self.kernel()
        x = np.ones(3)
        for _ in range(3):
            assert kernel.scan(x).tolist() == [1, 2, 3]
        kernel.identity = 5
        assert kernel.scan(x).tolist() == [6, 7, 8]
