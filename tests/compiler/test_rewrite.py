"""The lexical pass from CUDA text to host C++ text."""

import pytest

from kspec.compiler.rewrite import Entry, rewrite

F = "__device__ void f() {{ {} }}"


@pytest.mark.parametrize(
    ("declaration", "expected"),
    [
        ("__shared__ float s[64];",
         "typedef float kspec_type_s[64 ]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("static __shared__ T s;",
         "typedef T kspec_type_s; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("volatile __shared__ unsigned int s[N][M + 1];",
         "typedef volatile unsigned int kspec_type_s[N ] [M + 1 ]; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
        ("extern __shared__ float s[];",
         "typedef float kspec_type_s[ ]; KSPEC_HOST_DYNAMIC_SHARED(kspec_type_s, s)"),
        ("__shared__ __align__(16) pair<int, 3> s;",
         "typedef __attribute__((aligned(16))) pair < int , 3 > kspec_type_s; "
         "KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s)"),
    ],
)  # fmt: skip
def test_shared_memory(declaration, expected):
    squeezed = "".join(rewrite(F.format(declaration)).text.split())
    assert squeezed == "".join(F.format(expected).split())


def test_several_variables_and_lines():
    text = F.format("__shared__ int a,\n  *b; int c;")
    rewritten = rewrite(text).text
    assert rewritten.count("\n") == 1
    assert "typedef int kspec_type_a;" in rewritten
    assert "typedef int *kspec_type_b;" in rewritten
    assert rewritten.endswith("int c; }")


@pytest.mark.parametrize(
    "text",
    [
        "int x = 1; // __shared__ float s[3];",
        'const char* s = "__shared__ float s[3];";',
        "#define TILE __shared__ float tile[4];",
        "__shared__ float file_scope[4];",
        "template <class T> __global__ void k(T* x) { x[0] = 1'000; }",
        "__global__ void declared(int*);",
        'auto s = R"x(__global__ void k() {})x";',
        "struct S { __device__ int member; };",
        "extern __constant__ int elsewhere;",
        "__device__ int function(int);",
    ],
)
def test_left_alone(text):
    assert rewrite(text).text == text and not rewrite(text).entries


def test_kernels_get_entries():
    text = 'extern "C" __global__ void __launch_bounds__(256, 2) a(int x) { if (x) { } }\n'
    text += "namespace n { __global__ void b(float* p) {} }  // C++ linkage\n"
    text += "template <> __global__ void c<int>(int*) {}\n"
    text += 'extern "C" { __global__ void d() {} }'
    result = rewrite(text, first_number=3, known=["d"])
    assert result.entries == (Entry("a", "kspec_entry_3"),)
    assert "{ if (x) { } } KSPEC_HOST_KERNEL(3, &a)\n" in result.text
    assert "float* p) {} }  // C++ linkage\n" in result.text


def test_variables_get_entries():
    text = "__constant__ float c[2] = {1, 2};\nnamespace n { __device__ int i, *p = f(1); }"
    result = rewrite(text)
    assert [entry.name for entry in result.entries] == ["c", "n::i", "n::p"]
    assert "= {1, 2}; KSPEC_HOST_GLOBAL(0, c)\n" in result.text


def test_includes_are_listed():
    text = '#include <cmath>\n # include "kspec/array.cuh" // mine\n// #include <no>'
    assert rewrite(text).includes == ("cmath", "kspec/array.cuh")
