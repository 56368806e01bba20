"""The GPU's code for reductions by key, run on the CPU: few keys and many, in any order and sorted.

As in `tests.forms.test_cuda_tiles`, blocks of whole warps run on the host device.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kspec
from kspec import sharded
from kspec.runtime.driver.device import Gpu
from kspec.runtime.schedules import key_schedule
from kspec.runtime.schedules.key_schedule import Joined, Keyed, KeySchedule, choose_keys
from tests.forms.kernels import (
    MAX,
    MEAN,
    MODELS,
    OF_SEGMENT,
    PLUS_TEN,
    SCALED,
    SUM,
    WEIGHTED,
)
from tests.forms.reference import integers, numbers, sums_by_key
from tests.forms.test_cuda_tiles import anew

CELLS, RUNS, BINS = "kspec::KeyCells<8>", "kspec::KeyRuns<8>", "kspec::KeyBins<8>"
SORTED, GROUPS = "kspec::KeySorted<8>", "kspec::KeyGroups<8>"
_ROOM = 120_000  # bytes of shared memory of a block
# Those that differ in how accumulators are updated, or in what they read of the loop.
KEYED = ("sum", "mean", "max", "matrices", "argmax", "permutations", "wide")
ATOMIC = ("sum", "mean", "max")
COMMUTATIVE = ("sum", "mean", "max", "argmax", "welford")


@pytest.fixture(autouse=True)
def schedules(gpu_code: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[KeySchedule]]:
    """Compile and schedule as for a GPU of two multiprocessors; yields the schedules."""
    made: list[KeySchedule] = []

    def chosen(keyed: Keyed, how: Joined, size: Any, gpu: None, **keywords: Any) -> KeySchedule:
        made.append(choose_keys(keyed, how, size, Gpu(2, _ROOM), **keywords))
        return made[-1]

    monkeypatch.setenv("KSPEC_HOST_THREADS", "1")
    monkeypatch.setattr(key_schedule, "choose_keys", chosen)
    yield made
    assert made


@pytest.fixture(params=["bins", "few", "groups", "some", "many"])
def memory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Take shared memory of threads or warps, or, as if there were too many keys, of the device.

    Numbers in any order take that of blocks with groups, with some only for some of the keys.
    """
    if request.param != "bins":
        monkeypatch.setattr(key_schedule, "_FEWEST", 1024)
    if request.param in ("groups", "some", "many"):
        monkeypatch.setattr(key_schedule, "_SHARED", 0)
    if request.param == "some":
        monkeypatch.setattr(key_schedule, "_STATIC", _ROOM - 30)
    if request.param == "many":
        monkeypatch.setattr(key_schedule, "_DENSE", float("inf"))
    if request.param == "groups":
        monkeypatch.setattr(key_schedule, "_FEWEST_GROUPED", 0)
    return str(request.param)


def keys_of(length: int, n: int, seed: int = 0) -> Any:
    """Return keys, some of which are out of range."""
    return np.random.default_rng(seed).integers(-2, n + 2, length)


