"""Macros, attributes and types that sources expect of CUDA's compiler itself."""

from __future__ import annotations

import numpy as np

from tests.devices import ArrayDevice
from tests.semantics.harness import run

MACROS_SOURCE = r"""
#ifdef __CUDACC__
#define HD __host__ __device__
#else
#define HD
template <class T> T max(T a, T b) { return a > b ? a : b; }
#endif
#if __CUDACC_VER_MAJOR__ < 11 || !defined(__CUDACC_VER_MINOR__)
#error an old compiler
#endif
#if __CUDA_ARCH__ < 600
__device__ double atomicAdd(double* address, double value) {
  unsigned long long *word = (unsigned long long*)address, old = *word, seen;
  do {
    seen = old;
    old = atomicCAS(word, seen, __double_as_longlong(value + __longlong_as_double(seen)));
  } while (seen != old);
  return __longlong_as_double(old);
}
#endif
#if __CUDA_ARCH__ >= 700
#define DOWN(x, n) __shfl_down_sync(0xffffffffu, x, n)
#else
#define DOWN(x, n) __shfl_down(x, n)
#endif
struct __builtin_align__(16) Pair { float x, y; };
struct __device_builtin__ __builtin_align__(8) Three { char c[3]; };
HD double twice(double x) { return 2 * x; }
extern "C" __global__ void k(double* sum, int* out) {
  __shared__ __builtin_align__(32) char s[3];
  double x = twice(threadIdx.x);
  for (int n = 16; n; n /= 2) x += DOWN(x, n);
  if (threadIdx.x) return;
  atomicAdd(sum, x);
  out[0] = sizeof(Pair) + alignof(Pair); out[1] = sizeof(Three); out[2] = (size_t)s % 32;
  out[3] = max(3, 4); out[4] = __CUDA_ARCH__ >= 600;
}
"""

INTEGERS_SOURCE = r"""
#include <cstdint>
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
static_assert(same<int64_t, long long>::value && same<uint64_t, unsigned long long>::value, "");
static_assert(same<std::uint64_t, uint64_t>::value && same<size_t, unsigned long>::value, "");
static_assert(same<decltype(INT64_C(1)), int64_t>::value, "");
typedef long long int64_t;
typedef unsigned int uint32_t;
extern "C" __global__ void k(uint64_t* x, int64_t* y) {
  unsigned long long old = atomicAdd(&x[0], 5);
  if (threadIdx.x) return;
  x[1] = min(x[1], 40ull); x[2] = max(x[2], uint64_t(UINT64_MAX)); x[3] = __shfl_sync(1u, x[3], 0) + old % 5;
  y[0] = max(y[0], INT64_C(-7)); y[1] = min(y[1], 3ll); atomicMin(&y[2], INT64_MIN); y[3] = __ldg(&y[3]) + 1;
}
"""
WITH_STANDARD_HEADERS = "#include <type_traits>\n#include <limits>\n#include <cmath>\n"


def test_macros_and_attributes(place: ArrayDevice) -> None:
    total, out = run(place, MACROS_SOURCE, "k", (3,), (32,), np.zeros(1), np.full(5, -1, np.int32))
    assert total == 3 * 2 * sum(range(32))
    np.testing.assert_array_equal(out, [32, 8, 0, 4, 1])


def check_integers(place: ArrayDevice, source: str) -> None:
    x, y = np.array([1, 41, 2, 6], "u8"), np.array([-9, 4, 5, 6], "i8")
    x, y = run(place, source, "k", (1,), (32,), x, y)
    assert x[0] == 161 and x[1:3].tolist() == [40, 2**64 - 1] and 6 <= x[3] < 11
    np.testing.assert_array_equal(y, [-7, 3, -(2**63), 7])


def test_integers_of_64_bits(place: ArrayDevice) -> None:
    check_integers(place, INTEGERS_SOURCE)
    check_integers(place, WITH_STANDARD_HEADERS + INTEGERS_SOURCE)
