"""Kernels that are read as loops over their threads, and all others."""

from __future__ import annotations

import pytest

from kspec.compiler.host.loops.text import loops_name, loops_text
from kspec.compiler.host.rewrite import rewrite
from kspec.cpp.tokens import tokens_of

HEAD = "__global__ void k(float* x, const float* y, int* z, int n, float s)"
TX = "int i = threadIdx.x; "


def is_read(body: str, head: str = HEAD) -> bool:
    found = loops_text([*tokens_of(head)], [*tokens_of(body)], lambda _: "")
    return found is not None


@pytest.mark.parametrize(
    "body",
    [
        "",
        "x[threadIdx.x] = 1;",
        "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = y[i] * s;",
        "unsigned i = threadIdx.x, j = threadIdx.y; if (i >= n || j >= n) { return; } x[i + j] += 1;",
        "const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; x[i]++; --z[i];",
        "for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = sqrtf(y[i]);",
        "#pragma unroll\nfor (int k = 0; k < 4; ++k) { float v = y[k]; x[k] = v > 0 ? v : -v; }",
        "for (unsigned k = n; k > 1; k >>= 1) for (int j = 0; j <= 3; j++) x[j] *= k;",
        "for (int k = n; k; k >>= 1) for (int j = 8; j != 0; j /= 2) x[k + j] = 1;",
        "__shared__ float t[4][32], u[32]; t[threadIdx.y][threadIdx.x] = 1; __syncthreads(); "
        "x[threadIdx.x] = t[0][threadIdx.x] + u[0];",
        "__shared__ float t[min(8, 32)]; t[threadIdx.x] = 1; x[0] = t[0];",
        "extern __shared__ float t[]; t[threadIdx.x] = y[0]; __syncthreads(); *x = t[1];",
        TX + "float v = 0; for (int k = 0; k < n; k++) { __syncthreads(); v += y[k]; } x[i] = v;",
        TX + "if (y[i] > 0) { x[i] = 1; } else if (i == 3) x[i] = 2; else { x[i] = 3; }",
        TX + "z[i] = z[i] / 3 + (n >> 2) % 7 - (z[i] << 3);",
        TX + "x[min(i + 1, n - 1)] = float(i) + static_cast<double>(n) + max(y[i], s);",
        TX + "{ int j = i; x[j] = 1; } { int j = i + 1; x[j] = 2; }",
        TX + "float v; v = y[i]; v *= v; x[i] = v;",
    ],
)
def test_read(body: str) -> None:
    assert is_read(body)


@pytest.mark.parametrize(
    "body",
    [
        "while (n) x[0] = 1;",
        "do { x[0] = 1; } while (n > 3);",
        "for (;;) x[0] = 1;",
        "again: x[0] = 1; goto again;",
        "switch (n) { case 1: x[0] = 1; }",
        "for (int k = 0; k < n; k++) { if (k == 3) break; x[k] = 1; }",
        "for (int k = 0; k < n; k++) { if (k == 3) continue; x[k] = 1; }",
        "for (int k = 0; k < n; k++) { x[k] = 1; k++; }",
        "for (int k = 0; k < n; k--) x[k] = 1;",
        "for (int k = 0; k != n; k++) x[k] = 1;",
        "for (int k = n; k != 3; k >>= 1) x[k] = 1;",
        "for (int k = n; k; k--) x[k] = 1;",
        "for (int k = n; k; k++) x[k] = 1;",
        "for (int k = 0; n > k; k++) x[k] = 1;",
        "for (int k = 0; k < z[0]; k++) x[k] = 1;",
        "for (float k = 0; k < y[0]; k++) x[0] = 1;",
        "int k; for (k = 0; k < n; k++) x[k] = 1;",
        TX + "if (y[i] > 0) return; x[i] = 1;",
        TX + "for (int k = 0; k < n; k++) { if (i < k) return; x[k] = 1; }",
        TX + "if (i < n) return; else x[i] = 1;",
        TX + "if (i < n) { if (i > 3) return; x[i] = 1; } else x[i] = 1;",
        TX + "x[z[i]] = 1;",
        TX + "int j = z[i]; x[j] = 1;",
        TX + "int j = i; j += 4; x[j] = 1;",
        TX + "if (i < n) x[i] = 1; i++;",
        "n += 1; x[n] = 1;",
        "x += n; x[0] = 1;",
        "float* p = x + n; p[0] = 1;",
        "float& r = x[0]; r = 1;",
        "float t[4]; t[n] = 1; x[0] = t[0];",
        "(x + n)[0] = 1;",
        "*(x + n) = 1;",
        "x[0] = *&y[0];",
        "const unsigned* t = &threadIdx.x; x[0] = *t;",
        "n[x] = 1;",
        "x[0] = x[0] = 1;",
        "x[n++] = 1;",
        "x[0] = (n = 3);",
        "x[0] = y[0], x[1] = y[1];",
        "auto v = y[0]; x[0] = v;",
        "volatile float v = y[0]; x[0] = v;",
        "static float v = 0; x[0] = v;",
        "atomicAdd(x, 1.0f);",
        "x[0] = mine(y[0]);",
        "x[0] = __shfl_sync(~0u, y[0], 0);",
        "x[0] = weights[0];",
        "x[0] = sizeof(float);",
        "x[0] = ([&] { return 1; })();",
        'printf("%d", n);',
        "asm(\"\");",
        "assert(n > 0); x[0] = 1;",
        "if (n > 3) __syncthreads();",
        TX + "if (i < n) __syncthreads(); x[i] = 1;",
        TX + "for (int k = 0; k < i; k++) __syncthreads();",
        "x[0] = __syncthreads_count(1);",
        "__shared__ float t; t = 1; x[0] = t;",
        "for (int k = 0; k < 3; k++) { __shared__ float t[4]; t[0] = k; }",
        "__shared__ int t[n]; t[0] = 1; x[t[0]] = 1;",
        "int n = 3; x[n] = 1;",
        TX + "{ int i = 2; x[i] = 1; }",
        "int kspec_run = 1; x[kspec_run] = 1;",
        "int threadIdx = 1; x[threadIdx] = 1;",
        "x[threadIdx.w] = 1;",
        "x[threadIdx] = 1;",
        "x[0] = y;",
        "x[0][0] = 1;",
        "x[0] = 1",
        "x[0 = 1;",
        "}",
        "if (n > ",
        "for (int k = 0; k <",
        "int",
    ],
)  # fmt: skip
def test_not_read(body: str) -> None:
    assert not is_read(body)


