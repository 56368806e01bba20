"""What RawKernel and RawModule hand to the compiler: backend, options, names, headers; its log."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler.cuda import link, nvcc
from kspec.errors import ToolNotFoundError
from kspec.model.stages import RawSymbol
from kspec.runtime import driver
from kspec.runtime.driver.device import Device
from kspec.runtime.raw import kernel as raw
from tests.devices import ArrayDevice


@pytest.fixture
def sm90(monkeypatch: pytest.MonkeyPatch) -> Device:
    """A GPU to compile for, which need not be there."""
    device = Device("cuda")
    monkeypatch.setattr(driver, "compute_capability", lambda ordinal: (9, 0))
    monkeypatch.setattr(raw, "default_device", lambda: device)
    return device


def needs_gpu(test: Any) -> Any:
    """Mark a test, or all of a class, that no other device can run."""
    absent = len(kspec.devices()) == 1
    return pytest.mark.gpu(pytest.mark.skipif(absent, reason="needs a CUDA device")(test))


NAMES = r"""
namespace ns {
struct Half { static constexpr int value = 2; };
__device__ int table[2] = {3, 4};
}
using real = float;
template <class T> __global__ void twice(T* x) { x[threadIdx.x] *= 2; }
template <class T> __global__ void by(const T* how, float* x) { x[threadIdx.x] *= T::value; }
"""
EXPRESSIONS = ("twice<float>", "twice<unsigned int>", "by<ns::Half>", "&ns::table")


def module() -> kspec.RawModule:
    return kspec.RawModule(code=NAMES, name_expressions=EXPRESSIONS)


class TestNames:
    @pytest.mark.parametrize("name", ["twice<float>", "twice< float >", "::twice<float>"])
    def test_any_spelling_finds_a_kernel(self, name: str, place: ArrayDevice) -> None:
        x = place.array(np.arange(3.0), "float32")
        module().get_function(name)((1,), (3,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [0, 2, 4])

    def test_words_of_a_type_in_any_order(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(3), "uint32")
        module().get_function("twice<unsigned>")((1,), (3,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [0, 2, 4])

    def test_a_variable(self, place: ArrayDevice) -> None:
        table = module().get_global("& ns :: table", place.place)
        np.testing.assert_array_equal(kspec.asnumpy(table.array(2, "int32")), [3, 4])

    @pytest.mark.parametrize("name", ["twice<double>", "by<int>", "ns::nothing"])
    def test_an_expression_that_is_none_of_the_modules(self, name: str) -> None:
        with pytest.raises(kspec.KspecError, match=name) as caught:
            module().get_function(name)
        assert isinstance(caught.value, kspec.LoadError | kspec.CompileError)

    def test_the_message_has_the_modules_expressions(self) -> None:
        with pytest.raises(
            kspec.LoadError, match=r"twice<double>: named symbol not found.*'twice<float>', "
        ):
            module().get_function("twice<double>")

    @pytest.mark.parametrize("name", ["twice<real>", "twice<decltype(1.0f)>", "twice<float >"])
    def test_nvrtc_knows_the_sources_own_names(self, name: str, sm90: Device) -> None:
        loader = module().loader
        image = loader.image(RawSymbol(name), sm90)
        assert loader.symbol(RawSymbol(name), sm90, image) == image.symbols["twice<float>"]

    def test_what_nvrtc_knows_is_in_the_module_or_nowhere(self, sm90: Device) -> None:
        loader = module().loader
        image = loader.image(RawSymbol(""), sm90)
        assert loader.symbol(RawSymbol("_Z5thingPf"), sm90, image) == "_Z5thingPf"
        with pytest.raises(kspec.LoadError, match=r"twice<double>: named symbol not found"):
            loader.symbol(RawSymbol("twice<double>"), sm90, image)
        with pytest.raises(kspec.CompileError, match="name expression 'twice<no_such_type>'"):
            loader.symbol(RawSymbol("twice<no_such_type>"), sm90, image)

    @needs_gpu
    def test_the_sources_own_names(self) -> None:
        x = kspec.asarray(np.arange(3, dtype="f4"), device="cuda:0")
        module().get_function("twice<real>")((1,), (3,), (x,))
        np.testing.assert_array_equal(kspec.asnumpy(x), [0, 2, 4])

    def test_a_kernel_named_by_an_expression(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(3.0), "float32")
        kernel = kspec.RawKernel(NAMES, "twice<float>")
        kernel((1,), (3,), (x,))
        pickle.loads(pickle.dumps(kernel))((1,), (3,), (x,))
        np.testing.assert_array_equal(place.numpy(x), [0, 4, 8])
        assert kernel.name == "twice<float>"

    @pytest.mark.parametrize("name", ["twice<", "twice<no_such_type>", "no_such<int>"])
    def test_a_listed_expression_that_does_not_parse(self, name: str) -> None:
        broken = kspec.RawModule(code=NAMES, name_expressions=[name])
        with pytest.raises(kspec.CompileError) as caught:
            broken.compile()
        assert name in str(caught.value)


WARNS = r"""
#warning think twice
extern "C" __global__ void one(float* x) { x[0] = 1; }
"""


class TestLog:
    @pytest.fixture(autouse=True)
    def cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Begin with an empty cache."""
        monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path))

    @pytest.fixture(params=["kernel", "module"])
    def make(self, request: pytest.FixtureRequest) -> type:
        """Return what makes a kernel or a module of a source."""
        if request.param == "kernel":
            return lambda code: kspec.RawKernel(code, "one")  # type: ignore[return-value]
        return lambda code: kspec.RawModule(code=code)  # type: ignore[return-value]

    def log_of(self, made: kspec.RawKernel | kspec.RawModule) -> str:
        stream = io.StringIO()
        made.compile(log_stream=stream)
        return stream.getvalue()

    def test_it_is_that_of_the_source_whoever_answers(self, make: type, sm90: Device) -> None:
        first = make(WARNS)
        assert "think twice" in self.log_of(first)
        assert self.log_of(first) == self.log_of(first)
        assert self.log_of(make(WARNS)) == self.log_of(first)  # from the cache
        assert self.log_of(make(WARNS.replace("#warning think twice", ""))) == ""

    def test_errors_are_written_before_they_are_raised(self, make: type) -> None:
        stream = io.StringIO()
        for _ in range(2):
            with pytest.raises(kspec.CompileError) as caught:
                make(WARNS.replace("= 1", "= one_half")).compile(log_stream=stream)
        assert stream.getvalue() == 2 * caught.value.log != ""

    def test_a_log_with_errors(self, make: type, sm90: Device) -> None:
        stream = io.StringIO()
        with pytest.raises(kspec.CompileError):
            make(WARNS.replace("= 1", "= one_half")).compile(log_stream=stream)
        assert "think twice" in stream.getvalue() and "one_half" in stream.getvalue()

    def test_no_stream(self, make: type) -> None:
        make(WARNS).compile()


