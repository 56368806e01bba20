"""Heads of kernels: names and parameters."""

from __future__ import annotations

import pytest

from kspec.cpp.kernel_heads import kernel_names, parameter_texts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ('extern "C" __global__ void my(float* x) { f(x); }', ("my",)),
        (
            "__global__ void __launch_bounds__(256, 2) a() {} static __global__ void b(int);",
            ("a", "b"),
        ),
        ("template <class T>\n__global__ void __cluster_dims__(2) fill(T* x, int n) {}", ("fill",)),
        ("// __global__ void no();\n__device__ int f(int x) { return x; }", ()),
        ("__global__", ()),
    ],
)
def test_names_of_kernels(text: str, names: tuple[str, ...]) -> None:
    assert kernel_names(text) == names


@pytest.mark.parametrize(
    ("text", "expression", "found"),
    [
        ('extern "C" __global__ void k(float* x, int n) {}', "k", [("float* x", "int n")]),
        ("__global__ void k(int a); __global__ void other(int b);", "k", [("int a",)]),
        (
            "__global__ void k(int a); __global__ void k(float a) {}",
            "k",
            [("int a",), ("float a",)],
        ),
        ("namespace n { __global__ void k(int a) {} }", "n::k", [("int a",)]),
        (
            "template <class T, int N = 1> __global__ void k(const T* x, T a, S<T, N> s) {}",
            "k<double, 3>",
            [("const double* x", "double a", "S<double, 3> s")],
        ),
        ("template <class T, class U> __global__ void k(T a, U b);", "k<int>", [("int a", "U b")]),
        ("__global__ void k() {}", "k", [()]),
        ("KERNEL k(int a) {}", "k", []),
    ],
)
def test_parameters_of_kernels(text: str, expression: str, found: list[tuple[str, ...]]) -> None:
    assert parameter_texts(text, expression) == found
