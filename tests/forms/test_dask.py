"""Forms on Dask arrays: the results are those of one call, and nothing is computed before."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, ShapeError

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
from kspec_kernels import statistics  # noqa: E402

import kspec.dask  # noqa: E402
from tests.forms import reference  # noqa: E402
from tests.forms.kernels import (  # noqa: E402
    CSR,
    MAX,
    MODELS,
    NO_IDENTITY,
    PLACE,
    SCALED,
    SUM,
    WEIGHTED,
)
from tests.forms.reference import integers, sums_by_key  # noqa: E402
from tests.forms.test_by_key import keys_of  # noqa: E402

CHUNKS = [((3, 1, 5, 4), (2, 2)), ((13,), (1, 3)), ((6, 0, 7), (4,))]
BOUNDARIES = ["valid", "nearest", "reflect", "mirror", "wrap", "shrink"]


@pytest.fixture(autouse=True)
def scheduler() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def computed(got: Any) -> Any:
    """Return the blocks' elements, once known shapes and dtypes are found to be the true ones."""
    several = got if isinstance(got, tuple) else (got,)
    values = dask.compute(*several)
    for one, value in zip(several, values, strict=True):
        assert (one.shape, one.dtype) == (value.shape, value.dtype)
        assert type(one._meta) is type(value)
    return values if isinstance(got, tuple) else values[0]


def not_computed(block: Any) -> Any:
    raise AssertionError("computed")


class TestScan:
    @pytest.mark.parametrize("name", ["sum", "mean", "matrices", "two"])
    @pytest.mark.parametrize("chunks", CHUNKS)
    def test_models(self, name: str, chunks: Any) -> None:
        model = MODELS[name]
        inputs = model.draw(13, 4, seed=1)
        arrays = [da.from_array(one, chunks=chunks) for one in inputs]
        for axis, reverse in ((0, False), (0, True), (-1, True)):
            got = kspec.dask.apply(model.kernel.scan, *arrays, axis=axis, reverse=reverse)
            model.check(computed(got), model.scan(inputs, axis, reverse=reverse), f"{axis}")

    def test_exclusive(self) -> None:
        x = integers(13)
        for reverse in (False, True):
            got = kspec.dask.apply(
                SUM.scan, da.from_array(x, chunks=4), exclusive=True, reverse=reverse
            )
            wanted = SUM.scan(x, exclusive=True, reverse=reverse)
            np.testing.assert_array_equal(computed(got), wanted)

    def test_inputs_are_divided_alike(self) -> None:
        x, w = integers(13, 8), integers(8, seed=1)
        got = kspec.dask.apply(
            WEIGHTED.scan, da.from_array(x, chunks=(5, 3)), da.from_array(w, chunks=4), axis=0
        )
        np.testing.assert_array_equal(computed(got), np.cumsum(x * w, 0))
        got = kspec.dask.apply(SCALED.scan, da.from_array(x, chunks=(5, 3)), 3, axis=1)
        np.testing.assert_array_equal(computed(got), 3 * np.cumsum(x, 1))

    def test_chunks_of_unknown_size(self) -> None:
        x = integers(20, 3)
        some = da.from_array(x, chunks=(6, 3))[da.from_array(x[:, 0], chunks=6) > 0]
        got = kspec.dask.apply(SUM.scan, some, axis=0)
        np.testing.assert_array_equal(got.compute(), np.cumsum(x[x[:, 0] > 0], 0))

    def test_equal_calls_are_equal_tasks(self) -> None:
        x = da.from_array(integers(12), chunks=4)
        names = [
            kspec.dask.apply(SUM.scan, x, **keywords).name
            for keywords in ({}, {}, {"exclusive": True}, {"reverse": True})
        ]
        assert len(set(names)) == 3
        assert names[0] == names[1]


