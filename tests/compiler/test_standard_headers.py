"""C++ standard headers: small ones of ours and libcu++'s with NVRTC, the compiler's own elsewhere."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kspec.compiler import compile_source, headers
from kspec.compiler.cuda import nvcc
from kspec.compiler.cuda.nvrtc import nvrtc_version
from kspec.compiler.headers import (
    carry_headers,
    standard_include_dir,
    toolkit_dirs_for,
    toolkit_include_dirs,
)
from kspec.errors import CompileError, ToolNotFoundError
from kspec.model.stages import HOST, CudaSource, Target

SM90, PTX = Target("sm_90"), Target("compute_90")
NAMES = sorted(
    path.name for path in standard_include_dir().iterdir() if not path.name.startswith("kspec_")
)
FORWARDED = re.compile(r"#include <(cuda/std/.*)>")
# They include neither libcu++ nor anything that does.
OWN = [
    "assert.h",
    "cassert",
    "cfloat",
    "cinttypes",
    "cmath",
    "cstdint",
    "cstdio",
    "float.h",
    "inttypes.h",
    "math.h",
    "stdbool.h",
    "stddef.h",
    "stdint.h",
    "stdio.h",
    "stdlib.h",
    "time.h",
]
MATH = r"""
template <class A, class B> struct Same { static constexpr bool value = false; };
template <class A> struct Same<A, A> { static constexpr bool value = true; };
#define IS(TYPE, ...) static_assert(Same<TYPE, decltype(__VA_ARGS__)>::value, #__VA_ARGS__)
IS(float, std::sqrt(2.0f)); IS(double, std::sqrt(2.0)); IS(double, std::sqrt(2)); IS(double, sqrt(2));
IS(double, std::pow(2, 3)); IS(float, std::pow(2.0f, 3.0f)); IS(double, std::pow(2.0, 3));
IS(double, std::fmax(2.0f, 3.0)); IS(double, std::hypot(2.0f, 3)); IS(float, std::fmin(2.0f, 3.0f));
IS(bool, std::isnan(3)); IS(int, std::abs(-3)); IS(float, std::abs(-3.0f)); IS(float, std::sqrtf(2.0f));
constexpr float infinite = INFINITY, none = -NAN;
__constant__ double huge = HUGE_VAL;
extern "C" __global__ void math(float* x, double* y, int i) {
  x[0] = std::fma(x[1], x[2], x[3]) + std::ldexp(x[1], i) + infinite * M_PI + none + std::nanf("");
  y[0] = std::exp(i) + std::remainder(y[1], i) + fabs(i) + huge + std::erfc(y[2]);
  if (std::isinf(x[0]) || isfinite(i) || std::signbit(y[0])) x[4] = std::modf(x[5], &x[6]);
}
"""
LIBRARY = r"""
#include <algorithm>
#include <array>
#include <cfloat>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

struct Sum {
  template <class T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  __device__ T operator()(std::initializer_list<T> all) const {
    T total{};
    for (T one : all) total += one;
    return total;
  }
};

