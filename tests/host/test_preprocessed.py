r"""Kernels as the preprocessor leaves them: made by macros, spelled in all ways of C++."""

import numpy as np
import pytest

from kspec.compiler.host.compile import compile_host
from kspec.errors import CompileError, HostFault
from kspec.model.stages import CudaSource, Header

from .conftest import Program

# Each sets x[i] to i for i in 0..63 with a kernel k; threads of a block are 64.
KERNELS = {
    "a macro for the keywords": """
#define KERNEL extern "C" __global__
KERNEL void k(int* x) { x[threadIdx.x] = threadIdx.x; }
""",
    "a macro for the head": """
#define DEFINE_KERNEL(T, ...) extern "C" __global__ void __launch_bounds__(64) k(T* x, ##__VA_ARGS__)
DEFINE_KERNEL(int) { x[threadIdx.x] = threadIdx.x; }
""",
    "a macro for all, with a pasted name": """
#define PASTE(a, b) a##b
#define DEFINE(name, T, ...) extern "C" __global__ void PASTE(name, )(T* x) { __VA_ARGS__ }
DEFINE(k, int, __shared__ T_ s[64]; s[threadIdx.x] = threadIdx.x; __syncthreads();
       x[threadIdx.x] = s[threadIdx.x];)
""".replace("T_", "int"),
    "X-macros": """
#define TYPES(X) X(float, 1) X(int, )
#define BODY(T, suffix) extern "C" __global__ void k##suffix(T* x) { x[threadIdx.x] = threadIdx.x; }
TYPES(BODY)
""",
    "linkage by macros": """
#ifdef __cplusplus
#define BEGIN extern "C" {
#define END }
#endif
BEGIN
__global__ void k(int* x) { x[threadIdx.x] = threadIdx.x; }
END
""",
    "macros for shared memory": """
#define TILE(T, name, ...) __shared__ T name[__VA_ARGS__]
#define SHARED __shared__
extern "C" __global__ void k(int* x) {
  TILE(int, s, 1 << 6); SHARED int t[N < 64 ? 64 : N], u;
  s[threadIdx.x] = threadIdx.x; t[63 - threadIdx.x] = s[threadIdx.x]; u = 1;
  __syncthreads();
  x[threadIdx.x] = t[63 - threadIdx.x] + u - 1;
}
""",
    "keywords defined away for other compilers": """
#ifndef __CUDACC__
#define __global__
#define __shared__
#define __launch_bounds__(...)
#endif
extern "C" __global__ void __launch_bounds__(64) k(int* x) {
  __shared__ int s[64];
  s[63 - threadIdx.x] = threadIdx.x;
  __syncthreads();
  x[threadIdx.x] = 63 - s[threadIdx.x];
}
""",
    "template arguments and dependent sizes": """
template <class T> struct Foo { T value; };
template <class T> struct span { T* data; };
template <class T, int M = (3 > 2) ? 64 : 1> __device__ void fill(T* x) {
  __shared__ Foo<T*> p;
  __shared__ span<const T> view;
  __shared__ T s[M][sizeof(T) >> 1], (*row)[sizeof(T) >> 1];
  if (threadIdx.x == 0) { p.value = &s[0][0]; view.data = &s[0][1]; row = s; }
  __syncthreads();
  p.value[2 * threadIdx.x] = threadIdx.x;
  row[threadIdx.x][1] = 1;
  static_assert(sizeof(*view.data) == sizeof(T), "a const T");
  __syncthreads();
  x[threadIdx.x] = s[threadIdx.x][0] + view.data[0] - 1;
}
extern "C" __global__ void k(int* x) { fill(x); }
""",
    "constness of template arguments": """
template <class T> struct is_const { static const bool value = false; };
template <class T> struct is_const<const T> { static const bool value = true; };
template <class T> struct span { static const bool constant = is_const<T>::value; };
extern "C" __global__ void k(int* x) {
  __shared__ span<const float> s;
  x[threadIdx.x] = s.constant ? threadIdx.x : -1;
}
""",
    "default arguments, lambdas and brace initializers": """
struct P { int a, b; };
__device__ P origin{1, 2};
__device__ auto next = [] __device__ (int i) { return i + 1; };
__device__ int apply(int i, P p = P{0, 1}, int (*f)(int) = [](int j) { return j; }) {
  return f(i) + p.a;
}
extern "C" __global__ void k(int* x) {
  auto put = [&](int i) { __shared__ int s[64]; s[i] = i; __syncthreads(); return s[i]; };
  x[threadIdx.x] = next(apply(put(threadIdx.x), {origin.a - 1, 0})) - 1;
}
""",
    "conditional code": """
#if defined(MISSING) || !defined(KSPEC_HOST)
extern "C" __global__ void k(float* x) {
#elif 1
extern "C" __global__ void k(int* x) {
#else
extern "C" __global__ void k(double* x) {
#endif
#ifdef KSPEC_HOST
  x[threadIdx.x] = threadIdx.x; }
#else
  asm("trap;"); }
#endif
""",
    "attributes in odd places": """
extern "C" [[gnu::used]] __global__ __launch_bounds__(64, 2) __attribute__((cold)) void
__maxnreg__(32) k(int* __restrict__ x) noexcept {
  __align__(16) __shared__ int a[64];
  __shared__ alignas(32) int b[64];
  volatile __shared__ __attribute__((aligned(8))) unsigned char c;
  a[threadIdx.x] = b[threadIdx.x] = threadIdx.x; c = 0;
  __syncthreads();
  bool aligned = (size_t)a % 16 == 0 && (size_t)b % 32 == 0 && (size_t)&c % 8 == 0;
  x[threadIdx.x] = aligned ? a[threadIdx.x] + c : -1;
}
""",
    "comments inside declarations": """
extern /* C */ "C" __global__ // a kernel
void k( // of one parameter
  int* x /* out { */) { /* } */
  __shared__ /* 64 */ int // "s
    s[/* ] */ 64];
  s[threadIdx.x] = threadIdx.x;
  x[threadIdx.x] = s[threadIdx.x];
}
""",
    "raw strings": """
__device__ const char text[] = R"x(__global__ void no() { __shared__ int s; asm("exit;") <<< " )x";
extern "C" __global__ void k(int* x) { x[threadIdx.x] = threadIdx.x + (text[0] != '_'); }
""",
    "digraphs": """
%:define SIZE 64
extern "C" <%
__global__ void k(int* x) <%
  __shared__ int s<:SIZE:>;
  s<:threadIdx.x:> = threadIdx.x;
  x<:threadIdx.x:> = s<:threadIdx.x:>;
%>
%>
""",
    "line continuations": """
extern "C" __glo\\
bal__ void k(int* x) {
  __sha\\
red__ int s[\\
64]; s[threadIdx.x] = threadIdx.x; // no \\
  __shared__ float s[64];
  x[threadIdx.x] = s[threadIdx.x];
}
""",
    "names that our own macros could clash with": """
#define TYPE 3
#define NAME nothing
#define TAG(x) x x
#define NUMBER -
#define kspec_type_s x
#define value 7
#define T 8
__constant__ int KIND = 1;
extern "C" __global__ void k(int* x) {
  __shared__ int s[64];
  s[threadIdx.x] = threadIdx.x;
  x[threadIdx.x] = s[threadIdx.x];
}
""",
    "a body from a header": """
extern "C" __global__ void k(int* x)
#include "body.cuh"
""",
    "a kernel of a header that a macro names": """
#define HEADER "kernel.cuh"
#define IN_HEADER
#include HEADER
""",
    "pragmas": """
#define LOOP _Pragma("unroll 4") for (int i = 0; i < 64; i++)
extern "C" __global__ void k(int* x) {
#pragma GCC diagnostic ignored "-Wall"
  LOOP if (i == threadIdx.x) x[i] = i;
}
""",
}  # fmt: skip
HEADERS = (
    Header("body.cuh", "{\n  __shared__ int s[64];\n  x[threadIdx.x] = s[threadIdx.x] = threadIdx.x;\n}"),
    Header("kernel.cuh", 'extern "C" __global__ void k(int* x) { x[threadIdx.x] = threadIdx.x; }'),
)  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_kernels(name: str) -> None:
    program = Program(KERNELS[name], headers=HEADERS, options=("-DN=9",))
    assert "k" in program.image.symbols
    x = np.full(64, -1, np.int32)
    program("k", 1, 64, x)
    np.testing.assert_array_equal(x, np.arange(64))