class TestSegments:
    @pytest.mark.parametrize("name", ["sum", "mean", "matrices", "two"])
    @pytest.mark.parametrize("kind", ["short", "empty", "one", "none", "inside"])
    def test_models(self, name: str, kind: str) -> None:
        model = MODELS[name]
        inputs = model.draw(13, 4, seed=2)
        bounds = reference.bounds(13, kind)
        for chunks in CHUNKS[::2]:
            arrays = [da.from_array(one, chunks=chunks) for one in inputs]
            got = kspec.dask.apply(model.kernel.segments, *arrays, bounds)
            model.check(computed(got), model.segments(inputs, bounds), f"{chunks}")

    def test_blocks_are_those_of_the_elements(self) -> None:
        x = da.from_array(integers(12, 6), chunks=(4, 2))
        got = kspec.dask.apply(SUM.segments, x, indptr=np.array([0, 2, 9, 9, 12, 12]))
        assert got.chunks == ((2, 0, 3), (2, 2, 2))

    def test_sparse_matrix_times_vector(self) -> None:
        drawn = np.random.default_rng(4)
        value, column = integers(200, dtype="float64"), drawn.integers(0, 30, 200).astype("int32")
        x, bounds = integers(30, dtype="float64", seed=1), reference.bounds(200, "short")
        arrays = [da.from_array(one, chunks=70) for one in (value, column)]
        got = kspec.dask.apply(CSR.segments, *arrays, x, da.from_array(bounds, chunks=9))
        wanted = reference.sums(value * x[column], bounds.tolist())
        np.testing.assert_array_equal(computed(got), wanted)


class TestByKey:
    @pytest.mark.parametrize("name", ["sum", "mean", "matrices", "two"])
    def test_models(self, name: str) -> None:
        model = MODELS[name]
        inputs, keys = model.draw(13, 4, seed=2), keys_of(13, 6)
        wanted = model.by_key(inputs, keys, 6)
        for chunks in CHUNKS:
            arrays = [da.from_array(one, chunks=chunks) for one in inputs]
            for given in (keys, da.from_array(keys, chunks=chunks[:1]), da.from_array(keys)):
                got = kspec.dask.apply(model.kernel.by_key, *arrays, given, 6)
                model.check(computed(got), wanted, f"{chunks}")

    def test_a_tree_of_many_blocks(self) -> None:
        x, keys = integers(2000, 3), keys_of(2000, 300)
        for chunk in (100, 10):
            some = da.from_array(x, chunks=(chunk, 2))
            for deterministic in (True, False):
                got = kspec.dask.apply(SUM.by_key, some, keys, n=300, deterministic=deterministic)
                assert got.chunks == ((300,), (2, 1))
                np.testing.assert_array_equal(computed(got), sums_by_key(x, keys, 300))

    def test_inputs_are_divided_alike(self) -> None:
        x, w, keys = integers(13, 8), integers(8, seed=1), keys_of(13, 4)
        arrays = da.from_array(x, chunks=(5, 3)), da.from_array(w, chunks=4)
        got = kspec.dask.apply(WEIGHTED.by_key, *arrays, keys, 4)
        np.testing.assert_array_equal(computed(got), sums_by_key(x * w, keys, 4))
        got = kspec.dask.apply(SCALED.by_key, arrays[0], 3, keys, 4)
        np.testing.assert_array_equal(computed(got), 3 * sums_by_key(x, keys, 4))

    def test_chunks_of_unknown_size(self) -> None:
        x, keys = integers(20, 3), np.arange(20) % 4
        some = da.from_array(x[:, 0], chunks=6) > 0
        rows, chosen = da.from_array(x, chunks=(6, 3))[some], da.from_array(keys, chunks=6)[some]
        got = kspec.dask.apply(SUM.by_key, rows, chosen, 4)
        kept = x[:, 0] > 0
        np.testing.assert_array_equal(got.compute(), sums_by_key(x[kept], keys[kept], 4))
        with pytest.raises(
            ShapeError, match="unknown sizes along axis 0, and the keys are divided"
        ):
            kspec.dask.apply(SUM.by_key, rows, da.from_array(keys, chunks=20), 4)

    def test_equal_calls_are_equal_tasks(self) -> None:
        x, keys = da.from_array(integers(12), chunks=4), np.arange(12) % 3
        names = [
            kspec.dask.apply(SUM.by_key, x, some, n, **keywords).name
            for some, n, keywords in (
                *((keys, 3, {}), (keys, 3, {}), (keys, 4, {})),
                *((keys + 1, 3, {}), (keys, 3, {"deterministic": False})),
            )
        ]
        assert len(set(names)) == 4
        assert names[0] == names[1]

    def test_tasks_travel(self) -> None:
        x, keys = integers(30), np.arange(30) % 4
        got = kspec.dask.apply(SUM.by_key, da.from_array(x, chunks=7), keys, 4)
        graph = pickle.loads(pickle.dumps(dict(got.__dask_graph__())))
        found = dask.get(graph, got.__dask_keys__()[0])
        np.testing.assert_array_equal(found, sums_by_key(x, keys, 4))

    def test_bad_keys(self) -> None:
        x = da.from_array(integers(12), chunks=5).map_blocks(not_computed, dtype="int64")
        for keys, n, error, message in (
            (np.zeros(11, int), 3, ShapeError, "an element for each of the 12 rows"),
            (np.zeros((12, 1), int), 3, ShapeError, r"not shape \(12, 1\)"),
            (np.zeros(12), 3, ArgumentTypeError, "keys must hold integers, not float64"),
            (np.zeros(12, int), -1, ShapeError, "n must be 0 or more, not -1"),
            (np.zeros(12, int), 2.0, ArgumentTypeError, "n must be an integer, not 2.0"),
        ):
            with pytest.raises(error, match=message):
                kspec.dask.apply(SUM.by_key, x, keys, n)
        with pytest.raises(ArgumentTypeError, match=r"form_sum\.by_key\(\) needs keys"):
            kspec.dask.apply(SUM.by_key, x, n=3)
        with pytest.raises(ArgumentTypeError, match="deterministic must be True or False, not 1"):
            kspec.dask.apply(SUM.by_key, x, np.zeros(12, int), 3, deterministic=1)
        with pytest.raises(ShapeError, match="is the identity, which the kernel does not have"):
            kspec.dask.apply(NO_IDENTITY.by_key, x, np.zeros(12, int), 3)


