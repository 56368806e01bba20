"""Global variables of a module: ``__constant__``, ``__device__``, through `RawModule.get_global`."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice

GLOBALS_SOURCE = r"""
__constant__ float coefficients[4];
__device__ double counter = 1.5;
__device__ int table[2][3] = {{1, 2, 3}, {4, 5, 6}};
extern "C" __device__ unsigned c_linkage = 7;
struct Settings { int size; float scale; };
__constant__ Settings settings = {3, 0.5f};
namespace outer { namespace inner { __device__ long long deep = 1; } }
__device__ float* pointer;
extern "C" __global__ void polynomial(const float* x, float* y) {
  int i = threadIdx.x;
  const float* c = coefficients;
  y[i] = c[0] + x[i] * (c[1] + x[i] * (c[2] + x[i] * c[3]));
}
extern "C" __global__ void count(double* out) {
  if (threadIdx.x == 0) atomicAdd(&counter, 1.0);
  if (blockIdx.x > 0) return;
  if (threadIdx.x < 6) table[threadIdx.x / 3][threadIdx.x % 3] *= 2;
  if (threadIdx.x == 0) { out[0] = settings.size * settings.scale + c_linkage - 7; outer::inner::deep += 41; }
}
extern "C" __global__ void through_pointer(int i, float value, double* unused) { pointer[i] = value; }
extern "C" __global__ void fill(float* x, float value) { x[threadIdx.x] = value; }
"""


def module() -> kspec.RawModule:
    return kspec.RawModule(code=GLOBALS_SOURCE, name_expressions=("&outer::inner::deep",))


def test_constant_memory(place: ArrayDevice) -> None:
    source = module()
    symbol = source.get_global("coefficients", device=place.place)
    assert symbol.nbytes == 16 and str(symbol.device) == place.place and symbol.ptr
    symbol.array(4, "float32")[...] = [1, 2, 3, 4]
    x = np.linspace(-1, 1, 32, dtype=np.float32)
    values, out = place.array(x), place.zeros(32, "float32")
    source.get_function("polynomial")((1,), (32,), (values, out))
    np.testing.assert_allclose(place.numpy(out), 1 + x * (2 + x * (3 + x * 4)), rtol=1e-5)


def test_device_variables(place: ArrayDevice) -> None:
    source = module()
    counter = source.get_global("counter", place.place).array((), "float64")
    table = source.get_global("table", place.place).array((2, 3), "int32")
    assert kspec.asnumpy(counter) == 1.5
    out = place.zeros(1)
    for _ in range(2):
        source.get_function("count")((3,), (32,), (out,))
    assert kspec.asnumpy(counter) == 7.5
    expected = np.arange(1, 7).reshape(2, 3) * 2**2
    np.testing.assert_array_equal(kspec.asnumpy(table), expected)
    deep = source.get_global("&outer::inner::deep", place.place)
    assert kspec.asnumpy(deep.array(1, "int64"))[0] == 1 + 2 * 41
    assert place.numpy(out)[0] == 1.5
    c_linkage = source.get_global("c_linkage", place.place)
    assert kspec.asnumpy(c_linkage.array(1, "uint32"))[0] == 7


def test_a_pointer_variable_and_a_symbol_as_argument(place: ArrayDevice) -> None:
    source = module()
    x = place.zeros(4, "float32")
    address = x.ctypes.data if isinstance(x, np.ndarray) else x.ptr
    source.get_global("pointer", place.place).array(1, "uint64")[...] = address
    arguments = (2, np.float32(5), source.get_global("counter", place.place))
    with kspec.checking():  # the array is no argument, which sanitize="memory" would object to
        source.get_function("through_pointer")((1,), (1,), arguments)
    assert place.numpy(x)[2] == 5
    symbol = source.get_global("coefficients", place.place)
    source.get_function("fill")((1,), (4,), (symbol, np.float32(2)))
    assert kspec.asnumpy(symbol.array(4, "float32")).tolist() == [2, 2, 2, 2]


def test_the_array_keeps_the_module(place: ArrayDevice) -> None:
    array = module().get_global("coefficients", place.place).array(4, "float32")
    gc.collect()
    array[...] = 3
    assert kspec.asnumpy(array).tolist() == [3, 3, 3, 3]


def test_what_is_not_there(place: ArrayDevice) -> None:
    source = module()
    with pytest.raises(kspec.LoadError, match="named symbol not found"):
        source.get_global("absent", place.place)
    symbol = source.get_global("coefficients", place.place)
    with pytest.raises(kspec.ShapeError, match=r"coefficients has 16 bytes; .* \(5,\) of float32"):
        symbol.array(5, "float32")
    with pytest.raises(TypeError):
        symbol.array(1, "datetime64[s]")
    assert repr(symbol) == f"<Symbol coefficients: 16 bytes on {place.place}>"


# Instantiated by test_sources.py.
GLOBALS_NAMES = ("&outer::inner::deep",)