CUCOMPLEX = r"""
#include <cuComplex.h>
template <class C> __device__ C keep(C z) { return z; }
extern "C" __global__ void singles(cuFloatComplex* z, float* x) {
  cuComplex a = z[0], b = make_cuComplex(1, 2), c = make_cuFloatComplex(-3, 0.5f);
  z[1] = cuCaddf(a, b); z[2] = cuCsubf(a, b); z[3] = cuCmulf(a, b); z[4] = cuCdivf(a, b);
  z[5] = cuConjf(a); z[6] = cuCfmaf(a, b, c);
  x[0] = cuCrealf(a); x[1] = cuCimagf(a); x[2] = cuCabsf(a);
  z[7] = cuComplexDoubleToFloat(cuComplexFloatToDouble(a)) OPERATORS;
}
extern "C" __global__ void doubles(cuDoubleComplex* z, double* x) {
  cuDoubleComplex a = z[0], b = make_cuDoubleComplex(1, 2), c = make_cuDoubleComplex(-3, 0.5);
  z[1] = cuCadd(a, b); z[2] = cuCsub(a, b); z[3] = cuCmul(a, b); z[4] = cuCdiv(a, b);
  z[5] = cuConj(a); z[6] = cuCfma(a, b, c);
  x[0] = cuCreal(a); x[1] = cuCimag(a); x[2] = cuCabs(a);
  z[7] = cuComplexFloatToDouble(cuComplexDoubleToFloat(a)) OPERATORS;
}
"""


@pytest.mark.parametrize("translate", [False, True])
@pytest.mark.parametrize(("name", "dtype"), [("singles", "complex64"), ("doubles", "complex128")])
def test_cucomplex(name: str, dtype: str, translate: bool, place: ArrayDevice) -> None:
    operators = "/ 2 * complex<float>(0, 1)" if translate else ""
    options = (f"-DOPERATORS={operators}",)
    kernel = kspec.RawKernel(CUCOMPLEX, name, options, translate_cucomplex=translate)
    a, b, c = 1.5 - 0.25j, 1 + 2j, -3 + 0.5j
    z, x = place.array(np.full(8, a), dtype), place.zeros(3, np.dtype(dtype).char.lower())
    kernel((1,), (1,), (z, x))
    last = a / 2 * 1j if translate else a
    expected = [a, a + b, a - b, a * b, a / b, a.conjugate(), a * b + c, last]
    np.testing.assert_allclose(place.numpy(z), expected, rtol=1e-6)
    np.testing.assert_allclose(place.numpy(x), [a.real, a.imag, abs(a)], rtol=1e-6)