class TestWindow:
    @pytest.mark.parametrize("boundary", BOUNDARIES)
    @pytest.mark.parametrize("step", [1, 3])
    def test_the_same_bits(self, boundary: str, step: int) -> None:
        x = np.random.default_rng(5).normal(size=(23, 6))
        for size, chunks in ((5, (6, 4, 8, 5)), (4, (11, 12)), (1, (3, 0, 20)), (2, (2, 20, 1))):
            keywords = {"size": size, "axis": 0, "boundary": boundary, "step": step}
            got = kspec.dask.apply(
                SUM.window, da.from_array(x, chunks=(chunks, (2, 4))), **keywords
            )
            assert computed(got).tobytes() == SUM.window(x, **keywords).tobytes()

    def test_pooling(self) -> None:
        x = integers(12, 10, dtype="int32")
        blocks = da.from_array(x, chunks=((5, 7), (4, 3, 3)))
        for boundary in BOUNDARIES:
            keywords = {"axis": (0, 1), "step": (2, 3), "boundary": boundary}
            got = kspec.dask.apply(MAX.window, blocks, (3, 2), **keywords)
            np.testing.assert_array_equal(computed(got), MAX.window(x, (3, 2), **keywords))

    def test_arrays_that_broadcast(self) -> None:
        x, w, h = integers(11, 5), integers(5, seed=1), integers(11, 1, seed=2)
        blocks = da.from_array(x, chunks=((4, 7), (3, 2)))
        for other in (w, h):
            got = kspec.dask.apply(WEIGHTED.window, blocks, other, size=3, axis=0)
            np.testing.assert_array_equal(computed(got), WEIGHTED.window(x, other, 3, axis=0))

    def test_models(self) -> None:
        model = MODELS["two"]
        inputs = model.draw(5, 17, seed=3)
        arrays = [da.from_array(one, chunks=(2, 6)) for one in inputs]
        got = kspec.dask.apply(model.kernel.window, *arrays, 4, boundary="shrink")
        model.check(computed(got), model.kernel.window(*inputs, 4, boundary="shrink"))


def test_graphs_hold_names_of_kernels() -> None:
    x = da.from_array(integers(9, 4, dtype="float64"), chunks=(5, 4))
    for form, keywords in (
        (statistics.total.scan, {"axis": 0}),
        (statistics.total.segments, {"indptr": np.array([0, 5, 9])}),
        (statistics.total.window, {"size": 3, "axis": 0}),
    ):
        got = kspec.dask.apply(form, x, **keywords)
        graph = pickle.dumps({key: repr(task) for key, task in dict(got.__dask_graph__()).items()})
        assert b"kspec_kernels.statistics" in graph
        again = pickle.loads(pickle.dumps(got))
        np.testing.assert_array_equal(again.compute(), form(np.asarray(x), **keywords))


