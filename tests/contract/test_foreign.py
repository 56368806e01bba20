"""Kernels in the shapes that other people write: as NumPy says, and as CuPy does it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.contract.foreign import KERNELS, Foreign, Library

PLACES = [
    pytest.param(Library("kspec", "numpy"), id="host"),
    pytest.param(Library("kspec", "cupy"), id="cuda", marks=pytest.mark.gpu),
]


def same(found: list[np.ndarray], expected: list[np.ndarray], tolerance: float) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind in "fc":
            finite = np.abs(other[np.isfinite(other)])
            largest = float(finite.max()) if finite.size else 0.0
            np.testing.assert_allclose(one, other, tolerance, tolerance * largest)
        else:
            np.testing.assert_array_equal(one, other)


def test_there_are_sixty_of_them() -> None:
    assert len({kernel.name for kernel in KERNELS}) == len(KERNELS) >= 60


@pytest.mark.parametrize("library", PLACES)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_results_are_those_of_numpy(kernel: Foreign, library: Library) -> None:
    if library.arrays == "cupy":
        pytest.importorskip("cupy")
    same(kernel.run(library), kernel.expected(), kernel.tolerance)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_results_are_those_of_cupy(kernel: Foreign) -> None:
    pytest.importorskip("cupy")
    own, theirs = (kernel.run(Library(name, "cupy")) for name in ("kspec", "cupy"))
    same(own, theirs, kernel.tolerance)
