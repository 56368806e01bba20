"""csr_product against SciPy's sparse matrices: empty rows, long rows, matrices without elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.specs.test_shipped import kernel

sparse = pytest.importorskip("scipy.sparse")

TOLERANCE = {"float32": 2e-6, "float64": 1e-14}


def product(place: ArrayDevice, matrix: Any, x: np.ndarray) -> np.ndarray:
    arrays = (matrix.data, matrix.indices.astype("int32"), x, matrix.indptr)
    return place.numpy(kernel("csr_product").segments(*map(place.array, arrays)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "columns", "density"),
    [(300, 200, 0.1), (2000, 50, 0.005), (1, 5000, 0.5), (40, 1, 1.0), (7, 9, 0.0)],
)
def test_matrices(rows: int, columns: int, density: float, dtype: str, place: ArrayDevice) -> None:
    matrix = sparse.random(rows, columns, density, "csr", dtype, random_state=2)
    x = np.random.default_rng(3).normal(size=columns).astype(dtype)
    found = product(place, matrix, x)
    assert (found.shape, found.dtype) == ((rows,), dtype)
    wide = matrix.astype("float64")
    scale = (abs(wide) @ np.abs(x)).max(initial=0)
    np.testing.assert_allclose(found, wide @ x, rtol=0, atol=TOLERANCE[dtype] * scale)


@pytest.mark.parametrize("bounds", ["int32", "int64"])
def test_empty_rows_are_zero(bounds: str, place: ArrayDevice) -> None:
    matrix = sparse.csr_matrix(np.array([[0, 0, 0], [1, 0, 2], [0, 0, 0], [0, 3, 0], [0, 0, 0]]))
    matrix = matrix.astype("float64")
    matrix.indptr = matrix.indptr.astype(bounds)
    found = product(place, matrix, np.array([10.0, 100.0, 1000.0]))
    np.testing.assert_array_equal(found, [0, 2010, 0, 300, 0])


def test_one_long_row_among_short_ones(place: ArrayDevice) -> None:
    lengths = np.ones(500, "int64")
    lengths[250] = 20_000
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    column = np.arange(bounds[-1]) % 25_000
    data = np.arange(bounds[-1]) % 7 - 3.0
    matrix = sparse.csr_matrix((data, column, bounds), shape=(500, 25_000))
    x = np.arange(25_000.0) % 11 - 5
    np.testing.assert_array_equal(product(place, matrix, x), matrix @ x)


def test_rows_of_equally_many_elements(place: ArrayDevice) -> None:
    random = np.random.default_rng(4)
    value, x = random.normal(size=(50, 6)), random.normal(size=90)
    column = random.integers(0, 90, (50, 6)).astype("int32")
    found = kernel("csr_product")(*map(place.array, (value, column, x)), axis=1)
    np.testing.assert_allclose(place.numpy(found), (value * x[column]).sum(axis=1), rtol=1e-12)