class TestInOrder:
    @pytest.mark.parametrize("name", KEYED)
    def test_every_kernel(self, name: str, memory: str, schedules: list[KeySchedule]) -> None:
        model = MODELS[name]
        kernel = anew(model.kernel)
        for shape, n in [((1,), 1), ((700,), 5), ((9000,), 40), ((300, 3), 7), ((90, 40), 3)]:
            inputs, keys = model.draw(*shape), keys_of(shape[0], n)
            found = kernel.by_key(*inputs, keys, n)
            model.check(found, model.by_key(inputs, keys, n), f"{shape} {n}")
            if memory == "bins" and name in ATOMIC and len(shape) == 1:
                wanted = {BINS}
            elif name == "max":
                wanted = {CELLS}
            elif memory in ("some", "many"):
                wanted = {SORTED}
            elif memory == "groups":  # of one column and narrow accumulators
                wanted = {GROUPS, SORTED}
            else:  # there is no room for some dozens of wide accumulators
                wanted = {RUNS, SORTED} if name == "wide" else {RUNS}
            assert schedules[-1].layout in wanted

    def test_one_key(self, memory: str) -> None:
        kernel, model = anew(MODELS["matrices"].kernel), MODELS["matrices"]
        for shape in [(9001,), (1000, 3)]:
            inputs, keys = model.draw(*shape), np.full(shape[0], 4)
            model.check(kernel.by_key(*inputs, keys, 6), model.by_key(inputs, keys, 6))
        total, x = anew(SUM), integers(9001, dtype="float32")
        np.testing.assert_array_equal(total.by_key(x, keys_of(9001, 1) * 0, 1), [x.sum()])

    def test_several_chunks_and_passes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(key_schedule, "_SHARED", 0)
        monkeypatch.setattr(key_schedule, "_CHUNK", 4096)
        kernel, model = anew(MODELS["matrices"].kernel), MODELS["matrices"]
        for shape, n in [((9001,), 70_000), ((9001,), 3), ((4096,), 300), ((4097, 2), 300)]:
            inputs, keys = model.draw(*shape), keys_of(shape[0], n)
            keys[: shape[0] // 3] %= 50
            model.check(kernel.by_key(*inputs, keys, n), model.by_key(inputs, keys, n))

    def test_equal_calls_give_equal_bits(self, memory: str, schedules: list[KeySchedule]) -> None:
        x = np.random.default_rng(0).normal(size=20_000).astype("float32")
        keys, kernel = keys_of(20_000, 90), anew(SUM)
        first = kernel.by_key(x, keys, 90)
        np.testing.assert_allclose(first, sums_by_key(x.astype("float64"), keys, 90), rtol=1e-3)
        assert kernel.by_key(x, keys, 90).tobytes() == first.tobytes()
        assert schedules[-1].layout == {"bins": BINS, "few": RUNS, "groups": GROUPS}.get(
            memory, SORTED
        )


class TestGroups:
    """Rows of a group are in several tiles, stretches, ranges and chunks."""

    @pytest.fixture(autouse=True)
    def groups(
        self, monkeypatch: pytest.MonkeyPatch, schedules: list[KeySchedule]
    ) -> Iterator[None]:
        monkeypatch.setattr(key_schedule, "_SHARED", 0)
        monkeypatch.setattr(key_schedule, "_FEWEST_GROUPED", 0)
        monkeypatch.setattr(key_schedule, "_GROUPED_CHUNK", 80_000)
        yield
        assert {one.layout for one in schedules} == {GROUPS}

    @pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
    @pytest.mark.parametrize("spread", [1, 700, 3000])
    def test_sums(self, dtype: str, spread: int) -> None:
        """Sums of whole numbers are exact; `spread` of all keys have most rows."""
        x, keys = numbers(dtype, 100_003), keys_of(100_003, 3000)
        keys[1000:90_000] %= spread
        kernel = kspec.ReductionKernel("T x", "T y", "x", "b + a", "y = a", "0", "key_total")
        np.testing.assert_array_equal(kernel.by_key(x, keys, 3000), sums_by_key(x, keys, 3000))

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_the_order(self, dtype: str) -> None:
        """The last element of each key, which any other order would miss."""
        kernel = kspec.ReductionKernel("T x", "T y", "x", "b", "y = a", "-1", "key_last")
        keys, x = np.random.default_rng(3).integers(0, 2000, 100_003), np.arange(100_003.0)
        wanted = np.full(2000, -1.0)
        wanted[keys] = x  # NumPy keeps the last, too
        found = kernel.by_key(x.astype(dtype), keys, 2000)
        np.testing.assert_array_equal(found, wanted)

    def test_most_keys(self, schedules: list[KeySchedule], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(key_schedule, "_SOME", 0)
        x, n = np.ones(2000, "float32"), 1024 * 1024 - 1
        keys = np.append(np.arange(1999) * 524, n - 1)
        found = anew(SUM).by_key(x, keys, n)
        np.testing.assert_array_equal(np.flatnonzero(found), keys)


class TestInAnyOrder:
    @pytest.mark.parametrize("name", COMMUTATIVE)
    def test_every_kernel(self, name: str, memory: str, schedules: list[KeySchedule]) -> None:
        model = MODELS[name]
        kernel = anew(model.kernel)
        for shape, n in [((1,), 1), ((700,), 5), ((9000,), 40), ((300, 3), 7), ((90, 40), 3)]:
            inputs, keys = model.draw(*shape), keys_of(shape[0], n)
            found = kernel.by_key(*inputs, keys, n, deterministic=False)
            if name == "argmax":  # of equal elements any one
                found, inputs = found[:1], model.by_key(inputs, keys, n)
                np.testing.assert_array_equal(found[0], inputs[0])
            else:
                model.check(found, model.by_key(inputs, keys, n), f"{shape} {n}")
            other = CELLS if memory not in ("bins", "few") or name in ATOMIC else RUNS
            has_bins = memory == "bins" and name in ATOMIC and len(shape) == 1
            assert schedules[-1].layout == (BINS if has_bins else other)

    @pytest.mark.parametrize(
        ("operation", "dtype", "identity", "ufunc"),
        [
            ("min(a, b)", "int64", "100", np.minimum),
            ("max(a, b)", "uint32", "0", np.maximum),
            ("a & b", "int64", "-1", np.bitwise_and),
            ("a | b", "int32", "0", np.bitwise_or),
            ("a ^ b", "uint64", "0", np.bitwise_xor),
            ("max(a, b)", "uint8", "0", np.maximum),
        ],
    )
    def test_operations(
        self,
        operation: str,
        dtype: str,
        identity: str,
        ufunc: np.ufunc,
        memory: str,
        schedules: list[KeySchedule],
    ) -> None:
        kernel = kspec.ReductionKernel("T x", "T y", "x", operation, "y = a", identity, "key_fold")
        keys, x = keys_of(3000, 9), integers(3000).astype(dtype)
        wanted = np.full(9, int(identity)).astype(dtype)
        kept = (keys >= 0) & (keys < 9)
        ufunc.at(wanted, keys[kept], x[kept])
        np.testing.assert_array_equal(kernel.by_key(x, keys, 9), wanted)
        # There are no atomic operations of bytes, but a word may be swapped.
        other = CELLS if memory not in ("bins", "few") or dtype != "uint8" else RUNS
        has_bins = memory == "bins" and dtype != "uint8"
        assert schedules[-1].layout == (BINS if has_bins else other)

    def test_two_threads(self, memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_HOST_THREADS", "2")
        for name in ("sum", "welford", "matrices"):
            model = MODELS[name]
            kernel, inputs, keys = anew(model.kernel), model.draw(9000), keys_of(9000, 20)
            found = kernel.by_key(*inputs, keys, 20, deterministic=name == "matrices")
            model.check(found, model.by_key(inputs, keys, 20))


class TestBoth:
    @pytest.mark.parametrize("dtype", ["bool", "float16", "complex128"])
    def test_every_dtype(self, dtype: str, memory: str) -> None:
        x, kernel, keys = numbers(dtype, 3001), anew(SUM), keys_of(3001, 17)
        for deterministic in (True, False):
            found = kernel.by_key(x, keys, 17, deterministic=deterministic)
            np.testing.assert_array_equal(found, sums_by_key(x, keys, 17))

    def test_keys_of_every_dtype(self, memory: str) -> None:
        x, kernel = integers(3000, dtype="float64"), anew(SUM)
        for size, sign, deterministic in itertools.product((1, 2, 4, 8), "iu", (True, False)):
            keys = keys_of(3000, 9).astype(f"{sign}{size}")
            found = kernel.by_key(x, keys, 9, deterministic=deterministic)
            np.testing.assert_array_equal(found, sums_by_key(x, keys, 9))

    def test_strides_and_numbers(self, memory: str) -> None:
        kernel, x, keys = anew(WEIGHTED), integers(6000, dtype="float64"), keys_of(6000, 9)
        for view, own in ((x[::-1], keys[::-1]), (x[::2], keys[3000:]), (x[1::3], keys[::-3])):
            for deterministic in (True, False):
                found = kernel.by_key(view, 3, own, 9, deterministic=deterministic)
                np.testing.assert_array_equal(found, sums_by_key(3 * view, own, 9))

    def test_the_key_in_the_map_and_numbers_in_the_post_map(self, memory: str) -> None:
        x, keys, w = integers(3000), keys_of(3000, 9), integers(9, seed=1)
        np.testing.assert_array_equal(
            anew(OF_SEGMENT).by_key(x, w, keys, 9), sums_by_key(x, keys, 9) * w
        )
        np.testing.assert_array_equal(
            anew(SCALED).by_key(x, 3, keys, 9), sums_by_key(x, keys, 9) * 3
        )

    def test_the_identity(self, memory: str) -> None:
        x, keys = integers(3000, dtype="float64"), keys_of(3000, 9)
        keys[keys == 4] = 77
        wanted = sums_by_key(x, keys, 9) + 10
        for deterministic in (True, False):
            found = anew(PLUS_TEN).by_key(x, keys, 9, deterministic=deterministic)
            np.testing.assert_array_equal(found, wanted)
            assert np.isnan(anew(MEAN).by_key(x, keys, 9, deterministic=deterministic)[4])
        found = anew(MAX).by_key(x.astype("int32"), keys, 9)
        assert found[4] == -(2**31)

    def test_no_elements(self, memory: str) -> None:
        for kernel, deterministic in itertools.product((SUM, PLUS_TEN), (True, False)):
            none = np.zeros(0, int)
            found = anew(kernel).by_key(np.zeros(0), none, 700, deterministic=deterministic)
            assert found.tolist() == [10 if kernel is PLUS_TEN else 0] * 700

    def test_elements_that_blocks_ask_for(self, memory: str) -> None:
        """Some are for blocks that have no other ones left."""
        x, kernel = integers(70_000), anew(SUM)
        for n, seed in [(40, 0), (2, 1), (300, 2)]:
            keys = keys_of(70_000, n, seed)
            found = kernel.by_key(x, keys, n, deterministic=False)
            np.testing.assert_array_equal(found, sums_by_key(x, keys, n))

    def test_repeated_launches(self, memory: str) -> None:
        """Each leaves the memory that the next one begins with."""
        kernel, x = anew(SUM), integers(3000, dtype="float64")
        for seed, deterministic in itertools.product(range(4), (True, False)):
            keys = keys_of(3000, 9, seed)
            found = kernel.by_key(x, keys, 9, deterministic=deterministic)
            np.testing.assert_array_equal(found, sums_by_key(x, keys, 9))
        assert kernel.cache_info().plans == 2

    @pytest.mark.parametrize("name", ["sum", "matrices"])
    def test_no_threads_race(self, name: str, memory: str) -> None:
        model = MODELS[name]
        kernel = anew(model.kernel)
        for shape, n in [((3000,), 40), ((90, 40), 3)]:
            inputs, keys = model.draw(*shape), keys_of(shape[0], n)
            for deterministic in {True, name == "matrices"}:
                found = kernel.by_key(
                    *inputs, keys, n, deterministic=deterministic, sanitize="race"
                )
                model.check(found, model.by_key(inputs, keys, n))


@pytest.mark.parametrize(
    ("name", "deterministic"),
    [
        *((name, True) for name in ("mean", "matrices")),
        *((name, False) for name in ("mean", "max")),
    ],
)
def test_shards(name: str, deterministic: bool, memory: str) -> None:
    """Accumulators of keys are left in memory with their number of elements, and joined."""
    model = MODELS[name]
    kernel = anew(model.kernel)
    for shape, n in [((700,), 5), ((9000,), 40), ((300, 3), 7), ((90, 40), 3)]:
        inputs, keys = model.draw(*shape), keys_of(shape[0], n)
        keys[: shape[0] // 3] //= 2  # a shard that does not have all keys
        ends = [shape[0] // 3, shape[0] // 3, shape[0] // 2]
        shards = [np.split(one, ends) for one in (*inputs, keys)]
        found = sharded.apply(kernel.by_key, *shards, n=n, deterministic=deterministic)
        model.check(found, model.by_key(inputs, keys, n), f"{shape} {n}")


@pytest.mark.parametrize("deterministic", [True, False], ids=["ordered", "any order"])
def test_strict_keys(deterministic: bool, memory: str, capfd: pytest.CaptureFixture[str]) -> None:
    kernel = kspec.ReductionKernel(
        *("T x", "T y", "x", "a + b", "y = a", "0", "form_strict"), strict_keys=True
    )
    x, keys = integers(9000, dtype="float64"), np.arange(9000) % 40
    found = kernel.by_key(x, keys, 40, deterministic=deterministic)
    np.testing.assert_array_equal(found, sums_by_key(x, keys, 40))
    keys[8000] = -3
    with pytest.raises(kspec.HostFault, match="trap"):
        kernel.by_key(x, keys, 40, deterministic=deterministic)
    said = "kspec: by_key: keys[8000] is -3: keys must be from 0 to 39\n"
    assert capfd.readouterr().out == said
