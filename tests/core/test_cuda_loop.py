"""The GPU's loop over items, run on the CPU: staged, packed, and element by element.

The headers take the branch for CUDA where ``KSPEC_HOST`` is not defined, and the schedule is a
GPU's. Blocks of up to 128 threads then run on the host device.
"""

from __future__ import annotations

import functools
import struct

import ml_dtypes
import numpy as np
import pytest

import kspec
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule
from tests.core.kernels import MODELS, SOLVE, anew, integers, weighted, weighted_result
from tests.core.layouts import LAYOUTS, shifted

Schedules = list[ElementwiseSchedule]
pytestmark = pytest.mark.usefixtures("gpu_items")

# Below a warp, a warp, one more; a block, blocks and a part.
LOOPS = [(), (1,), (31,), (32,), (33,), (128,), (5, 40)]


@functools.cache
def kernel_of(axes: int) -> kspec.ElementwiseKernel:
    return anew(weighted(axes))


def masks(schedule: ElementwiseSchedule) -> tuple[str, str]:
    """Return which operands are staged, and which packed: a digit for each, the first one last."""
    begin = len(schedule.elements) - (-(-(16 + 4 * (2 + 4)) // 8) * 8)
    staged, packed = struct.unpack_from("2Q", schedule.elements, begin)
    return f"{staged:04b}", f"{packed:04b}"


@pytest.mark.parametrize("core", [(1,), (3,), (4,), (16,), (64,), (65,), (0,)], ids=str)
@pytest.mark.parametrize("loop", LOOPS, ids=str)
def test_lengths(loop: tuple[int, ...], core: tuple[int, ...]) -> None:
    for dtype in ("float32", "int8"):
        x = shifted(integers(*loop, *core, dtype=dtype), 0)
        for one, wanted in zip(kernel_of(1)(x, 2), weighted_result(x, 2, 1), strict=True):
            np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("core", [(3, 3), (2, 8), (9, 9), (2, 3, 4), (2, 1, 3, 2)], ids=str)
@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str, core: tuple[int, ...]) -> None:
    axes = len(core)
    for loop in [(70,), (3, 33)]:
        values = integers(*loop, *core, dtype="float32")
        x, z = LAYOUTS[name](values, axes), integers(loop[-1], dtype="float32", seed=1)
        wanted = weighted_result(values, z, axes)
        for found in (
            kernel_of(axes)(x, z),
            kernel_of(axes)(x, z, LAYOUTS[name](values + 1, axes), np.full(loop, 7, "float32")),
        ):
            for one, expected in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(one, expected)


def test_what_is_staged(gpu_items: Schedules) -> None:
    """Contiguous items of more than two accesses, from an aligned address on."""
    values = integers(96, 3, 3, dtype="float32")
    kernel, z = kernel_of(2), integers(96, dtype="float32")
    y, w = shifted(values, 0), np.zeros(96, "float32")
    for x, staged, packed in [
        (shifted(values, 0), "0101", "0101"),
        (shifted(values, 1), "0100", "0101"),
        (shifted(values, 0)[::-1], "0100", "0101"),
        (LAYOUTS["padded"](values, 2), "0100", "0101"),
        (LAYOUTS["core first"](values, 2), "0100", "0100"),
        (np.broadcast_to(values[0], values.shape), "0100", "0101"),
    ]:
        found = kernel(x, z, y, w)
        assert masks(gpu_items[-1]) == (staged, packed)
        for one, wanted in zip(found, weighted_result(x, z, 2), strict=True):
            np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize(
    "dtype",
    [
        *("int8", "bool", "int16", "float16", "bfloat16", "int32", "int64", "float64"),
        *("complex64", "complex128"),
    ],
)
def test_dtypes(dtype: str) -> None:
    """Items of every access, with and without room between them in shared memory."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    reverse = anew(REVERSE)
    # One and three accesses of each size, and two, which need room. How large an access is does not
    # depend on the dtype, but on the bytes of an item.
    every = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
    for n in every if dtype == "int8" else (3, 32 // kind.itemsize):
        values = np.random.default_rng(n).integers(0, 3, (75, n)).astype(kind)
        for start in (0, 1):
            x, y = shifted(values, start), shifted(values, start)
            np.testing.assert_array_equal(reverse(x, y), values[:, ::-1])


REVERSE = kspec.ElementwiseKernel(
    "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(n - 1 - j) = x(j)", "core_reverse"
)


def test_structs_are_neither_staged_nor_packed(gpu_items: Schedules) -> None:
    """Shared memory used to be too small for them, and gaps were written."""
    dtype, reverse = np.dtype([("a", "i1"), ("b", "f4")], align=True), anew(REVERSE)
    for n in (2, 4, 8, 9):
        x, y = np.zeros((75, n), dtype), np.zeros((75, n), dtype)
        x["a"], x["b"] = integers(75, n, dtype="i1"), integers(75, n)
        y.view("u1")[...] = 9
        np.testing.assert_array_equal(reverse(x, y), x[:, ::-1])
        assert gpu_items[-1].shared_mem == 0
        assert set(y.view("u1").reshape(-1, 8)[:, 1:4].ravel()) == {9}


@pytest.mark.parametrize("name", MODELS)
def test_references(name: str) -> None:
    model = MODELS[name]
    kernel = anew(model.kernel)
    for loops in [((70,), (70,)), ((3, 1), (40,)), ((), (33,)), ((33,), ())]:
        inputs = model.draw(loops[: len(model.inputs)], n=3, k=4, m=2)
        np.testing.assert_array_equal(kernel(*inputs), model.expected(*inputs))


def test_solve() -> None:
    kernel = anew(SOLVE)
    for n in (1, 3, 6, 9):
        random = np.random.default_rng(n)
        A, b = random.random((70, n, n)) + n * np.eye(n), random.random((70, n))
        found = kernel(A, b)
        np.testing.assert_allclose(found, np.linalg.solve(A, b[..., None])[..., 0], rtol=1e-10)


def test_in_place() -> None:
    """A warp has read all its items before it writes the first one."""
    reverse = anew(REVERSE)
    for n in (1, 3, 4, 9, 16):
        for start in (0, 1):
            values = integers(100, n, dtype="float32")
            x = shifted(values, start)
            reverse(x, x)
            np.testing.assert_array_equal(x, values[:, ::-1])


@pytest.mark.parametrize("n", [3, 70])
def test_outputs_begin_with_zeros(n: int) -> None:
    """Those of large items, too, where a thread without an item is beside them."""
    add = kspec.ElementwiseKernel(
        "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) if (x(j) > 4) y(j) += x(j)", "core_add"
    )
    put = kspec.ElementwiseKernel(
        "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) if (x(j) > 4) y(j) = x(j);", "core_put"
    )
    for count in (1, 5, 32, 45):
        x = shifted(integers(count, n), 0)
        wanted = np.where(x > 4, x, 0)
        for _ in range(3):
            np.testing.assert_array_equal(add(x), wanted)
            np.testing.assert_array_equal(put(x), wanted)
        y = shifted(np.ones((count, n)), 0)
        add(x, y)
        np.testing.assert_array_equal(y, wanted + 1)
        put(x, y)
        np.testing.assert_array_equal(y, wanted)


def test_inputs_that_are_written_to() -> None:
    kernel = kspec.ElementwiseKernel(
        "_non_const T x[n], T y[n]",
        "T first",
        "first = x(0); for (int j = 0; j < n; ++j) x(j) += j * y(j)",
        "core_updated",
    )
    for n in (3, 4, 9, 70):
        values, y = integers(75, n), shifted(integers(75, n, seed=1), 0)
        for start in (0, 1):
            x = shifted(values, start)
            np.testing.assert_array_equal(kernel(x, y), values[:, 0])
            np.testing.assert_array_equal(x, values + np.arange(n) * y)


def test_many_operands_in_shared_memory(gpu_items: Schedules) -> None:
    """The first ones that fit are staged, in blocks of fewer warps."""
    names = [f"x{number}" for number in range(8)]
    total = " + ".join(f"{name}(j)" for name in names)
    kernel = kspec.ElementwiseKernel(
        ", ".join(f"T {name}[n]" for name in names),
        "T y[n], T z[n]",
        f"for (int j = 0; j < n; ++j) {{ y(j) = {total}; z(n - 1 - j) = y(j); }}",
        "core_eight",
    )
    for n in (9, 63, 64):
        inputs = [shifted(integers(96, n, seed=seed), 0) for seed in range(8)]
        y, z = kernel(*inputs)
        np.testing.assert_array_equal(y, sum(inputs))
        np.testing.assert_array_equal(z, y[:, ::-1])
        assert 0 < gpu_items[-1].shared_mem <= 48 * 1024
    assert [one.block for one in gpu_items] == [64, 32, 32]


def test_the_number_and_the_index() -> None:
    kernel = kspec.ElementwiseKernel(
        "T x[n]",
        "T y[n], int64 k[2]",
        "for (int j = 0; j < n; ++j) y(j) = x(j) + 1000 * i; k(0) = _ind.get()[0];"
        " k(1) = _ind.get()[1]",
        "core_both",
        reduce_dims=False,
    )
    x = integers(5, 40, 3)
    y, k = kernel(x)
    numbers = np.arange(200).reshape(5, 40)
    np.testing.assert_array_equal(y, x + 1000 * numbers[..., None])
    np.testing.assert_array_equal(k, np.stack(np.divmod(numbers, 40), -1))


def test_many_axes() -> None:
    order = (9, 0, 8, 1, 7, 2, 6, 3, 5, 4, 10)
    x = integers(*[2] * 10, 3, dtype="float32").transpose(order)
    for one, wanted in zip(kernel_of(1)(x, 2), weighted_result(x, 2, 1), strict=True):
        np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("n", [3, 16])
def test_no_threads_race(n: int, gpu_items: Schedules) -> None:
    """Outputs are written to the shared memory that inputs are read from."""
    kernel = kspec.ElementwiseKernel(
        "T x[n], T w[n]",
        "T y[2 * n + 1], T z[n]",  # where other threads have inputs
        "for (int j = 0; j < n; ++j) { y(2 * j) = y(2 * j + 1) = x(j); z(j) = x(j) + w(j); }",
        "core_raced",
    )
    x, w = (shifted(integers(140, n, seed=seed), 0) for seed in (0, 1))
    y, z = kernel(x, w, sanitize="race")
    np.testing.assert_array_equal(y[:, :-1], np.repeat(x, 2, -1))
    np.testing.assert_array_equal(z, x + w)
    assert gpu_items[-1].shared_mem > 0
