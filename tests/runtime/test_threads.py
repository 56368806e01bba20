"""One kernel object called from several threads at once, and from a forked process."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

DOUBLE = kspec.ElementwiseKernel("T x", "T y", "y = x + x", "double_of")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_of")
DTYPES = ["float32", "float64", "int8", "int32", "int64", "uint16"]


def test_first_calls_race(place: ArrayDevice) -> None:
    def work(dtype: str) -> bool:
        x = np.arange(100).astype(dtype)
        sizes = [place.numpy(TOTAL(place.array(x[:12]))) for _ in range(20)]
        doubles = [place.numpy(DOUBLE(place.array(x[:50]))) for _ in range(20)]
        return all(size == 66 for size in sizes) and all(
            np.array_equal(double, 2 * x[:50]) for double in doubles
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, DTYPES * 4))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # Python 3.12: we know
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on() -> None:
    # More elements than one thread takes, so that the pool is awake in the parent.
    x = np.ones(200_000)
    assert DOUBLE(x).sum() == 400_000
    child = os.fork()
    if child == 0:
        os._exit(0 if DOUBLE(x).sum() == 400_000 else 1)
    assert os.waitpid(child, 0)[1] == 0