def test_macros_in_name_expressions() -> None:
    text = """
template <class T, int n> __global__ void fill(T* x) { x[threadIdx.x] = n; }
template <class T> __constant__ T limit = 5;
namespace a { __device__ int counter = 6; }
"""
    names = ("fill<REAL, SIX + 1>", "&limit<REAL>", "a::COUNTER")
    options = ("-DREAL=float", "-D", "SIX=6", "-DCOUNTER=counter")
    program = Program(text, names, options=options)
    x = np.zeros(2, np.float32)
    program("fill<REAL, SIX + 1>", 1, 2, x)
    assert (x == 7).all()
    assert program.module.get_global("&limit<REAL>")[1] == 4
    assert program.module.get_global("a::COUNTER") == program.module.get_global("a::counter")


def test_places_in_the_text_of_the_kernel() -> None:
    """``__LINE__``, ``__FILE__`` and the text of an assertion are those of the source."""
    text = """#define CHECK(c) assert((c) && "checked")
extern "C" __global__ void k(int* x) {
  x[0] = __LINE__; x[1] = sizeof(__FILE__);
#line 40 "spec.toml"
  x[2] = __LINE__; x[3] = sizeof(__FILE__);
  if (x[4]) CHECK(x[4] == SIZE);
}
"""
    program = Program(text, options=("-DSIZE=3",))
    x = np.zeros(5, np.int32)
    program("k", 1, 1, x)
    assert x.tolist() == [3, len("test.cu") + 1, 40, len("spec.toml") + 1, 0]
    x[4] = 1
    with pytest.raises(HostFault, match=r"assertion failed: \(x\[4\] == ") as caught:
        program("k", 1, 1, x)
    assert '&& "checked" at spec.toml:41 [block' in caught.value.message


