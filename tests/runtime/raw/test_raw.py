"""RawKernel and RawModule: arguments by CuPy's rules, launch checks, errors."""

from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import compile_source
from kspec.compiler.target import target_for_capability
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.c_params import parse_c_params
from kspec.model.stages import CudaSource
from kspec.runtime import driver
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.modules.provider import CompilingProvider
from kspec.runtime.raw.declared import RawCallable
from tests.devices import ArrayDevice

FILL = r"""
extern "C" __global__ void fill(double* out, int count, double value) {
  int tid = blockIdx.x * blockDim.x + threadIdx.x;
  if (tid < count) out[tid] = value;
}
"""
WHERE = r"""
extern "C" __global__ void where_am_i(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] = 100 * block + thread;
}
"""
REVERSE = r"""
extern "C" __global__ void reverse(float* data) {
  extern __shared__ float shared[];
  int t = threadIdx.x, n = blockDim.x;
  shared[t] = data[blockIdx.x * n + t];
  __syncthreads();
  data[blockIdx.x * n + t] = shared[n - 1 - t];
}
"""
VALUES = r"""
struct Pair { int first; double second; };
extern "C" __global__ void store(double* out, long long i, double f, bool b, double2 c, short s,
                                 Pair pair, const float* null) {
  out[0] = i; out[1] = f; out[2] = b; out[3] = c.x; out[4] = c.y; out[5] = s;
  out[6] = pair.first; out[7] = pair.second; out[8] = null == nullptr;
}
"""
STRUCT = np.dtype([("first", "i4"), ("second", "f8")], align=True)


