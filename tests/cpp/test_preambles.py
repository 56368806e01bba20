"""Names that preambles declare."""

from __future__ import annotations

import pytest

from kspec.cpp.preambles import declares_variable, needs_global_scope, preamble_names


@pytest.mark.parametrize("number", ["1000", "1'000", "0x1'0p3", "1'000'000", "1.5e3f"])
def test_quotes_in_numbers_hide_no_names(number: str) -> None:
    text = f"const auto a = {number}; __device__ int rows(int k); const char c = 'x';"
    assert {"a", "rows", "c"} <= preamble_names(text)
    assert not preamble_names(text) & {"k", "x"}


@pytest.mark.parametrize(
    ("statements", "declared"),
    [
        ("int n = 3;", True),
        ("idx_t k, n = 3;", True),
        ("std::pair<int, int> n(1, 2);", True),
        ("const T* __restrict__ n{};", True),
        ("for (int n = 0; n < 3; ++n) {}", True),
        ("if (a) { int n; }", True),
        ("int k = 2 * n;", False),
        ("for (int k = 0; k < n; ++k) t += k;", False),
        ("T t = best<T>(n, 2); best<T>(n, 2);", False),
        ("int a[] = {n / 2, n % 2};", False),
        ("if (k) return n;", False),
        ("k<<<1, n>>>(n);", False),
        ('const char* c = "int n;"; // int n;', False),
    ],
)
def test_variables(statements: str, declared: bool) -> None:
    assert declares_variable("n", statements) is declared


@pytest.mark.parametrize(
    ("preamble", "is_global"),
    [
        ("template <> struct std::is_signed<float16> : std::true_type {};", True),
        ("template <> __device__ float ns::one<float>() { return 1; }", True),
        ("namespace std { struct S {}; }", True),
        ("template <> __device__ float one<float>() { return ns::two(); }", False),
        ("template <class T> struct S { typename T::type x; };", False),
        ("// namespace std {", False),
    ],
)
def test_preambles_of_the_global_namespace(preamble: str, is_global: bool) -> None:
    assert needs_global_scope(preamble) is is_global