def error_of(text: str, **options: object) -> CompileError:
    with pytest.raises(CompileError) as caught:
        compile_host(CudaSource("norms.cu", text, **options))
    return caught.value


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("2:38", '#define SQUARE(v) ((v) * (v))\n__device__ float f(float x) { return /* it */ nothing; }'),
        ("2:48", "#define SQUARE(v) ((v) * (v))\n__device__ float f(float x) { return SQUARE(x) + nothing; }"),
        ("2:45", "#define SQUARE(v) ((v) * (v))\n__device__ float f(float x) { return SQUARE(nothing) + x; }"),
        ("5:5", "#define CALL(...) __VA_ARGS__\n__device__ void f() {\n  CALL(\n    int a = 3;\n    nothing(a);\n  )\n}"),
        ("2:48", "__device__ void g() { __syncthreads(); __syncthreads(); }\n"
                 "__device__ void f() { __syncthreads(); int a = nothing; __syncthreads(); }"),
        ("3:3", "__device__ void f() {\n  __shared__ float s[1 << 3], t; __syncthreads();\n  nothing();\n}"),
    ],
)  # fmt: skip
def test_errors_name_the_users_line_and_column(place: str, text: str) -> None:
    error = error_of(text)
    diagnostic = error.diagnostics[0]
    line, column = map(int, place.split(":"))
    column = text.splitlines()[line - 1].index("nothing") + 1
    assert (diagnostic.path, diagnostic.line, diagnostic.column) == ("norms.cu", line, column)
    assert diagnostic.source_line == text.splitlines()[line - 1]
    assert "nothing" in diagnostic.message


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("norms.cu:1:2: error: ", "#error no luck\n"),
        ("norms.cu:1:10: error: ", '#include "missing.cuh"\n'),
        ("norms.cu:2:23: error: a __shared__ variable cannot have an initial value; assign it",
         "\n__device__ void f() { __shared__ int count = 0; }"),
        ("norms.cu:3:3: error: inline PTX (asm) cannot run on the host device",
         '#define EXIT asm("exit;")\n__device__ void f() {\n  EXIT;\n}'),
        ("norms.cu:3:5: error: inline PTX (asm) cannot run on the host device",
         '#define IF(...) __VA_ARGS__\n__device__ void f() { IF(\n    asm("exit;");\n) }'),
        ("k.cuh:2:24: error: a kernel launch from device code (<<<...>>>) cannot run",
         '#include "k.cuh"\n'),
    ],
)  # fmt: skip
def test_refusals_name_the_users_line_and_column(words: str, text: str) -> None:
    header = Header("k.cuh", "\n__device__ void f() { g<<<1, 1>>>(); }\n")
    assert words in error_of(text, headers=(header,)).log