template <class T> __global__ void library(T* x) {
  std::array<T, 3> some{T(3), T(1), T(2)};
  auto [low, high] = std::make_pair(std::min(some[0], some[1]), std::max(some[0], some[2]));
  auto parts = std::make_tuple(low, 2, std::size_t{3});
  std::swap(some[0], some[1]);
  static_assert(std::tuple_size<decltype(parts)>::value == 3 && CHAR_BIT == 8, "");
  static_assert(sizeof(std::int64_t) == 8 && INT32_MAX == INT_MAX && UINT64_MAX > SIZE_MAX - 1, "");
  static_assert(offsetof(float4, z) == 8, "");
  std::optional<int> absent;
  std::variant<int, float> either = 4.0f;
  std::byte byte{7};
  T copy;
  std::memcpy(&copy, &some[2], sizeof copy);
  x[0] = low; x[1] = high; x[2] = std::get<1>(parts); x[3] = some[0];
  x[4] = std::accumulate(some.begin(), some.end(), T(0)); x[5] = absent.value_or(5);
  x[6] = std::get<float>(either); x[7] = std::clamp(9, 0, 8); x[8] = std::to_integer<int>(byte);
  x[9] = copy; x[10] = std::plus<T>()(T(1), T(2)); x[11] = Sum()({1, 2, 3});
  x[12] = std::numeric_limits<T>::max() > T(1) ? FLT_DIG : INT_MIN;
  new (&x[13]) T(13);
}
"""
COMPLEX = r"""
extern "C" __global__ void numbers(std::complex<float>* z) {
  z[0] = std::sqrt(z[1]) * std::conj(z[2]) + std::pow(z[1], 2) + std::pow(z[1], z[2]) + std::exp(z[3]);
  z[1] = std::abs(z[2]) + std::sqrt(4.0f) + std::arg(z[1]);
}
"""


def compile_text(text: str, target: Target = PTX, *names: str, **fields: object) -> str:
    source = CudaSource("k.cu", text, names, **fields)  # type: ignore[arg-type]
    return compile_source(source, target).log


def present() -> list[str]:
    """Return the headers that the installed libcu++ is enough for: older ones lack a few."""
    roots = toolkit_include_dirs(nvrtc_version())

    def is_there(name: str) -> bool:
        wanted = FORWARDED.findall((standard_include_dir() / name).read_text())
        return not wanted or any((root / one).is_file() for root in roots for one in wanted)

    return [name for name in NAMES if is_there(name)]


def including(names: list[str]) -> str:
    return "".join(f"#include <{name}>\n" for name in names)


@pytest.mark.parametrize("name", OWN)
def test_what_kernels_need_most_needs_no_libcudacxx(name: str) -> None:
    source = carry_headers(CudaSource("k.cu", including([name])), PTX)
    assert toolkit_dirs_for(source, nvrtc_version()) == ()
    assert compile_text(source.text) == ""


@pytest.mark.parametrize("name", sorted({*NAMES} - {*OWN}))
def test_the_others_are_forwarded(name: str) -> None:
    source = carry_headers(CudaSource("k.cu", including([name])), PTX)
    texts = [header.text for header in source.headers]
    assert any("cuda/std/" in text for text in texts)


@pytest.mark.parametrize("order", ["forward", "reverse"])
def test_all_of_them_together(order: str) -> None:
    names = present() if order == "forward" else present()[::-1]
    assert compile_text(including(names) + MATH + COMPLEX) == ""


def test_mathematics() -> None:
    assert compile_text("#include <cmath>\n" + MATH) == ""
    assert compile_text("#include <math.h>\n" + MATH.replace("std::", "")) == ""


def test_complex_numbers_beside_mathematics() -> None:
    assert compile_text("#include <complex>\n" + MATH + COMPLEX) == ""


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_the_library(standard: str) -> None:
    options = (f"-std={standard}",)
    assert compile_text(LIBRARY, SM90, "library<float>", "library<int>", options=options) == ""


def test_the_host_device_has_its_own() -> None:
    source = CudaSource("k.cu", "#include <type_traits>\n#include <cmath>\n")
    assert carry_headers(source, HOST) is source
    assert compile_text(LIBRARY, HOST, "library<float>") == ""


def test_nvcc_has_its_own() -> None:
    source = CudaSource("k.cu", "#include <type_traits>\n", backend="nvcc")
    assert carry_headers(source, SM90) is source
    try:
        nvcc.nvcc_build()
    except ToolNotFoundError as error:
        pytest.skip(str(error))
    assert compile_text(including(["type_traits", "array", "cmath"]), SM90, backend="nvcc") == ""


def test_a_source_without_them_carries_nothing() -> None:
    source = CudaSource("k.cu", "#include <cuda_fp16.h>\n__global__ void k() {}\n")
    assert carry_headers(source, SM90) is source


def test_carrying_twice_changes_nothing() -> None:
    carried = carry_headers(CudaSource("k.cu", "#include <complex>\n"), SM90)
    assert carry_headers(carried, SM90) is carried
    assert [header.name for header in carried.headers][:2] == ["complex", "cmath"]


def test_the_users_headers_come_first(tmp_path: Path) -> None:
    (tmp_path / "array").write_text("#define MINE 1\n")
    text = "#include <array>\nstatic_assert(MINE == 1);\n"
    assert compile_text(text, options=(f"-I{tmp_path}",)) == ""


def test_a_header_that_is_in_a_header(tmp_path: Path) -> None:
    (tmp_path / "mine.cuh").write_text("#include <cstdint>\ntypedef std::uint8_t mine;\n")
    assert compile_text('#include "mine.cuh"\nmine x;\n', options=(f"-I{tmp_path}",)) == ""


def test_cuda_h_needs_two_of_them() -> None:
    text = "#include <cuda.h>\n__global__ void k(const __grid_constant__ CUtensorMap map) {}\n"
    assert compile_text(text) == ""


@pytest.mark.parametrize("name", ["vector", "iostream"])
def test_what_no_device_has(name: str) -> None:
    with pytest.raises(CompileError, match=rf'k\.cu\(1\).*"{name}"') as caught:
        compile_text(including([name]))
    assert "backend='nvcc' has all" in str(caught.value)


def test_without_libcudacxx_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "find_headers", lambda library: None)
    source = replace(CudaSource("k.cu", "#include <array>\n"), options=("-DFRESH",))
    with pytest.raises(CompileError, match=r'"cuda/std/array" .*pip install'):
        compile_source(source, PTX)


THRUST = """
#include <thrust/complex.h>
#include <cinttypes>
#include <inttypes.h>
#include <stdbool.h>
extern "C" __global__ void k(double* x, int64_t n) {
  thrust::complex<double> z(x[0], x[1]);
  z = thrust::exp(z) * thrust::conj(z) + 1.0;
  bool large = thrust::norm(z) > 1;
  x[n] = z.real() + thrust::abs(z) + large;
}
"""


@pytest.mark.parametrize("target", [SM90, HOST], ids=str)
def test_complex_numbers_of_thrust(target: Target) -> None:
    assert compile_text(THRUST, target) == ""