def test_nothing_is_computed_before() -> None:
    x = da.ones((9, 4), chunks=(5, 4)).map_blocks(not_computed, meta=np.empty((0, 0)))
    for form, keywords in (
        (SUM.scan, {"axis": 0}),
        (SUM.segments, {"indptr": np.array([0, 5, 9])}),
        (SUM.window, {"size": 3, "axis": 0}),
    ):
        with pytest.raises(AssertionError, match="computed"):
            kspec.dask.apply(form, x, **keywords).compute()


X = da.from_array(integers(9, 3), chunks=(4, 3))
SOME = X[X[:, 0] > 0]
BOUNDS = np.array([0, 3, 9])


@pytest.mark.parametrize(
    ("form", "args", "keywords", "error", "message"),
    [
        (SUM.scan, (X,), {"axis": 2}, np.exceptions.AxisError, "axis 2"),
        (SUM.scan, (X,), {"axis": (0, 1)}, TypeError, "axis must be an integer, not"),
        (SUM.scan, (np.ones(3),), {}, TypeError, "no argument is a Dask array"),
        (
            SUM.scan,
            (X,),
            {"keepdims": True},
            TypeError,
            r"scan\(\) got an unexpected .* 'keepdims'",
        ),
        (SUM.scan, (X,), {"split_every": 2}, TypeError, "unexpected keyword .* 'split_every'"),
        (NO_IDENTITY.scan, (X,), {"exclusive": True}, ValueError, "begins with the identity"),
        (PLACE.scan, (X,), {}, NotImplementedError, "form_place cannot be applied block by block"),
        (SUM.segments, (X,), {}, TypeError, r"form_sum.segments\(\) needs indptr"),
        (SUM.segments, (X, [0, 9]), {}, TypeError, "indptr must be one array, .* not list"),
        (SUM.segments, (X, BOUNDS * 1.0), {}, TypeError, "indptr must hold integers, not float64"),
        (
            SUM.segments,
            (X, BOUNDS[::-1]),
            {},
            ValueError,
            "segment 0 goes from 9 to 3: indptr must",
        ),
        (SUM.segments, (SOME, BOUNDS), {}, ValueError, "unknown sizes along axis 0, and segments"),
        (SUM.window, (X,), {}, TypeError, r"form_sum.window\(\) needs size"),
        (SUM.window, (X, 10), {"axis": 0}, ValueError, "a window of 10 does not fit axis 0"),
        (SUM.window, (SOME, 2), {"axis": 0}, ValueError, "unknown sizes along axis 0, and windows"),
        (
            SUM.window,
            (X, 7),
            {"axis": 0, "boundary": "wrap"},
            ValueError,
            r"form_sum: x: block 2 along axis 0 has 1 element, .* need 3; .*x\.rechunk\(\{0: ",
        ),
    ],
)
def test_refused(form: Any, args: Any, keywords: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        kspec.dask.apply(form, *args, **keywords)
    assert error is np.exceptions.AxisError or isinstance(caught.value, kspec.KspecError)


@pytest.mark.gpu
def test_blocks_of_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    model = MODELS["matrices"]
    inputs = model.draw(13, 4, seed=1)
    arrays = [
        da.from_array(cupy.asarray(one), chunks=((3, 1, 5, 4), (2, 2)), asarray=False)
        for one in inputs
    ]
    got = dask.compute(*kspec.dask.apply(model.kernel.scan, *arrays, axis=0))
    assert all(isinstance(one, cupy.ndarray) for one in got)
    model.check(tuple(one.get() for one in got), model.scan(inputs, 0))
    bounds = np.array([0, 2, 9, 9, 13])
    got = dask.compute(*kspec.dask.apply(model.kernel.segments, *arrays, bounds))
    model.check(tuple(one.get() for one in got), model.segments(inputs, bounds))
    x = cupy.asarray(integers(23, 6))
    blocks = da.from_array(x, chunks=(8, 6), asarray=False)
    for boundary in BOUNDARIES[:-1]:
        got = kspec.dask.apply(SUM.window, blocks, 5, axis=0, boundary=boundary).compute()
        np.testing.assert_array_equal(got.get(), SUM.window(x.get(), 5, axis=0, boundary=boundary))