def test_options_have_a_place_too() -> None:
    assert "<options>:1:" in error_of("", options=("-D3=4",)).log


MEETING = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
#define BOTH(c) if (c) __syncthreads(); else __syncthreads();
extern "C" __global__ void barriers(int* x) { if (threadIdx.x < 32) __syncthreads(); else { x[0] = 1; __syncthreads(); } }
extern "C" __global__ void of_a_macro(int* x) { BOTH(threadIdx.x < 32) }
extern "C" __global__ void groups(int* x) { auto g = cg::this_thread_block(); if (threadIdx.x < 32) g.sync(); else g.sync(); }
extern "C" __global__ void tiles(int* x) { auto t = cg::tiled_partition<32>(cg::this_thread_block()); x[0] = threadIdx.x < 16 ? t.shfl(1, 2) : t.shfl(3, 4); }
extern "C" __global__ void shuffles(int* x) { x[0] = threadIdx.x < 16 ? __shfl_sync(~0u, 1, 2) : __shfl_sync(~0u, 3, 4); }
extern "C" __global__ void votes(int* x) { x[0] = threadIdx.x < 16 ? __any_sync(~0u, 1) : __any_sync(~0u, 0); }
extern "C" __global__ void fine(int* x) { x[threadIdx.x] = __shfl_sync(~0u, __shfl_sync(~0u, (int)threadIdx.x, 3), 2); __syncthreads(); __syncthreads(); }
"""


@pytest.fixture(scope="module")
def meeting() -> Program:
    return Program(MEETING)


@pytest.mark.parametrize(
    ("kernel", "call", "waits"),
    [
        ("barriers", "__syncthreads()", "__syncthreads()"),
        ("groups", "g.sync()", "__syncthreads()"),
        ("tiles", "t.shfl(", "shfl (mask 0xffffffff)"),
        ("shuffles", "__shfl_sync(", "__shfl_sync (mask 0xffffffff)"),
        ("votes", "__any_sync(", "__any_sync (mask 0xffffffff)"),
    ],
)
def test_calls_on_one_line_are_different_places(
    meeting: Program, kernel: str, call: str, waits: str
) -> None:
    with pytest.raises(HostFault) as caught:
        meeting(kernel, 1, 64, np.zeros(64, np.int32))
    assert caught.value.kind == "barrier-divergence"
    number, line = next(
        (number, line)
        for number, line in enumerate(MEETING.splitlines(), 1)
        if f" {kernel}(" in line
    )
    first = line.index(call)
    for start in (first, line.index(call, first + 1)):
        column = start + call.rfind(".") + 2
        assert f"wait in {waits} at test.cu:{number}:{column} (threads" in caught.value.message


def test_calls_of_one_macro_are_different_places(meeting: Program) -> None:
    with pytest.raises(HostFault) as caught:
        meeting("of_a_macro", 1, 64, np.zeros(64, np.int32))
    assert "32 of 64 threads wait in __syncthreads() at test.cu:6:49 (call 1)" in str(caught.value)
    assert "32 of 64 threads wait in __syncthreads() at test.cu:6:49 (call 2)" in str(caught.value)


def test_all_threads_pass_several_calls_on_a_line(meeting: Program) -> None:
    x = np.zeros(64, np.int32)
    meeting("fine", 1, 64, x)
    assert (x == [3] * 32 + [35] * 32).all()