def test_cucomplex_in_a_users_header(tmp_path: Path, place: ArrayDevice) -> None:
    (tmp_path / "mine.cuh").write_text(
        "#include <cuComplex.h>\n__device__ cuComplex half_of(cuComplex z) { return z / 2; }\n"
    )
    code = '#include "mine.cuh"\nextern "C" __global__ void k(cuComplex* z) { *z = half_of(*z); }'
    z = place.array([2 + 4j], "complex64")
    kspec.RawKernel(code, "k", (f"-I{tmp_path}",), translate_cucomplex=True)((1,), (1,), (z,))
    np.testing.assert_array_equal(place.numpy(z), [1 + 2j])


@pytest.mark.parametrize("spelled", ["{0}/two.cuh", "../two.cuh"])
def test_a_header_outside_of_the_folders(spelled: str, tmp_path: Path, place: ArrayDevice) -> None:
    (tmp_path / "two.cuh").write_text('#include "inner/one.cuh"\n#define TWO (ONE + 1)\n')
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/one.cuh").write_text("#define ONE 1\n")
    include = f'#include "{spelled.format(tmp_path)}"'
    code = include + '\nextern "C" __global__ void k(int* x) { *x = TWO; }'
    x = place.zeros(1, "int32")
    kspec.RawKernel(code, "k", (f"-I{tmp_path}/inner",))((1,), (1,), (x,))
    np.testing.assert_array_equal(place.numpy(x), [2])


def test_translating_one_source_leaves_others_alone(place: ArrayDevice) -> None:
    code = (
        "#include <cuComplex.h>\n"
        'extern "C" __global__ void k(float* x) { cuComplex z = {1, 2}; x[0] = z.y; }'
    )
    x = place.zeros(1, "float32")
    with pytest.raises(kspec.CompileError):
        kspec.RawKernel(code, "k", translate_cucomplex=True)((1,), (1,), (x,))
    kspec.RawKernel(code, "k")((1,), (1,), (x,))
    np.testing.assert_array_equal(place.numpy(x), [2])


SORT = r"""
#include <vector>
template <class T> __host__ __device__ T middle(T a, T b) { return (a + b) / 2; }
extern "C" __global__ void halve(float* x) { x[threadIdx.x] = middle(x[threadIdx.x], 0.0f); }
"""


@needs_gpu
class TestOnGpus:
    def test_nvcc(self) -> None:
        try:
            nvcc.find_nvcc()
        except ToolNotFoundError as error:
            pytest.skip(str(error))
        kernel = kspec.RawKernel(SORT, "halve", ("-O3",), backend="nvcc")
        x = kspec.asarray(np.arange(4, dtype="f4"), device="cuda:0")
        kernel((1,), (4,), (x,))
        np.testing.assert_array_equal(kspec.asnumpy(x), [0, 0.5, 1, 1.5])

    @pytest.mark.unsanitized("kernels that launch kernels are not supported by the tools")
    @pytest.mark.parametrize("backend", ["nvrtc", "nvcc"])
    def test_kernels_that_launch_kernels(self, backend: str) -> None:
        code = r"""
        __global__ void child(int* x, int value) { x[threadIdx.x] += value; }
        extern "C" __global__ void parent(int* x, int n) {
          child<<<1, n>>>(x + n * threadIdx.x, threadIdx.x);
          if (cudaGetLastError() != cudaSuccess) x[0] = -1;
        }
        """
        try:
            link.linker_build() if backend == "nvrtc" else nvcc.find_nvcc()
        except ToolNotFoundError as error:
            pytest.skip(str(error))
        x = kspec.zeros((3, 8), "int32", "cuda:0")
        parent = kspec.RawKernel(code, "parent", ("-dc",), backend)
        parent((1,), (3,), (x, 8))
        np.testing.assert_array_equal(kspec.asnumpy(x), np.repeat([[0], [1], [2]], 8, axis=1))
        for _ in range(299):  # what is launched often may become a graph
            parent((1,), (3,), (x, 8))
        np.testing.assert_array_equal(kspec.asnumpy(x), np.repeat([[0], [300], [600]], 8, axis=1))


def test_backends_share_the_host_device() -> None:
    x = np.arange(4, dtype="f4")
    kspec.RawKernel(SORT, "halve", backend="nvcc")((1,), (4,), (x,))
    np.testing.assert_array_equal(x, [0, 0.5, 1, 1.5])
