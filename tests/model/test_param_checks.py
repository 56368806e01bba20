"""Declared parameters against kernels: what is the same, and what a compiler refuses by name."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

import kspec
from kspec.compiler import compile_source
from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.param_checks import HEADER, ParamLines, param_checks
from kspec.model.stages import HOST, CudaSource, Target
from tests.devices import ArrayDevice, device, place

__all__ = ["device", "place"]  # fixtures

TARGETS = [Target("sm_90"), HOST]
# Kernel's parameters, and declarations of them.
SAME = [
    ("float* x, int n", "float* x, int n"),
    ("float* x, int n", "const float* x, int n"),
    ("const float* __restrict__ x, const int n", "float* x, int n"),
    ("volatile float* x, float* const y", "float *x, float y[]"),
    ("long long n, unsigned long m, size_t k", "long n, size_t m, unsigned long long k"),
    ("char a, signed char b, unsigned char c", "char a, int8_t b, uint8_t c"),
    ("bool* p, bool q", "bool* p, bool q"),
    ("void* p, const void* q", "void* p, float* q"),
    ("float** p, const double* const* q", "float** p, double** q"),
    ("float* p", "void* p"),
    ("Point p, const Point* q", "Point p, Point* q"),
    ("float2* z, Half h, Color c", "complex<float>* z, float16 h, int c"),
    ("unsigned long long t", "cudaTextureObject_t t"),
    ("", ""),
    ("", "void"),
]
# The same with the numbers of the parameters that do not fit; 0: there is another number of them.
OTHER = [
    ("const float* x, double* y", "double* y, const float* x", [1, 2]),
    ("float* x", "double* x", [1]),
    ("int* x", "unsigned int* x", [1]),
    ("long long n", "int n", [1]),
    ("int n", "long long n", [1]),
    ("int n", "float n", [1]),
    ("float n", "double n", [1]),
    ("float* x", "float x", [1]),
    ("float x", "float* x", [1]),
    ("float** x", "float* x", [1]),
    ("unsigned long long x", "float* x", [1]),
    ("float* x", "unsigned long long x", [1]),
    ("unsigned long long x", "void* x", [1]),
    ("Point p", "Other p", [1]),
    ("Point* p", "Point p", [1]),
    ("Point p", "float p", [1]),
    ("float p", "Point p", [1]),
    ("float* z", "complex<float>* z", [1]),
    ("float* x, int n", "float* x", [0]),
    ("float* x", "float* x, int n", [0]),
    ("float* x", "double* x, int n", [0, 1]),
    ("int n", "", [0]),
]
CODE = """
struct Point { int x, y, z; };
struct Other { int x, y, z; };
struct Half { unsigned short bits; };
enum Color { RED };
extern "C" __global__ void k(%s) {}
"""


def checked(text: str, name: str, expressions: list[str], params: str, *options: str) -> CudaSource:
    lines = param_checks(name, expressions, parse_c_params(params), ParamLines("a.toml", (7,)))
    code = "\n".join([f'#include "{HEADER}"', '#line 1 "k.cu"', text, *lines])
    return CudaSource("k.cu", code, tuple(expressions), options=options)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_what_is_the_same(target: Target) -> None:
    # One translation unit for all: each kernel has a name of its own.
    text = CODE.split("extern")[0] + "\n".join(
        f'extern "C" __global__ void k{number}({kernel}) {{}}'
        for number, (kernel, _) in enumerate(SAME)
    )
    lines = [
        line
        for number, (_, declared) in enumerate(SAME)
        for line in param_checks(
            f"k{number}", [f"k{number}"], parse_c_params(declared), ParamLines("a.toml")
        )
    ]
    source = CudaSource("k.cu", "\n".join([f'#include "{HEADER}"', text, *lines]))
    assert compile_source(source, target).log == ""


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize(("kernel", "declared", "numbers"), OTHER)
def test_what_is_not(kernel: str, declared: str, numbers: list[int], target: Target) -> None:
    with pytest.raises(kspec.CompileError) as caught:
        compile_source(checked(CODE % kernel, "k", ["k"], declared), target)
    found = caught.value.diagnostics
    messages = [one.message for one in found if one.message.startswith("k: params: ")]
    places = [re.search(r"parameter (\d+) of k, which has another type", one) for one in messages]
    assert [int(one[1]) if one else 0 for one in places] == numbers
    assert {
        one.place.rpartition(":")[0] or one.place for one in found if "params" in one.message
    } <= {
        "a.toml:7",
        "a.toml",
    }
    if 0 in numbers:
        assert "declared, but k takes another number; declare those of the CUDA text" in messages[0]


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_each_name_expression_is_checked(target: Target) -> None:
    text = (
        "namespace ns { template <class T, class S> __global__ void k(T* x, S y, long long n) {} }"
    )
    expressions = ["ns::k<float, int>", "& ns::k<double, unsigned long long>"]
    compile_source(checked(text, "k", expressions, "T* x, S y, long long n"), target)
    with pytest.raises(kspec.CompileError) as caught:
        compile_source(checked(text, "k", expressions, "T* x, int y, int n"), target)
    messages = "\n".join(one.message for one in caught.value.diagnostics)
    assert "'int y' does not fit parameter 2 of & ns::k<double, unsigned long long>" in messages
    assert "'int y' does not fit parameter 2 of ns::k<float, int>" not in messages
    assert messages.count("'int n' does not fit parameter 3 of") == 2


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_macros_of_options_reach_no_name_of_the_checks(target: Target) -> None:
    text = 'extern "C" __global__ void k(REAL* x) { *x = N; }'
    options = ("-DREAL=float", "-DN=3", "-DPointers=7", "-DU=3", "-DIndex=2", "-DKernel=k")
    source = checked(text, "k", [], "float* x", *options)
    compile_source(source, target)
    lines = param_checks("k", ["k"], parse_c_params("float* x"), ParamLines("a.toml"))
    compile_source(replace(source, text="\n".join([source.text, *lines])), target)


@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_plain_names_are_found_in_namespaces(target: Target) -> None:
    text = """
    // namespace none {
    namespace outer { extern "C" { __global__ void first(int n) {} }
    #if 0
    namespace gone { }
    #endif
    namespace inner { struct P { int x; }; extern "C" __global__ void k(P* p, int n) {} } }
    """
    params = parse_c_params("P* p, int n")
    for declared, fits in ((params, True), (params[:1], False)):
        lines = [f'#include "{HEADER}"', text]
        lines += param_checks("k", ["k"], declared, ParamLines("a.toml"), text)
        source = CudaSource("k.cu", "\n".join(lines))
        if fits:
            compile_source(source, target)
        else:
            with pytest.raises(kspec.CompileError, match="k: params: 1 parameter declared"):
                compile_source(source, target)


SCALE = """
extern "C" __global__ void scale(float* x, float by) { x[threadIdx.x] *= by; }
template <class T> __global__ void shift(T* x, T by) { x[threadIdx.x] += by; }
"""


class TestConstructors:
    def test_what_fits_runs(self, place: ArrayDevice) -> None:
        x = place.array(np.arange(3, dtype="float32"))
        kspec.RawKernel(SCALE, "scale", params="float* x, float by")((1,), (3,), (x, 2))
        kspec.RawKernel(SCALE, "shift<float>", params="float* x, float by")((1,), (3,), (x, 1))
        module = kspec.RawModule(code=SCALE, name_expressions=["shift<float>"])
        module.get_function("shift<float>", params="float* x, float by")((1,), (3,), (x, 1))
        module.get_function("scale", params=["float* x", "float by"])((1,), (3,), (x, 2))
        np.testing.assert_array_equal(place.numpy(x), [4, 8, 12])

    @pytest.mark.parametrize("name", ["scale", "shift<float>"])
    def test_what_does_not_is_a_compile_error(self, name: str, place: ArrayDevice) -> None:
        kernel = kspec.RawKernel(SCALE, name, params="float* x, double by")
        message = (
            f"{name}: params: 'double by' does not fit parameter 2 of {name}, which has another"
        )
        for _ in range(2):
            with pytest.raises(kspec.CompileError, match=message) as caught:
                kernel((1,), (3,), (place.zeros(3, "float32"), 2.0))
        assert [one.place.split(":")[:2] for one in caught.value.diagnostics] == [["<params>", "2"]]

    def test_a_module_refuses_it_when_it_is_asked(self) -> None:
        module = kspec.RawModule(code=SCALE)
        message = r"scale: params: 'int\* x' does not fit parameter 1 of scale"
        with pytest.raises(kspec.CompileError, match=message):
            module.get_function("scale", params="int* x, float by")
        assert module.get_function("scale").params is None

    def test_the_source_is_that_of_the_user(self) -> None:
        kernel = kspec.RawKernel(SCALE, "scale", params="float* x, float by")
        assert kernel.code == SCALE


@pytest.mark.parametrize(
    "text", ["'{'", 'R"({)"', '"{"', "1'000", "0 /* { */", "0  // {\n", "0\n#define OPEN {\n"]
)
def test_braces_that_open_nothing(text: str) -> None:
    source = f"namespace a {{ const auto c = {text}; }} namespace b::inline c {{ }}"
    lines = list(param_checks("k", ["k"], parse_c_params("int n"), ParamLines("a.toml"), source))
    namespaces = [line for line in lines if line.startswith("using")]
    assert namespaces == ["using namespace ::a;", "using namespace ::b::c;"]
