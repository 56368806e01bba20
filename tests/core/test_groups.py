"""Kernels in which a warp or a block has an item of core dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import HostFault, LaunchError, SpecError
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.item_schedule import ItemMember, choose_groups
from tests.devices import ArrayDevice

# An input is a copy that all threads of the group share: the sum is made in it.
_TOTAL = """
T sum = 0;
for (int k = _thread; k < n * m; k += _threads) sum += A(k / m, k % m);
_sync();
if (_thread < n) A(_thread, 0) = 0;
_sync();
atomicAdd(&A(0, 0), sum);
_sync();
if (_thread == 0) s = A(0, 0);
"""
_TRANSPOSED = "for (int k = _thread; k < n * m; k += _threads) B(k % m, k / m) = A(k / m, k % m);"
_SOLVE = """
T row[n + 1];
const int own = _thread < n ? _thread : n - 1;
for (int c = 0; c < n; ++c) row[c] = A(own, c);
row[n] = b(own);
for (int k = 0; k < n; ++k) {
  const T pivot = __shfl_sync(0xffffffffu, row[k], k);
  const T f = _thread == k ? T(0) : row[k] / pivot;
  for (int c = k; c <= n; ++c) row[c] -= f * __shfl_sync(0xffffffffu, row[c], k);
}
if (_thread < n) x(_thread) = row[n] / row[_thread];
"""


def kernel(operation: str, inputs: str, outputs: str, threads: str) -> Any:
    return kspec.ElementwiseKernel(inputs, outputs, operation, f"by_{threads}", threads=threads)


TRANSPOSED = {one: kernel(_TRANSPOSED, "T A[n, m]", "T B[m, n]", one) for one in ("warp", "block")}
BOTH = {
    one: kernel(_TRANSPOSED + _TOTAL, "T A[n, m]", "T B[m, n], T s", one)
    for one in ("warp", "block")
}
SOLVE = kernel(_SOLVE, "T A[n, n], T b[n]", "T x[n]", "warp")


def integers(*shape: int, dtype: str = "float64") -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(-9, 10, shape).astype(dtype)


@pytest.mark.parametrize("threads", ["warp", "block"])
class TestValues:
    @pytest.mark.parametrize("shape", [(1, 1), (3, 4), (8, 8), (16, 5), (33, 32), (40, 30)])
    @pytest.mark.parametrize("loop", [(), (1,), (9,), (3, 4)])
    def test_items(self, threads: str, loop: Any, shape: Any, device: ArrayDevice) -> None:
        A = integers(*loop, *shape)
        given = device.array(A)
        found, total = BOTH[threads](given)
        np.testing.assert_array_equal(device.numpy(found), A.swapaxes(-1, -2))
        np.testing.assert_array_equal(device.numpy(total), A.sum((-1, -2)))
        np.testing.assert_array_equal(device.numpy(given), A)  # which is not changed

    @pytest.mark.parametrize(
        "arrange",
        [
            lambda A: A.transpose(0, 2, 1),
            lambda A: A.transpose(1, 2, 0),
            lambda A: A.transpose(2, 1, 0),
            lambda A: A[::-1, ::-1, ::2],
            lambda A: A[:, 1:, 3:],
            lambda A: A[:0],
        ],
    )
    def test_layouts(self, threads: str, arrange: Any, device: ArrayDevice) -> None:
        A, into = integers(21, 8, 10), device.zeros((21, 8, 10))
        wanted = arrange(A).swapaxes(-1, -2)
        found = TRANSPOSED[threads](arrange(device.array(A)))
        np.testing.assert_array_equal(device.numpy(found), wanted)
        # Into an array of the same layout.
        TRANSPOSED[threads](device.array(wanted.swapaxes(-1, -2)), arrange(into).transpose(0, 2, 1))
        np.testing.assert_array_equal(arrange(device.numpy(into)).swapaxes(-1, -2), wanted)

    def test_one_item_for_all(self, threads: str, device: ArrayDevice) -> None:
        A = device.array(integers(8, 10))
        into = device.zeros((5, 10, 8))
        TRANSPOSED[threads](A, into)
        np.testing.assert_array_equal(device.numpy(into), [device.numpy(A).T] * 5)

    @pytest.mark.parametrize("dtype", ["float32", "int8", "int64", "complex64", "float16"])
    def test_dtypes(self, threads: str, dtype: str, device: ArrayDevice) -> None:
        A = integers(5, 6, 7, dtype=dtype)
        found = device.numpy(TRANSPOSED[threads](device.array(A)))
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, A.swapaxes(-1, -2))

    def test_given_outputs(self, threads: str, device: ArrayDevice) -> None:
        add = kernel(
            "for (int k = _thread; k < n; k += _threads) y(k) += x(k);", "T x[n]", "T y[n]", threads
        )
        x, into = integers(11, 50), np.ones((11, 50))
        given = device.array(into)
        for k in range(1, 3):
            assert add(device.array(x), given) is given
            np.testing.assert_array_equal(device.numpy(given), into + k * x)
        np.testing.assert_array_equal(device.numpy(add(device.array(x))), x)  # begins with zeros


@pytest.mark.parametrize("n", [1, 2, 7, 16, 32])
def test_solve(n: int, device: ArrayDevice) -> None:
    random = np.random.default_rng(n)
    A, b = random.random((20, n, n)) + n * np.eye(n), random.random((20, n))
    found = device.numpy(SOLVE(device.array(A), device.array(b)))
    np.testing.assert_allclose(found, np.linalg.solve(A, b[..., None])[..., 0], rtol=1e-9)


class TestSchedule:
    def member(self, *shape: int) -> ItemMember:
        strides = tuple(8 * int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
        return ItemMember(8, 4096, False, shape, strides)

    def test_rows_are_an_odd_number_of_elements_apart(self) -> None:
        assert self.member(32, 32).shared_bytes == 32 * 33 * 8
        assert self.member(5, 7).shared_bytes == 8 * 36  # rounded up to 16 bytes
        assert self.member(6).shared_bytes == 48
        assert self.member(0, 4).shared_bytes == 0

    @pytest.mark.parametrize(
        ("members", "threads", "size", "groups"),
        [
            ([(8, 8)], 32, 1000, 8),
            ([(32, 32)], 32, 1000, 5),
            ([(8, 8)], 32, 3, 3),
            ([(32, 32)], 128, 1000, 1),
        ],
    )
    def test_groups(self, members: Any, threads: int, size: int, groups: int) -> None:
        rows = [self.member(*shape) for shape in members]
        axes = Axes((size,), tuple((8 * int(np.prod(shape)),) for shape in members))
        schedule = choose_groups("k", axes, rows, size, threads)
        assert schedule.layout == f"kspec::Groups<8, {threads}>"
        assert (schedule.block, schedule.grid) == (threads * groups, (-(-size // groups), 1, 1))
        assert schedule.shared_mem == groups * sum(one.shared_bytes for one in rows)
        assert schedule.shared_mem <= 48 * 1024


class TestRefusals:
    def test_items_that_do_not_fit(self, device: ArrayDevice) -> None:
        with pytest.raises(LaunchError, match=r"^by_warp: an item of each argument takes 324800"):
            SOLVE(device.array(np.zeros((2, 200, 200))), device.array(np.zeros((2, 200))))

    def test_an_index_outside(self) -> None:
        beyond = kernel("x(_thread + 1) = A(_thread);", "T A[n]", "T x[n]", "warp")
        with pytest.raises(HostFault, match="index 32 of x is outside of its core dimension 0"):
            beyond(np.zeros((2, 32)))

    @pytest.mark.parametrize("threads", ["warp", "block"])
    def test_kernels_without_core_dimensions(self, threads: str) -> None:
        with pytest.raises(SpecError, match=f"threads: '{threads}' is for kernels with core"):
            kernel("y = x;", "T x", "T y", threads)

    def test_other_words(self) -> None:
        with pytest.raises(SpecError, match="threads"):
            kernel("y(0) = x(0);", "T x[n]", "T y[n]", "grid")

    def test_names_of_generated_code(self) -> None:
        with pytest.raises(SpecError, match="'_thread' is a name of generated code"):
            kernel("y(0) = _thread(0);", "T _thread[n]", "T y[n]", "warp")
