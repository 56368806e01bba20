"""Elementwise kernels with core dimensions: values, outputs, sizes, repeated calls, the loop."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import kspec
from tests.core.kernels import (
    CONVOLVE,
    CROSS,
    FIRST,
    MATMUL,
    MATVEC,
    MODELS,
    SOLVE,
    STATISTICS,
    anew,
    integers,
)
from tests.devices import ArrayDevice

LOOPS: list[Any] = [((), ()), ((5,), (5,)), ((40, 1), (3,)), ((), (33,)), ((2, 1, 4), (3, 1))]
SIZES = {"n": 3, "k": 4, "m": 2}


class TestValues:
    @pytest.mark.parametrize("loops", LOOPS, ids=str)
    @pytest.mark.parametrize("name", MODELS)
    def test_references(self, name: str, loops: Any, device: ArrayDevice) -> None:
        model = MODELS[name]
        inputs = model.draw(loops[: len(model.inputs)], **SIZES)
        found = device.numpy(model.kernel(*map(device.array, inputs)))
        np.testing.assert_array_equal(found, model.expected(*inputs))

    @pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
    def test_solve(self, n: int, device: ArrayDevice) -> None:
        """Of 6 unknowns a matrix is copied to registers, of 9 it is read in place."""
        random = np.random.default_rng(n)
        A, b = random.random((70, n, n)) + n * np.eye(n), random.random((2, 70, n))
        found = device.numpy(SOLVE(device.array(A), device.array(b)))
        np.testing.assert_allclose(found, np.linalg.solve(A, b[..., None])[..., 0], rtol=1e-10)

    @pytest.mark.parametrize(("n", "m"), [(1, 1), (8, 8), (8, 9), (64, 1), (65, 1), (40, 50)])
    def test_items_of_any_size(self, n: int, m: int, device: ArrayDevice) -> None:
        A, x = integers(45, n, m), integers(m, seed=1)
        np.testing.assert_array_equal(device.numpy(MATVEC(device.array(A), device.array(x))), A @ x)

    def test_several_outputs(self, device: ArrayDevice) -> None:
        x, scale = integers(4, 40, 8), integers(4, 1, seed=1)
        found = STATISTICS(device.array(x), device.array(scale))
        centred, mean, number = map(device.numpy, found)
        wanted = scale * x.mean(-1)
        np.testing.assert_array_equal(mean, wanted)
        np.testing.assert_array_equal(centred, scale[..., None] * x - wanted[..., None])
        np.testing.assert_array_equal(number, np.arange(160).reshape(4, 40))

    def test_constants_and_expressions(self, device: ArrayDevice) -> None:
        pairs = kspec.ElementwiseKernel(
            "T x[n]",
            "T y[n * (n - 1) // 2], T z[2 * n, 2]",
            """
            int place = 0;
            for (int a = 0; a < n; ++a) {
              for (int b = a + 1; b < n; ++b) y(place++) = x(a) * x(b);
              z(2 * a, 0) = x(a); z(2 * a + 1, 1) = -x(a);
            }
            """,
            "core_pairs",
        )
        for n in (1, 2, 5):
            x = integers(7, n)
            y, z = map(device.numpy, pairs(device.array(x)))
            first, second = np.triu_indices(n, 1)
            np.testing.assert_array_equal(y, x[:, first] * x[:, second])
            wanted = np.zeros((7, n, 2, 2))
            wanted[:, :, 0, 0], wanted[:, :, 1, 1] = x, -x
            np.testing.assert_array_equal(z, wanted.reshape(7, 2 * n, 2))

    def test_floor_division_is_pythons(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]",
            "T y[3 - (1 - n) // 2]",
            "y(3 - kspec::floor_div(1 - n, 2) - 1) = x(0)",
            "core_fl",
        )
        for n in range(1, 6):
            found = device.numpy(kernel(device.array(integers(2, n))))
            assert found.shape == (2, 3 - (1 - n) // 2)


class TestEmpty:
    @pytest.mark.parametrize(
        "shapes",
        [
            ((3, 0, 4), (4,)),
            ((3, 4, 0), (0,)),
            ((0, 4, 3), (3,)),
            ((3, 0, 0), (0,)),
            ((2, 0, 1, 1), (1,)),
        ],
        ids=str,
    )
    def test_nothing_of_something(self, shapes: Any, device: ArrayDevice) -> None:
        A, x = map(np.ones, shapes)
        for _ in range(3):
            found = device.numpy(MATVEC(device.array(A), device.array(x)))
            assert found.shape == (A @ x).shape
            np.testing.assert_array_equal(found, A @ x)

    def test_an_empty_output_beside_another(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]",
            "T y[n - 1], T s",
            "s = x(0); for (int j = 1; j < n; ++j) { y(j - 1) = x(j); s += x(j); }",
            "core_tail",
        )
        for n in (1, 3):
            x = integers(5, n)
            y, s = map(device.numpy, kernel(device.array(x)))
            np.testing.assert_array_equal(y, x[:, 1:])
            np.testing.assert_array_equal(s, x.sum(-1))


ADD = kspec.ElementwiseKernel(
    "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) if (x(j) > 4) y(j) += x(j)", "core_add"
)
SET = kspec.ElementwiseKernel(
    "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) if (x(j) > 4) y(j) = x(j);", "core_set"
)


@pytest.mark.parametrize("n", [3, 100])
class TestOutputs:
    def test_new_ones_begin_with_zeros(self, n: int, device: ArrayDevice) -> None:
        x = integers(50, n)
        for kernel in (ADD, SET):
            for _ in range(3):
                device.empty((50, n))  # memory that is not zero is used again
                found = device.numpy(kernel(device.array(x)))
                np.testing.assert_array_equal(found, np.where(x > 4, x, 0))

    def test_given_ones_that_are_read(self, n: int, device: ArrayDevice) -> None:
        x, y = integers(50, n), device.empty((50, n))
        for times in (1, 2, 3):
            assert ADD(device.array(x), y) is y
            wanted = np.where(x > 4, times * x, 0) - 77
            np.testing.assert_array_equal(device.numpy(y), wanted)

    def test_given_ones_that_are_assigned(self, n: int, device: ArrayDevice) -> None:
        x, y = integers(50, n), device.empty((50, n))
        SET(device.array(x), y)
        np.testing.assert_array_equal(device.numpy(y), np.where(x > 4, x, 0))

    def test_given_or_not_by_turns(self, n: int, device: ArrayDevice) -> None:
        x, y = device.array(integers(50, n)), device.zeros((50, n))
        once = np.where(integers(50, n) > 4, integers(50, n), 0)
        for times in range(1, 6):
            ADD(x, y)
            np.testing.assert_array_equal(device.numpy(y), times * once)
            np.testing.assert_array_equal(device.numpy(ADD(x)), once)

    def test_bound_calls_begin_anew(self, n: int, device: ArrayDevice) -> None:
        x = device.array(integers(50, n))
        once = np.where(integers(50, n) > 4, integers(50, n), 0)
        y = device.zeros((50, n))
        made, given = ADD.bind(x), ADD.bind(x, y)
        for times in range(1, 4):
            np.testing.assert_array_equal(device.numpy(made()), once)
            assert given() is y
            np.testing.assert_array_equal(device.numpy(y), times * once)

    def test_bound_calls_that_are_checked_begin_anew(self, n: int) -> None:
        x = integers(50, n)
        made = ADD.bind(x)
        with kspec.checking(sanitize="init"):
            for _ in range(2):
                assert made() is made.result
                np.testing.assert_array_equal(made.result, np.where(x > 4, x, 0))

    def test_strided_ones(self, n: int, device: ArrayDevice) -> None:
        x, whole = integers(50, n), device.empty((2 * n, 50))
        out = whole.T[:, ::-2]
        assert SET(device.array(x), out) is out
        found, wanted = device.numpy(whole), np.full((2 * n, 50), -77.0)
        wanted.T[:, ::-2] = np.where(x > 4, x, 0)
        np.testing.assert_array_equal(found, wanted)


def test_outputs_of_many_operands() -> None:
    """Bit masks have no room for them: outputs used to begin with anything."""
    count = 70
    inputs = ", ".join(f"T a{number}" for number in range(count))
    kernel = kspec.ElementwiseKernel(
        f"{inputs}, T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(j) += x(j) + a69", "core_many"
    )
    x = integers(40, 3)
    for _ in range(4):
        np.full((40, 3), 7.0)  # memory that is used again
        np.testing.assert_array_equal(kernel(*[2.0] * count, x), x + 2)


class TestInPlace:
    """Threads have copies of small items; `tests.core.test_faults` has the others."""

    def test_the_same_array(self, device: ArrayDevice) -> None:
        reverse = kspec.ElementwiseKernel(
            "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(n - 1 - j) = x(j)", "core_reverse"
        )
        for shape in [(100, 5), (3,), (33, 64), (7, 31, 4)]:
            values = integers(*shape)
            x = device.array(values)
            for _ in range(3):
                assert reverse(x, x) is x
                values = values[..., ::-1]
                np.testing.assert_array_equal(device.numpy(x), values)
            view = x[..., ::-1]
            reverse(view, view)
            np.testing.assert_array_equal(device.numpy(x), values[..., ::-1])

    def test_matrices(self, device: ArrayDevice) -> None:
        A, B = integers(70, 3, 3), integers(3, 3, seed=1)
        x = device.array(A)
        MATMUL(x, device.array(B), x)
        np.testing.assert_array_equal(device.numpy(x), A @ B)

    def test_an_element_of_each_item(self, device: ArrayDevice) -> None:
        """Items of one element are elements: whether the output has a core dimension or not."""
        kernel = kspec.ElementwiseKernel("T x[n]", "T y", "y = 2 * x(0)", "core_single")
        x = device.array(integers(70, 1))
        kernel(x, x[:, 0])
        np.testing.assert_array_equal(device.numpy(x), 2 * integers(70, 1))


class TestSizes:
    def test_given_by_name(self, device: ArrayDevice) -> None:
        x = device.array(integers(5, 3))
        for size in (2, 3, 7, 1, 2, 7):
            found = device.numpy(FIRST(x, k=size))
            np.testing.assert_array_equal(found, integers(5, 3)[:, np.arange(size) % 3])

    def test_the_only_one_is_the_default(self, device: ArrayDevice) -> None:
        x = device.array(integers(5, 3))
        for _ in range(3):
            np.testing.assert_array_equal(device.numpy(FIRST(x)), integers(5, 3)[:, :2])
            assert device.numpy(FIRST(x, k=3)).shape == (5, 3)

    def test_names(self) -> None:
        declared = FIRST.declaration
        assert declared.size_names == ("k", "n")
        assert declared.given_sizes == (("k", (2,)),)
        assert declared.call_options == FIRST.spec.size_names == ("k",)
        assert MATVEC.declaration.size_names == ("n", "m")
        solve = kspec.ElementwiseKernel("T A[n, n]", "T y", "y = A(n - 1, 0)", sizes={"n": [2, 3]})
        assert solve.declaration.sizes == (("n", (2, 3)),)
        assert solve.declaration.call_options == solve.spec.size_names == ()

    def test_sizes_are_numbers_of_the_operation(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T A[n, m]", "int32 a, int32 b", "constexpr int both = n * 100 + m; a = both; b = k",
            "core_numbers", sizes={"k": []},
        )  # fmt: skip
        for n, m, k in [(1, 2, 3), (4, 1, 0), (0, 2, 9)]:
            a, b = kernel(device.array(np.zeros((2, n, m))), k=k)
            assert device.numpy(a).tolist() == [100 * n + m] * 2
            assert device.numpy(b).tolist() == [k] * 2

    def test_bound(self, device: ArrayDevice) -> None:
        x = device.array(integers(5, 3))
        bound = FIRST.bind(x, k=6)
        np.testing.assert_array_equal(device.numpy(bound()), np.tile(integers(5, 3), 2))

    def test_the_size_of_the_loop(self, device: ArrayDevice) -> None:
        """No input decides it, and outputs are new."""
        kernel = kspec.ElementwiseKernel(
            "raw T u", "T y[2]", "y(0) = u[i]; y(1) = -u[i]", "core_of_raw"
        )
        u = integers(9)
        for size in (9, 4, 0):
            found = device.numpy(kernel(device.array(u), size=size))
            np.testing.assert_array_equal(found, np.stack([u, -u], -1)[:size])


class TestRepeated:
    """Calls of one kernel whose plans differ."""

    def test_shapes(self, device: ArrayDevice) -> None:
        kernel = anew(CONVOLVE)
        shapes = [
            ((5, 3), (5, 2)),
            ((5, 2), (5, 3)),
            ((5, 3), (2,)),
            ((3,), (5, 2)),
            ((5, 3), (5, 2)),
        ]
        for shape, other in shapes * 3:
            a, b = integers(*shape), integers(*other, seed=1)
            found = device.numpy(kernel(device.array(a), device.array(b)))
            np.testing.assert_array_equal(found, MODELS["convolve"].expected(a, b))

    def test_layouts_of_one_shape(self, device: ArrayDevice) -> None:
        kernel, a, b = anew(CROSS), integers(3, 3), integers(3, 3, seed=1)
        for _ in range(3):
            for view in (lambda x: x, lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-1]):
                found = device.numpy(kernel(view(device.array(a)), device.array(b)))
                np.testing.assert_array_equal(found, np.cross(view(a), b))

    def test_starts_that_are_aligned_or_not(self, device: ArrayDevice) -> None:
        kernel, memory = anew(CROSS), integers(1000, dtype="float32")
        whole, b = device.array(memory), integers(64, 3, dtype="float32", seed=1)
        for start in (0, 1, 2, 4, 3, 0, 1):
            x, wanted = (one[start : start + 192].reshape(64, 3) for one in (whole, memory))
            found = device.numpy(kernel(x, device.array(b)))
            np.testing.assert_array_equal(found, np.cross(wanted, b))

    def test_dtypes(self, device: ArrayDevice) -> None:
        kernel = anew(CROSS)
        for dtype in ("int32", "float64", "float32", "int32", "float64"):
            a, b = integers(5, 3, dtype=dtype), integers(5, 3, dtype=dtype, seed=1)
            found = device.numpy(kernel(device.array(a), device.array(b)))
            assert found.dtype == dtype
            np.testing.assert_array_equal(found, np.cross(a, b))

    def test_addresses_of_arrays_change(self, device: ArrayDevice) -> None:
        kernel, alive = anew(CROSS), []
        for seed in range(8):
            a, b = integers(9, 3, seed=seed), integers(9, 3, seed=seed + 50)
            alive.append([device.array(a), device.array(b)])
            found = device.numpy(kernel(*alive[-1]))
            np.testing.assert_array_equal(found, np.cross(a, b))


class TestLoop:
    def test_the_number_of_an_item(self, device: ArrayDevice) -> None:
        """It is in C order, whatever the order of memory."""
        kernel = kspec.ElementwiseKernel(
            "T x[n]", "T y[n]", "for (int j = 0; j < n; ++j) y(j) = x(j) + 1000 * i", "core_number"
        )
        x = integers(3, 4, 5, 6)
        for order in [(0, 1, 2, 3), (2, 1, 0, 3), (3, 1, 0, 2), (1, 3, 2, 0)]:
            view = x.transpose(order)
            found = device.numpy(kernel(device.array(x).transpose(order)))
            numbers = np.arange(view[..., 0].size).reshape(view.shape[:-1])
            np.testing.assert_array_equal(found, view + 1000 * numbers[..., None])

    def test_the_index_of_an_item(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]",
            "int64 y[4], int64 z",
            "for (int a = 0; a < _ind.ndim; ++a) y(a) = _ind.get()[a]; y(3) = _ind.ndim;"
            " z = _ind.size();",
            "core_index",
            reduce_dims=False,
        )
        x = device.array(np.zeros((3, 1, 4, 2)))
        y, z = map(device.numpy, kernel(x.transpose(0, 1, 2, 3)))
        np.testing.assert_array_equal(y[..., :3], np.moveaxis(np.indices((3, 1, 4)), 0, -1))
        assert set(y[..., 3].ravel()) == {3}
        assert set(z.ravel()) == {12}

    def test_more_axes_than_the_smallest_layout(self, device: ArrayDevice) -> None:
        order = (9, 0, 8, 1, 7, 2, 6, 3, 5, 4, 10)
        a, b = integers(*[2] * 10, 3), integers(*[2] * 10, 3, seed=1)
        found = device.numpy(CROSS(device.array(a).transpose(order), device.array(b)))
        np.testing.assert_array_equal(found, np.cross(a.transpose(order), b))

    def test_scalars(self, device: ArrayDevice) -> None:
        x = integers(40, 4)
        for scale in (2.0, 3, np.float64(4)):
            _, mean, _ = STATISTICS(device.array(x), scale)
            np.testing.assert_array_equal(device.numpy(mean), scale * x.sum(-1) / 4)

    def test_loop_prep(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n], T s",
            "T y[n]",
            "for (int j = 0; j < n; ++j) y(j) = twice * x(j) + odd",
            "core_prepared",
            loop_prep="const T twice = 2 * s; const int odd = n % 2;",
        )
        for n in (3, 4, 3):
            found = device.numpy(kernel(device.array(integers(9, n)), 5.0))
            np.testing.assert_array_equal(found, 10 * integers(9, n) + n % 2)

    @pytest.mark.parametrize("n", [3, 100])
    def test_inputs_that_are_written_to(self, n: int, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "_non_const T x[n], T y[n]",
            "T first",
            "first = x(0); for (int j = 0; j < n; ++j) x(j) += j * y(j)",
            "core_updated",
        )
        values, y = integers(40, n), integers(n, seed=1)
        x = device.array(values)
        for _ in range(3):
            first = device.numpy(kernel(x, device.array(y)))
            np.testing.assert_array_equal(first, values[:, 0])
            values = values + np.arange(n) * y
            np.testing.assert_array_equal(device.numpy(x), values)
        kernel(x.reshape(40, n)[::-1, ::-1], device.array(y))
        values = values + (np.arange(n) * y)[::-1]
        np.testing.assert_array_equal(device.numpy(x), values)

    def test_no_outputs(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "_non_const T x[n]", "", "for (int j = 0; j < n; ++j) x(j) = i * n + j", "core_numbered"
        )
        x = device.empty((40, 3))
        assert kernel(x) == ()
        np.testing.assert_array_equal(device.numpy(x), np.arange(120).reshape(40, 3))

    def test_raw_arrays_beside(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "int32 at[n], raw T table[2]",
            "T y[n]",
            "for (int j = 0; j < n; ++j) { const ptrdiff_t place[] = {i, at(j)}; y(j) = table[place]; }",
            "core_gather",
        )
        table, at = (
            integers(9, 20),
            np.random.default_rng(1).integers(0, 20, (9, 3)).astype("int32"),
        )
        found = device.numpy(kernel(device.array(at), device.array(table)))
        np.testing.assert_array_equal(found, np.take_along_axis(table, at, 1))

    def test_continue(self, device: ArrayDevice) -> None:
        kernel = kspec.ElementwiseKernel(
            "T x[n]", "T y[n]", "if (x(0) > 4) continue; y(0) = x(n - 1)", "core_continue"
        )
        x = integers(60, 4)
        wanted = np.zeros((60, 4))
        wanted[:, 0] = np.where(x[:, 0] > 4, 0, x[:, 3])
        np.testing.assert_array_equal(device.numpy(kernel(device.array(x))), wanted)

    def test_items_in_functions(self, device: ArrayDevice) -> None:
        """An item can be passed on, as whatever class it is."""
        kernel = kspec.ElementwiseKernel(
            "T x[n]",
            "T y",
            "y = total<n>(x)",
            "core_passed",
            preamble="template <int N, class A> __device__ double total(const A& a) {"
            " double sum = 0; for (int j = 0; j < N; ++j) sum += a(j); return sum; }",
        )
        for n in (5, 100):
            found = device.numpy(kernel(device.array(integers(40, n))))
            np.testing.assert_array_equal(found, integers(40, n).sum(-1))

    def test_block_sizes(self, place: ArrayDevice) -> None:
        a, b = integers(1000, 3), integers(3, seed=1)
        for block_size in (1, 32, 100, 1024):
            found = CROSS(place.array(a), place.array(b), block_size=block_size)
            np.testing.assert_array_equal(place.numpy(found), np.cross(a, b))


@pytest.mark.gpu
def test_streams() -> None:
    cupy: Any = importlib.import_module("cupy")
    a, b = integers(1 << 16, 3), integers(1 << 16, 3, seed=1)
    x, y = cupy.asarray(a), cupy.asarray(b)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    cupy.cuda.Device().synchronize()
    found = [CROSS(x, y, stream=stream) for stream in streams * 3]
    for stream in streams:
        stream.synchronize()
    for one in found:
        np.testing.assert_array_equal(cupy.asnumpy(one), np.cross(a, b))
    with streams[0]:
        z = CROSS(x, y)
        bound = CROSS.bind(x, z)
        z = bound()
    streams[0].synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(z), np.cross(a, np.cross(a, b)))
