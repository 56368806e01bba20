"""Core dimensions on shards: these are divided along axes of the loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec import sharded
from tests.core.programs import (
    DISTANCE,
    FIRSTS,
    GAUSS,
    MATVEC,
    POWERS,
    SOLVE,
    distance,
    firsts,
    gauss,
    matrices,
    powers,
    solve,
    values,
)
from tests.test_sharded import PLACES, Shards, present


@pytest.fixture(params=PLACES, ids=repr)
def shards(request: pytest.FixtureRequest) -> Shards:
    return present(request.param)


def whole(shards: Shards, pieces: Any, along: int = 0) -> Any:
    return np.concatenate([shards.numpy(one) for one in pieces], axis=along)


def copies(shards: Shards, array: Any) -> list[Any]:
    return [shards.array(array, where) for where in shards.ordinals]


def test_items(shards: Shards) -> None:
    A, b = matrices(17, 3, 3), values(17, 3, seed=1)
    x = sharded.apply(SOLVE, shards.scatter(A), shards.scatter(b))
    assert [shards.ordinal(one) for one in x] == list(shards.ordinals)
    np.testing.assert_allclose(whole(shards, x), solve(A, b))
    x = sharded.apply(SOLVE, shards.scatter(A), copies(shards, b[0]))
    np.testing.assert_allclose(whole(shards, x), solve(A, b[0]))


@pytest.mark.parametrize("along", [0, 1, -1, -2])
def test_axes_of_the_loop(shards: Shards, along: int) -> None:
    x, y = values(8, 1, 5), values(7, 5, seed=1)
    divided = along % 2
    arguments = copies(shards, x), shards.scatter(y)
    if divided == 0:
        arguments = shards.scatter(x), copies(shards, y)
    r = sharded.apply(DISTANCE, *arguments, 0.5, along=along)
    np.testing.assert_allclose(whole(shards, r, divided), distance(x, y, 0.5))


@pytest.mark.parametrize("axis", [None, 0, 1, -1, (0, 1)])
@pytest.mark.parametrize("along", [0, 1, -1])
def test_reductions(shards: Shards, along: int, axis: Any) -> None:
    x, y, b = values(7, 1, 3), values(1, 8, 3, seed=1), values(8, seed=2)
    divided = along % 2
    arguments = copies(shards, x), shards.scatter(y, 1), shards.scatter(b)
    if divided == 0:
        arguments = shards.scatter(x), copies(shards, y), copies(shards, b)
    r = sharded.apply(GAUSS, *arguments, along=along, axis=axis)
    found = whole(shards, r) if isinstance(r, list) else shards.numpy(r)
    np.testing.assert_allclose(found, gauss(x, y, b, axis))


@pytest.mark.parametrize("axis", [None, 0, -1])
def test_reductions_to_vectors(shards: Shards, axis: Any) -> None:
    x = np.round(8 * values(7, 5, 3))
    r = sharded.apply(FIRSTS, shards.scatter(x), axis=axis)
    found = whole(shards, r) if isinstance(r, list) else shards.numpy(r)
    np.testing.assert_array_equal(found, firsts(x, axis))


@pytest.mark.parametrize("sizes", [{}, {"n": 4}])
def test_outputs_with_other_core_dimensions(shards: Shards, sizes: Any) -> None:
    x, v = values(9), values(9, 3, seed=1)
    found = sharded.apply(POWERS, shards.scatter(x), shards.scatter(v), **sizes)
    for one, expected in zip(found, powers(x, v, sizes.get("n", 2)), strict=True):
        np.testing.assert_allclose(whole(shards, one), expected)


def host(array: Any, along: int = 0) -> Any:
    return sharded.scatter(array, ["host", "host"], along)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda A, x: (host(A, 2), host(x, 1)),
            r"core_apply: A has core dimensions \(3, 3\) in shard 0, and \(3, 2\) in shard 1; "
            "divide the array along an axis of the loop",
        ),
        (
            lambda A, x: (host(A[0], 0), [x[0]] * 2),
            "core_apply: shards are divided along axis 0, and the loop over items has 0 dim",
        ),
        (
            lambda A, x: (host(A), [x[0, :4]] * 2),
            "argument x has a mismatch in its core dimension 0",
        ),
    ],
)
def test_refused(call: Any, message: str) -> None:
    arguments = call(values(6, 3, 5), values(6, 5))
    with pytest.raises(kspec.ShapeError, match=message):
        sharded.apply(MATVEC, *arguments)


def test_core_dimensions_are_not_divided() -> None:
    A, x = values(6, 3, 5), values(5)
    with pytest.raises(kspec.ShapeError, match=r"along axis 1, and the loop .* 1 dimension;"):
        sharded.apply(MATVEC, host(A), [x] * 2, along=1)
