"""Repeated calls are answered by a plan: with the same results, errors and checks as the first."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import warnings
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import kspec
from kspec import jit
from kspec.model import dtypes
from kspec.runtime.callcache import MAX_PLANS
from kspec.runtime.callcache.launch_plan import Plan
from kspec.runtime.schedules import marshal
from tests.devices import ArrayDevice
from tests.profiles import examples

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add_again")
SCALE = kspec.ElementwiseKernel("T x, S a", "T y", "y = x * a", "scale_again")
NARROW = kspec.ElementwiseKernel("float32 x, int8 a", "float32 y", "y = x + a", "narrow_again")
WINDOW = kspec.ElementwiseKernel(
    "raw T x, T y", "T z", "z = x[i] + y + _raw_y.size() + x.strides()[0]", "window_again"
)
PAIR = kspec.ElementwiseKernel("T x", "T y, T z", "y = x + 1; z = x + 2", "pair_again")
FILL = kspec.ElementwiseKernel("float32 a", "raw float32 y", "y[i] = a + i", "fill_again")


def hot(kernel: Any, *args: Any, **keywords: Any) -> Any:
    """Call until a plan answers, and return its answer."""
    for _ in range(5):
        result = kernel(*args, **keywords)
    return result


def plans_of(kernel: Any) -> list[Plan]:
    entries = kernel._call_cache.entries.values()
    return [plan for one in entries for plan in one.cache.plans.values()]


@pytest.fixture
def full_checks(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """Return the arguments of calls that were checked in full, a living list."""
    calls: list[tuple[Any, ...]] = []
    prepare = kspec.ElementwiseKernel.prepare

    def spy(self: Any, args: Any, *rest: Any, **keywords: Any) -> Any:
        calls.append(tuple(args))
        return prepare(self, args, *rest, **keywords)

    monkeypatch.setattr(kspec.ElementwiseKernel, "prepare", spy)
    return calls


def outcome(call: Any) -> Any:
    """Return what a call returned, or how it failed, comparable."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            return type(error), str(error)
    values = result if isinstance(result, tuple) else (result,)
    said = [str(one.message) for one in caught]
    return [(one.shape, one.strides, str(one.dtype), one.tobytes()) for one in values], said


class TestHits:
    @pytest.mark.parametrize("kernel", [ADD, WINDOW])
    def test_they_need_no_checks(
        self, kernel: Any, device: ArrayDevice, full_checks: list[Any]
    ) -> None:
        x, y = device.array(np.arange(6.0)), device.array(np.arange(6.0) * 10)
        first = device.numpy(kernel(x, y))
        hot(kernel, x, y)
        full_checks.clear()
        x2, y2 = device.array(np.arange(6.0) + 7), device.array(np.arange(6.0))
        np.testing.assert_array_equal(device.numpy(kernel(x, y)), first)
        expected = np.arange(6.0) * 2 + 7 + (14 if kernel is WINDOW else 0)
        np.testing.assert_array_equal(device.numpy(kernel(x2, y2)), expected)
        assert full_checks == []

    def test_outputs_by_keyword(self, device: ArrayDevice, full_checks: list[Any]) -> None:
        x, z, w = device.array([1.0, 2.0]), device.zeros(2), device.zeros(2)
        hot(ADD, x, x, out=z)
        hot(PAIR, x, out=(z, w))
        full_checks.clear()
        assert ADD(x, x, out=w) is w
        np.testing.assert_array_equal(device.numpy(w), [2, 4])
        assert PAIR(x, out=(w, z))[1] is z
        np.testing.assert_array_equal(device.numpy(z), [3, 4])
        assert full_checks == []

    def test_outputs_are_new_or_given(self, device: ArrayDevice) -> None:
        x, z = device.array([1.0, 2.0]), device.zeros(2)
        made = [hot(ADD, x, x) for _ in range(2)]
        assert made[0] is not made[1]
        assert hot(ADD, x, x, z) is z
        y, z = hot(PAIR, x)
        np.testing.assert_array_equal(device.numpy(y), [2, 3])
        np.testing.assert_array_equal(device.numpy(z), [3, 4])

    def test_what_is_returned(self) -> None:
        x = np.zeros(2)
        one = kspec.ElementwiseKernel("T x", "T y", "y = x", "one_again", return_tuple=True)
        none = kspec.ElementwiseKernel("T x", "T y", "y = x", "none_again", no_return=True)
        nothing = kspec.ElementwiseKernel("T x", "", "int a = 0", "nothing_again")
        assert isinstance(hot(one, x), tuple)
        assert hot(none, x, x) is None
        assert hot(nothing, x) == ()

    def test_options_are_part_of_the_key(self, place: ArrayDevice) -> None:
        y = place.zeros(8, "float32")
        for size in (3, 8, 5, 3):
            hot(FILL, 2.5, y, size=size)
        hot(FILL, 1.0, y, size=5, block_size=64)
        np.testing.assert_array_equal(place.numpy(y), [1, 2, 3, 4, 5, 7.5, 8.5, 9.5])
        for wrong in (True, 3.0):
            with pytest.raises(TypeError, match="size must be an integer"):
                FILL(2.5, y, size=wrong)
        with pytest.raises(TypeError, match="block_size must be an integer"):
            FILL(2.5, y, size=3, block_size=True)

    def test_streams_are_checked(self, place: ArrayDevice) -> None:
        x = place.zeros(4)
        hot(ADD, x, x, x, stream=0)
        for wrong in ("a", True, 1.5):
            with pytest.raises(TypeError, match="stream must be a stream handle"):
                ADD(x, x, x, stream=wrong)


