"""Parameters of kernels: as many as CUDA takes, and references."""

from __future__ import annotations

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError, HostFault
from tests.devices import HOST, ArrayDevice
from tests.semantics.harness import run

REFERENCES_SOURCE = r"""
struct Item { double weight; int count; long long id; };
template <class T> __global__ void scale(T& x, const T& factor) {
  if (threadIdx.x < 4) (&x)[threadIdx.x] *= factor;
}
extern "C" __global__ void total(int* out, int& count, const int (&x)[4], Item& item, int last) {
  int sum = last;
  for (int one : x) sum += one;
  atomicAdd(&count, sum);
  if (threadIdx.x == 0) { out[0] = item.count; item = {2.5, sum, -1}; }
}
"""
REFERENCES_NAMES = ("scale<float>", "scale<long long>")
ITEM = np.dtype([("weight", "f8"), ("count", "i4"), ("id", "i8")], align=True)


def sum_of(types: list[str]) -> str:
    """Return the source of a kernel with so many numbers, which adds up each by its place."""
    params = "".join(f", {ctype} a{k}" for k, ctype in enumerate(types))
    terms = "".join(f" + {k % 7} * a{k}" for k in range(len(types)))
    return f'extern "C" __global__ void k(double* out{params}) {{ out[0] = 0.0{terms}; }}'


@pytest.mark.parametrize("count", [0, 1, 7, 257, 899, 2000])
def test_many(count: int, place: ArrayDevice) -> None:
    ctypes = ["int", "double", "char", "float", "long long"]
    dtypes = np.array(["i4", "f8", "i1", "f4", "i8"])
    values = [np.dtype(dtypes[k % 5]).type(k % 100 - 50) for k in range(count)]
    kernel = kspec.RawKernel(sum_of([ctypes[k % 5] for k in range(count)]), "k")
    out = place.zeros(1)
    for _ in range(2):
        kernel((1,), (1,), (out, *values))
        assert place.numpy(out)[0] == sum(k % 7 * (k % 100 - 50) for k in range(count))


@pytest.mark.parametrize(("ctype", "dtype"), [("float", "f4"), ("long long", "i8")])
def test_references(ctype: str, dtype: str, place: ArrayDevice) -> None:
    x = np.arange(6, dtype=dtype)
    found, factor = run(
        place, REFERENCES_SOURCE, f"scale<{ctype}>", (1,), (32,), x, np.array([3], dtype)
    )
    np.testing.assert_array_equal(found, [0, 3, 6, 9, 4, 5])
    assert factor == 3


def test_references_of_every_kind(place: ArrayDevice) -> None:
    item = np.array([(1.5, 7, 9)], ITEM)
    out, count, _, item = run(
        place, REFERENCES_SOURCE, "total", (1,), (32,), np.zeros(1, "i4"),
        np.array([5], "i4"), np.array([1, 2, 3, 4], "i4"), item, 30,
    )  # fmt: skip
    assert out == 7 and count == 5 + 32 * 40
    assert item.tolist() == [(2.5, 40, -1)]


@pytest.mark.parametrize("value", [3.0, np.float32(3), True])
def test_a_number_for_a_reference(value: object, place: ArrayDevice) -> None:
    kernel = kspec.RawModule(code=REFERENCES_SOURCE, name_expressions=REFERENCES_NAMES)
    with pytest.raises(
        ArgumentTypeError, match=r"argument 1 is a .*'const float& factor'; pass an a"
    ):
        kernel.get_function("scale<float>")((1,), (1,), (place.zeros(4, "float32"), value))


def test_beyond_a_reference() -> None:
    with pytest.raises(HostFault, match=r"illegal-address: .* past the end of argument 0"):
        x = np.zeros(3, np.float32)
        run(HOST, REFERENCES_SOURCE, "scale<float>", (1,), (32,), x, np.ones(1, np.float32))
