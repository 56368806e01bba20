"""Segments: values, bounds, layouts, dtypes, outputs, repeated calls."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from tests.devices import HOST, ArrayDevice
from tests.forms.kernels import (
    CSR,
    MAX,
    MEAN,
    MODELS,
    OF_SEGMENT,
    PLUS_TEN,
    SCALED,
    SUM,
    TWO,
    WEIGHTED,
    WELFORD,
)
from tests.forms.reference import BOUNDS, FEW_DTYPES, bounds, integers, numbers, sums
from tests.profiles import examples

INDICES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def check(device: ArrayDevice, x: Any, indptr: Any, message: str = "") -> None:
    """Compare sums of segments with those of NumPy."""
    found = device.numpy(SUM.segments(device.array(x), device.array(indptr)))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, sums(x, indptr.tolist()), message)


class TestValues:
    @pytest.mark.parametrize("kind", BOUNDS)
    @pytest.mark.parametrize("name", MODELS)
    def test_every_kernel(self, name: str, kind: str, device: ArrayDevice) -> None:
        model = MODELS[name]
        for shape in [(1,), (700,), (50, 4), (9, 2, 5)]:
            inputs, indptr = model.draw(*shape), bounds(shape[0], kind)
            arrays = [device.array(one) for one in inputs]
            found = model.kernel.segments(*arrays, device.array(indptr))
            outputs = found if isinstance(found, tuple) else (found,)
            wanted = model.segments(inputs, indptr)
            model.check(tuple(map(device.numpy, outputs)), wanted, str(shape))

    @pytest.mark.parametrize("length", [0, 1, 7, 255, 256, 257, 5000])
    def test_equal_lengths(self, length: int, device: ArrayDevice) -> None:
        x = integers(max(length * 9, 5))
        indptr = np.arange(10) * length
        found = device.numpy(SUM.segments(device.array(x), device.array(indptr)))
        wanted = x[: length * 9].reshape(9, length).sum(1)
        np.testing.assert_array_equal(found, wanted)

    def test_numpy_agrees(self, device: ArrayDevice) -> None:
        x, indptr = integers(1000, 3), np.array([0, 1, 2, 9, 300, 301, 1000])
        found = device.numpy(SUM.segments(device.array(x), device.array(indptr)))
        np.testing.assert_array_equal(found, np.add.reduceat(x, indptr[:-1]))

    def test_empty_segments_are_the_identity(self, device: ArrayDevice) -> None:
        x, indptr = device.array([1, 9, -3], "int32"), device.array([0, 0, 3, 3, 3])
        low = -(2**31)
        assert device.numpy(MAX.segments(x, indptr)).tolist() == [low, 9, low, low]

    def test_an_identity_is_folded_in_once(self, device: ArrayDevice) -> None:
        x, indptr = np.ones(2000), np.array([0, 0, 1, 1001, 2000])
        found = device.numpy(PLUS_TEN.segments(device.array(x), device.array(indptr)))
        assert found.tolist() == [10, 11, 1010, 1009]

    def test_the_matrix_is_sparse(self, device: ArrayDevice) -> None:
        sparse = pytest.importorskip("scipy.sparse")
        for shape, density in [((40, 30), 0.2), ((500, 700), 0.05), ((3, 9000), 0.4), ((9, 5), 0)]:
            drawn = np.random.default_rng(0)
            matrix = sparse.random(*shape, density, "csr", rng=drawn)
            x = drawn.normal(size=shape[1])
            arrays = (matrix.data, matrix.indices.astype("int32"), x, matrix.indptr)
            found = device.numpy(CSR.segments(*map(device.array, arrays)))
            np.testing.assert_allclose(found, matrix @ x, rtol=1e-12, atol=1e-12)

    def test_means(self, device: ArrayDevice) -> None:
        x, indptr = integers(300, 4, dtype="float64"), np.array([0, 1, 8, 299, 300])
        found = device.numpy(MEAN.segments(device.array(x), device.array(indptr)))
        wanted = [np.mean(part, 0) for part in np.split(x, indptr[1:-1])]
        np.testing.assert_allclose(found, wanted, rtol=1e-15)

    def test_moments(self, device: ArrayDevice) -> None:
        x, indptr = np.random.default_rng(0).normal(1e6, 1, 3000), np.array([0, 9, 1000, 3000])
        mean, variance = WELFORD.segments(device.array(x), device.array(indptr))
        parts = np.split(x, indptr[1:-1])
        np.testing.assert_allclose(device.numpy(mean), [np.mean(one) for one in parts], rtol=1e-14)
        np.testing.assert_allclose(
            device.numpy(variance), [np.var(one) for one in parts], rtol=1e-9
        )

    @pytest.mark.parametrize("shape", [(900,), (900, 5)])
    def test_the_number_of_the_segment(self, shape: tuple[int, ...], device: ArrayDevice) -> None:
        x = integers(*shape)
        for kind in BOUNDS:
            indptr = bounds(900, kind)
            w = integers(len(indptr), seed=1)
            given = map(device.array, (x, w, indptr))
            found = device.numpy(OF_SEGMENT.segments(*given))
            of_rows = w[:-1].reshape(-1, *[1] * (len(shape) - 1))
            np.testing.assert_array_equal(found, sums(x, indptr.tolist()) * of_rows)

    def test_the_number_of_the_output_of_a_reduction(self, device: ArrayDevice) -> None:
        x, w = integers(30, 40), integers(40, seed=1)
        found = device.numpy(OF_SEGMENT(device.array(x), device.array(w), axis=0))
        np.testing.assert_array_equal(found, np.sum(x, 0) * w)

    def test_numbers_in_the_post_map(self, device: ArrayDevice) -> None:
        x, indptr = integers(30, 4), bounds(30, "mixed")
        for factor in (3, 3, 5):
            found = device.numpy(SCALED.segments(device.array(x), factor, device.array(indptr)))
            np.testing.assert_array_equal(found, factor * sums(x, indptr.tolist()))

    def test_rounding_errors_do_not_add_up(self, place: ArrayDevice) -> None:
        x, indptr = np.full(1_000_000, 0.1, "float32"), np.array([0, 1_000_000])
        found = place.numpy(SUM.segments(place.array(x), place.array(indptr)))
        np.testing.assert_allclose(found, np.sum(x, dtype="float64"), rtol=1e-3)


class TestBounds:
    @pytest.mark.parametrize("dtype", INDICES)
    def test_every_dtype(self, dtype: str, device: ArrayDevice) -> None:
        x = integers(120, 3)
        for kind in BOUNDS:
            check(device, x, bounds(120, kind).astype(dtype), kind)

    def test_large_unsigned_bounds(self, device: ArrayDevice) -> None:
        """Bounds that are negative if the sign is taken for granted."""
        for dtype, extent in (("uint8", 250), ("uint16", 65_000)):
            x = integers(extent)
            check(device, x, np.array([0, 7, extent - 1, extent], dtype), dtype)

    def test_strides(self, device: ArrayDevice) -> None:
        x, wanted = integers(100), bounds(100, "short")
        given = device.array(x)
        for view in (lambda p: p[::2], lambda p: p[::-1], lambda p: p[::-3]):
            whole = np.zeros(3 * len(wanted), "int32")
            target = view(whole)[: len(wanted)]
            target[...] = wanted
            indptr = view(device.array(whole))[: len(wanted)]
            found = device.numpy(SUM.segments(given, indptr))
            np.testing.assert_array_equal(found, sums(x, wanted.tolist()))

    def test_no_segments(self, device: ArrayDevice) -> None:
        for shape in [(5,), (5, 3), (0,)]:
            x = device.array(integers(*shape))
            for dtype in ("int32", "uint64"):
                found = device.numpy(SUM.segments(x, device.array(np.zeros(1, dtype))))
                assert found.shape == (0, *shape[1:])

    def test_no_elements(self, device: ArrayDevice) -> None:
        for shape in [(0,), (0, 3)]:
            x = device.array(integers(*shape))
            found = device.numpy(SUM.segments(x, device.array([0, 0, 0])))
            np.testing.assert_array_equal(found, np.zeros((2, *shape[1:])))
        found = device.numpy(SUM.segments(device.zeros((4, 0)), device.array([0, 1, 4])))
        assert found.shape == (2, 0)

    def test_only_inner_elements(self, device: ArrayDevice) -> None:
        x = integers(5000)
        for begin, end in [(1, 4999), (300, 301), (4000, 4999), (0, 1), (4999, 5000), (17, 17)]:
            check(device, x, np.array([begin, end]))
            check(device, x, np.array([begin, begin, (begin + end) // 2, end, end]))

    def test_more_segments_than_elements(self, device: ArrayDevice) -> None:
        check(device, integers(3), np.repeat([0, 1, 2, 3], 2000))
        check(device, integers(3, 40), np.repeat([0, 1, 2, 3], 2000))


class TestLayouts:
    @pytest.mark.parametrize("kind", BOUNDS)
    def test_views(self, kind: str, device: ArrayDevice) -> None:
        x = integers(40, 6, 9)
        given = device.array(x)
        for view in (
            lambda x: x[::-1],
            lambda x: x[:, ::-1],
            lambda x: x[::2, ::2, ::2],
            lambda x: x[1:, 1:, 1:],
            lambda x: x.transpose(2, 1, 0),
            lambda x: x.transpose(1, 0, 2),
            lambda x: x[:, 3, 4],
            lambda x: x[:, :1, :1],
            lambda x: x[:, 2],
            lambda x: x[7],
            lambda x: x[3, 1],
        ):
            wanted = view(x)
            indptr = bounds(wanted.shape[0], kind)
            found = device.numpy(SUM.segments(view(given), device.array(indptr)))
            np.testing.assert_array_equal(found, sums(wanted, indptr.tolist()))

    def test_shifted_lines(self, device: ArrayDevice) -> None:
        x = integers(3000, dtype="float32")
        for start in (1, 2, 3, 5):
            indptr = bounds(3000 - start, "mixed")
            found = SUM.segments(device.array(x)[start:], device.array(indptr))
            np.testing.assert_array_equal(device.numpy(found), sums(x[start:], indptr.tolist()))

    def test_inputs_broadcast(self, device: ArrayDevice) -> None:
        for shapes in [((40,), (1,)), ((40, 1), (3,)), ((3,), (40, 3)), ((1, 3), (40, 1))]:
            x, w = integers(*shapes[0]), integers(*shapes[1], seed=1)
            indptr = bounds(40, "mixed")
            given = map(device.array, (x, w, indptr))
            found = device.numpy(WEIGHTED.segments(*given))
            np.testing.assert_array_equal(found, sums(x * w, indptr.tolist()))

    def test_numbers_for_arrays(self, place: ArrayDevice) -> None:
        x, indptr = integers(40), bounds(40, "short")
        for _ in range(3):
            found = place.numpy(WEIGHTED.segments(3, place.array(x), place.array(indptr)))
            np.testing.assert_array_equal(found, sums(3 * x, indptr.tolist()))

    def test_broadcast_arrays(self) -> None:
        x, indptr = np.broadcast_to(integers(3), (40, 3)), bounds(40, "short")
        np.testing.assert_array_equal(SUM.segments(x, indptr), sums(x, indptr.tolist()))

    def test_more_axes_than_the_small_layout_has(self, device: ArrayDevice) -> None:
        x = integers(*[2] * 12)
        order = (0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11)
        given = device.array(x).transpose(*order)
        found = device.numpy(SUM.segments(given, device.array([0, 1, 1, 2])))
        wanted = sums(x.transpose(order), [0, 1, 1, 2])
        np.testing.assert_array_equal(found, wanted)

    @pytest.mark.parametrize("shape", [(300_000,), (60_000, 6)])
    @pytest.mark.parametrize("kind", ["short", "long", "one"])
    def test_several_blocks(self, shape: tuple[int, ...], kind: str, device: ArrayDevice) -> None:
        x, indptr = integers(*shape), bounds(shape[0], kind)
        found = device.numpy(SUM.segments(device.array(x), device.array(indptr)))
        before = np.zeros((shape[0] + 1, *shape[1:]), "int64")
        np.cumsum(x, 0, out=before[1:])
        np.testing.assert_array_equal(found, before[indptr[1:]] - before[indptr[:-1]])


class TestOutputs:
    def test_given_and_strided(self, device: ArrayDevice) -> None:
        x, indptr = integers(200, 6), bounds(200, "mixed")
        wanted = sums(x, indptr.tolist())
        rows, columns = wanted.shape
        for out in (
            device.zeros((rows, columns), "int64"),
            device.zeros((columns, rows), "int64").T,
            device.zeros((2 * rows, 3 * columns), "int64")[::-2, ::3],
        ):
            found = SUM.segments(device.array(x), device.array(indptr), out=out)
            assert found is out
            np.testing.assert_array_equal(kspec.asnumpy(out), wanted)

    def test_behind_the_bounds(self, device: ArrayDevice) -> None:
        x, indptr = device.array(integers(9, dtype="int32")), device.array([0, 3, 3, 9])
        y, n = device.zeros(3, "int32"), device.zeros(3, "int64")
        wanted = sums(integers(9), [0, 3, 3, 9])
        for _ in range(3):
            for found in (
                TWO.segments(x, indptr),
                TWO.segments(x, indptr, y, n),
                TWO.segments(x, indptr, out=(y, n)),
            ):
                np.testing.assert_array_equal(device.numpy(found[0]), wanted)
                np.testing.assert_array_equal(device.numpy(found[1]), 2 * wanted + 1)

    def test_gaps_of_outputs_are_left_alone(self, device: ArrayDevice) -> None:
        whole = device.empty((6, 8), "int64")
        indptr = device.array([0, 2, 2, 9])
        SUM.segments(device.array(np.ones((9, 4), "int64")), indptr, out=whole[::2, ::2])
        found = device.numpy(whole)
        np.testing.assert_array_equal(found[::2, ::2], [[2] * 4, [0] * 4, [7] * 4])
        assert (found[1::2] == -77).all() and (found[:, 1::2] == -77).all()


class TestOverlap:
    GATHERED = "whose elements other threads read"

    def test_outputs_and_inputs(self, place: ArrayDevice) -> None:
        memory, indptr = place.array(integers(40)), place.array(np.arange(11))
        for _ in range(4):  # the plan of the calls before must not let it through
            SUM.segments(memory[:10], indptr, out=memory[20:30])
            with pytest.raises(kspec.OverlapError, match="its memory overlaps with that of"):
                SUM.segments(memory[:10], indptr, out=memory[4:14])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                SUM.segments(memory[:10], indptr, out=memory[:10])

    def test_outputs_and_bounds(self, place: ArrayDevice) -> None:
        memory, indptr = place.array(integers(10)), place.array(np.arange(41))
        for _ in range(4):
            SUM.segments(memory, indptr[:11], out=indptr[20:30])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                SUM.segments(memory, indptr[:11], out=indptr[1:11])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                SUM.segments(memory, indptr[:11], out=indptr[:10])
            indptr = place.array(np.arange(41))

    def test_outputs_and_raw_inputs(self, place: ArrayDevice) -> None:
        memory, indptr = place.array(integers(40)), place.array(np.arange(11))
        x = place.array(integers(10))
        for _ in range(4):
            OF_SEGMENT.segments(x, memory[:10], indptr, out=memory[20:30])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                OF_SEGMENT.segments(x, memory[:10], indptr, out=memory[4:14])

    def test_inputs_may_be_the_bounds(self, place: ArrayDevice) -> None:
        indptr = place.array([0, 1, 3])
        for _ in range(3):
            assert place.numpy(SUM.segments(indptr, indptr)).tolist() == [0, 4]


class TestDtypes:
    @pytest.mark.parametrize("dtype", FEW_DTYPES)
    def test_every_dtype(self, dtype: str, device: ArrayDevice) -> None:
        for shape in [(400,), (40, 6)]:
            check(device, numbers(dtype, *shape), bounds(shape[0], "mixed"), str(shape))

    @given(data=st.data())
    @settings(max_examples=examples(150), deadline=None)
    def test_any_segments(self, data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(["int64", "float32", "complex64"]))
        ndim = data.draw(st.integers(1, 4))
        shape = tuple(data.draw(st.integers(0, 9)) for _ in range(ndim))
        x = numbers(dtype, *shape, seed=data.draw(st.integers(0, 9)))
        order = data.draw(st.permutations(range(ndim)))
        steps = tuple(
            slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in range(ndim)
        )
        view = x.transpose(order)[steps]
        places = st.integers(0, view.shape[0])
        drawn = sorted(data.draw(st.lists(places, min_size=1, max_size=12)))
        indptr = np.array(drawn, data.draw(st.sampled_from(INDICES)))
        found = HOST.numpy(SUM.segments(view, indptr))
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, sums(view, drawn))


class TestRepeatedCalls:
    def kernel(self) -> kspec.ReductionKernel:
        return kspec.ReductionKernel.from_spec(SUM.spec)

    def test_they_have_plans(self, place: ArrayDevice) -> None:
        kernel = self.kernel()
        x, indptr = place.array(integers(40)), place.array([0, 3, 40])
        for _ in range(4):
            kernel.segments(x, indptr)
        info = kernel.cache_info()
        assert (info.entries, info.plans) == (1, 1)

    def test_new_contents_and_addresses_of_bounds(self, device: ArrayDevice) -> None:
        kernel = self.kernel()
        x = integers(100)
        given = device.array(x)
        kept = []
        for seed in range(12):
            indptr = np.sort(np.random.default_rng(seed).integers(0, 101, 8))
            kept.append(device.array(indptr))  # so that each has an address of its own
            found = device.numpy(kernel.segments(given, kept[-1]))
            np.testing.assert_array_equal(found, sums(x, indptr.tolist()))
        assert kernel.cache_info().plans == 1

    def test_bounds_are_read_at_each_call(self, device: ArrayDevice) -> None:
        kernel, x = self.kernel(), integers(100)
        given, indptr = device.array(x), device.zeros(5, "int64")
        for seed in range(8):
            wanted = np.sort(np.random.default_rng(seed).integers(0, 101, 5))
            indptr[...] = device.array(wanted)
            found = device.numpy(kernel.segments(given, indptr))
            np.testing.assert_array_equal(found, sums(x, wanted.tolist()))

    def test_new_dtypes_and_strides_of_bounds(self, device: ArrayDevice) -> None:
        kernel, x = self.kernel(), integers(100, 3)
        given = device.array(x)
        for _, dtype, step in itertools.product(range(3), INDICES, (1, 2, -1)):
            indptr = bounds(100, "short").astype(dtype)
            stretched = np.zeros(len(indptr) * abs(step), dtype)
            stretched[::step] = indptr
            found = device.numpy(kernel.segments(given, device.array(stretched)[::step]))
            np.testing.assert_array_equal(found, sums(x, indptr.tolist()))

    def test_raw_inputs_of_new_shapes_and_addresses(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel.from_spec(CSR.spec)
        drawn = np.random.default_rng(0)
        column, indptr = drawn.integers(0, 20, 60).astype("int32"), bounds(60, "short")
        for size in (20, 20, 20, 31, 31, 31, 20):
            value, x = drawn.integers(0, 9, 60), drawn.integers(0, 9, size)
            given = map(device.array, (value, column, x, indptr))
            found = device.numpy(kernel.segments(*given))
            np.testing.assert_array_equal(found, sums(value * x[column], indptr.tolist()))

    def test_new_alignments(self, device: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel.from_spec(WEIGHTED.spec)
        x, w = integers(70, dtype="float32"), integers(70, dtype="float32", seed=1)
        first, second = device.array(x), device.array(w)
        indptr = device.array([0, 3, 30, 60])
        starts = [(0, 0), (1, 1), (1, 0), (1, 1), (2, 1), (3, 3), (1, 2), (3, 0), (3, 3), (0, 3)]
        for one, other in starts * 3:
            found = kernel.segments(first[one : one + 60], second[other : other + 60], indptr)
            product = x[one : one + 60] * w[other : other + 60]
            np.testing.assert_array_equal(device.numpy(found), sums(product, [0, 3, 30, 60]))

    def test_ever_new_numbers_of_segments(self, device: ArrayDevice) -> None:
        kernel, x = self.kernel(), integers(100)
        given = device.array(x)
        for count in range(1, 40):
            indptr = np.linspace(0, 100, count + 1).astype("int64")
            found = device.numpy(kernel.segments(given, device.array(indptr)))
            np.testing.assert_array_equal(found, sums(x, indptr.tolist()))

    def test_equal_calls_give_equal_bits(self, device: ArrayDevice) -> None:
        x = np.random.default_rng(1).normal(size=200_000).astype("float32")
        given, indptr = device.array(x), device.array(bounds(len(x), "mixed"))
        first = device.numpy(SUM.segments(given, indptr)).tobytes()
        for _ in range(3):
            assert device.numpy(SUM.segments(given, indptr)).tobytes() == first

    def test_the_number_of_threads_changes_no_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = np.random.default_rng(1).normal(size=200_000).astype("float32")
        indptr, found = bounds(len(x), "mixed"), []
        for threads in ("1", "2", "7"):
            monkeypatch.setenv("KSPEC_HOST_THREADS", threads)
            found.append(SUM.segments(x, indptr).tobytes())
        assert found[0] == found[1] == found[2]

    @pytest.mark.parametrize(
        "check", [{"sanitize": "memory"}, {"order": "reverse"}, {"timeout": 60}]
    )
    def test_checked_calls(self, check: dict[str, Any]) -> None:
        x, indptr = integers(50, 7), bounds(50, "mixed")
        for _ in range(3):
            found = SUM.segments(x, indptr, **check)
            np.testing.assert_array_equal(found, sums(x, indptr.tolist()))


class TestManyTiles:
    """Several for each block that a GPU holds at a time, and a share of its memory for the L1 cache."""

    LENGTH = 2**21 + 3

    def wanted(self, x: Any, indptr: Any) -> Any:
        return np.diff(np.append(0, np.cumsum(x))[indptr])

    @pytest.mark.parametrize("kind", ["short", "mixed"])
    def test_values(self, kind: str, device: ArrayDevice) -> None:
        x, w = integers(self.LENGTH), integers(self.LENGTH, seed=1)
        column = np.random.default_rng(2).integers(0, 1000, self.LENGTH).astype("int32")
        indptr = bounds(self.LENGTH, kind)
        first, second, at, ends = map(device.array, (x, w, column, indptr))
        found = device.numpy(WEIGHTED.segments(first, second, ends))
        np.testing.assert_array_equal(found, self.wanted(x * w, indptr))
        found = device.numpy(CSR.segments(first, at, second, ends))
        np.testing.assert_array_equal(found, self.wanted(x * w[column], indptr))

    @pytest.mark.gpu
    def test_captured_calls(self) -> None:
        cupy = pytest.importorskip("cupy")
        with cupy.cuda.Stream(non_blocking=True) as stream:
            x, w = cupy.arange(self.LENGTH) % 7, cupy.arange(self.LENGTH) % 5
            indptr = cupy.asarray(bounds(self.LENGTH, "short"))
            y = cupy.empty(len(indptr) - 1, x.dtype)
            WEIGHTED.segments(x, w, indptr, out=y)  # compiles, which is not captured
            stream.begin_capture()
            WEIGHTED.segments(x, w, indptr, out=y)
            graph = stream.end_capture()
            for _ in range(3):
                y[:] = 0
                graph.launch(stream)
            stream.synchronize()
        product, ends = cupy.asnumpy(x * w), cupy.asnumpy(indptr)
        np.testing.assert_array_equal(cupy.asnumpy(y), self.wanted(product, ends))