class TestLaunch:
    @pytest.mark.parametrize(
        ("grid", "block"),
        [((2,), (3,)), ((2, 3), (2, 2)), ((2, 1, 2), (3, 2, 2)), ((1, 1, 1), (1024,))],
    )
    def test_grid_and_block(
        self, grid: tuple[int, ...], block: tuple[int, ...], device: ArrayDevice
    ) -> None:
        kernel = kspec.RawKernel(WHERE, "where_am_i")
        blocks, threads = int(np.prod(grid)), int(np.prod(block))
        out = device.zeros((blocks, threads), "int32")
        assert kernel(grid, block, (out,)) is None
        expected = 100 * np.arange(blocks)[:, None] + np.arange(threads)
        np.testing.assert_array_equal(device.numpy(out), expected)

    def test_shared_memory(self, device: ArrayDevice) -> None:
        kernel = kspec.RawKernel(REVERSE, "reverse")
        data = device.array(np.arange(12, dtype="float32"))
        kernel((3,), (4,), (data,), shared_mem=16)
        expected = np.arange(12).reshape(3, 4)[:, ::-1].ravel()
        np.testing.assert_array_equal(device.numpy(data), expected)

    @pytest.mark.parametrize("grid", [[1], 1, (), (1, 1, 1, 1), (1.0,), None])
    def test_sizes_must_be_tuples_of_integers(self, grid: Any, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(WHERE, "where_am_i")
        out = place.zeros(1, "int32")
        with pytest.raises(
            TypeError, match=r"^where_am_i: grid must be a tuple of 1 to 3 integers"
        ):
            kernel(grid, (1,), (out,))
        with pytest.raises(
            TypeError, match=r"^where_am_i: block must be a tuple of 1 to 3 integers"
        ):
            kernel((1,), grid, (out,))
        if grid == 1:
            with pytest.raises(TypeError, match=r"integers, not 1; write \(1,\)$"):
                kernel(grid, (1,), (out,))

    @pytest.mark.parametrize(
        ("grid", "block", "message"),
        [
            ((0,), (1,), r"grid\.x is 0"),
            ((-1,), (1,), r"grid\.x is -1"),
            ((1, 65536), (1,), r"grid\.y is 65536"),
            ((1,), (2048,), r"block\.x is 2048"),
            ((1,), (1, 1, 65), r"block\.z is 65"),
            ((1,), (32, 33), "1056 threads; at most 1024"),
        ],
    )
    def test_sizes_no_device_can_launch(
        self, grid: tuple[int, ...], block: tuple[int, ...], message: str, place: ArrayDevice
    ) -> None:
        kernel = kspec.RawKernel(WHERE, "where_am_i")
        with pytest.raises(kspec.LaunchError, match=f"^where_am_i: .*{message}"):
            kernel(grid, block, (place.zeros(1, "int32"),))

    def test_shared_mem_is_a_keyword(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(REVERSE, "reverse")
        with pytest.raises(TypeError):
            kernel((1,), (1,), (place.zeros(1, "float32"),), 4)  # type: ignore[misc]
        with pytest.raises(kspec.LaunchError, match=r"^reverse: shared_mem is -1"):
            kernel((1,), (1,), (place.zeros(1, "float32"),), shared_mem=-1)


class TestArguments:
    def test_values_travel_by_their_own_type(self, place: ArrayDevice) -> None:
        pair = np.array((7, 8.5), STRUCT)[()]
        out = place.zeros(9)
        store = kspec.RawKernel(VALUES, "store")
        store((1,), (1,), (out, -5, 1.5, True, 2 - 3j, np.int16(-4), pair, None))
        np.testing.assert_array_equal(place.numpy(out), [-5, 1.5, 1, 2, -3, -4, 7, 8.5, 1])

    def test_a_python_int_fits_a_c_int(self, device: ArrayDevice) -> None:
        out = device.zeros(10)
        kspec.RawKernel(FILL, "fill")((1,), (16,), (out, 7, 2.5))
        np.testing.assert_array_equal(device.numpy(out), [2.5] * 7 + [0] * 3)

    def test_a_view_passes_the_address_of_its_first_element(self, device: ArrayDevice) -> None:
        out = device.zeros(10)
        kspec.RawKernel(FILL, "fill")((1,), (16,), (out[4:], 3, 1.0))
        np.testing.assert_array_equal(device.numpy(out), [0] * 4 + [1] * 3 + [0] * 3)

    @pytest.mark.parametrize("value", ["1", [1], object(), {}])
    def test_values_no_kernel_takes(self, value: Any, place: ArrayDevice) -> None:
        with pytest.raises(TypeError, match="argument 1"):
            kspec.RawKernel(FILL, "fill")((1,), (1,), (place.zeros(1), value, 1.0))

    def test_integers_have_64_bits(self, place: ArrayDevice) -> None:
        with pytest.raises(OverflowError):
            kspec.RawKernel(FILL, "fill")((1,), (1,), (place.zeros(1), 2**64, 1.0))

    def test_the_kernel_knows_how_many_it_takes(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(FILL, "fill")
        out = place.zeros(1)
        for arguments in ((out,), (out, 1), (out, 1, 1.0, 2)):
            with pytest.raises(TypeError, match="fill takes 3 parameters"):
                kernel((1,), (1,), arguments)

    @pytest.mark.gpu
    def test_numpy_arrays_next_to_cuda_arrays(self, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        kernel = kspec.RawKernel(FILL, "fill")
        out = place.zeros(2)
        kernel((1,), (2,), (out, np.array([2], "int32"), np.array(4.5)))
        np.testing.assert_array_equal(place.numpy(out), [4.5, 4.5])
        with pytest.raises(TypeError, match="NumPy array next to CUDA arrays"):
            kernel((1,), (1,), (out, np.zeros(3), 1.0))


INSTANCES = """
template <class T, int N = 1> __global__ void twice(T* x) { x[threadIdx.x] *= 2 * N; }
template <class T> __global__ void fill_with(int* x, T value) { x[threadIdx.x] = (int)value; }
template <class I, class T> __global__ void take(const I* k, const T* x, T* y) {
  y[threadIdx.x] = x[k[threadIdx.x]];
}
__global__ void one(float* x) { *x = 1; }
__global__ void two(float* x) { *x = 2; }
"""


def instances(*expressions: str, params: str | None = None) -> RawCallable:
    declaration = RawDeclaration(
        "chosen", expressions, None if params is None else parse_c_params(params)
    )
    source = CudaSource("chosen.cu", INSTANCES, expressions)
    return RawCallable(declaration, KernelLoader([CompilingProvider(lambda wanted: source)]))


class TestSeveralNameExpressionsWithoutParams:
    """Arguments choose the one that is for their dtypes, or none: never silently the first."""

    def test_dtypes_of_arrays_choose(self, place: ArrayDevice) -> None:
        kernel = instances("twice<float>", "twice<double>", "twice< unsigned >")
        for _ in range(4):  # repeated calls launch plans
            for dtype in ("float32", "float64", "uint32"):
                x = place.array(np.arange(1, 4, dtype=dtype))
                kernel((1,), (3,), (x,))
                np.testing.assert_array_equal(place.numpy(x), [2, 4, 6])

    def test_several_types(self, place: ArrayDevice) -> None:
        kernel = instances("take<int, float>", "take<int, double>", "take<long long, float>")
        k, x = np.array([2, 0, 1]), np.array([1.0, 2.0, 3.0])
        for index, dtype in (("int32", "float64"), ("int64", "float32"), ("int32", "float32")):
            y = place.zeros(3, dtype)
            kernel((1,), (3,), (place.array(k, index), place.array(x, dtype), y))
            np.testing.assert_array_equal(place.numpy(y), x[k])

    def test_types_of_numpys_numbers_choose_too(self, place: ArrayDevice) -> None:
        x = place.zeros(3, "int32")
        kernel = instances("fill_with<float>", "fill_with<int>")
        with pytest.raises(TypeError, match=r"chosen: arguments of int32, float32 fit no name"):
            kernel((1,), (3,), (x, np.float32(2)))

    @pytest.mark.parametrize(
        ("expressions", "dtype", "message"),
        [
            (
                ("twice<float>", "twice<double>"),
                "int16",
                "chosen: arguments of int16 fit no name expression, and one is required; it has "
                "twice<float>, twice<double>; declare 'params' with type placeholders, such as "
                r"'T\* x', or give each kernel a table of its own",
            ),
            (("twice<float, 1>", "twice<float, 2>"), "float32", "fit 2 of its name expressions"),
            (("one", "two"), "float32", "fit no name expression"),
            (("twice<long>", "twice<long long>"), "int64", "fit 2 of its name expressions"),
        ],
    )
    def test_others_are_refused(
        self, expressions: tuple[str, ...], dtype: str, message: str, place: ArrayDevice
    ) -> None:
        x = place.zeros(3, dtype)
        kernel = instances(*expressions)
        for _ in range(3):
            with pytest.raises(kspec.ArgumentTypeError, match=message):
                kernel((1,), (3,), (x,))
        np.testing.assert_array_equal(place.numpy(x), np.zeros(3))

    def test_params_without_placeholders(self, place: ArrayDevice) -> None:
        kernel = instances("twice<float, 1>", "twice<float, 2>", params="float* x")
        with pytest.raises(kspec.ArgumentTypeError, match="fit 2 of its name expressions"):
            kernel((1,), (3,), (place.zeros(3, "float32"),))

    def test_placeholders_choose_templates_of_templates(self, place: ArrayDevice) -> None:
        expressions = ("twice<complex<float>>", "twice<complex<double> >")
        declaration = RawDeclaration("chosen", expressions, parse_c_params("T* x"))
        code = f"#include <cupy/complex.cuh>\n{INSTANCES.replace('2 * N', 'T(2 * N)')}"
        source = CudaSource("chosen.cu", code, expressions)
        kernel = RawCallable(declaration, KernelLoader([CompilingProvider(lambda wanted: source)]))
        x = place.array(np.array([1j, 2]))
        kernel((1,), (2,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [2j, 4])


FILL_PARAMS = "double* out, int count, double value"


def of_a_spec() -> RawCallable:
    declaration = RawDeclaration("fill", ("fill",), parse_c_params(FILL_PARAMS))
    source = CudaSource("fill.cu", FILL)
    return RawCallable(declaration, KernelLoader([CompilingProvider(lambda wanted: source)]))


def of_a_constructor() -> kspec.RawKernel:
    return kspec.RawKernel(FILL, "fill", params=FILL_PARAMS)


def of_a_module() -> kspec.RawKernel:
    return kspec.RawModule(code=FILL).get_function("fill", params=FILL_PARAMS.split(", "))


@pytest.mark.parametrize("make", [of_a_spec, of_a_constructor, of_a_module])
class TestDeclaredParameters:
    """What kernels with ``params`` check beyond CuPy's rules, whoever declares them."""

    def test_numbers_are_converted(self, make: Any, device: ArrayDevice) -> None:
        out = device.zeros(4)
        for _ in range(4):
            make()((1,), (4,), (out, np.uint8(3), 2))
        np.testing.assert_array_equal(device.numpy(out), [2, 2, 2, 0])

    @pytest.mark.parametrize(
        ("arguments", "error", "message"),
        [
            ((1, 1.0), TypeError, r"takes 3 parameters \(double\* out, int count, double value\)"),
            (("out", 1), TypeError, "takes 3 parameters"),
            ((3, 1, 1.0), TypeError, r"out is declared double\* out, so it must be an array"),
            (("wrong", 1, 1.0), TypeError, "but the array has dtype float32"),
            (("strided", 1, 1.0), TypeError, "must be C-contiguous"),
            (("out", "out", 1.0), TypeError, "count is declared int count"),
            (("out", "1", 1.0), TypeError, "must be a number, not str"),
            (("out", 2**31, 1.0), OverflowError, "bounds"),
            (("out", float("nan"), 1.0), ValueError, "NaN"),
            (("out", float("inf"), 1.0), OverflowError, "infinity"),
            (("out", 1.5, 1.0), TypeError, "count is declared int count, so it must be an integer"),
            (
                ("out", 1.0, 1.0),
                TypeError,
                r"must be an integer, not 1\.0; convert it first, by int",
            ),
            (("out", np.float32(1), 1.0), TypeError, r"must be an integer, not 1\.0; convert"),
            (("out", np.array(1.0), 1.0), TypeError, r"must be an integer, not 1\.0; convert"),
            (
                (None, 1, 1.0),
                TypeError,
                r"out is declared double\* out, so it must be an array, not None; "
                r"declare 'double\* out = nullptr' to allow a null pointer$",
            ),
            (("out", 1, 1j), TypeError, "as float64"),
        ],
    )
    def test_what_does_not_fit(
        self, make: Any, arguments: Any, error: type[Exception], message: str, place: ArrayDevice
    ) -> None:
        arrays = {
            "out": place.zeros(4),
            "wrong": place.zeros(4, "float32"),
            "strided": place.zeros(8)[::2],
        }
        given = tuple(arrays.get(one, one) if isinstance(one, str) else one for one in arguments)
        with pytest.raises(error, match=message):
            make()((1,), (1,), given)

    def test_host_arrays_next_to_others(self, make: Any, place: ArrayDevice) -> None:
        if place.is_host:
            pytest.skip("needs a CUDA device")
        with pytest.raises(TypeError, match="out is a NumPy array next to CUDA arrays"):
            make()((1,), (1,), (np.zeros(4), place.array(1, "int32"), 1.0))

    def test_read_only_arrays_are_not_written(self, make: Any) -> None:
        out = np.zeros(3)
        out.flags.writeable = False
        with pytest.raises(TypeError, match="out is written to, but the array is read-only"):
            make()((1,), (1,), (out, 1, 1.0))


class TestNullPointers:
    CODE = r"""
    extern "C" __global__ void add(const float* x, const float* bias, float* y) {
      y[threadIdx.x] = x[threadIdx.x] + (bias ? bias[threadIdx.x] : -1);
    }"""
    PARAMS = "const float* x, const float* bias = nullptr, float* y"

    def of_a_spec(self) -> RawCallable:
        declaration = RawDeclaration("add", ("add",), parse_c_params(self.PARAMS))
        source = CudaSource("add.cu", self.CODE)
        return RawCallable(declaration, KernelLoader([CompilingProvider(lambda wanted: source)]))

    def test_none_where_it_is_declared(self, device: ArrayDevice) -> None:
        x, y = device.array(np.arange(3), "float32"), device.zeros(3, "float32")
        for kernel in (self.of_a_spec(), kspec.RawKernel(self.CODE, "add", params=self.PARAMS)):
            for _ in range(4):  # plans of both sorts
                kernel((1,), (3,), (x, None, y))
                np.testing.assert_array_equal(device.numpy(y), [-1, 0, 1])
                kernel((1,), (3,), (x, x, y))
                np.testing.assert_array_equal(device.numpy(y), [0, 2, 4])
            message = r"argument y is declared float\* y, so it must be an array, not None"
            with pytest.raises(kspec.ArgumentTypeError, match=message):
                kernel((1,), (3,), (x, None, None))

    def test_none_where_nothing_is_declared(self, device: ArrayDevice) -> None:
        """As in CuPy."""
        x, y = device.array(np.arange(3), "float32"), device.zeros(3, "float32")
        kspec.RawKernel(self.CODE, "add")((1,), (3,), (x, None, y))
        np.testing.assert_array_equal(device.numpy(y), [-1, 0, 1])


def test_fractions_do_not_become_integers(place: ArrayDevice) -> None:
    """Where arrays make a placeholder an integer, whole floats do."""
    code = "template <class T> __global__ void put(T* x, T y) { x[threadIdx.x] = y; }"
    expressions = ("put<int>", "put<float>")
    source = CudaSource("put.cu", code, expressions)
    declaration = RawDeclaration("put", expressions, parse_c_params("T* x, T value"))
    kernel = RawCallable(declaration, KernelLoader([CompilingProvider(lambda wanted: source)]))
    x, y = place.zeros(1, "int32"), place.zeros(1, "float32")
    message = (
        r"^put: argument value is declared T value, T is int32, so it must be an integer, "
        r"not 6\.5; convert it first, by int\(\) or round\(\)$"
    )
    for value in (3, 4.0, np.float64(5)) * 4:
        kernel((1,), (1,), (x, value))
        assert place.numpy(x)[0] == value
        with pytest.raises(kspec.ArgumentTypeError, match=message):
            kernel((1,), (1,), (x, 6.5))
        kernel((1,), (1,), (y, 6.5))
        assert place.numpy(y)[0] == 6.5


@pytest.mark.parametrize(
    ("dtype", "written"), [("uint32", "unsigned"), ("int64", "long"), ("float32", "float")]
)
def test_instances_are_found_in_any_spelling(dtype: str, written: str, place: ArrayDevice) -> None:
    code = "template <class T> __global__ void add(T* x, T y) { x[threadIdx.x] += y; }"
    expressions = ("add<double>", f"add< {written} >")
    source = CudaSource("add.cu", code, expressions)
    declaration = RawDeclaration("add", expressions, parse_c_params("T* x, T y"))
    kernel = RawCallable(declaration, KernelLoader([CompilingProvider(lambda wanted: source)]))
    x = place.zeros(3, dtype)
    kernel((1,), (3,), (x, 2))
    np.testing.assert_array_equal(place.numpy(x), [2, 2, 2])
    with pytest.raises(kspec.ArgumentTypeError, match="no instance for T=int16"):
        kernel((1,), (3,), (place.zeros(3, "int16"), 2))


class TestParams:
    """Declaring them in Python."""

    def test_they_can_be_read(self) -> None:
        assert list(map(str, of_a_module().params or ())) == FILL_PARAMS.split(", ")
        assert kspec.RawKernel(FILL, "fill").params is None
        assert kspec.RawKernel(FILL, "fill", params="").params == ()

    def test_they_are_copied(self, device: ArrayDevice) -> None:
        kernel = pickle.loads(pickle.dumps(of_a_constructor()))
        out = device.zeros(2)
        kernel((1,), (2,), (out, 2, 3))
        np.testing.assert_array_equal(device.numpy(out), [3, 3])
        with pytest.raises(OverflowError, match="fill: argument count is declared int count"):
            kernel((1,), (2,), (out, 2**31, 3))

    def test_a_bound_call_is_checked(self, device: ArrayDevice) -> None:
        out = device.zeros(2)
        of_a_constructor().bind((1,), (2,), (out, 2, 3))()
        np.testing.assert_array_equal(device.numpy(out), [3, 3])
        with pytest.raises(TypeError, match="takes 3 parameters"):
            of_a_constructor().bind((1,), (2,), (out, 2))

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ("double* out, int", "needs a type and a name"),
            ("double* x, int x", "two parameters are called 'x'"),
            ("T* x, int n", r"T\* x: the type of a parameter of one kernel is known"),
            (["double& x"], "not a reference"),
        ],
    )
    def test_what_is_no_declaration(self, params: Any, message: str) -> None:
        with pytest.raises(kspec.SignatureSyntaxError, match=message):
            kspec.RawKernel(FILL, "fill", params=params)
        with pytest.raises(kspec.SignatureSyntaxError, match=message):
            kspec.RawModule(code=FILL).get_function("fill", params=params)

    def test_declared_wrongly(self, place: ArrayDevice) -> None:
        """The compiled kernel knows what it takes, whoever has compiled it."""

        def declared(params: str) -> RawCallable:
            declaration = RawDeclaration("fill", ("fill",), parse_c_params(params))
            source = CudaSource("fill.cu", FILL)
            return RawCallable(declaration, KernelLoader([CompilingProvider(lambda _: source)]))

        kernel = declared("double* out, int count")
        with pytest.raises(TypeError, match="fill takes 3 parameters, not 2"):
            kernel((1,), (1,), (place.zeros(1), 1))
        kernel = declared("double* out, int count, float value")
        with pytest.raises(TypeError, match="parameter 2 has 8 bytes, but the argument has 4"):
            kernel((1,), (1,), (place.zeros(1), 1, 1.0))

    def test_a_pointer_to_one_struct(self, device: ArrayDevice) -> None:
        code = """struct Pair { int first; double second; };
        extern "C" __global__ void add(Pair* p, Pair q) { p->first += q.first; }"""
        if device.library == "cupy":
            pytest.skip("no structs")
        one = np.array([(1, 2.5)], STRUCT)
        kernel, p = kspec.RawKernel(code, "add", params="Pair* p, Pair q"), device.array(one)
        kernel((1,), (1,), (p, one[0]))
        kernel((1,), (1,), (p, one))
        assert device.numpy(p).tolist() == [(3, 2.5)]


TEMPLATES = r"""
template <class T> __global__ void scale(T* x, T by) { x[threadIdx.x] *= by; }
__global__ void plain(float* x) { x[threadIdx.x] = 4; }
extern "C" __global__ void c_linkage(float* x) { x[threadIdx.x] = 5; }
"""


class TestModule:
    def test_name_expressions(self, device: ArrayDevice) -> None:
        module = kspec.RawModule(
            code=TEMPLATES, name_expressions=("scale<int>", "scale<double>", "plain")
        )
        x = device.array(np.arange(4, dtype="int32"))
        module.get_function("scale<int>")((1,), (4,), (x, np.int32(3)))
        np.testing.assert_array_equal(device.numpy(x), [0, 3, 6, 9])
        y = device.array(np.arange(4.0))
        module.get_function("scale<double>")((1,), (4,), (y, 0.5))
        np.testing.assert_array_equal(device.numpy(y), [0, 0.5, 1, 1.5])
        z = device.zeros(2, "float32")
        module.get_function("plain")((1,), (2,), (z,))
        np.testing.assert_array_equal(device.numpy(z), [4, 4])
        module.get_function("c_linkage")((1,), (2,), (z,))
        np.testing.assert_array_equal(device.numpy(z), [5, 5])

    @pytest.mark.parametrize("name", ["scale<float>", "nothing"])
    def test_names_that_are_not_there(self, name: str) -> None:
        module = kspec.RawModule(code=TEMPLATES, name_expressions=["scale<int>"])
        with pytest.raises(kspec.LoadError, match="named symbol not found"):
            module.get_function(name)

    def test_a_missing_kernel_is_noticed_at_the_first_call(self, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(FILL, "flil")
        with pytest.raises(kspec.LoadError, match="named symbol not found"):
            kernel((1,), (1,), (place.zeros(1), 1, 1.0))

    def test_an_expression_that_does_not_compile(self) -> None:
        module = kspec.RawModule(code=TEMPLATES, name_expressions=["no_such<int>"])
        with pytest.raises(kspec.CompileError, match="no_such"):
            module.get_function("no_such<int>")

    def test_code_that_does_not_compile(self, place: ArrayDevice) -> None:
        code = '\nextern "C" __global__ void broken(float* x) {\n  *x = undeclared;\n}'
        kernel = kspec.RawKernel(code, "broken")
        with pytest.raises(kspec.CompileError, match="undeclared") as caught:
            kernel((1,), (1,), (place.zeros(1, "float32"),))
        line = next(one for one in str(caught.value).splitlines() if "undeclared" in one)
        assert "(3)" in line or ":3:" in line
        assert "undeclared" in caught.value.numbered_source().splitlines()[2]

    def test_nothing_is_compiled_before_it_is_needed(self) -> None:
        kspec.RawKernel("this is not C++", "f")
        kspec.RawModule(code="neither is this")

    def test_attributes(self) -> None:
        kernel = kspec.RawKernel(FILL, "fill", options=("-DA=1",))
        assert (kernel.name, kernel.__name__, kernel.code) == ("fill", "fill", FILL)
        assert (kernel.options, kernel.backend, kernel.file_path) == (("-DA=1",), "nvrtc", None)

    def test_compile_writes_the_log(self) -> None:
        kernel = kspec.RawKernel(FILL, "fill")
        kernel.compile(log_stream=io.StringIO())
        kernel.compile()

    def test_options_reach_the_compiler(self, place: ArrayDevice) -> None:
        code = 'extern "C" __global__ void f(double* x) { *x = VALUE; }'
        x = place.zeros(1)
        kspec.RawKernel(code, "f", ("-DVALUE=6",))((1,), (1,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [6])

    @pytest.mark.parametrize("options", [["-DA"], "-DA", None])
    def test_options_must_be_a_tuple(self, options: Any) -> None:
        with pytest.raises(TypeError, match="options must be a tuple"):
            kspec.RawKernel(FILL, "fill", options)

    def test_code_or_path(self, tmp_path: Path) -> None:
        with pytest.raises(TypeError, match="exactly one of code and path"):
            kspec.RawModule()
        with pytest.raises(TypeError, match="exactly one of code and path"):
            kspec.RawModule(code=FILL, path="fill.cubin")
        with pytest.raises(TypeError):
            kspec.RawModule(FILL)  # type: ignore[misc]
        with pytest.raises(ValueError, match="name_expressions need code"):
            kspec.RawModule(path="fill.cubin", name_expressions=["f"])
        with pytest.raises(TypeError, match="sequence of strings"):
            kspec.RawModule(code=FILL, name_expressions="fill")

    @pytest.mark.parametrize(
        ("keywords", "message"),
        [
            ({"code": FILL, "backend": "nvcc", "name_expressions": ["f"]}, "nvrtc"),
            ({"code": FILL, "backend": "nvcc", "jitify": True}, "nvrtc"),
            ({"path": "fill.cubin", "jitify": True}, "nvrtc"),
            ({"code": FILL, "backend": "icc"}, "unknown backend 'icc'"),
        ],
    )
    def test_what_only_nvrtc_can(self, keywords: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            kspec.RawModule(**keywords)

    def test_a_compiled_file_has_no_options(self) -> None:
        module = kspec.RawModule(path="fill.cubin", options=("-DX",), backend="nvrtc")
        assert (module.options, module.backend) == ((), "nvcc")

    @pytest.mark.parametrize("jitify", [None, False, True])
    def test_standard_headers_need_no_jitify(self, jitify: bool, place: ArrayDevice) -> None:
        code = "#include <cstdint>\n" + FILL.replace("int tid", "std::int32_t tid")
        out = place.zeros(2)
        kspec.RawKernel(code, "fill", jitify=jitify)((1,), (16,), (out, 2, 1.0))
        np.testing.assert_array_equal(place.numpy(out), [1, 1])


def test_names_need_c_linkage_or_a_name_expression(place: ArrayDevice) -> None:
    code = "__global__ void plain(float* x) { x[0] = 1; }"
    out = place.zeros(1, "float32")
    with pytest.raises(kspec.LoadError, match="named symbol not found"):
        kspec.RawKernel(code, "plain")((1,), (1,), (out,))
    module = kspec.RawModule(code=code, name_expressions=["plain"])
    module.get_function("plain")((1,), (1,), (out,))
    np.testing.assert_array_equal(place.numpy(out), [1])


def test_a_structured_array_of_one_element_is_passed_by_value(place: ArrayDevice) -> None:
    code = """
    struct Pair { int a; double b; };
    extern "C" __global__ void add(Pair pair, double* out) { out[0] = pair.a + pair.b; }
    """
    pair = np.array([(1, 2.5)], np.dtype([("a", "i4"), ("b", "f8")], align=True))
    out = place.zeros(1)
    for value in (pair, pair[0]):
        kspec.RawKernel(code, "add")((1,), (1,), (value, out))
        np.testing.assert_array_equal(place.numpy(out), [3.5])
    with pytest.raises(TypeError, match=r"pass one element, such as|is a NumPy array next to"):
        kspec.RawKernel(code, "add")((1,), (1,), (np.repeat(pair, 2), out))


def test_a_structured_array_of_several_elements_is_a_pointer(place: ArrayDevice) -> None:
    code = """
    struct Pair { int a; double b; };
    extern "C" __global__ void add(const Pair* pairs, double* out) { out[0] = pairs[1].b; }
    """
    pairs = np.array([(1, 2.5), (2, 7.5)], np.dtype([("a", "i4"), ("b", "f8")], align=True))
    out = place.zeros(1)
    kspec.RawKernel(code, "add")((1,), (1,), (place.array(pairs), out))
    np.testing.assert_array_equal(place.numpy(out), [7.5])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none.cubin", "No such file or directory; see that it exists"),
        ("folder", "Is a directory; a file is required"),
        ("pipe", "not a regular file; a regular file is required"),
        ("a\0b", "not a name of a file"),
        ("a\ud800b", "not a name of a file"),
        ("n" * 300, "File name too long; use a shorter name"),
    ],
)
def test_an_image_that_cannot_be_read(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(kspec.LoadError, match=f"^CUDA_ERROR_FILE_NOT_FOUND: .*: {reason}"):
        kspec.RawModule(path=str(tmp_path / name)).get_function("f")


@pytest.mark.gpu
def test_an_image_from_a_file(tmp_path: Path, place: ArrayDevice) -> None:
    if place.is_host:
        pytest.skip("needs a CUDA device")
    target = target_for_capability(*driver.compute_capability(0))
    image = compile_source(CudaSource("fill.cu", FILL), target)
    path = tmp_path / "fill.cubin"
    path.write_bytes(image.code)
    out = place.zeros(3)
    kspec.RawModule(path=str(path)).get_function("fill")((1,), (3,), (out, 3, 1.5))
    np.testing.assert_array_equal(place.numpy(out), [1.5] * 3)
    with pytest.raises(kspec.LoadError, match="CUDA_ERROR_FILE_NOT_FOUND"):
        kspec.RawModule(path=str(tmp_path / "none.cubin")).get_function("fill")


class TestHostFaults:
    """Mistakes that a GPU may forgive, or not report, are exceptions on the host device."""

    def test_out_of_bounds(self) -> None:
        out = kspec.zeros(4, device="host")
        with pytest.raises(kspec.HostFault, match="fill"):
            kspec.RawKernel(FILL, "fill")((1000,), (1024,), (out, 10**6, 1.0))

    def test_divergent_barrier(self) -> None:
        code = r"""
        extern "C" __global__ void f(float* x) {
          if (threadIdx.x < 3) __syncthreads();
          else { x[threadIdx.x] = 1; __syncthreads(); }
        }
        """
        with pytest.raises(kspec.HostFault, match="3 of 8 threads wait in __syncthreads"):
            kspec.RawKernel(code, "f")((1,), (8,), (np.zeros(8, "float32"),))
