"""Raw kernels that return arrays, and whose specs fix their launch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.launch_rules import LaunchRules
from kspec.model.stages import CudaSource
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider, OneSource
from kspec.runtime.raw.launch_rules import RawFunction
from tests.devices import ArrayDevice

OUTER = r"""
template <class T> __global__ void outer(T* z, const T* x, const T* y, int* size, int n) {
  int i = blockIdx.x, j = blockIdx.y * blockDim.x + threadIdx.x;
  if (j < n) z[i * n + j] = x[i] * y[j];
  if (!i && !j) size[0] = gridDim.x * n;
}
"""
RULES: dict[str, Any] = {
    "grid": ("z.shape[0]", "ceil_div(z.shape[1], block.x)"),
    "block": ("32",),
    "defaults": (("n", "y.size"),),
    "returns": (("z", ("x.size", "n")), ("size", ())),
}
INSTANCES = ("outer<float>", "outer<double>")
PARAMS = "T* z, const T* x, const T* y, int* size, int n"


def function(code: str = OUTER, params: str = PARAMS, **rules: Any) -> RawFunction:
    name = code.partition("void ")[2].partition("(")[0]
    instances = INSTANCES if name == "outer" else (name,)
    declared = RawDeclaration(
        name, instances, parse_c_params(params), "", LaunchRules(**{**RULES, **rules})
    )
    source = CudaSource("k.cu", code, INSTANCES if name == "outer" else ())
    return RawFunction(declared, KernelLoader([CompilingProvider(OneSource(source))]))


KERNEL = function()
FIXED = function(fixed=("grid", "block"))


class TestReturns:
    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_new_arrays(self, device: ArrayDevice, dtype: str) -> None:
        for rows, columns in ((3, 40), (3, 40), (3, 40), (1, 1), (7, 5), (3, 40)):
            x = device.array(np.arange(1, rows + 1), dtype)
            y = device.array(np.arange(1, columns + 1), dtype)
            z, size = KERNEL(None, None, (None, x, y, None, None))
            want = np.outer(np.arange(1, rows + 1), np.arange(1, columns + 1))
            np.testing.assert_array_equal(device.numpy(z), want)
            assert device.numpy(z).dtype == dtype
            assert device.numpy(size).dtype == "int32" and device.numpy(size).shape == ()
            assert device.numpy(size)[()] == rows * columns

    def test_given_arrays_are_returned_as_they_are(self, device: ArrayDevice) -> None:
        x, y, z = device.array([1.0, 2.0]), device.array([3.0, 4.0, 5.0]), device.zeros((2, 3))
        for _ in range(4):
            found, size = KERNEL(None, None, (z, x, y, None, None))
            assert found is z and device.numpy(size)[()] == 6
        np.testing.assert_array_equal(device.numpy(z), [[3, 4, 5], [6, 8, 10]])
        room = device.zeros((), "int32")
        assert KERNEL(None, None, [None, x, y, room, 2])[1] is room
        assert device.numpy(room)[()] == 4

    def test_one_array_is_not_a_tuple(self, place: ArrayDevice) -> None:
        code = 'extern "C" __global__ void twice(const float* x, float* y) { y[0] = 2 * x[0]; }'
        rules = {"grid": ("1",), "block": ("1",), "defaults": (), "returns": (("y", ("1",)),)}
        kernel = function(code, "const float* x, float* y", **rules)
        for _ in range(4):
            y = kernel(None, None, (place.array([4], "float32"), None))
            np.testing.assert_array_equal(place.numpy(y), [8])

    def test_without_arrays(self) -> None:
        """Outputs are of NumPy or kspec, on the default device."""
        code = 'extern "C" __global__ void count(int* y, int n) { y[threadIdx.x] = threadIdx.x; }'
        rules = {"grid": ("1",), "block": ("n",), "defaults": (), "returns": (("y", ("n",)),)}
        kernel = function(code, "int* y, int n", **rules)
        for n in (3, 3, 4):
            y = kernel(None, None, (None, n))
            assert kspec.asnumpy(y).tolist() == list(range(n))

    def test_structs(self, place: ArrayDevice) -> None:
        code = """struct Pair { float a; int b; };
        extern "C" __global__ void pairs(const float* x, Pair* y) {
          y[threadIdx.x] = {x[threadIdx.x], (int)threadIdx.x};
        }"""
        rules = LaunchRules(("1",), ("x.size",), returns=(("y", ("x.size",)),))
        params = parse_c_params("const float* x, Pair* y")
        structs = (("Pair", "{a: float32, b: int32}"),)
        declared = RawDeclaration("pairs", ("pairs",), params, "", rules, structs)
        source = KernelLoader([CompilingProvider(OneSource(CudaSource("k.cu", code)))])
        y = RawFunction(declared, source)(None, None, (place.array([5, 6], "float32"), None))
        assert place.numpy(y).tolist() == [(5, 0), (6, 1)]

    def test_other_libraries(self) -> None:
        """Outputs are of the library of the first array, whatever it is."""
        x = Foreign(np.array([1.0, 2.0]))
        z, size = KERNEL(None, None, (None, x, np.array([3.0]), None, None))
        assert kspec.asnumpy(z).tolist() == [[3], [6]] and kspec.asnumpy(size)[()] == 2

    def test_options(self, place: ArrayDevice) -> None:
        options: dict[str, Any] = {"sanitize": "memory"} if place.is_host else {"pdl": True}
        x = place.array([1.0, 2.0])
        z, _ = KERNEL(None, None, (None, x, x, None, None), **options)
        np.testing.assert_array_equal(place.numpy(z), [[1, 2], [2, 4]])

    def test_empty_arrays(self, place: ArrayDevice) -> None:
        x = place.array([1.0, 2.0])
        sizes: dict[str, Any] = {"grid": (1,), "block": (1,)}
        z, _ = KERNEL(sizes["grid"], sizes["block"], (None, x, place.zeros(0), None, None))
        assert place.numpy(z).shape == (2, 0)

    def test_copies(self) -> None:
        x = np.array([1.0, 2.0])
        KERNEL(None, None, (None, x, x, None, None))
        again = pickle.loads(pickle.dumps(KERNEL))
        assert again(None, None, (None, x, x, None, None))[0].tolist() == [[1, 2], [2, 4]]

    def test_plans(self) -> None:
        kernel, x = function(), np.array([1.0, 2.0])
        for _ in range(5):
            kernel(None, None, (None, x, x, None, None))
        assert kernel.cache_info().plans == 1


class TestErrors:
    X = np.array([1.0, 2.0])

    @pytest.mark.parametrize(
        ("args", "error", "message"),
        [
            (
                (np.zeros((2, 3)), X, X, None, None),
                kspec.ShapeError,
                r"outer: argument z has shape \(2, 3\), but the kernel returns an array of shape "
                r"\(2, 2\); pass one of that shape, or leave it out",
            ),
            (
                (None, X, X, None, -1),
                kspec.LaunchError,
                r"outer: returns\.z\[1\] = n is -1 with n = -1; it must be 0 or more",
            ),
            (
                (None, None, X, None, None),
                kspec.ArgumentTypeError,
                r"argument x is declared const T\* x and returns\.z\[0\] = x\.size, so it must be "
                "an array, not None",
            ),
            (
                (np.zeros((2, 2), "f4"), X, X, None, None),
                kspec.ArgumentTypeError,
                "Type is mismatched",
            ),
        ],
    )
    def test_wrong_calls(self, args: Any, error: type[Exception], message: str) -> None:
        for _ in range(2):
            with pytest.raises(error, match=message):
                KERNEL(None, None, args)

    def test_a_type_without_an_array(self) -> None:
        kernel = function(returns=(("z", ("2", "n")),), defaults=(("n", 2),))
        message = "outer: argument z: no array decides the type T"
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            kernel(None, None, (None, None, None, np.zeros(1, "i4"), None))


class TestFixed:
    def test_calls_leave_it_out(self, place: ArrayDevice) -> None:
        x = place.array([1.0, 2.0])
        for _ in range(4):
            z, _ = FIXED(None, None, (None, x, x, None, None))
            np.testing.assert_array_equal(place.numpy(z), [[1, 2], [2, 4]])
        # The same is no contradiction.
        assert FIXED((2, 1, 1), (32,), (z, x, x, None, None))[0] is z

    @pytest.mark.parametrize(
        ("grid", "block", "message"),
        [
            (None, (64,), r"outer: block=\(64,\), but the spec fixes it, here to \(32,\); leave"),
            ((1,), None, r"outer: grid=\(1,\), but the spec fixes it, here to \(2, 1\); leave it"),
            ((2, 1), (32, 2), r"outer: block=\(32, 2\), but the spec fixes it"),
        ],
    )
    def test_other_sizes(self, grid: Any, block: Any, message: str) -> None:
        x, z = np.array([1.0, 2.0]), np.zeros((2, 2))
        size = np.zeros((), "i4")
        FIXED(None, None, (z, x, x, size, None))
        with pytest.raises(kspec.LaunchError, match=message):
            FIXED(grid, block, (None, x, x, None, None))
        args = (z, x, x, size, 2)
        with pytest.raises(kspec.LaunchError, match=message):
            FIXED(grid or (2, 1), block or (32,), args, sanitize="memory")
        with pytest.raises(kspec.LaunchError, match=message):
            FIXED.prepare(grid or (2, 1), block or (32,), args)
        with pytest.raises(kspec.LaunchError, match=message):
            call = FIXED._call_cache.last
            call(FIXED, grid or (2, 1), block or (32,), args, 0, None, None)

    def test_shared_memory(self) -> None:
        kernel = function(shared_mem="block.x * 8", fixed=("shared_mem",))
        x = np.array([1.0, 2.0])
        for block in (None, (16,)):
            kernel(None, block, (None, x, x, None, None))
        message = r"outer: shared_mem=64, but the spec fixes it, here to 256; leave it out"
        with pytest.raises(kspec.LaunchError, match=message):
            kernel(None, None, (None, x, x, None, None), shared_mem=64)
        options = LaunchOptions(shared_mem=64)
        with pytest.raises(kspec.LaunchError, match=message):
            kernel.prepare(None, None, (None, x, x, None, None), options)


class Foreign:
    """An array of no library that kspec knows."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._array.__dlpack_device__()
