"""Reductions across shards that come again: the same results, without the checks."""

from __future__ import annotations

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import sharded
from kspec.runtime.kernels.partial_reduction import SplitReduction
from tests.test_sharded import MOMENTS, PLACES, Shards, present

CALLS = 5


@pytest.fixture(params=PLACES, ids=repr)
def shards(request: pytest.FixtureRequest) -> Shards:
    return present(request.param)


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a living list with an element for each shard that was prepared."""
    seen: list[int] = []
    real = SplitReduction.prepare_partial

    def spy(self: Any, *args: Any) -> Any:
        seen.append(1)
        return real(self, *args)

    monkeypatch.setattr(SplitReduction, "prepare_partial", spy)
    return seen


def norm(name: str) -> Any:
    """Return a kernel that nothing is known about yet."""
    return kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", name)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
def test_results(shards: Shards, prepared: list[int], axis: Any, keepdims: bool) -> None:
    kernel = norm(f"again_{keepdims}_{axis if axis in (None, 0) else 'two'}_{shards.name}")
    random = np.random.default_rng(0)
    kept = []
    for _ in range(CALLS):
        x = random.random((24, 30, 9))
        got = sharded.apply(kernel, shards.scatter(x), axis=axis, keepdims=keepdims)
        kept.append((got, np.sqrt((x * x).sum(axis, keepdims=keepdims))))
    for got, expected in kept:  # of different memory
        assert shards.numpy(got).shape == expected.shape
        np.testing.assert_allclose(shards.numpy(got), expected, rtol=1e-12)
    assert len(prepared) == 2 * len(shards.ordinals)  # in full, and to make the plan


def test_scalars_and_several_outputs(shards: Shards) -> None:
    x = np.random.default_rng(1).random((60, 50))
    pieces = shards.scatter(x)
    for number in range(CALLS):
        scale = 0.5 * number
        mean, count = sharded.apply(MOMENTS, pieces, scale, axis=0)
        np.testing.assert_allclose(shards.numpy(mean), scale * x.mean(0), rtol=1e-12)
        assert (shards.numpy(count) == 60).all()


def test_large_shards(shards: Shards) -> None:
    """Blocks of one shard meet in memory, which the plan has."""
    kernel, random = norm("again_large"), np.random.default_rng(2)
    for _ in range(CALLS):
        x = random.random((2_000_001,), "float32")
        got = sharded.apply(kernel, shards.scatter(x))
        np.testing.assert_allclose(shards.numpy(got), np.linalg.norm(x), rtol=1e-5)


def test_kinds_of_calls(prepared: list[int]) -> None:
    kernel = norm("again_kinds")
    for _ in range(3):
        for dtype in "float32", "float64":
            for shape in (6, 4), (4, 6), (24,):
                x = np.random.default_rng(3).random((2, *shape)).astype(dtype)
                got = sharded.apply(kernel, list(x))
                assert got.dtype == dtype
                np.testing.assert_allclose(got, np.linalg.norm(x.ravel()), rtol=1e-6)
        x = np.random.default_rng(4).random((2, 6, 4))
        got = sharded.apply(kernel, [one.T for one in x], axis=0)
        np.testing.assert_allclose(got, np.linalg.norm(x.transpose(0, 2, 1).reshape(8, 6), axis=0))
    assert len(prepared) == 2 * 2 * 7


def test_many_outputs_are_checked_each_time(prepared: list[int]) -> None:
    kernel, x = norm("again_many"), np.ones((2, 3, 100_000))
    for _ in range(CALLS):
        np.testing.assert_array_equal(
            sharded.apply(kernel, list(x), axis=0), np.full(100_000, np.sqrt(6))
        )
    (kind,) = sharded._repeated(kernel).kinds.plans.values()
    assert kind.is_hopeless and not kind.free  # they would be kept
    assert len(prepared) == 2 * (CALLS + 1)


def test_empty_shards() -> None:
    kernel = norm("again_empty")
    for _ in range(CALLS):
        assert sharded.apply(kernel, [np.ones(4), np.ones(0)]) == 2


def test_errors_are_those_of_the_first_call() -> None:
    kernel = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "again_wrong")
    x, narrow = np.ones(3), np.ones(3, "float32")
    for _ in range(CALLS):
        with pytest.raises(kspec.ArgumentTypeError, match="Type is mismatched") as caught:
            sharded.apply(kernel, [x, x], [x, narrow])
        assert caught.value.__notes__ == ["in shard 1"]
        with pytest.raises(kspec.UnsupportedDTypeError, match="masked"):
            sharded.apply(kernel, [np.ma.masked_less(x, 0), x], [x, x])


def test_inputs_are_not_kept() -> None:
    kernel = norm("again_dropped")
    for _ in range(CALLS):
        x = [np.ones(100), np.ones(100)]
        sharded.apply(kernel, x)
        watched = weakref.ref(x[0])
        del x
        gc.collect()
        assert watched() is None


def test_checks_are_made_when_they_are_asked_for(prepared: list[int]) -> None:
    kernel, x = norm("again_checked"), [np.ones(100), np.ones(100)]
    for _ in range(3):
        sharded.apply(kernel, x)
    before = len(prepared)
    with kspec.checking(sanitize="memory"):
        assert sharded.apply(kernel, x) == np.sqrt(200)
    assert len(prepared) == before + 2
    sharded.apply(kernel, x)
    assert len(prepared) == before + 2


@pytest.mark.threads
def test_threads(shards: Shards) -> None:
    """Each call has the partials of a plan for itself."""
    kernel, start = norm("again_threads"), threading.Barrier(6)

    def run(number: int) -> None:
        x = np.full((40, 300), float(number))
        pieces = shards.scatter(x)
        start.wait()
        for _ in range(30):
            got = shards.numpy(sharded.apply(kernel, pieces, axis=0))
            np.testing.assert_allclose(got, np.full(300, number * np.sqrt(40)), rtol=1e-12)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(run, range(6)))


def test_scalars_that_do_not_fit(prepared: list[int]) -> None:
    kernel = kspec.ReductionKernel(
        "T x, int32 s", "T y", "x", "a + b", "y = a * s", "0", "again_scalar"
    )
    x = [np.ones(10), np.ones(10)]
    for value in 2, 3, 2**40, 4, 2**40, 5:
        if value < 2**31:
            assert sharded.apply(kernel, x, value) == 20 * value
            continue
        with pytest.raises(OverflowError) as caught:
            sharded.apply(kernel, x, value)
        assert caught.value.__notes__ == ["in shard 0"]
    assert len(prepared) == 2 * 2 + 1 + 1  # the plan is used before and after


def test_objects_that_make_arrays(prepared: list[int]) -> None:
    class Convertible:
        shape = (1000,)

        def __cupy_get_ndarray__(self) -> Any:
            return np.full(1000, 2.0)

    kernel = norm("again_convertible")
    for _ in range(CALLS):
        assert sharded.apply(kernel, [Convertible(), Convertible()]) == np.sqrt(8000)
    assert len(prepared) == 2 * CALLS  # no memory that stays


def test_two_libraries() -> None:
    kernel = kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "again_two")
    x, y = np.arange(6.0), kspec.asarray(np.arange(6.0), device="host")
    for _ in range(CALLS):
        got = sharded.apply(kernel, [x, x], [y, y])
        assert isinstance(got, np.ndarray) and got == 110
