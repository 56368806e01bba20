"""Core dimensions on Dask arrays: blocks are of the loop, and have whole items."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec

da = pytest.importorskip("dask.array")

import dask  # noqa: E402

import kspec.dask  # noqa: E402
from tests.core.programs import (  # noqa: E402
    DISTANCE,
    FIRSTS,
    GAUSS,
    MATVEC,
    POWERS,
    PRODUCT,
    SOLVE,
    distance,
    firsts,
    gauss,
    matrices,
    matvec,
    powers,
    solve,
    values,
)


@pytest.fixture(autouse=True)
def scheduler() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize(
    ("A", "b", "chunks"),
    [
        ((6, 3, 3), (6, 3), ((2, 2, 2), (3,))),
        ((6, 3, 3), (5, 1, 3), ((2, 3), (4, 2), (3,))),
        ((3, 3), (7, 3), ((4, 3), (3,))),
        ((6, 1, 1), (6, 1), ((5, 1), (1,))),
        ((2, 0, 3, 3), (3,), ((1, 1), (0,), (3,))),
    ],
)
def test_equals_one_call(A: Any, b: Any, chunks: Any) -> None:
    matrix, vector = matrices(*A), values(*b, seed=1)
    pieces = []
    for array, core in ((matrix, 2), (vector, 1)):
        loop = array.ndim - core
        own = chunks[len(chunks) - 1 - loop : -1]
        own = tuple(one if k > 1 else 1 for one, k in zip(own, array.shape, strict=False))
        pieces.append(da.from_array(array, chunks=(*own, *array.shape[loop:])))
    x = kspec.dask.apply(SOLVE, *pieces)
    expected = SOLVE(matrix, vector)
    assert (x.shape, x.dtype, x.chunks) == (expected.shape, expected.dtype, chunks)
    np.testing.assert_array_equal(x.compute(), expected)
    np.testing.assert_allclose(expected, solve(matrix, vector))


def test_mixed_arguments() -> None:
    """Arrays of NumPy are not divided, and the loops broadcast."""
    x, y, b = values(40, 1, 5), values(30, 5, seed=1), values(30, seed=2)
    expected = distance(x, y, b)
    r = kspec.dask.apply(DISTANCE, da.from_array(x, chunks=(7, 1, 5)), y, da.from_array(b, 11))
    assert r.chunks == ((7, 7, 7, 7, 7, 5), (11, 11, 8))
    np.testing.assert_allclose(r.compute(), expected)
    r = kspec.dask.apply(DISTANCE, x, da.from_array(y, chunks=(30, 5)), 2.0)
    np.testing.assert_allclose(r.compute(), distance(x, y, 2.0))


@pytest.mark.parametrize("sizes", [{}, {"n": 4}, {"n": 0}])
def test_outputs_with_other_core_dimensions(sizes: Any) -> None:
    x, v = values(9), values(9, 3, seed=1)
    found = kspec.dask.apply(POWERS, da.from_array(x, 4), da.from_array(v, (4, 3)), **sizes)
    rows = sizes.get("n", 2)
    assert [one.chunks for one in found] == [((4, 4, 1), (rows,), (3,)), ((4, 4, 1),)]
    for one, expected in zip(found, powers(x, v, rows), strict=True):
        assert type(one._meta) is np.ndarray
        assert (one._meta.ndim, one._meta.dtype) == (one.ndim, one.dtype)
        np.testing.assert_allclose(one.compute(), expected)


def test_extents_that_follow_from_others() -> None:
    a, b = values(6, 3), values(6, 4, seed=1)
    c = kspec.dask.apply(PRODUCT, da.from_array(a, (4, 3)), da.from_array(b, (4, 4)))
    assert c.shape == (6, 6)
    expected = [np.convolve(*pair) for pair in zip(a, b, strict=True)]
    np.testing.assert_allclose(c.compute(), expected)


def test_before_and_behind() -> None:
    """Blocks come from other tasks, go to others, and one has no axes but the core dimensions."""
    A, x = values(6, 3, 4), values(6, 4, seed=1)
    source = da.from_array(A, chunks=(4, 3, 4)) * 2
    y = kspec.dask.apply(MATVEC, source, da.from_array(x, chunks=(2, 4)) + 1)
    np.testing.assert_allclose((y.sum(-1) - 1).compute(), matvec(2 * A, x + 1).sum(-1) - 1)
    y = kspec.dask.apply(MATVEC, source[0], da.from_array(x[0], chunks=4))
    np.testing.assert_allclose(y.compute(), matvec(2 * A[0], x[0]))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1), ()])
def test_reductions(axis: Any, keepdims: bool) -> None:
    x, y, b = values(7, 1, 3), values(1, 8, 3, seed=1), values(8, seed=2)
    expected = gauss(x, y, b, axis, keepdims)
    r = kspec.dask.apply(
        *(GAUSS, da.from_array(x, (2, 1, 3)), da.from_array(y, (1, 3, 3)), b),
        axis=axis,
        keepdims=keepdims,
    )
    assert r.shape == expected.shape
    np.testing.assert_allclose(r.compute(), expected)
    with pytest.raises(kspec.ShapeError, match="core_gauss: x has 2 chunks along axis 2"):
        kspec.dask.apply(GAUSS, da.from_array(x, (7, 1, 2)), y, b, axis=axis)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1), ()])
def test_reductions_to_vectors(axis: Any, keepdims: bool) -> None:
    x = np.round(8 * values(7, 5, 3))
    expected = firsts(x, axis, keepdims)
    r = kspec.dask.apply(FIRSTS, da.from_array(x, (2, 3, 3)), axis=axis, keepdims=keepdims)
    assert (r.shape, r.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(r.compute(), expected)
    np.testing.assert_array_equal((r + 1)[..., 1].compute(), expected[..., 1] + 1)


def test_unknown_sizes() -> None:
    A, x = values(12, 3, 4), values(12, 4, seed=1)
    lazy, vectors = da.from_array(A, (5, 3, 4)), da.from_array(x, (5, 4))
    wanted = lazy[:, 0, 0] > 0.3
    y = kspec.dask.apply(MATVEC, lazy[wanted], vectors[wanted])
    assert np.isnan(y.shape[0]) and y.shape[1] == 3
    kept = A[:, 0, 0] > 0.3
    np.testing.assert_allclose(y.compute(), matvec(A[kept], x[kept]))


def test_nothing_is_computed_and_equal_calls_are_the_same_tasks() -> None:
    def not_computed(block: Any) -> Any:
        raise AssertionError("computed")

    A = da.ones((6, 3, 3), chunks=(2, 3, 3)).map_blocks(not_computed, meta=np.empty((0, 0, 0)))
    names = {kspec.dask.apply(SOLVE, A, values(3)).name for _ in range(2)}
    assert len(names) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda A, x: (A.rechunk({2: 2}), x),
            r"core_apply: A has 2 chunks along axis 2, its core dimension m; a block needs whole "
            r"items: A.rechunk\({2: -1}\)",
        ),
        (
            lambda A, x: (A.rechunk(1), x),
            r"along axis 1, its core dimension n; .* A.rechunk\({1: -1, 2: -1}\)",
        ),
        (
            lambda A, x: (A, x[:, x[0] > 0.5]),
            "core_apply: x has an unknown extent along axis 1, its core dimension m; call compute_",
        ),
        (
            lambda A, x: (A[0, 0], x),
            "argument A does not have enough dimensions",
        ),
        (
            lambda A, x: (A, x[:, :3]),
            r"x has a mismatch in its core dimension 0, with signature \(n,m\),\(m\)->\(n\)",
        ),
        (
            lambda A, x: (A[:4], x),
            r"core_apply: operands could not be broadcast together with shapes \(4,\) \(6,\)",
        ),
    ],
)
def test_refused(call: Any, message: str) -> None:
    A, x = da.from_array(values(6, 3, 4), (4, 3, 4)), da.from_array(values(6, 4), (4, 4))
    with pytest.raises(kspec.ShapeError, match=message):
        kspec.dask.apply(MATVEC, *call(A, x))


def test_chunks_of_torch() -> None:
    torch = pytest.importorskip("torch")
    A = da.from_array(values(6, 3, 4), (4, 3, 4)).map_blocks(
        torch.from_numpy, meta=np.empty((0, 0, 0))
    )
    x = da.from_array(values(4), 4).map_blocks(torch.from_numpy, meta=np.empty(0))
    block = kspec.dask.apply(MATVEC, A, x).blocks[0].compute()
    assert isinstance(block, torch.Tensor)
    np.testing.assert_allclose(block.numpy(), matvec(values(6, 3, 4)[:4], values(4)))
