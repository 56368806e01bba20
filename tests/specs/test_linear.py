"""Small linear algebra against NumPy's and SciPy's: pivots, singular matrices, layouts, batches."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.specs.test_shipped import kernel

TOLERANCE = {"float32": 2e-6, "float64": 1e-13}


def normal(*shape: int, dtype: str = "float64", seed: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def solved(A: np.ndarray, b: np.ndarray) -> np.ndarray:
    wide = np.linalg.solve(A.astype("float64"), b.astype("float64")[..., None])
    return np.asarray(wide[..., 0])


def check_residual(A: np.ndarray, x: np.ndarray, b: np.ndarray) -> None:
    """Compare as is usual for elimination: relative to the size of the matrix and the solution."""
    residual = np.abs((A @ x[..., None])[..., 0] - b).max(-1)
    size = np.abs(A).sum(-1).max(-1) * np.abs(x).max(-1) + np.abs(b).max(-1)
    assert (residual <= TOLERANCE[x.dtype.name] * size).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_random_systems(n: int, dtype: str, place: ArrayDevice) -> None:
    A, b = normal(500, n, n, dtype=dtype), normal(500, n, dtype=dtype, seed=6)
    x = place.numpy(kernel("solve")(place.array(A), place.array(b)))
    assert x.dtype == dtype
    check_residual(A, x, b)


def test_pivots_are_looked_for(place: ArrayDevice) -> None:
    """Every order of rows, with zeros on the diagonal, and with pivots that are tiny."""
    orders = np.array(list(itertools.permutations(range(4))))
    A = np.eye(4)[orders] * [1, 2, 4, 8]
    b = normal(len(orders), 4)
    x = place.numpy(kernel("solve")(place.array(A), place.array(b)))
    np.testing.assert_array_equal(x, solved(A, b))
    tiny = np.array([[1e-20, 1.0], [1.0, 1.0]])
    x = place.numpy(kernel("solve")(place.array(tiny), place.array(np.array([1.0, 2.0]))))
    np.testing.assert_allclose(x, [1, 1], rtol=1e-15)


def test_singular_matrices_are_not_finite(place: ArrayDevice) -> None:
    A = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.eye(3)])
    x = place.numpy(kernel("solve")(place.array(A), place.array(np.ones(3))))
    assert not np.isfinite(x[:2]).any(axis=-1).all()
    np.testing.assert_array_equal(x[2], [1, 1, 1])


@pytest.mark.parametrize("view", [np.s_[...], np.s_[::-1, ::2], np.s_[:, 1:, ::-1, ::-1]])
def test_layouts_and_broadcasting(view: Any, place: ArrayDevice) -> None:
    A = (normal(6, 1, 3, 3) + 4 * np.eye(3)).transpose(1, 0, 3, 2)
    b = normal(5, 1, 3)
    x = place.numpy(kernel("solve")(place.array(A)[view], place.array(b)))
    np.testing.assert_allclose(x, solved(A[view], b), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_products(n: int, place: ArrayDevice) -> None:
    A, B = normal(4, 1, n, n), normal(9, n, n, seed=6)
    C = place.numpy(kernel("small_matmul")(place.array(A), place.array(B)))
    np.testing.assert_allclose(C, A @ B, rtol=1e-12, atol=1e-13)


def test_rotations_are_those_of_scipy(place: ArrayDevice) -> None:
    transform = pytest.importorskip("scipy.spatial.transform")
    q, v = normal(50, 4), normal(50, 3, seed=6)
    q /= np.linalg.norm(q, axis=-1, keepdims=True)
    w = place.numpy(kernel("quaternion_rotate")(place.array(q), place.array(v)))
    np.testing.assert_allclose(w, transform.Rotation.from_quat(q).apply(v), atol=1e-14)
    one = place.numpy(kernel("quaternion_rotate")(place.array(q[0]), place.array(v)))
    np.testing.assert_allclose(one, transform.Rotation.from_quat(q[0]).apply(v), atol=1e-14)
