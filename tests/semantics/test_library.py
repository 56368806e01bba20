"""libcu++: the ``cuda/std`` headers, which NVRTC has instead of the C++ standard library."""

from __future__ import annotations

import numpy as np
import pytest

from kspec.compiler import headers
from tests.devices import ArrayDevice
from tests.semantics.harness import run

TRAITS_SOURCE = r"""
#include <cuda/std/type_traits>
#include <cuda/std/limits>
#include <cuda/std/cstdint>
template <class T> __global__ void limits(double* out) {
  using L = cuda::std::numeric_limits<T>;
  out[0] = (double)L::max(); out[1] = (double)L::lowest(); out[2] = L::digits;
  out[3] = (double)L::epsilon(); out[4] = L::is_signed;
  out[5] = cuda::std::is_integral<T>::value;
  out[6] = sizeof(cuda::std::conditional_t<cuda::std::is_same_v<T, float>, double, char>);
  out[7] = sizeof(cuda::std::int64_t) + sizeof(cuda::std::uint8_t);
}
"""
CONTAINERS_SOURCE = r"""
#include <cuda/std/array>
#include <cuda/std/complex>
#include <cuda/std/tuple>
#include <cuda/std/utility>
extern "C" __global__ void containers(const float* x, float* out) {
  int t = threadIdx.x;
  cuda::std::array<float, 4> a{1, 2, 3, x[t]};
  float sum = 0;
  for (float v : a) sum += v;
  auto pair = cuda::std::make_tuple(sum, t);
  cuda::std::complex<float> z(x[t], 2.0f), w = z * z + cuda::std::conj(z);
  cuda::std::pair<int, float> both{t, w.real()};
  out[4 * t] = cuda::std::get<0>(pair);
  out[4 * t + 1] = cuda::std::get<1>(pair) + a.size();
  out[4 * t + 2] = both.second;
  out[4 * t + 3] = w.imag();
}
"""


@pytest.fixture(autouse=True)
def library() -> None:
    if headers.find_headers("cccl") is None:
        pytest.skip("libcu++ is not installed")


@pytest.mark.parametrize(
    ("ctype", "dtype"), [("float", "f4"), ("double", "f8"), ("int", "i4"), ("unsigned short", "u2")]
)
def test_traits_and_limits(ctype: str, dtype: str, place: ArrayDevice) -> None:
    (out,) = run(place, TRAITS_SOURCE, f"limits<{ctype}>", (1,), (1,), np.zeros(8))
    kind = np.dtype(dtype)
    if kind.kind == "f":
        info = np.finfo(kind)
        expected = [info.max, -info.max, info.nmant + 1, info.eps, 1, 0]
    else:
        bounds = np.iinfo(kind)
        expected = [
            bounds.max,
            bounds.min,
            bounds.bits - (kind.kind == "i"),
            0,
            kind.kind == "i",
            1,
        ]
    assert out.tolist() == [*map(float, expected), 8 if ctype == "float" else 1, 9]


def test_containers(place: ArrayDevice) -> None:
    x = np.arange(32, dtype=np.float32)
    _, out = run(
        place, CONTAINERS_SOURCE, "containers", (1,), (32,), x, np.zeros((32, 4), np.float32)
    )
    w = (x + 2j) ** 2 + (x - 2j)
    np.testing.assert_array_equal(out, np.stack([6 + x, x + 4, w.real, w.imag], -1))


# Instantiated by test_sources.py.
TRAITS_NAMES = ("limits<float>", "limits<double>", "limits<int>", "limits<unsigned short>")
