"""Global variables of a module: ``__constant__``, ``__device__``, through `RawModule.get_global`."""

from __future__ import annotations

import copy
import gc
import pickle

import numpy as np
import pytest

import kspec
from kspec.runtime.memory.symbol import Symbol
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
    assert symbol.nbytes == 16 and str(symbol.place) == place.place and symbol.ptr
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
    with kspec.checking("none"):  # the array is no argument, which bounds checks would object to
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


TEMPLATES = r"""
template <class T> __device__ T table[3];
template <class T = float, int N = (1 + 1)> __constant__ T factor = T(N);
namespace a {
  template <int N> __device__ float fixed[N] = {1, 2, 3};
  namespace b { __constant__ int three[3]; }
}
__device__ int single = 4;
template <class T> __device__ T twice(T x) { return 2 * x; }
template <class T> __global__ void use(T* out) {
  int i = threadIdx.x;
  out[i] = twice(table<T>[i]) * factor<T, 2> + a::fixed<3>[i] + single + a::b::three[i];
}
"""


def test_template_variables(place: ArrayDevice) -> None:
    names = ["use<float>", "&table<float>", "&factor<float, 2>", "&a::fixed<3>", "& ::a::b::three"]
    source = kspec.RawModule(code=TEMPLATES, name_expressions=names)

    def values(name: str, shape: int | tuple[()], dtype: str) -> kspec.DeviceArray:
        symbol = source.get_global(name, place.place)
        array = symbol.array(shape, dtype)
        assert symbol.nbytes == array.nbytes
        return array

    values("&table<float>", 3, "float32")[...] = [10, 20, 30]
    assert kspec.asnumpy(values("factor< float,2 >", (), "float32")) == 2
    values("&factor<float, 2>", (), "float32")[...] = 3
    assert kspec.asnumpy(values("a::fixed<3>", 3, "float32")).tolist() == [1, 2, 3]
    values("a::b::three", 3, "int32")[...] = [7, 8, 9]
    assert kspec.asnumpy(values("single", 1, "int32")).tolist() == [4]
    out = place.zeros(3, "float32")
    for _ in range(3):
        source.get_function("use<float>")((1,), (3,), (out,))
    expected = 2 * np.array([10, 20, 30]) * 3 + np.array([1, 2, 3]) + 4 + np.array([7, 8, 9])
    np.testing.assert_array_equal(place.numpy(out), expected)
    with pytest.raises(kspec.LoadError, match="table<double>: named symbol not found"):
        source.get_global("&table<double>", place.place)


def test_modules_have_their_own_variables(place: ArrayDevice) -> None:
    one, other = module(), module()
    first = one.get_global("coefficients", place.place).array(4, "float32")
    second = other.get_global("coefficients", place.place).array(4, "float32")
    first[...] = 1
    second[...] = 2
    assert kspec.asnumpy(first).tolist() == [1, 1, 1, 1]
    again = one.get_global("coefficients", place.place)
    assert again.ptr == first.ptr  # however often it is asked for
    x, out = place.zeros(1, "float32"), place.zeros(1, "float32")
    for source, expected in ((one, 1), (other, 2)):
        source.get_function("polynomial")((1,), (1,), (x, out))
        assert place.numpy(out)[0] == expected


def test_structs(place: ArrayDevice) -> None:
    source = module()
    settings = np.dtype([("size", "i4"), ("scale", "f4")])
    array = source.get_global("settings", place.place).array((), settings)
    assert kspec.asnumpy(array).item() == (3, 0.5)
    array[...] = np.array((8, 2.0), settings)
    out = place.zeros(1)
    source.get_function("count")((1,), (1,), (out,))
    assert place.numpy(out)[0] == 16


def test_parts_of_a_variable(place: ArrayDevice) -> None:
    symbol = module().get_global("table", place.place)
    array = symbol.array((2, 3), "int32")
    assert kspec.asnumpy(array[1, ::2]).tolist() == [4, 6]
    array[0, 1:] = [20, 30]
    flat = symbol.array(6, "int32")
    assert kspec.asnumpy(flat).tolist() == [1, 20, 30, 4, 5, 6]
    assert kspec.asnumpy(symbol.array(0, "int32")).size == 0


def test_numpy_sees_variables_of_the_host() -> None:
    table = np.asarray(module().get_global("table", "host").array((2, 3), "int32"))
    gc.collect()
    table[0] = 0
    assert table.tolist() == [[0, 0, 0], [4, 5, 6]]


@pytest.mark.gpu
def test_cupy_sees_variables(place: ArrayDevice) -> None:
    """Without a copy, and for as long as its array lives."""
    if place.is_host:
        pytest.skip("needs a CUDA device")
    cupy = pytest.importorskip("cupy")
    source = module()
    table = cupy.asarray(source.get_global("coefficients").array(4, "float32"))
    assert table.data.ptr == source.get_global("coefficients").ptr
    kernel = source.get_function("polynomial")
    del source
    gc.collect()
    table[:] = cupy.arange(4)
    x, y = cupy.full(3, 2, "float32"), cupy.zeros(3, "float32")
    kernel((1,), (3,), (x, y))
    assert y.tolist() == [2 + 8 + 24] * 3
    del kernel
    gc.collect()
    assert table.tolist() == [0, 1, 2, 3]


@pytest.mark.gpu
def test_each_gpu_has_its_own_variables() -> None:
    if len(kspec.devices()) < 3:
        pytest.skip("needs two CUDA devices")
    source = module()
    for number, device in enumerate(("cuda:0", "cuda:1", "host")):
        symbol = source.get_global("coefficients", device)
        assert str(symbol.place) == device
        symbol.array(4, "float32")[...] = number
    kernel = source.get_function("polynomial")
    for number, device in enumerate(("cuda:0", "cuda:1", "host")):
        out = kspec.zeros(1, "float32", device)
        kernel((1,), (1,), (kspec.zeros(1, "float32", device), out))
        assert kspec.asnumpy(out)[0] == number
    fill = source.get_function("fill")
    with pytest.raises(TypeError, match="different devices"):
        out = kspec.zeros(1, "float32", "cuda:1")
        kernel((1,), (1,), (source.get_global("coefficients", "cuda:0"), out))
    fill((1,), (4,), (source.get_global("coefficients", "cuda:1"), np.float32(9)))
    assert kspec.asnumpy(source.get_global("coefficients", "cuda:1").array(1, "f4"))[0] == 9


def test_symbols_of_several_devices_are_not_mixed() -> None:
    symbol = module().get_global("coefficients", "host")
    other = Symbol("elsewhere", symbol.ptr, symbol.nbytes, kspec.Device("cuda", 7), None)
    kernel = module().get_function("polynomial")
    with pytest.raises(
        TypeError,
        match="different devices: argument 0 on cuda:7, argument 1 on host; a kernel runs",
    ):
        kernel((1,), (1,), (other, symbol))


def test_the_default_device() -> None:
    symbol = module().get_global("coefficients")
    assert symbol.place == kspec.devices()[min(1, len(kspec.devices()) - 1)]


def test_symbols_are_not_copied(place: ArrayDevice) -> None:
    symbol = module().get_global("coefficients", place.place)
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a Symbol refers to memory of one process"):
            duplicate(symbol)
    array = symbol.array(4, "float32")
    array[...] = 5
    duplicated = pickle.loads(pickle.dumps(array))  # has memory of its own
    array[...] = 6
    assert kspec.asnumpy(duplicated).tolist() == [5, 5, 5, 5]


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
