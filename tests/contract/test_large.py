"""More than 2^31 elements, and bytes further apart than that.

On an H200 the arrays have that many elements; on the host device the same tests run with few,
so that they are known to be right, and others spread few elements over a sparse file.  Element k
of an input is ``k % 251``: 251 is prime, so that an index that lost its upper bits shows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

pytestmark = pytest.mark.unsanitized("fills most of the memory, with few lines of code")
DTYPES = pytest.mark.parametrize("dtype", ["uint8", "int32"])
CTYPES = {"uint8": "unsigned char", "int32": "int", "int64": "long long"}

HELPERS = r"""
typedef %(ctype)s T;
#define EACH(k, n)                                                                  \
  for (long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x; k < (n);     \
       k += (long long)gridDim.x * blockDim.x)
__device__ inline T value(long long k) { return (T)(k %% 251); }
extern "C" __global__ void fill(T* x, long long n) { EACH(k, n) x[k] = value(k); }
extern "C" __global__ void count_wrong(const T* y, long long n, unsigned long long* wrong) {
  unsigned long long mine = 0;
  EACH(k, n) mine += y[k] != (T)(%(expected)s);
  if (mine) atomicAdd(wrong, mine);
}
"""

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
COPY = kspec.ElementwiseKernel("T x", "T y", "y = x", "copy")
SUM = kspec.ReductionKernel("T x", "int64 y", "x", "a + b", "y = a", "0", "wide_sum")
SMALL_SUM = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "sum_of")
LAST_PLACE = kspec.ReductionKernel("T x", "int64 y", "_J", "max(a, b)", "y = a", None, "last_place")


def helper(name: str, dtype: str, expected: str = "0") -> kspec.RawKernel:
    code = HELPERS % {"ctype": CTYPES[dtype], "expected": expected}
    return kspec.RawKernel(code, name)


def allocate(place: ArrayDevice, shape: int | tuple[int, ...], dtype: str) -> Any:
    try:
        return kspec.empty(shape, dtype, place.place)
    except kspec.DriverError as error:
        if error.name != "CUDA_ERROR_OUT_OF_MEMORY":
            raise
        pytest.skip(f"{place.place} has no room for {shape} elements of {dtype}")


def numbered(place: ArrayDevice, shape: int | tuple[int, ...], dtype: str) -> Any:
    """Return an array whose element k is ``k % 251``."""
    array = allocate(place, shape, dtype)
    helper("fill", dtype)((512,), (128,), (array, array.size))
    return array


def assert_all(array: Any, expected: str) -> None:
    """Compare every element k of a contiguous array with a C++ expression of k."""
    wrong = kspec.zeros(1, "uint64", array.device)
    check = helper("count_wrong", array.dtype.name, expected)
    check((512,), (128,), (array, array.size, wrong))
    assert int(kspec.asnumpy(wrong)[0]) == 0, f"not {expected}"


def sum_of_numbers(count: int) -> int:
    """Return the sum of ``k % 251`` for k below `count`."""
    rounds, rest = divmod(count, 251)
    return rounds * 250 * 251 // 2 + rest * (rest - 1) // 2


def length(place: ArrayDevice, dtype: str) -> int:
    """Return a number of elements: past 2^32 bytes, and past 2^31 elements."""
    if place.is_host:
        return 70_001
    return 2**32 + 12_345 if dtype == "uint8" else 2**31 + 12_345


def rectangle(place: ArrayDevice, dtype: str) -> tuple[int, int]:
    """Return two extents with a product like `length`."""
    if place.is_host:
        return 211, 333
    return (65_539, 65_541) if dtype == "uint8" else (46_349, 46_351)


@pytest.fixture
def _memory_goes_back(place: ArrayDevice) -> Iterator[None]:
    """Other processes need some, too."""
    yield
    if not place.is_host:
        kspec.memory_pool(place.place).free_all_blocks()


@DTYPES
@pytest.mark.usefixtures("_memory_goes_back")
class TestElementwise:
    def test_contiguous(self, dtype: str, place: ArrayDevice) -> None:
        x = numbered(place, length(place, dtype), dtype)
        assert_all(ADD(x, 3), "value(k) + 3")
        assert_all(ADD(x, x), "2 * value(k)")

    def test_in_place(self, dtype: str, place: ArrayDevice) -> None:
        x = numbered(place, length(place, dtype), dtype)
        assert ADD(x, 1, x) is x
        assert_all(x, "value(k) + 1")

    def test_rows_and_columns_broadcast(self, dtype: str, place: ArrayDevice) -> None:
        rows, columns = rectangle(place, dtype)
        row, column = numbered(place, columns, dtype), numbered(place, (rows, 1), dtype)
        assert_all(ADD(row, column), f"value(k / {columns}) + value(k % {columns})")
        z = allocate(place, (rows, columns), dtype)
        assert_all(COPY(row, z), f"value(k % {columns})")
        assert_all(COPY(column, z), f"value(k / {columns})")

    @pytest.mark.parametrize("step", [2, 3, -1, -2])
    def test_stepped(self, dtype: str, step: int, place: ArrayDevice) -> None:
        count = length(place, dtype) // abs(step) * abs(step)
        if not place.is_host and dtype == "uint8":
            count *= abs(step)
        x = numbered(place, count, dtype)
        first = 0 if step > 0 else count - 1
        assert_all(COPY(x[::step]), f"value({first}LL + {step}LL * k)")

    @pytest.mark.parametrize("step", [2, -1, -2])
    def test_stepped_outputs(self, dtype: str, step: int, place: ArrayDevice) -> None:
        count = length(place, dtype) // 2 * 2
        x = numbered(place, count // abs(step), dtype)
        y = kspec.zeros(count, dtype, place.place)
        COPY(x, y[::step])
        back = count - 1
        expected = {
            2: "k % 2 ? 0 : value(k / 2)",
            -1: f"value({back}LL - k)",
            -2: f"({back}LL - k) % 2 ? 0 : value(({back}LL - k) / 2)",
        }
        assert_all(y, expected[step])

    def test_transposed(self, dtype: str, place: ArrayDevice) -> None:
        rows, columns = rectangle(place, dtype)
        x = numbered(place, (rows, columns), dtype)
        y = allocate(place, (columns, rows), dtype)
        assert_all(COPY(x.T, y), f"value(k % {rows} * {columns}LL + k / {rows})")
        assert_all(COPY(x, y.T), f"value(k % {rows} * {columns}LL + k / {rows})")
        assert_all(ADD(x.T, y), f"2 * value(k % {rows} * {columns}LL + k / {rows})")

    def test_few_elements_far_apart(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x = numbered(place, count, dtype)
        step = count // 4
        for view, places in (
            (x[::step], np.arange(0, count, step)),
            (x[::-step], np.arange(count - 1, -1, -step)),
            (x[step:][::step], np.arange(step, count, step)),
        ):
            np.testing.assert_array_equal(kspec.asnumpy(COPY(view)), places % 251)
            COPY(200, view)
            for place_ in places:
                one = kspec.asnumpy(x[int(place_) : int(place_) + 1])
                np.testing.assert_array_equal(one, [200])
            COPY(kspec.asarray((places % 251).astype(dtype), device=place.place), view)
        assert_all(x, "value(k)")

    def test_i_and_n(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        kernel = kspec.ElementwiseKernel("", "T y", "y = (i + n) % 251", "numbers")
        y = allocate(place, count, dtype)
        assert_all(kernel(y), f"value(k + {count})")
        wide = allocate(place, (2, count // 2, 2), dtype)[..., 0]
        kernel(wide)
        last = kspec.asnumpy(wide[-1, -1:])
        np.testing.assert_array_equal(last, [(count // 2 * 4 - 1) % 251])

    def test_raw_arguments(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x, y = numbered(place, count, dtype), allocate(place, count, dtype)
        reverse = kspec.ElementwiseKernel("raw T x", "T y", "y = x[n - 1 - i]", "reverse_raw")
        assert_all(reverse(x, y), f"value({count - 1}LL - k)")
        assert_all(reverse(x[::-1], y), "value(k)")
        write = kspec.ElementwiseKernel(
            "raw T x", "raw T y", "y[x.size() - 1 - i] = x[i] + 1", "write_raw"
        )
        assert_all(write(x, y, size=count), f"value({count - 1}LL - k) + 1")
        fresh = write(x, size=count)
        assert_all(fresh, f"value({count - 1}LL - k) + 1")

    def test_raw_multi_indices(self, dtype: str, place: ArrayDevice) -> None:
        rows, columns = rectangle(place, dtype)
        x = numbered(place, (rows, columns), dtype)
        turn = kspec.ElementwiseKernel(
            "raw T x", "T y", "y = x[{i % x.shape()[0], i / x.shape()[0]}]", "turn_raw"
        )
        y = turn(x, allocate(place, (columns, rows), dtype))
        assert_all(y, f"value(k % {rows} * {columns}LL + k / {rows})")
        flat = kspec.ElementwiseKernel("raw T x", "T y", "y = x[i]", "flat_raw")
        assert_all(flat(y.T, allocate(place, (rows, columns), dtype)), "value(k)")


@DTYPES
@pytest.mark.usefixtures("_memory_goes_back")
class TestReductions:
    def test_everything(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x = numbered(place, count, dtype)
        assert int(kspec.asnumpy(SUM(x))) == sum_of_numbers(count)
        assert int(kspec.asnumpy(SUM(x[::-1]))) == sum_of_numbers(count)
        assert int(kspec.asnumpy(LAST_PLACE(x))) == count - 1
        odd = int(kspec.asnumpy(SUM(x[1::2])))
        assert odd + int(kspec.asnumpy(SUM(x[::2]))) == sum_of_numbers(count)

    def test_a_rectangle(self, dtype: str, place: ArrayDevice) -> None:
        rows, columns = rectangle(place, dtype)
        x = numbered(place, (rows, columns), dtype)
        assert int(kspec.asnumpy(SUM(x.T))) == sum_of_numbers(rows * columns)
        for view, axis in ((x, 1), (x.T, 0)):
            sums = kspec.asnumpy(SUM(view, axis=axis))
            assert sums.sum() == sum_of_numbers(rows * columns)
            starts = np.arange(rows, dtype=np.int64) * columns
            expected = [
                sum_of_numbers(int(start) + columns) - sum_of_numbers(int(start))
                for start in starts
            ]
            np.testing.assert_array_equal(sums, expected)
        sums = kspec.asnumpy(SUM(x, axis=0))
        column = np.arange(rows, dtype=np.int64) * columns
        for k in (0, 1, columns // 2, columns - 1):
            assert sums[k] == ((column + k) % 251).sum()
        assert sums.sum() == sum_of_numbers(rows * columns)

    def test_long_rows(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x = numbered(place, (2, count), dtype)
        whole, first = sum_of_numbers(2 * count), sum_of_numbers(count)
        np.testing.assert_array_equal(kspec.asnumpy(SUM(x, axis=1)), [first, whole - first])
        np.testing.assert_array_equal(kspec.asnumpy(LAST_PLACE(x, axis=1)), [count - 1] * 2)
        np.testing.assert_array_equal(kspec.asnumpy(LAST_PLACE(x)), 2 * count - 1)
        both = kspec.asnumpy(SUM(x[:, ::-2], axis=1))
        assert both.sum() + kspec.asnumpy(SUM(x[:, -2::-2])) == whole

    def test_long_columns(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x = numbered(place, (count, 2), dtype)
        sums = kspec.asnumpy(SUM(x, axis=0))
        assert sums.sum() == sum_of_numbers(2 * count)
        even = np.arange(0, 502, 2) % 251
        rounds, rest = divmod(count, 251)
        assert sums[0] == rounds * even.sum() + even[:rest].sum()
        np.testing.assert_array_equal(kspec.asnumpy(LAST_PLACE(x, axis=0)), [count - 1] * 2)

    def test_many_outputs(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x = numbered(place, (2, count), dtype)
        assert_all(SMALL_SUM(x, axis=0), f"value(k) + value(k + {count})")
        y = allocate(place, (count, 1), dtype)
        assert_all(
            SMALL_SUM(x.reshape(count, 2), y, axis=1, keepdims=True),
            "value(2 * k) + value(2 * k + 1)",
        )
        assert_all(
            SMALL_SUM(x[:, ::-1], axis=0),
            f"value({count - 1}LL - k) + value({2 * count - 1}LL - k)",
        )

    def test_many_strided_outputs(self, dtype: str, place: ArrayDevice) -> None:
        count = length(place, dtype)
        x = numbered(place, (count, 1), dtype)
        y = kspec.zeros(2 * count, dtype, place.place)
        SMALL_SUM(x, y[::-2], axis=1)
        back = 2 * count - 1
        assert_all(y, f"({back}LL - k) % 2 ? 0 : value(({back}LL - k) / 2)")

    def test_index_of_the_output(self, dtype: str, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x", "T y", "(_i + _J) % 251", "max(a, b)", "y = a", None, "output_index"
        )
        count = length(place, dtype)
        y = kernel(allocate(place, (count, 1), dtype), axis=1)
        assert_all(y, "value(k)")

    def test_raw_arguments(self, dtype: str, place: ArrayDevice) -> None:
        kernel = kspec.ReductionKernel(
            "T x, raw T w", "int64 y", "x == w[_J] ? 0 : 1", "a + b", "y = a", "0", "differences"
        )
        count = length(place, dtype)
        x = numbered(place, count, dtype)
        assert int(kspec.asnumpy(kernel(x, x))) == 0
        assert int(kspec.asnumpy(kernel(x[::-1], x[::-1]))) == 0
        assert int(kspec.asnumpy(kernel(x[1:], x))) == count - 1


class TestFarApart:
    """Few elements in a sparse file of 9 GiB, further apart than 2^31 and 2^32 bytes."""

    SPAN = 9 * 2**30

    @pytest.fixture
    def memory(self, tmp_path: Path) -> Any:
        try:
            memory = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(self.SPAN,))
        except OSError as error:
            pytest.skip(f"no sparse file of 9 GiB: {error}")
        return np.asarray(memory)

    @staticmethod
    def view(memory: Any, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return a view with these byte strides; negative ones start at the end of the file."""
        kind = np.dtype(dtype)
        reach = [(extent - 1) * step for extent, step in zip(shape, strides, strict=True)]
        low = -sum(step for step in reach if step < 0)
        assert low + sum(step for step in reach if step > 0) + kind.itemsize <= memory.size
        base = memory[low : low + kind.itemsize].view(kind)
        return np.lib.stride_tricks.as_strided(base, shape, strides)

    LAYOUTS = pytest.mark.parametrize(
        ("shape", "strides"),
        [
            ((4,), (2**31,)),
            ((4,), (2**31 - 8,)),
            ((3,), (2**32,)),
            ((3,), (2**32 + 8,)),
            ((3,), (-(2**32) - 8,)),
            ((4,), (-(2**31),)),
            ((2, 2), (2**32 + 8, 2**31)),
            ((2, 2), (2**31, 2**32 + 8)),
            ((2, 3, 2), (2**32, -(2**31) + 64, 8)),
            ((5, 2, 2), (8, 2**31 + 64, -(2**32))),
        ],
        ids=str,
    )

    @DTYPES
    @LAYOUTS
    def test_elementwise(
        self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], memory: Any
    ) -> None:
        x = np.arange(1, 1 + math.prod(shape), dtype=dtype).reshape(shape)
        far = self.view(memory, dtype, shape, strides)
        assert COPY(x, far) is far
        np.testing.assert_array_equal(far, x)
        np.testing.assert_array_equal(COPY(far), x)
        np.testing.assert_array_equal(ADD(far, x.T.copy().T), 2 * x)
        np.testing.assert_array_equal(ADD(far[::-1], 1), x[::-1] + 1)

    @DTYPES
    @LAYOUTS
    def test_raw_arguments(
        self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], memory: Any
    ) -> None:
        kernel = kspec.ElementwiseKernel(
            "raw T x", "raw T y", "y[i] = x[n - 1 - i] + 1", "far_reverse"
        )
        x = np.arange(1, 1 + math.prod(shape), dtype=dtype).reshape(shape)
        far = self.view(memory, dtype, shape, strides)
        far[...] = x
        y = np.zeros(x.size, dtype)
        kernel(far, y, size=x.size)
        np.testing.assert_array_equal(y, x.ravel()[::-1] + 1)
        kernel(x, far, size=x.size)
        np.testing.assert_array_equal(far.ravel(), x.ravel()[::-1] + 1)

    @DTYPES
    @LAYOUTS
    def test_reductions(
        self, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], memory: Any
    ) -> None:
        x = np.arange(1, 1 + math.prod(shape), dtype=dtype).reshape(shape)
        far = self.view(memory, dtype, shape, strides)
        far[...] = x
        for axis in (None, *range(len(shape)), tuple(range(len(shape) - 1))):
            np.testing.assert_array_equal(SUM(far, axis=axis), x.sum(axis=axis))
        stacked = np.stack([x, x])
        SMALL_SUM(stacked, far, axis=0)
        np.testing.assert_array_equal(far, 2 * x)

    def test_flat_indices_of_a_whole_file(self, memory: Any) -> None:
        kernel = kspec.ElementwiseKernel(
            "int64 k, raw _non_const T x", "T y", "y = x[k]; x[k] = y + 1", "take_and_bump"
        )
        places = np.array([0, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**33 + 5, self.SPAN - 1])
        memory[places] = np.arange(1, 8)
        np.testing.assert_array_equal(kernel(places, memory), np.arange(1, 8))
        np.testing.assert_array_equal(memory[places], np.arange(2, 9))
        numbers = memory.view(np.int32)
        np.testing.assert_array_equal(kernel(places[:1], numbers), [2])
        table = memory.reshape(9, 2**30)
        pick = kspec.ElementwiseKernel(
            "int64 row, int64 column, raw T x", "T y", "y = x[{row, column}]", "pick"
        )
        np.testing.assert_array_equal(
            pick(places // 2**30, places % 2**30, table)[1:], np.arange(3, 9)
        )

    @pytest.mark.slow
    def test_a_loop_past_two_to_the_31(self) -> None:
        kernel = kspec.ElementwiseKernel(
            "", "raw int64 y", "if (i >= n - 3) y[i - n + 3] = i", "last_indices"
        )
        count = 2**31 + 5
        y = kernel(np.zeros(3, np.int64), size=count)
        np.testing.assert_array_equal(y, [count - 3, count - 2, count - 1])

    @pytest.mark.slow
    def test_a_reduction_past_two_to_the_31(self) -> None:
        count = 2**31 + 5
        x = np.broadcast_to(np.int8(1), count)
        assert SUM(x) == count
        place = kspec.ReductionKernel(
            "T x", "int64 y", "_J", "a > b ? a : b", "y = a", None, "greatest_place"
        )
        assert place(x) == count - 1
