"""Kernels on Dask arrays: the results are those of one call, and nothing is computed before."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kspec

da = pytest.importorskip("dask.array")

import dask  # noqa: E402
from kspec_kernels import math, norms, statistics  # noqa: E402

import kspec.dask  # noqa: E402
from tests.projects import ROOT, run_python  # noqa: E402

ADD = kspec.ElementwiseKernel("T x, T y, S w", "S z", "z = x + y * w", "dask_add")
BOTH = kspec.ElementwiseKernel(
    "T x, T y", "T sum, bool less", "sum = x + y; less = x < y", "dask_both"
)
LOOKED_UP = kspec.ElementwiseKernel("int64 k, raw T table", "T y", "y = table[k]", "dask_looked_up")
DOT = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dask_dot")
LARGEST = kspec.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", None, "dask_largest")
SILENT = kspec.ElementwiseKernel("T x", "T y", "y = x", "dask_silent", no_return=True)
SIZES = kspec.ReductionKernel(
    "T x, T s",
    "int64 elements, int64 outputs, T y",
    "int(x * 8)",
    "a + b",
    "elements = _in_ind.size(); outputs = _out_ind.size(); y = a + s",
    "0",
    "dask_sizes",
    reduce_type="T",
)
ONE_TUPLE = kspec.ElementwiseKernel("T x", "T y", "y = x", "dask_tuple", return_tuple=True)
AXES = [None, 0, 1, 2, -1, (0, 1), (0, 2), (1, -1), (0, 1, 2), ()]


@pytest.fixture(autouse=True)
def scheduler() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).random((40, 30, 6))


def chunked(array: np.ndarray, *chunks: int) -> Any:
    return da.from_array(array, chunks=chunks or "auto")


def not_computed(block: Any) -> Any:
    raise AssertionError("computed")


class TestElementwise:
    def test_blocks(self, x: np.ndarray) -> None:
        z = kspec.dask.apply(math.squared_diff, chunked(x.astype("f4"), 7, 11, 6), 2.0)
        assert (z.shape, z.dtype) == (x.shape, np.float32)
        np.testing.assert_allclose(z.compute(), (x - 2) ** 2, rtol=1e-5)

    def test_broadcasting_and_mixed_arrays(self, x: np.ndarray) -> None:
        row, column = np.arange(6.0), np.arange(30, dtype="float32")[:, None]
        z = kspec.dask.apply(ADD, chunked(x, 7, 11, 4), row, chunked(column, 8, 1))
        assert (z.shape, z.dtype) == (x.shape, np.float32)
        np.testing.assert_allclose(z.compute(), x + row * column, rtol=1e-5)
        z = kspec.dask.apply(ADD, chunked(row, 4), chunked(x, 7, 11, 3), chunked(column, 8, 1))
        np.testing.assert_allclose(z.compute(), row + x * column, rtol=1e-5)

    def test_no_axes(self) -> None:
        z = kspec.dask.apply(DOT, chunked(np.arange(5.0), 2), chunked(np.arange(5.0), 2))
        again = kspec.dask.apply(ADD, z, 1.0, z)
        assert again.shape == ()
        assert again.compute() == 60

    def test_several_outputs(self, x: np.ndarray) -> None:
        total, less = kspec.dask.apply(BOTH, chunked(x, 7, 11, 6), 0.5)
        assert (total.dtype, less.dtype) == (np.float64, np.bool_)
        total, less = dask.compute(total, less)
        np.testing.assert_array_equal(total, x + 0.5)
        np.testing.assert_array_equal(less, x < 0.5)

    def test_a_tuple_of_one(self, x: np.ndarray) -> None:
        (y,) = kspec.dask.apply(ONE_TUPLE, chunked(x, 7, 11, 6))
        np.testing.assert_array_equal(y.compute(), x)

    def test_raw_arrays_are_given_to_each_block(self) -> None:
        table, k = np.array([2.0, 3.0, 5.0]), np.array([0, 2, 1, 1])
        y = kspec.dask.apply(LOOKED_UP, chunked(k, 3), table)
        np.testing.assert_array_equal(y.compute(), [2, 5, 3, 3])

    def test_blocks_may_begin_anywhere(self, x: np.ndarray) -> None:
        """What came over a network is not aligned."""
        moved = chunked(x[:, 0, 0], 7).map_blocks(unaligned, meta=np.empty(0))
        np.testing.assert_array_equal(
            kspec.dask.apply(ADD, moved, 1.0, moved).compute(), 2 * x[:, 0, 0]
        )

    def test_elements_may_be_any_distance_apart(self) -> None:
        """Fields of packed structs are unaligned, and kernels cannot read them in place."""
        packed = np.zeros((4, 6), [("value", "f4"), ("flag", "i1")])
        packed["value"] = np.arange(24).reshape(4, 6)
        values = chunked(packed, 3, 2)["value"]
        got = kspec.dask.apply(ADD, values, 1.0, values)
        np.testing.assert_array_equal(got.compute(), 2 * packed["value"])
        norm = kspec.dask.apply(norms.l2norm, values, axis=0)
        np.testing.assert_allclose(norm.compute(), np.linalg.norm(packed["value"], axis=0))
        table = packed["value"][0]
        got = kspec.dask.apply(LOOKED_UP, chunked(np.array([0, 2, 1]), 2), table)
        np.testing.assert_array_equal(got.compute(), [0, 2, 1])

    def test_tensors_may_begin_anywhere(self, x: np.ndarray) -> None:
        torch = pytest.importorskip("torch")
        moved = chunked(x[:, 0, 0], 7).map_blocks(
            lambda block: torch.frombuffer(unaligned(block).data, dtype=torch.float64),
            meta=np.empty(0),
        )
        got = kspec.dask.apply(ADD, moved, 1.0, moved).map_blocks(np.asarray, meta=np.empty(0))
        np.testing.assert_array_equal(got.compute(), 2 * x[:, 0, 0])

    def test_raw_arrays_may_begin_anywhere(self) -> None:
        table, k = unaligned(np.array([2.0, 3.0, 5.0])), chunked(np.array([0, 2, 1, 1]), 3)
        np.testing.assert_array_equal(kspec.dask.apply(LOOKED_UP, k, table).compute(), [2, 5, 3, 3])
        kernel = kspec.ReductionKernel(
            "T k, raw U t", "U y", "t[k]", "a + b", "y = a * t[0]", "0", "dask_looked_up_sum"
        )
        assert kspec.dask.apply(kernel, k, table).compute() == 2 * 13

    def test_shapes_that_do_not_broadcast(self, x: np.ndarray) -> None:
        with pytest.raises(
            kspec.ShapeError,
            match=r"dask_add: operands could not be broadcast .* shapes \(40, 30, 6\) \(5,\)",
        ):
            kspec.dask.apply(ADD, chunked(x, 7, 11, 6), 1.0, np.ones(5))


def unaligned(block: np.ndarray) -> np.ndarray:
    memory = np.zeros(block.nbytes + 1, "uint8")
    memory[1:] = block.view("uint8")
    return memory[1:].view(block.dtype)


class TestReductions:
    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("axis", AXES)
    def test_l2norm(self, x: np.ndarray, axis: Any, keepdims: bool) -> None:
        y = kspec.dask.apply(norms.l2norm, chunked(x, 7, 11, 4), axis=axis, keepdims=keepdims)
        expected = norms.l2norm(x, axis=axis, keepdims=keepdims)
        assert (y.shape, y.dtype) == (expected.shape, expected.dtype)
        computed = y.compute()
        assert (computed.shape, computed.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(computed, expected, rtol=1e-12)

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("axis", AXES)
    def test_several_outputs(self, x: np.ndarray, axis: Any, keepdims: bool) -> None:
        got = kspec.dask.apply(
            statistics.mean_var, chunked(x, 7, 11, 4), 1.0, axis=axis, keepdims=keepdims
        )
        expected = statistics.mean_var(x, 1.0, axis=axis, keepdims=keepdims)
        for one, computed, other in zip(got, dask.compute(*got), expected, strict=True):
            assert one.shape == computed.shape == other.shape
            np.testing.assert_allclose(computed, other, rtol=1e-10)

    @pytest.mark.parametrize("split_every", [2, 3, 100, {0: 3, 1: 2}])
    def test_depth_of_the_tree(self, x: np.ndarray, split_every: Any) -> None:
        y = kspec.dask.apply(
            norms.l2norm, chunked(x, 3, 5, 6), axis=(0, 1), split_every=split_every
        )
        np.testing.assert_allclose(y.compute(), norms.l2norm(x, axis=(0, 1)), rtol=1e-12)

    def test_several_inputs(self, x: np.ndarray) -> None:
        row = np.arange(6.0)
        z = kspec.dask.apply(DOT, chunked(x, 7, 11, 4), row, axis=(0, 2))
        np.testing.assert_allclose(z.compute(), (x * row).sum((0, 2)))

    def test_number_of_elements(self, x: np.ndarray) -> None:
        y = kspec.dask.apply(norms.rms_scale, chunked(x, 7, 11, 4), 1e-6, axis=(0, 2))
        np.testing.assert_allclose(y.compute(), norms.rms_scale(x, 1e-6, axis=(0, 2)))

    @pytest.mark.parametrize("keepdims", [False, True])
    @pytest.mark.parametrize("axis", AXES)
    def test_post_maps_see_the_sizes_of_the_whole(
        self, x: np.ndarray, axis: Any, keepdims: bool
    ) -> None:
        got = kspec.dask.apply(SIZES, chunked(x, 17, 11, 4), 0.5, axis=axis, keepdims=keepdims)
        expected = SIZES(x, 0.5, axis=axis, keepdims=keepdims)
        for one, other in zip(dask.compute(*got), expected, strict=True):
            np.testing.assert_array_equal(one, other)

    def test_types(self, x: np.ndarray) -> None:
        for dtype in ("float16", "float32"):
            small = x.astype(dtype)
            y = kspec.dask.apply(norms.l2norm, chunked(small, 7, 11, 4), axis=1)
            assert y.dtype == y.compute().dtype == dtype
            np.testing.assert_allclose(y.compute(), norms.l2norm(small, axis=1), rtol=2e-3)

    def test_after_other_work(self, x: np.ndarray) -> None:
        y = kspec.dask.apply(norms.l2norm, (chunked(x, 7, 11, 4) * 2)[::2, 3:], axis=0) + 1
        np.testing.assert_allclose(y.compute(), norms.l2norm((2 * x)[::2, 3:], axis=0) + 1)

    def test_nothing(self) -> None:
        empty = da.zeros((0, 5), chunks=(1, 2))
        np.testing.assert_array_equal(
            kspec.dask.apply(norms.l2norm, empty, axis=0).compute(), [0] * 5
        )
        with pytest.raises(kspec.ShapeError, match="dask_largest which has no identity"):
            kspec.dask.apply(LARGEST, empty, axis=0)
        assert kspec.dask.apply(LARGEST, empty, axis=1).compute().shape == (0,)


class TestUnknownSizes:
    def test_elementwise(self, x: np.ndarray) -> None:
        some = chunked(x, 7, 30, 6)
        some = some[some[:, 0, 0] > 0.5]
        assert np.isnan(some.shape[0])
        kept = x[x[:, 0, 0] > 0.5]
        np.testing.assert_array_equal(
            kspec.dask.apply(ADD, some, 1.0, 2.0 * some).compute(), 3 * kept
        )

    @pytest.mark.parametrize("axis", [None, 0, 1, (0, 2)])
    def test_reductions(self, x: np.ndarray, axis: Any) -> None:
        some = chunked(x, 1, 30, 6)
        some = some[some[:, 0, 0] > 0.5]  # blocks of nothing among them
        kept = x[x[:, 0, 0] > 0.5]
        for kernel, expected in (
            (norms.l2norm, np.sqrt((kept**2).sum(axis))),
            (LARGEST, kept.max(axis)),
        ):
            np.testing.assert_allclose(
                kspec.dask.apply(kernel, some, axis=axis).compute(), expected
            )

    def test_sizes_of_the_whole(self, x: np.ndarray) -> None:
        some = chunked(x[:, :, 0], 7, 30)
        some = some[some[:, 0] > 0.5]
        kept = x[x[:, 0, 0] > 0.5, :, 0]
        got = dask.compute(*kspec.dask.apply(SIZES, some, 0.5, axis=0))
        for one, other in zip(got, SIZES(kept, 0.5, axis=0), strict=True):
            np.testing.assert_array_equal(one, other)
        with pytest.raises(
            kspec.ShapeError, match=r"dask_sizes: its post-map reads .*compute_chunk_sizes"
        ):
            kspec.dask.apply(SIZES, some, 0.5, axis=1)

    def test_nothing_is_left(self, x: np.ndarray) -> None:
        none = chunked(x, 7, 30, 6)
        none = none[none[:, 0, 0] > 2]
        with pytest.raises(kspec.ShapeError, match="dask_largest which has no identity"):
            kspec.dask.apply(LARGEST, none).compute()

    def test_what_would_have_to_be_aligned(self, x: np.ndarray) -> None:
        some = chunked(x[:, 0, 0], 7)
        some = some[some > 0.5]
        with pytest.raises(
            kspec.ShapeError,
            match=r"dask_dot: x .*, y .*: one array has chunks .*compute_chunk_sizes",
        ):
            kspec.dask.apply(DOT, some, chunked(np.ones(20), 10))


class TestGraphs:
    def test_nothing_is_computed(self, x: np.ndarray) -> None:
        source = chunked(x, 7, 11, 6).map_blocks(not_computed, meta=np.empty((0, 0, 0)))
        z = kspec.dask.apply(ADD, source, 1.0, source)
        y = kspec.dask.apply(norms.l2norm, z, axis=0)
        mean, _ = kspec.dask.apply(statistics.mean_var, z, 0.0, axis=0)
        for one in (z, y, mean):
            assert type(one._meta) is np.ndarray
            assert one._meta.ndim == one.ndim
            assert one._meta.dtype == one.dtype

    def test_equal_calls_are_the_same_tasks(self, x: np.ndarray) -> None:
        def names(factor: float, axis: int) -> list[str]:
            kernel = kspec.ElementwiseKernel(
                "T x, T y", "T z", f"z = x * y * {factor}", "dask_token"
            )
            source = chunked(x, 7, 11, 6)
            z = kspec.dask.apply(kernel, source, 2.0)
            y = kspec.dask.apply(norms.l2norm, z, axis=axis)
            return [z.name, y.name, *(one.name for one in kspec.dask.apply(BOTH, z, z))]

        assert names(1.0, 0) == names(1.0, 0)
        assert not set(names(1.0, 0)) & set(names(2.0, 0))
        assert names(1.0, 0)[1] != names(1.0, 1)[1]

    def test_tasks_do_not_hold_code(self, x: np.ndarray) -> None:
        y = kspec.dask.apply(norms.l2norm, chunked(x, 7, 11, 6))
        data = pickle.dumps(dict(y.__dask_graph__()))
        assert b"kspec_kernels.norms" in data
        assert b"x * x" not in data and b"fatbin" not in data

    def test_kernels_by_function_and_object(self, x: np.ndarray) -> None:
        source = chunked(x, 7, 11, 6)
        names = {kspec.dask.apply(one, source).name for one in (norms.l2norm, norms._l2norm)}
        assert len(names) == 1


class TestTorch:
    def test_chunks(self, x: np.ndarray) -> None:
        torch = pytest.importorskip("torch")
        source = chunked(x, 7, 11, 6).map_blocks(torch.from_numpy, meta=np.empty((0, 0, 0)))
        z = kspec.dask.apply(ADD, source, 1.0, source)
        block = z.blocks[0, 0, 0].compute()
        assert isinstance(block, torch.Tensor)
        np.testing.assert_array_equal(block.numpy(), 2 * x[:7, :11])
        y = kspec.dask.apply(norms.l2norm, z).compute()
        assert isinstance(y, torch.Tensor)
        np.testing.assert_allclose(y.numpy(), norms.l2norm(2 * x))

    def test_chunks_of_a_type_that_dask_does_not_know(self, x: np.ndarray) -> None:
        torch = pytest.importorskip("torch")
        source = chunked(x, 7, 11, 6).map_blocks(torch.from_numpy)
        with pytest.raises(kspec.ArgumentTypeError, match=r"dtype torch.float\d+; pass meta="):
            kspec.dask.apply(ADD, source, 1.0, source)


@pytest.mark.gpu
class TestCuPy:
    def test_chunks(self, x: np.ndarray) -> None:
        cupy = pytest.importorskip("cupy")
        source = da.from_array(cupy.asarray(x), chunks=(7, 11, 6), asarray=False)
        z = kspec.dask.apply(ADD, source, 1.0, source)
        assert isinstance(z._meta, cupy.ndarray)
        np.testing.assert_array_equal(z.compute().get(), 2 * x)
        for axis in (None, 0, (0, 2)):
            y = kspec.dask.apply(norms.l2norm, z, axis=axis).compute()
            assert isinstance(y, cupy.ndarray)
            np.testing.assert_allclose(y.get(), np.asarray(norms.l2norm(2 * x, axis=axis)))
            mean, _ = kspec.dask.apply(statistics.mean_var, z, 0.0, axis=axis)
            np.testing.assert_allclose(mean.compute().get(), 2 * x.mean(axis))

    def test_raw_arrays(self) -> None:
        cupy = pytest.importorskip("cupy")
        k = da.from_array(cupy.asarray([0, 2, 1, 1]), chunks=3, asarray=False)
        y = kspec.dask.apply(LOOKED_UP, k, cupy.asarray([2.0, 3.0, 5.0]))
        np.testing.assert_array_equal(y.compute().get(), [2, 5, 3, 3])


X = da.ones((6, 4), chunks=3)


@pytest.mark.parametrize(
    ("args", "keywords", "error", "message"),
    [
        ((ADD, 1.0, 2.0, 3.0), {}, TypeError, "dask_add: no argument is a Dask array"),
        ((ADD, np.ones(3), 1.0, 1.0), {}, TypeError, "no argument is a Dask array"),
        ((ADD, X, 1.0), {}, TypeError, "dask_add takes 3 inputs"),
        (
            (ADD, X, X.astype("f4"), X),
            {},
            TypeError,
            "Type is mismatched. dask_add: T is float64 by x",
        ),
        ((ADD, X, "abc", X), {}, TypeError, "argument y must be an array or a number, not str"),
        (
            (ADD, X, None, X),
            {},
            TypeError,
            "dask_add: argument y must be an array or a number, not NoneType",
        ),
        ((ADD, X, 2j, X), {}, TypeError, "dask_add: argument y: cannot pass 2j as float64"),
        (
            (norms.rms_scale, X, None),
            {},
            TypeError,
            "rms_scale: argument eps must be an array or a number, not NoneType",
        ),
        (
            (ADD, X, dask.delayed(2.0), X),
            {},
            TypeError,
            r"dask_add: argument y must be .*Delayed.* of Dask, .* pass the result of its compute\(\)",
        ),
        ((ADD, X, X[:5], X), {}, ValueError, r"dask_add: .* shapes \(6, 4\) \(5, 4\)"),
        ((ADD, X, X, X), {"axis": 0}, TypeError, "dask_add is elementwise: axis, keepdims"),
        ((norms.l2norm, X), {"axis": 2}, ValueError, "axis 2 is out of bounds"),
        ((norms.l2norm, X.astype(">f8")), {}, TypeError, "x: .*not in native byte order"),
        ((norms.l2norm, X.astype("S3")), {}, TypeError, "argument x: Unsupported dtype"),
        ((statistics.mean_var, X, X[0, 0]), {}, TypeError, "ddof is read by the reduce"),
        ((LOOKED_UP, X.astype("i8"), X[0]), {}, TypeError, "table is raw, so every block reads"),
        (
            (statistics.argmax, X),
            {},
            NotImplementedError,
            "argmax .* block by block: its map",
        ),
        (
            (math.add_reverse, X.astype("f4"), np.ones(4, "f4")),
            {},
            NotImplementedError,
            "add_reverse",
        ),
        ((SILENT, X), {}, NotImplementedError, "dask_silent returns nothing"),
        ((np.add, X, X), {}, TypeError, "expected an elementwise or reduction kernel"),
        ((np.sum, X), {}, TypeError, "expected an elementwise or reduction kernel"),
    ],
)
def test_refused(args: Any, keywords: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        kspec.dask.apply(*args, **keywords)
    assert isinstance(caught.value, kspec.KspecError) or "axis 2" in message


def test_masked_arrays() -> None:
    masked = da.ma.masked_greater(X, 0)
    message = r"argument {}: masked arrays are not supported; pass array\.filled"
    for kernel, args, name in (
        (ADD, (masked, 1.0, X), "x"),
        (ADD, (X, 1.0, np.ma.ones(4)), "w"),
        (norms.l2norm, (masked,), "x"),
    ):
        with pytest.raises(kspec.UnsupportedDTypeError, match=message.format(name)):
            kspec.dask.apply(kernel, *args)
    kept = kspec.dask.apply(ADD, da.ma.filled(masked, 2.0), 1.0, X)
    np.testing.assert_array_equal(kept.compute(), np.full((6, 4), 3.0))
    # Dask does not know what blocks are before they are there.
    hidden = X.map_blocks(np.ma.masked_array, meta=np.empty((0, 0)))
    for lazy, message in (
        (kspec.dask.apply(ADD, 1.0, hidden, X), "dask_add: argument y: masked"),
        (kspec.dask.apply(norms.l2norm, hidden, axis=0), "l2norm: argument x: masked"),
    ):
        with pytest.raises(kspec.UnsupportedDTypeError, match=message):
            lazy.compute()


def test_calls_with_dask_arrays_name_this() -> None:
    for call in (lambda: ADD(X, X, X), lambda: norms.l2norm(X), lambda: LOOKED_UP(1, X)):
        with pytest.raises(kspec.ArgumentTypeError, match=r"of Dask; kspec\.dask\.apply\("):
            call()


def test_without_dask() -> None:
    code = """
import sys
sys.modules["dask"] = None
import kspec
try:
    import kspec.dask
except kspec.ToolNotFoundError as error:
    print(error)
"""
    said = run_python(code, ROOT)
    assert "kspec.dask needs Dask's arrays" in said and "pip install 'kspec[dask]'" in said


class TestStructs:
    def test_blocks_of_structs(self) -> None:
        point = np.dtype([("x", "f8"), ("y", "f8")])
        kernel = kspec.ReductionKernel(
            "P p", "float64 d", "p.x * p.x + p.y * p.y", "a + b", "d = sqrt(a)", "0", "dask_points"
        )
        values = np.random.default_rng(0).random((20, 2)).view(point).ravel()
        got = kspec.dask.apply(kernel, chunked(values, 7)).compute()
        np.testing.assert_allclose(got, np.sqrt((values["x"] ** 2 + values["y"] ** 2).sum()))
