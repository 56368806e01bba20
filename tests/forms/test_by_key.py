"""Reductions by key: values, keys, layouts, dtypes, outputs, repeated calls."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec.runtime.callcache import launch_plan
from tests.devices import HOST, ArrayDevice
from tests.forms.kernels import (
    CSR,
    MAX,
    MEAN,
    MODELS,
    OF_SEGMENT,
    PLACE,
    PLUS_TEN,
    SCALED,
    SUM,
    TWO,
    WEIGHTED,
    WELFORD,
)
from tests.forms.reference import FEW_DTYPES, integers, numbers, sums_by_key
from tests.profiles import examples

INDICES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
# Those whose operators commute: for other orders of elements.
COMMUTATIVE = ("sum", "max", "mean", "place", "two", "welford")
either = pytest.mark.parametrize("deterministic", [True, False], ids=["ordered", "any order"])


def keys_of(length: int, n: int, seed: int = 0) -> Any:
    """Return keys, some of which are out of range."""
    return np.random.default_rng(seed).integers(-2, n + 3, length)


def check(device: ArrayDevice, x: Any, keys: Any, n: int, **keywords: Any) -> None:
    """Compare sums of keys with those of NumPy."""
    found = device.numpy(SUM.by_key(device.array(x), device.array(keys), n, **keywords))
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, sums_by_key(x, keys, n))


class TestValues:
    @pytest.mark.parametrize("name", MODELS)
    def test_every_kernel(self, name: str, device: ArrayDevice) -> None:
        model = MODELS[name]
        for shape, n in [((1,), 1), ((700,), 9), ((700,), 3000), ((50, 4), 7), ((9, 2, 5), 3)]:
            inputs, keys = model.draw(*shape), keys_of(shape[0], n)
            wanted = model.by_key(inputs, keys, n)
            arrays = [device.array(one) for one in (*inputs, keys)]
            for deterministic in {True, name not in COMMUTATIVE}:
                found = model.kernel.by_key(*arrays, n, deterministic=deterministic)
                outputs = found if isinstance(found, tuple) else (found,)
                model.check(tuple(map(device.numpy, outputs)), wanted, f"{shape} {n}")

    @either
    def test_numpy_agrees(self, deterministic: bool, device: ArrayDevice) -> None:
        for shape, n in [((20_000,), 100), ((2000, 3), 50_000), ((2000, 40), 11)]:
            x, keys = integers(*shape), np.random.default_rng(0).integers(0, n, shape[0])
            wanted = np.zeros((n, *shape[1:]), "int64")
            np.add.at(wanted, keys, x)
            given = device.array(x), device.array(keys)
            found = device.numpy(SUM.by_key(*given, n, deterministic=deterministic))
            np.testing.assert_array_equal(found, wanted)

    @either
    @pytest.mark.parametrize("n", [1, 256, 100_000])
    def test_all_have_one_key(self, n: int, deterministic: bool, device: ArrayDevice) -> None:
        x = integers(100_000, dtype="float32")
        given = device.array(x), device.array(np.full(len(x), n // 2))
        found = device.numpy(SUM.by_key(*given, n, deterministic=deterministic))
        assert found[n // 2] == x.sum() and np.count_nonzero(found) <= 1

    @either
    def test_keys_out_of_range_are_left_out(self, deterministic: bool, device: ArrayDevice) -> None:
        x = device.array(np.ones(8))
        for dtype in ("int8", "int64"):
            keys = device.array(np.array([-1, 0, 3, -128, 127, 2, 0, 4], dtype))
            found = SUM.by_key(x, keys, 4, deterministic=deterministic)
            assert device.numpy(found).tolist() == [2, 0, 1, 1]
        keys = device.array(np.array([2**63, 0, 3, 2**64 - 1, 2**32, 2, 0, 4], "uint64"))
        found = SUM.by_key(x, keys, 4, deterministic=deterministic)
        assert device.numpy(found).tolist() == [2, 0, 1, 1]

    @either
    def test_the_identity(self, deterministic: bool, device: ArrayDevice) -> None:
        """It is folded in once, and the value of outputs without elements."""
        x, keys = np.ones(2000), np.arange(2000) // 1000 * 3
        given = device.array(x), device.array(keys)
        found = device.numpy(PLUS_TEN.by_key(*given, 5, deterministic=deterministic))
        assert found.tolist() == [1010, 10, 10, 1010, 10]
        given = device.array([1, 9, -3], "int32"), device.array([2, 0, 2])
        found = device.numpy(MAX.by_key(*given, 4, deterministic=deterministic))
        assert found.tolist() == [9, -(2**31), 1, -(2**31)]

    @either
    def test_means(self, deterministic: bool, device: ArrayDevice) -> None:
        x, keys = integers(300, 4, dtype="float64"), keys_of(300, 9)
        given = device.array(x), device.array(keys)
        found = device.numpy(MEAN.by_key(*given, 10, deterministic=deterministic))
        wanted = [x[keys == k].mean(0) for k in range(9)]
        np.testing.assert_allclose(found[:9], wanted, rtol=1e-15)

    @either
    def test_moments(self, deterministic: bool, device: ArrayDevice) -> None:
        x, keys = np.random.default_rng(0).normal(1e6, 1, 3000), keys_of(3000, 3)
        given = device.array(x), device.array(keys)
        found = WELFORD.by_key(*given, 3, deterministic=deterministic)
        parts = [x[keys == k] for k in range(3)]
        mean, variance = map(device.numpy, found)
        np.testing.assert_allclose(mean, [np.mean(one) for one in parts], rtol=1e-14)
        np.testing.assert_allclose(variance, [np.var(one) for one in parts], rtol=1e-8)

    def test_what_the_map_sees(self, device: ArrayDevice) -> None:
        """The key, and the number of the row."""
        for shape in [(900,), (900, 5)]:
            x, keys, w = integers(*shape), keys_of(900, 7), integers(7, seed=1)
            given = map(device.array, (x, w, keys))
            found = device.numpy(OF_SEGMENT.by_key(*given, 7))
            of_keys = w.reshape(-1, *[1] * (len(shape) - 1))
            np.testing.assert_array_equal(found, sums_by_key(x, keys, 7) * of_keys)
            number = np.arange(900).reshape(-1, *[1] * (len(shape) - 1))
            found = device.numpy(PLACE.by_key(device.array(x), device.array(keys), 7))
            np.testing.assert_array_equal(found, sums_by_key(x * number, keys, 7))

    def test_raw_inputs_and_numbers(self, device: ArrayDevice) -> None:
        drawn, keys = np.random.default_rng(0), keys_of(60, 7)
        value, column = drawn.normal(size=60), drawn.integers(0, 20, 60).astype("int32")
        x = drawn.normal(size=20)
        found = device.numpy(CSR.by_key(*map(device.array, (value, column, x, keys)), 7))
        np.testing.assert_allclose(found, sums_by_key(value * x[column], keys, 7), atol=1e-12)
        found = device.numpy(SCALED.by_key(device.array(value), 3, device.array(keys), 7))
        np.testing.assert_allclose(found, 3 * sums_by_key(value, keys, 7), atol=1e-12)


class TestKeys:
    @pytest.mark.parametrize("dtype", INDICES)
    def test_every_dtype(self, dtype: str, device: ArrayDevice) -> None:
        keys = keys_of(300, 9).astype(dtype)
        for shape, deterministic in itertools.product([(300,), (300, 3)], [True, False]):
            check(device, integers(*shape), keys, 9, deterministic=deterministic)

    def test_strides(self, device: ArrayDevice) -> None:
        x, wanted = integers(100), keys_of(100, 9)
        for view in (lambda p: p[::2], lambda p: p[::-1], lambda p: p[::-3]):
            whole = np.zeros(300, "int32")
            view(whole)[:100] = wanted
            keys = view(device.array(whole))[:100]
            for deterministic in (True, False):
                found = SUM.by_key(device.array(x), keys, 9, deterministic=deterministic)
                np.testing.assert_array_equal(device.numpy(found), sums_by_key(x, wanted, 9))

    @either
    def test_few_outputs_and_elements(self, deterministic: bool, device: ArrayDevice) -> None:
        for shape, n in itertools.product([(0,), (0, 3), (5,), (5, 3), (5, 0)], [0, 1, 3]):
            keys = keys_of(shape[0], n)
            check(device, integers(*shape), keys, n, deterministic=deterministic)


class TestLayouts:
    def test_views(self, device: ArrayDevice) -> None:
        x = integers(40, 6, 9)
        given = device.array(x)
        for view in (
            lambda x: x[::-1],
            lambda x: x[:, ::-1],
            lambda x: x[::2, ::2, ::2],
            lambda x: x.transpose(2, 1, 0),
            lambda x: x[:, 3, 4],
            lambda x: x[:, :1, :1],
            lambda x: x[7],
        ):
            wanted = view(x)
            keys = keys_of(wanted.shape[0], 5)
            found = device.numpy(SUM.by_key(view(given), device.array(keys), 5))
            np.testing.assert_array_equal(found, sums_by_key(wanted, keys, 5))

    def test_inputs_broadcast(self, place: ArrayDevice) -> None:
        keys = keys_of(40, 7)
        for shapes in [((40,), (1,)), ((40, 1), (3,)), ((3,), (40, 3)), ((1, 3), (40, 1))]:
            x, w = integers(*shapes[0]), integers(*shapes[1], seed=1)
            found = place.numpy(WEIGHTED.by_key(*map(place.array, (x, w, keys)), 7))
            np.testing.assert_array_equal(found, sums_by_key(x * w, keys, 7))

    def test_more_axes_than_the_small_layout_has(self, device: ArrayDevice) -> None:
        x = integers(*[2] * 12)
        order = (0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11)
        given, keys = device.array(x).transpose(*order), np.array([2, 2])
        found = device.numpy(SUM.by_key(given, device.array(keys), 3))
        np.testing.assert_array_equal(found, sums_by_key(x.transpose(order), keys, 3))

    @either
    @pytest.mark.parametrize("n", [3, 20_000])
    def test_several_blocks(self, n: int, deterministic: bool, device: ArrayDevice) -> None:
        for shape in [(300_000,), (60_000, 6), (3000, 70)]:
            x, keys = integers(*shape), np.random.default_rng(0).integers(0, n, shape[0])
            given = device.array(x), device.array(keys)
            found = device.numpy(SUM.by_key(*given, n, deterministic=deterministic))
            wanted = np.zeros((n, *shape[1:]), "int64")
            np.add.at(wanted, keys, x)
            np.testing.assert_array_equal(found, wanted)


class TestOutputs:
    def test_given_and_strided(self, device: ArrayDevice) -> None:
        x, keys = integers(200, 6), keys_of(200, 8)
        wanted = sums_by_key(x, keys, 8)
        for out in (
            device.zeros((8, 6), "int64"),
            device.zeros((6, 8), "int64").T,
            device.zeros((16, 18), "int64")[::-2, ::3],
        ):
            found = SUM.by_key(device.array(x), device.array(keys), 8, out=out)
            assert found is out
            np.testing.assert_array_equal(kspec.asnumpy(out), wanted)

    def test_behind_the_keys(self, device: ArrayDevice) -> None:
        x, keys = device.array(integers(9, dtype="int32")), device.array(keys_of(9, 4))
        y, n = device.zeros(4, "int32"), device.zeros(4, "int64")
        wanted = sums_by_key(integers(9), keys_of(9, 4), 4)
        for _ in range(3):
            for found in (
                TWO.by_key(x, keys, 4),
                TWO.by_key(x, keys, n=4),
                TWO.by_key(x, keys, y, n, n=4),
                TWO.by_key(x, keys, 4, out=(y, n)),
            ):
                np.testing.assert_array_equal(device.numpy(found[0]), wanted)
                np.testing.assert_array_equal(device.numpy(found[1]), 2 * wanted + 1)


class TestOverlap:
    GATHERED = "whose elements other threads read"

    def test_outputs_and_inputs(self, place: ArrayDevice) -> None:
        memory, keys = place.array(integers(40)), place.array(np.arange(10))
        for _ in range(4):  # the plan of the calls before must not let it through
            SUM.by_key(memory[:10], keys, 10, out=memory[20:30])
            with pytest.raises(kspec.OverlapError, match="its memory overlaps with that of"):
                SUM.by_key(memory[:10], keys, 10, out=memory[4:14])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                SUM.by_key(memory[:10], keys, 10, out=memory[:10])

    def test_outputs_and_keys(self, place: ArrayDevice) -> None:
        memory, keys = place.array(integers(10)), place.array(np.arange(40))
        for _ in range(4):
            SUM.by_key(memory, keys[:10], 10, out=keys[20:30])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                SUM.by_key(memory, keys[:10], 10, out=keys[1:11])
            with pytest.raises(kspec.OverlapError, match=self.GATHERED):
                SUM.by_key(memory, keys[:10], 10, out=keys[:10])

    def test_inputs_may_be_the_keys(self, place: ArrayDevice) -> None:
        keys = place.array([0, 1, 3])
        for _ in range(3):
            assert place.numpy(SUM.by_key(keys, keys, 4)).tolist() == [0, 1, 0, 3]


class TestDtypes:
    @pytest.mark.parametrize("dtype", FEW_DTYPES)
    def test_every_dtype(self, dtype: str, device: ArrayDevice) -> None:
        for shape, deterministic in itertools.product([(400,), (40, 6)], [True, False]):
            keys = keys_of(shape[0], 6)
            check(device, numbers(dtype, *shape), keys, 6, deterministic=deterministic)

    @given(data=st.data())
    @settings(max_examples=examples(150), deadline=None)
    def test_any_keys(self, data: st.DataObject) -> None:
        dtype = data.draw(st.sampled_from(["int64", "float32", "complex64"]))
        ndim = data.draw(st.integers(1, 4))
        shape = tuple(data.draw(st.integers(0, 9)) for _ in range(ndim))
        x = numbers(dtype, *shape, seed=data.draw(st.integers(0, 9)))
        order = data.draw(st.permutations(range(ndim)))
        steps = tuple(
            slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in range(ndim)
        )
        view = x.transpose(order)[steps]
        n, length = data.draw(st.integers(0, 12)), view.shape[0]
        drawn = data.draw(st.lists(st.integers(-3, 14), min_size=length, max_size=length))
        keys = np.array(drawn, "int64").astype(data.draw(st.sampled_from(INDICES)))
        found = HOST.numpy(SUM.by_key(view, keys, n, deterministic=data.draw(st.booleans())))
        wanted = np.zeros((n, *view.shape[1:]), dtype)
        kept = (keys.astype("float64") >= 0) & (keys.astype("float64") < n)
        np.add.at(wanted, keys[kept].astype("int64"), view[kept])
        np.testing.assert_array_equal(found, wanted)


class TestRepeatedCalls:
    def kernel(self) -> kspec.ReductionKernel:
        return kspec.ReductionKernel.from_spec(SUM.spec)

    def test_they_have_plans(self, place: ArrayDevice) -> None:
        kernel = self.kernel()
        x, keys = place.array(integers(40)), place.array(keys_of(40, 4))
        for _ in range(4):
            kernel.by_key(x, keys, 4)
            kernel.by_key(x, keys, 5)
            kernel.by_key(x, keys, n=4, deterministic=False)
        info = kernel.cache_info()
        assert (info.entries, info.plans) == (1, 3)

    @either
    @pytest.mark.parametrize("n", [9, 30_000])
    def test_new_contents_and_addresses(
        self, n: int, deterministic: bool, device: ArrayDevice
    ) -> None:
        kernel, kept = self.kernel(), []
        for seed in range(8):
            x, keys = integers(5000, seed=seed, dtype="float64"), keys_of(5000, n, seed)
            kept.append((device.array(x), device.array(keys)))
            found = device.numpy(kernel.by_key(*kept[-1], n, deterministic=deterministic))
            np.testing.assert_array_equal(found, sums_by_key(x, keys, n))
        assert kernel.cache_info().plans == 1

    def test_plans_do_not_keep_much_memory(
        self, place: ArrayDevice, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(launch_plan, "MAX_KEPT", 0)
        kernel, x = self.kernel(), integers(3000)
        keys = keys_of(3000, 9)
        for _ in range(3):
            found = kernel.by_key(place.array(x), place.array(keys), 9)
            np.testing.assert_array_equal(place.numpy(found), sums_by_key(x, keys, 9))
        assert kernel.cache_info().plans == 0

    def test_new_dtypes_strides_and_numbers(self, device: ArrayDevice) -> None:
        kernel, x = self.kernel(), integers(100, 3)
        given = device.array(x)
        for _, dtype, step, n in itertools.product(range(2), INDICES, (1, -2), (4, 5)):
            keys = keys_of(100, n).astype(dtype)
            stretched = np.zeros(100 * abs(step), dtype)
            stretched[::step] = keys
            found = device.numpy(kernel.by_key(given, device.array(stretched)[::step], n))
            np.testing.assert_array_equal(found, sums_by_key(x, keys, n))

    @pytest.mark.parametrize("n", [100, 50_000])
    def test_equal_calls_give_equal_bits(self, n: int, device: ArrayDevice) -> None:
        x = np.random.default_rng(1).normal(size=200_000).astype("float32")
        given, keys = device.array(x), device.array(keys_of(len(x), n))
        first = device.numpy(SUM.by_key(given, keys, n)).tobytes()
        for _ in range(3):
            assert device.numpy(SUM.by_key(given, keys, n)).tobytes() == first

    def test_the_number_of_threads_changes_no_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        x = np.random.default_rng(1).normal(size=200_000).astype("float32")
        keys, found = keys_of(len(x), 50), []
        for threads in ("1", "2", "7"):
            monkeypatch.setenv("KSPEC_HOST_THREADS", threads)
            found.append(SUM.by_key(x, keys, 50).tobytes())
        assert found[0] == found[1] == found[2]

    @pytest.mark.parametrize(
        "check", [{"sanitize": "memory"}, {"order": "reverse"}, {"timeout": 60}]
    )
    def test_checked_calls(self, check: dict[str, Any]) -> None:
        x, keys = integers(50, 7), keys_of(50, 6)
        for _ in range(3):
            found = SUM.by_key(x, keys, 6, **check)
            np.testing.assert_array_equal(found, sums_by_key(x, keys, 6))