@pytest.mark.parametrize(
    ("head", "read"),
    [
        ("template <typename T> __global__ void k(T* x, int n)", True),
        ("template <class T, int N = 3> __global__ void k(const T *const __restrict__ x)", True),
        ('extern "C" __global__ void __launch_bounds__(128) k(unsigned long long int* x)', True),
        ("__global__ void k()", True),
        ("template <class... T> __global__ void k(T*... x)", False),
        ("template <> __global__ void k<int>(int* x)", False),
        ("template <template <class> class T> __global__ void k(T<int> x)", False),
        ("__global__ void k(float** x)", False),
        ("__global__ void k(volatile float* x)", False),
        ("__global__ void k(float& x)", False),
        ("__global__ void k(float x[])", False),
        ("__global__ void k(point x)", False),
        ("__global__ void k(complex<float>* x)", False),
        ("__global__ void k(float* x = nullptr)", False),
        ("__global__ void k(float*)", False),
        ("__global__ void k(int threadIdx)", False),
        ("__global__ void ns::k(int x)", False),
        ("auto __global__ k(int x) -> void", False),
    ],
)
def test_heads(head: str, read: bool) -> None:
    assert is_read("", head) == read


@pytest.mark.parametrize(("terms", "read"), [(10, True), (4000, False)])
def test_long_kernels(terms: int, read: bool) -> None:
    assert is_read("x[0] = " + "+".join(["s"] * terms) + ";") == read
    assert is_read("x[0] = " + "- " * terms + "s;") == read
    assert is_read("x[0] = " + "(" * terms + "s" + ")" * terms + ";") == read


def test_deep_kernels() -> None:
    for depth in range(100, 1400, 100):  # beyond some depth none is read
        assert is_read("x[0] = " + "(" * depth + "s" + ")" * depth + ";") in (True, False)


def test_operators_bind_as_in_c() -> None:
    found = loops_text(
        [*tokens_of(HEAD)], [*tokens_of("x[0] = s - y[1] - y[2] * -s < 3 && s > 1 || !s;")], str
    )
    assert found is not None
    wanted = "((((s - y[(long long)(1)]) - (y[(long long)(2)] * (- s))) < 3) && (s > 1)) || (! s))"
    assert wanted in found.text


def test_names() -> None:
    assert loops_name("k") == "kspec_loops_k"
    assert loops_name("a::b::k<c::d, 3>") == "a::b::kspec_loops_k<c::d, 3>"


def test_kernels_of_one_name_and_functions_of_the_user() -> None:
    body = "{ x[0] = sqrtf(x[1]); }"
    one = f"template <class T> __global__ void k(T* x) {body}\n"
    looped = {
        one: {"k"},
        one + f"template <> __global__ void k<int>(int* x) {body}": set(),
        one + f"__global__ void k(double* x) {body}": set(),
        f"namespace a {{ {one} }} namespace b {{ {one} }}": {"a::k", "b::k"},
        f"float sqrtf(float x, int y);\n{one}": set(),
        f"namespace a {{ auto sqrtf = [](float x) {{ return x; }}; }}\n{one}": set(),
        f"struct S {{ static __global__ void k(float* x) {body} }};": set(),
    }
    for text, names in looped.items():
        assert rewrite(text, loops=True).looped == names, text
