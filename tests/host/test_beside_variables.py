"""Accesses beside the variable that they are computed from, which a compiler may leave out."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import pytest

import kspec
from tests.host.checked import Checked, fault_of

HEAD = """#include <cuda_fp16.h>
template <class T> struct Three { T a[3]; T b; };
union Four { float4 v; float a[4]; };
template <class T, int N> __device__ T fill(int m) {
  T b[N];
  for (int i = 0; i < m; ++i) b[i] = (T)(float)i;
  return b[N - 1];
}
__device__ void put(int* q, int k) { q[k] = 7; }
__constant__ int c[4] = {1, 2, 3, 4};
__device__ int d[2][3];
__constant__ Three<int> records = {{1, 2, 3}, 4};
template <class T> __device__ T many[3];
"""

# n is 0.
BESIDE = [
    "int b[4]; for (int i = 0; i < 6; ++i) b[i] = i; x[0] = b[3];",
    "int b[4]; b[9] = 1; x[0] = 1;",
    "int b[4] = {1, 2, 3, 4}; x[0] = b[4];",
    "int b[4]; put(b, 5); x[0] = 1;",
    "x[0] = fill<int, 4>(6);",
    "x[0] = (int)fill<double, 4>(5);",
    "x[0] = fill<char, 4>(5);",
    "x[0] = (int)(float)fill<half, 3>(4);",
    "int b[4]; auto set = [&](int i) { b[i] = i; }; set(4); x[0] = 1;",
    "int b[4], i = 0; while (i <= 4) b[i++] = i; x[0] = b[0];",
    "int b[2][3]; for (int i = 0; i < 3; i++) for (int j = 0; j < 3; j++) b[i][j] = 1; x[0] = b[1][1];",
    "Three<int> s; for (int i = 0; i < 5; i++) s.a[i] = i; x[0] = s.a[0];",
    "Three<int> s[2]; for (int i = 0; i < 3; i++) s[i].b = i; x[0] = s[1].b;",
    "Four u; for (int i = 0; i < 5; i++) u.a[i] = i; x[0] = u.v.x;",
    "float4 v; float* q = &v.x; for (int i = 0; i < 5; i++) q[i] = i; x[0] = v.x;",
    "float4 v[2]; for (int i = 0; i < 3; i++) v[i] = make_float4(i, i, i, i); x[0] = v[1].x;",
    "(&one)[1] = 3; x[0] = one;",
    "char b[6]; *(int*)(b + n + 4) = 1; x[0] = 1;",
    "int* b = (int*)malloc(16); b[4] = 1; x[0] = 1; free(b);",
    "x[0] = c[4];",
    "x[0] = c[n + 100];",
    "x[0] = c[n + 1000000];",
    "x[0] = d[n + 2][0];",
    "d[2][n] = 1; x[0] = 1;",
    "x[0] = records.a[n + 4];",
    "x[0] = many<int>[n + 3];",
    'const char* s = "abc"; x[0] = s[n + 5];',
]

# What other indices reach is in the variable, or is no access at all.
WITHIN = {
    "x[0] = fill<int, 4>(4);": 3,
    "int b[2][3]; for (int i = 0; i < 6; i++) b[0][i] = i; x[0] = b[1][2];": 5,
    "int b[2][3]; for (int i = 0; i < 6; i++) (&b[0][0])[i] = i; x[0] = b[1][2];": 5,
    "float4 v; for (int i = 0; i < 4; i++) (&v.x)[i] = i; x[0] = v.w;": 3,
    "Four u; for (int i = 0; i < 4; i++) u.a[i] = i; x[0] = u.v.w;": 3,
    "d[1][2] = 5; x[0] = d[0][n + 5];": 5,
    "x[0] = records.a[n + 3];": 4,
    "__shared__ int s[2][3]; s[0][n + 5] = 3; x[0] = s[1][2];": 3,
    "char b[8]; *(int*)(b + n + 4) = 1; x[0] = b[4];": 1,
    "int b[4]; int* end = &b[4]; for (int* q = b; q != end; ++q) *q = 1; x[0] = b[3];": 1,
    "int b[5]; int* q = &b[2]; q[-2] = 3; q[2] = 1; x[0] = b[0];": 3,
    "int b[4]; if (n == 1) b[5] = 1; x[0] = 1;": 1,
    "int b[4]; for (int i = 0; i < n + 4; i++) b[i] = i; x[0] = b[1];": 1,
    "struct F { int n, a[1]; }; F* f = (F*)malloc(32); f->a[5] = 5; x[0] = f->a[5]; free(f);": 5,
    'const char* s = "abc"; x[0] = s[n + 3] + 2;': 2,
}


BODIES = [*BESIDE, *WITHIN]
TEXT = HEAD + "\n".join(
    f'extern "C" __global__ void k{number}(int* x, long long n) {{ int one = 1; {body} }}'
    for number, body in enumerate(BODIES)
)


@functools.cache
def module_of(options: tuple[str, ...]) -> kspec.RawModule:
    return kspec.RawModule(code=TEXT, options=options)


def kernel_of(body: str, *options: str) -> kspec.RawKernel:
    return module_of(options).get_function(f"k{BODIES.index(body)}")


@pytest.mark.parametrize("body", BESIDE)
@pytest.mark.parametrize("sanitize", [None, "memory"])
@pytest.mark.parametrize("options", [(), ("-G",)])
def test_accesses_beside_variables(
    body: str, sanitize: str | None, options: tuple[str, ...]
) -> None:
    kernel = kernel_of(body, *options)
    fault = fault_of(kernel, (1,), (1,), (np.zeros(2, "i4"), 0), sanitize=sanitize)
    assert fault.kind == "illegal-address"
    assert (
        fault.line == HEAD.count("\n") + 1 + BODIES.index(body) or "fill" in body or "put" in body
    )


@pytest.mark.parametrize("body", WITHIN)
@pytest.mark.parametrize("sanitize", [None, "memory", "race"])
def test_accesses_within_variables(body: str, sanitize: str | None) -> None:
    x = np.zeros(2, "i4")
    kernel_of(body)((1,), (1,), (x, 0), sanitize=sanitize)
    assert x[0] == WITHIN[body]


def test_words() -> None:
    body = "int b[4]; for (int i = 0; i < 6; ++i) b[i] = i; x[0] = b[3];"
    fault = fault_of(kernel_of(body), (1,), (1,), (np.zeros(2, "i4"), 0))
    assert "write of 'int' at 0 bytes past the end of local variable b (16 bytes)" in str(fault)
    assert body in str(fault)
    fault = fault_of(kernel_of("x[0] = c[n + 100];"), (1,), (1,), (np.zeros(2, "i4"), 0))
    assert "read of 'int' at 384 bytes past the end of variable c (16 bytes)" in str(fault)


@pytest.mark.parametrize(
    ("text", "n"), [("b[n] = x", 4), ("b[n] = x", 5), ("for (int k = 0; k < 6; ++k) b[k] = x", 0)]
)
def test_arrays_in_generated_kernels(text: str, n: int) -> None:
    x = np.ones(3)
    texts = {
        "operation": (f"T b[4] = {{}}; {text}; y = b[n & 3]", ""),
        "preamble": (
            "y = set_one(x, n)",
            "template <class T> __device__ T set_one(T x, long long n) "
            f"{{ T b[4] = {{}}; {text}; return b[n & 3]; }}",
        ),
        "macro": ("SET; y = b[n & 3]", f"#define SET T b[4] = {{}}; {text}"),
    }
    for where, (operation, preamble) in texts.items():
        kernel = kspec.ElementwiseKernel(
            "T x, int64 n", "T y", operation, f"beside_{where}", preamble=preamble
        )
        assert "of local variable b" in str(fault_of(kernel, x, n)), where
        if n:
            assert kernel(x, 2).tolist() == [1, 1, 1]


def test_arrays_in_reductions() -> None:
    kernel = kspec.ReductionKernel(
        *(
            "T x",
            "T y",
            "x",
            "a + b",
            "T c[2]; for (int k = 0; k < 4; k++) c[k] = a; y = c[1]",
            "0",
        ),
        "beside_post_map",
    )
    assert "past the end of local variable c (16 bytes)" in str(fault_of(kernel, np.ones(3)))


# clang checks the indices that it knows, and takes a loop that must leave its array for endless.
@pytest.mark.parametrize("body", [body for body in BESIDE[:12] if "fill" not in body])
def test_zig(body: str) -> None:
    program = Checked(TEXT, "bounds", "zig")
    with pytest.raises(kspec.HostFault, match="illegal-address"):
        program(f"k{BODIES.index(body)}", 1, 1, np.zeros(2, "i4"), ctypes.c_longlong(0))