class TestWhatChanges:
    def test_shapes_in_place(self) -> None:
        x = np.arange(6.0)
        hot(ADD, x, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # from NumPy 2.5 on
            x.shape = (2, 3)
        assert ADD(x, x).shape == (2, 3)
        with pytest.raises(kspec.ShapeError, match="could not be broadcast"):
            ADD(x, np.zeros(6))

    def test_dtypes_of_one_shape(self, device: ArrayDevice) -> None:
        for dtype in ("float32", "int64", "float64", "int8", "float32"):
            x = device.array([1, 2, 3], dtype)
            z = device.numpy(hot(ADD, x, x))
            assert z.dtype == dtype
            np.testing.assert_array_equal(z, [2, 4, 6])
        with pytest.raises(TypeError, match="Type is mismatched"):
            ADD(x, device.array([1, 2, 3], "int64"))

    def test_alignment(self, device: ArrayDevice) -> None:
        base = np.arange(40, dtype="float32")
        x = device.array(base)
        for start in (0, 1, 2, 3, 4, 1, 0, 3):
            view = x[start : start + 33]
            z = device.zeros(36, "float32")
            hot(ADD, view, x[:33], z[start % 3 : start % 3 + 33])
            expected = np.zeros(36, "float32")
            expected[start % 3 : start % 3 + 33] = base[start : start + 33] + base[:33]
            np.testing.assert_array_equal(device.numpy(z), expected)

    def test_odd_addresses_are_refused(self) -> None:
        x = np.zeros(8, "float32")
        hot(ADD, x, x)
        odd = np.zeros(33, np.uint8)[1:].view(np.float32)
        with pytest.raises(TypeError, match="x is not aligned"):
            ADD(odd, x)

    def test_read_only_outputs(self) -> None:
        x, z = np.zeros(3), np.zeros(3)
        hot(ADD, x, x, z)
        z.flags.writeable = False
        with pytest.raises(TypeError, match="read-only"):
            ADD(x, x, z)
        x.flags.writeable = False
        np.testing.assert_array_equal(hot(ADD, x, x), x)

    def test_strides(self, device: ArrayDevice) -> None:
        values = np.arange(24.0).reshape(4, 6)
        x = device.array(values)
        for index in (np.s_[:, ::2], np.s_[:, ::-2], np.s_[:, :3], np.s_[:, 3:]):
            z = device.numpy(hot(ADD, x[index], x[index]))
            np.testing.assert_array_equal(z, 2 * values[index])

    def test_strides_that_a_kernel_reads(self) -> None:
        base = np.arange(3.0)
        for step in (8, 16, 8):
            x = np.lib.stride_tricks.as_strided(base, (1,), (step,))
            assert hot(WINDOW, x, np.ones(1))[0] == 2 + step

    def test_libraries(self) -> None:
        x = np.arange(3.0)
        own = kspec.asarray(x, device="host")
        for _ in range(4):
            assert isinstance(ADD(x, x), np.ndarray)
            assert isinstance(ADD(own, x), kspec.DeviceArray)
            assert isinstance(ADD(x, own), np.ndarray)

    def test_subclasses_are_not_their_base(self) -> None:
        class Mine(np.ndarray):
            def __cupy_override_elementwise_kernel__(self, kernel: Any, *args: Any) -> str:
                return "mine"

        x = np.arange(3.0)
        hot(ADD, x, x)
        assert ADD(x, x.view(Mine)) == "mine"
        with pytest.raises(kspec.UnsupportedDTypeError, match="masked"):
            ADD(x, np.ma.masked_array(x))

    def test_structs_of_another_alignment(self) -> None:
        copy_of = kspec.ElementwiseKernel("T x", "T y", "y = x", "copy_struct_again")
        plain = kspec.make_aligned_dtype([("a", "f4"), ("b", "f4")])
        raised = kspec.make_aligned_dtype(plain, alignment=16)
        small = np.zeros(4, plain)
        hot(copy_of, small)
        assert hot(copy_of, np.zeros(4, raised)).dtype.metadata
        assert copy_of(small).dtype.metadata is None

    def test_redeclaring_a_kernel(self) -> None:
        total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_again")
        x = np.arange(4.0)
        assert hot(total, x) == 6
        total.identity = 5
        assert hot(total, x) == 11


SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_again")
SHIFTED = kspec.ReductionKernel("T x, T s", "T y", "x * s", "a + b", "y = a", "0", "shifted_again")
RANGE = kspec.ReductionKernel(
    "T x", "T y, int64 n", "x", "a + b", "y = a; n = 7", "0", "range_again"
)


class TestReductions:
    @pytest.fixture
    def checks(self, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        calls: list[Any] = []
        prepare = kspec.ReductionKernel.prepare

        def spy(self: Any, *args: Any, **keywords: Any) -> Any:
            calls.append(args)
            return prepare(self, *args, **keywords)

        monkeypatch.setattr(kspec.ReductionKernel, "prepare", spy)
        return calls

    def test_hits(self, device: ArrayDevice, checks: list[Any]) -> None:
        values = np.arange(60.0).reshape(3, 4, 5)
        x = device.array(values)
        for axis in (None, 0, 1, -1, (0, 2), (), (2, 1)):
            for keepdims in (False, True):
                got = device.numpy(hot(SUM, x, axis=axis, keepdims=keepdims))
                np.testing.assert_array_equal(got, values.sum(axis=axis, keepdims=keepdims))
                checks.clear()
                got = device.numpy(SUM(device.array(values + 1), axis=axis, keepdims=keepdims))
                np.testing.assert_array_equal(got, (values + 1).sum(axis=axis, keepdims=keepdims))
                assert checks == []

    def test_outputs(self, device: ArrayDevice, checks: list[Any]) -> None:
        x, y = device.array(np.arange(12.0).reshape(3, 4)), device.zeros(3)
        for keywords in ({"out": y}, {"out": (y,)}):
            assert hot(SUM, x, axis=1, **keywords) is y
            checks.clear()
            assert SUM(x, axis=1, **keywords) is y
            assert checks == []
        np.testing.assert_array_equal(device.numpy(y), [6, 22, 38])
        assert hot(SUM, x, y, axis=1) is y
        with pytest.raises(kspec.ShapeError, match="both positional and keyword"):
            SUM(x, y, axis=1, out=y)
        total, count = hot(RANGE, x)
        assert (float(device.numpy(total)), int(device.numpy(count))) == (66, 7)
        n = device.zeros((), "int64")
        assert hot(RANGE, x, out=(total, n)) == (total, n)
        with pytest.raises(kspec.ShapeError, match="out must hold 2 arrays, not 1"):
            RANGE(x, out=total)

    def test_too_few_inputs_are_not_made_up_by_outputs(self, place: ArrayDevice) -> None:
        x, y = place.array([1.0, 2.0]), place.zeros(())
        hot(SHIFTED, x, x, y)
        with pytest.raises(kspec.ShapeError, match="out must hold 1 arrays, not 2"):
            SHIFTED(x, out=(x, y))

    def test_wrong_axes_after_a_hit(self, place: ArrayDevice) -> None:
        x = place.zeros((2, 3))
        for axis in (1, (1,), 0, (0, 1)):
            hot(SUM, x, axis=axis)
        for wrong in (True, (True,), 1.0, (False, 1)):
            with pytest.raises(kspec.ArgumentTypeError, match="axis must be an integer"):
                SUM(x, axis=wrong)
        assert SUM(x, axis=[1]).shape == (2,)
        assert SUM(x, axis=np.int64(1), keepdims=1).shape == (2, 1)

    def test_scalars_and_empty_arrays(self, place: ArrayDevice) -> None:
        x, nothing = place.array([1.0, 2.0]), place.zeros((0, 2))
        for value in (1, 2.5, True, -0.5):
            assert float(place.numpy(hot(SHIFTED, x, value))) == 3 * value
        np.testing.assert_array_equal(place.numpy(hot(SUM, nothing, axis=0)), [0, 0])
        assert hot(SUM, nothing, axis=1).shape == (0,)

    @pytest.mark.threads
    def test_many_blocks_for_an_output(self, place: ArrayDevice, checks: list[Any]) -> None:
        """They meet in scratch memory, which each block of the plan has for itself."""
        values = np.random.default_rng(0).integers(0, 100, 600_000).astype("int64")
        x = place.array(values)
        hot(SUM, x)

        def work(_: int) -> int:
            return int(place.numpy(SUM(x)))

        checks.clear()
        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(work, range(80))) == {int(values.sum())}
        assert checks == []

    def test_a_fault_leaves_nothing_behind(self) -> None:
        total = kspec.ReductionKernel(
            "int64 x", "int64 y", "(x < 0 ? (__trap(), 0) : x)", "a + b", "y = a", "0", "trap_sum"
        )
        x = np.ones(600_000, "int64")
        assert hot(total, x) == 600_000
        for _ in range(3):
            with pytest.raises(kspec.HostFault, match="trap"):
                total(np.append(-1, x[1:]))
            assert total(x) == 600_000


class TestScalars:
    def test_their_type_is_in_the_key(self, place: ArrayDevice) -> None:
        x = place.array([1, 2], "float32")
        y = place.array([3, 4], "int32")
        for value in (1, 1.0, True, np.float32(1), np.int8(1), 1, 1.0):
            np.testing.assert_array_equal(place.numpy(hot(ADD, x, value)), [2, 3])
            z = place.numpy(hot(ADD, y, value))
            assert z.dtype == np.int32
            np.testing.assert_array_equal(z, [4, 5])

    def test_their_value_is_not(self, place: ArrayDevice) -> None:
        x = place.zeros(2, "float32")
        for value in (0.0, -0.0, 2.5, 1e30, float("inf"), -1.5):
            z = place.numpy(hot(ADD, x, value))
            np.testing.assert_array_equal(z, np.full(2, value, "float32"))

    def test_they_do_not_fit(self) -> None:
        x = np.zeros(3, "float32")
        hot(NARROW, x, 100)
        for value in (128, -129, 2**70):
            with pytest.raises(OverflowError):
                NARROW(x, value)
        with pytest.raises(TypeError, match="must be an array or a number, not str"):
            NARROW(x, "1")
        np.testing.assert_array_equal(hot(NARROW, x, -128), np.full(3, -128))

    @settings(max_examples=examples(400))
    @given(
        st.one_of(
            st.integers(-(2**66), 2**66),
            st.floats(width=64),
            st.floats(width=32),
            st.booleans(),
            st.sampled_from([65504.0, 65519.9, 65520.0, 3.4028235677973366e38, 2.0**53 + 1]),
            st.floats(width=32).map(np.float32),
            st.integers(-128, 127).map(np.int8),
            st.integers(0, 2**64 - 1).map(np.uint64),
            st.booleans().map(np.bool_),
            st.complex_numbers(width=64).map(np.complex64),
            st.complex_numbers(),
        ),
        st.sampled_from([row.name for row in dtypes.TABLE]),
    )
    @example(3.4028234663852886e38, "float32")
    @example(3.4028235e38, "float32")
    @example(2**53 + 1, "float32")
    @example(-(2**63), "int64")
    def test_converters_do_what_conversion_does(self, value: Any, dtype: str) -> None:
        def by(convert: Any) -> Any:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    return convert(), [str(one.message) for one in caught]
                except (ValueError, TypeError, ArithmeticError) as error:
                    return type(error), str(error)

        convert = marshal.converter(type(value), dtype)
        assert by(lambda: convert(value)) == by(lambda: marshal.convert_scalar(value, dtype))


def arguments() -> st.SearchStrategy[tuple[Any, ...]]:
    """Draw the arguments of a call, many of them wrong, from few enough to come again."""
    shape = st.sampled_from([(), (1,), (4,), (3, 4), (4, 1), (0,), (2, 2)])
    dtype = st.sampled_from(["float32", "int32", "float64", "bool", ml_dtypes.bfloat16, ">f4"])
    start = st.integers(0, 4)

    @st.composite
    def array(draw: st.DrawFn) -> Any:
        extents = draw(shape)
        kind = np.dtype(draw(dtype))
        size = int(np.prod(extents))
        base = np.arange(2 * size + 8).astype(kind)
        begin, step = draw(start), draw(st.sampled_from([1, 1, 1, 2, -1]))
        view = base[begin : begin + 2 * size : 2] if step == 2 else base[begin : begin + size]
        made = view[::step][:size] if step == -1 else view
        made = made.reshape(extents)
        if draw(st.integers(0, 9)) == 0:
            made.flags.writeable = False
        return made

    scalar = st.sampled_from([0, 1, 2.5, True, -1, 2**40, float("nan"), np.float32(2), 1j, None])
    one = st.one_of(array(), array(), array(), scalar)
    return st.one_of(st.tuples(one, one), st.tuples(one, one, array()), st.tuples(one))


@settings(max_examples=examples(60))
@given(st.lists(arguments(), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_hits_equal_misses(calls: list[tuple[Any, ...]], random: Any) -> None:
    kernels = [ADD, SCALE]
    for args in random.choices(calls, k=4 * len(calls)):
        kernel = random.choice(kernels)
        before = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
        found = outcome(lambda k=kernel, a=args: k(*a))
        after = [one.copy() if isinstance(one, np.ndarray) else one for one in args]
        for one, content in zip(args, before, strict=True):
            if isinstance(one, np.ndarray) and one.flags.writeable:
                one[...] = content
        expected = outcome(lambda k=kernel, a=args: k.prepare(a).run())
        assert found == expected
        for one, content in zip(args, after, strict=True):
            if isinstance(one, np.ndarray):
                assert one.tobytes() == content.tobytes()


def fresh_kernel(name: str, x: Any, out: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return a kernel that nothing else refers to, and arguments of a call."""
    if name == "elementwise":
        return kspec.ElementwiseKernel("float32 x", "float32 y", "y = x + 1", "dropped"), (x, out)
    if name == "reduction":
        kernel = kspec.ReductionKernel("float32 x", "float32 y", "x", "a + b", "y = a", "0", "drop")
        return kernel, (x,)
    grid = (2,), (32,)
    if name == "raw":
        text = 'extern "C" __global__ void f(float* x) { x[threadIdx.x] += 1; }'
        return kspec.RawKernel(text, "f"), (*grid, (x,))

    def add(x, n):  # type: ignore[no-untyped-def]
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < n:
            x[i] += 1

    return jit.rawkernel()(add), (*grid, (x, 64))


class TestMemory:
    def test_ever_new_shapes_leave_few_plans(self) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x", "shapes_again")
        x = np.zeros(4000)
        for size in range(1, 1500):
            kernel(x[:size])
        assert kernel.cache_info().plans == 8
        assert kernel.cache_info().dynamic_plans == 1
        (entry,) = kernel._call_cache.entries.values()
        assert len(entry.cache._seen) <= 1024

    def test_a_shape_that_comes_a_third_time_gets_a_plan(self) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x", "third_time")
        x = np.arange(40.0)
        for size in range(1, 30):
            kernel(x[:size])
        (entry,) = kernel._call_cache.entries.values()
        for plans in (8, 8, 9, 9):
            np.testing.assert_array_equal(kernel(x[:35]), x[:35])
            assert len(entry.cache.plans) == plans

    def test_the_number_of_plans_is_bounded(self) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x", "bounded_again")
        x = np.arange(1000.0)
        for _ in range(3):
            for size in range(1, MAX_PLANS + 50):
                np.testing.assert_array_equal(kernel(x[:size]), x[:size])
        info = kernel.cache_info()
        assert (info.entries, info.plans, info.max_plans) == (1, MAX_PLANS, MAX_PLANS)

    @pytest.mark.parametrize("name", ["elementwise", "reduction", "raw", "jitted"])
    def test_a_dropped_kernel_needs_no_garbage_collector(self, name: str) -> None:
        """It knows nothing of the memory that modules have on a GPU."""
        x, out = np.zeros(64, "float32"), np.zeros(64, "float32")

        def drop() -> weakref.ref[Any]:
            kernel, args = fresh_kernel(name, x, out)
            for _ in range(5):
                kernel(*args)
            for size in range(1, 20):
                if name == "elementwise":
                    kernel(x[:size], out[:size])
            ((entry,), (call,)) = kernel._call_cache.entries.values(), kernel._call_cache.values()
            assert call is not None and entry.cache.plans
            return weakref.ref(entry)

        drop()  # what is made once for a process
        gc.collect()
        gc.disable()
        try:
            assert drop()() is None
        finally:
            gc.enable()

    def test_plans_keep_no_arrays(self) -> None:
        x, z = np.zeros(5), np.zeros(5)
        hot(ADD, x, 2.5, z)
        references = [weakref.ref(one) for one in (x, z)]
        del x, z
        assert [one() for one in references] == [None, None]

    def test_kernels_are_copied_and_pickled(self) -> None:
        x = np.arange(3.0)
        kernel = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "pickled_again")
        hot(kernel, x, x)
        for other in (copy.copy(kernel), copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
            np.testing.assert_array_equal(hot(other, x, x), 2 * x)


class TestFamilies:
    """Shapes that change at every call."""

    @pytest.mark.parametrize("dtype", ["float32", "float64", "int8"])
    def test_every_size(
        self, dtype: str, device: ArrayDevice, full_checks: list[tuple[Any, ...]]
    ) -> None:
        rng = np.random.default_rng(7)
        sizes = [*range(60), 255, 256, 257, 1023, 1025, 4099, 16384, 16385, 70001]
        for size in sizes:
            x, y = (rng.integers(-50, 50, size).astype(dtype) for _ in range(2))
            z = ADD(device.array(x), device.array(y))
            np.testing.assert_array_equal(device.numpy(z), x + y)
        assert len(full_checks) < 13

    def test_given_outputs_are_written_to_their_ends(self, device: ArrayDevice) -> None:
        for size in range(1, 50):
            x, z = device.array(np.arange(size)), device.empty(size + 8, "int64")
            assert ADD(x, 3, z[:size]).shape == (size,)
            expected = [*range(3, size + 3), *[-77] * 8]
            np.testing.assert_array_equal(device.numpy(z), expected)

    def test_many_axes(self, place: ArrayDevice) -> None:
        rng = np.random.default_rng(8)
        for _ in range(40):
            shape = tuple(rng.integers(1, 9, rng.integers(1, 5)))
            x = rng.random(shape).astype("float32")
            z = place.numpy(ADD(place.array(x), place.array(x)))
            np.testing.assert_array_equal(z, x + x)

    def test_blocks(self, place: ArrayDevice) -> None:
        for size in range(1, 40):
            x = place.array(np.arange(size, dtype="float32"))
            z = ADD(x, x, block_size=64)
            np.testing.assert_array_equal(place.numpy(z), 2 * np.arange(size))
        with pytest.raises(kspec.LaunchError, match=r"^add.*: block_size is 2000"):
            ADD(place.zeros(5000), 1, block_size=2000)

    def test_blocks_that_fit_small_arrays_only(self, place: ArrayDevice) -> None:
        for size in range(1, 40):
            x = place.array(np.arange(size, dtype="float32"))
            np.testing.assert_array_equal(
                place.numpy(ADD(x, x, block_size=2000)), place.numpy(x) * 2
            )
        for size in (3000, 5000, 7000):
            x = place.zeros(size, "float32")
            with pytest.raises(kspec.LaunchError, match=r"^add.*: block_size is 2000"):
                ADD(x, x, block_size=2000)

    @pytest.mark.threads
    def test_threads(self, place: ArrayDevice) -> None:
        def work(number: int) -> None:
            for size in range(1 + number, 400, 8):
                values = np.arange(size, dtype="float32") + number
                z = ADD(place.array(values), float(size))
                np.testing.assert_array_equal(place.numpy(z), values + size)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

    def test_a_fault_is_reported(self) -> None:
        kernel = kspec.ElementwiseKernel("T x", "T y", "y = x / x; if (x == 0) __trap()", "trap_f")
        for size in range(1, 30):
            kernel(np.ones(size, "int64"))
        with pytest.raises(kspec.HostFault, match="trap_f"):
            kernel(np.zeros(31, "int64"))
        np.testing.assert_array_equal(kernel(np.ones(32, "int64")), np.ones(32))


class TestThreads:
    @pytest.mark.threads
    def test_calls_do_not_mix(self, place: ArrayDevice) -> None:
        def work(seed: int) -> None:
            values = np.random.default_rng(seed).random(257).astype("float32")
            x, z = place.array(values), place.zeros(257, "float32")
            for k in range(200):
                assert ADD(x, float(k), z) is z
                np.testing.assert_array_equal(place.numpy(z), values + np.float32(k))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))

    def test_a_call_inside_of_a_call(self) -> None:
        """A block that is in use is not taken again: a finaliser may call the kernel."""
        kernel = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "inside_again")
        x = np.arange(3.0)
        hot(kernel, x, x)
        (plan,) = plans_of(kernel)
        used = dict(plan.free)
        plan.free.clear()
        np.testing.assert_array_equal(kernel(x, x), 2 * x)
        assert used
        assert not set(used.values()) & set(plan.free.values())

    def test_new_threads(self) -> None:
        x = np.arange(3.0)
        hot(ADD, x, x)
        results: list[Any] = []
        thread = threading.Thread(target=lambda: results.append(ADD(x, x)))
        thread.start()
        thread.join()
        np.testing.assert_array_equal(results[0], 2 * x)


OUTSIDE = kspec.ElementwiseKernel("raw T x, T y", "T z", "z = x[i + 1] + y", "outside_again")


class TestChecks:
    @pytest.fixture
    def call(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "none")
        base, y = np.zeros(4, "int32"), np.zeros(4, "int32")
        hot(OUTSIDE, base, y)
        yield lambda **keywords: OUTSIDE(base, y, **keywords)

    def test_keywords(self, call: Any) -> None:
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            call(sanitize="memory")
        call()

    def test_blocks(self, call: Any) -> None:
        with kspec.checking("memory"), pytest.raises(kspec.HostFault, match="illegal-address"):
            call()
        call()

    def test_kernels(self, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(OUTSIDE, "checks", kspec.Checks("memory"))
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            call()

    def test_the_environment(self, call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "memory")
        with pytest.raises(kspec.HostFault, match="illegal-address"):
            call()
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "nonsense")
        with pytest.raises(kspec.CheckOptionError, match="nonsense"):
            call()

    def test_the_number_of_cores(
        self, monkeypatch: pytest.MonkeyPatch, full_checks: list[Any]
    ) -> None:
        x = np.arange(100_000.0)
        hot(ADD, x, x)
        full_checks.clear()
        monkeypatch.setenv("KSPEC_HOST_THREADS", "1")
        np.testing.assert_array_equal(ADD(x, x), 2 * x)
        assert len(full_checks) == 1


def test_faults_of_a_hit_are_those_of_a_miss() -> None:
    fail = kspec.ElementwiseKernel(
        "int32 x", "int32 y", "if (x == 3) __trap(); y = x", "trap_again"
    )
    x = np.arange(3, dtype="int32")
    hot(fail, x)
    with pytest.raises(kspec.HostFault, match="trap"):
        fail(x + 1)
    np.testing.assert_array_equal(fail(x), x)
