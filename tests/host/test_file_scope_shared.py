"""``__shared__`` variables outside functions: bounds, blocks of their own, and the checking modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler.host.compile import compile_host
from kspec.errors import CompileError
from kspec.model.stages import CudaSource
from tests.host.checked import fault_of

CODE = r"""
#include <cooperative_groups.h>
__shared__ float row[64];
static __shared__ int count, grid[4][8];
namespace inner {
__shared__ struct Pair { char tag; double value; } pair;
__shared__ volatile unsigned short odd[3];
}
extern "C" {
__shared__ __align__(32) char aligned[5];
}
extern __shared__ float dynamic[];
namespace inner { extern __shared__ int scalar; }
extern __shared__ float dynamic[];
__shared__ float large[3][4096];  // more than a block has, with the others

template <int N> __device__ float total(float (&values)[N]) {
  float sum = 0;
  for (float value : values) sum += value;
  return sum;
}
extern "C" __global__ void use(float* y, int i, int which) {
  if (which == 0) row[i] = 7, y[0] = row[i];
  if (which == 1) grid[0][i] = 7, y[0] = grid[0][i];
  if (which == 2) (&inner::pair)[i].value = 7, y[0] = (&inner::pair)[i].value;
  if (which == 3) inner::odd[i] = 7, y[0] = inner::odd[i];
  if (which == 4) aligned[i] = 7, y[0] = aligned[i];
  if (which == 5) (&count)[i] = 7, y[0] = (&count)[i];
  if (which == 6) dynamic[i] = 7, y[0] = dynamic[i];
  if (which == 7) large[2][i] = 7, y[0] = large[2][i];
}
extern "C" __global__ void sizes(int* y) {
  float row_of_mine = 1, row = row_of_mine;  // hides the variable
  y[0] = sizeof(::row) + sizeof(grid) + row;
  y[1] = (size_t)aligned % 32;
  inner::scalar = 9;
  y[2] = *(int*)dynamic;
}
extern "C" __global__ void turn(float* y) {
  int i = threadIdx.x;
  row[i] = i + blockIdx.x;
  __syncthreads();
  y[blockIdx.x * 64 + i] = i ? row[63 - i] : total(row);
}
extern "C" __global__ void stale(float* y) { y[blockIdx.x] = row[3]; row[3] = 1; }
extern "C" __global__ void meet(float* y) {
  if (threadIdx.x == 0) row[0] = blockIdx.x;
  cooperative_groups::this_grid().sync();
  y[blockIdx.x * blockDim.x + threadIdx.x] = row[0];
}
"""


@pytest.fixture(scope="module")
def module() -> kspec.RawModule:
    return kspec.RawModule(code=CODE)


VARIABLES = [
    (0, 63, "__shared__ row (256 bytes)"),
    (1, 31, "__shared__ grid (128 bytes)"),
    (2, 0, "__shared__ pair (16 bytes)"),
    (3, 2, "__shared__ odd (6 bytes)"),
    (4, 4, "__shared__ aligned (5 bytes)"),
    (5, 0, "__shared__ count (4 bytes)"),
    (6, 9, "dynamic shared memory (40 bytes)"),
    (7, 4095, "__shared__ large (49152 bytes)"),
]


@pytest.mark.parametrize("mode", ["bounds", "memory"])
@pytest.mark.parametrize(("which", "last", "words"), VARIABLES)
def test_the_first_element_beside_a_variable(
    module: kspec.RawModule, mode: str, which: int, last: int, words: str
) -> None:
    kernel, y = module.get_function("use"), np.zeros(1, np.float32)

    def call(index: int) -> tuple[Any, ...]:
        return ((1,), (1,), (y, np.int32(index), np.int32(which)))

    kernel(*call(last), shared_mem=40, sanitize=mode)
    assert y[0] == 7
    fault = fault_of(kernel, *call(last + 1), shared_mem=40, sanitize=mode)
    assert fault.kind == "illegal-address"
    assert "bytes past the end of " + words in str(fault) and fault.line
    first = -8192 if which == 7 else 0
    fault = fault_of(kernel, *call(first - 1), shared_mem=40, sanitize=mode)
    assert "bytes before " + words in str(fault)
    for index in (10**6, -(10**6), 2**31 - 1):
        fault = fault_of(kernel, *call(index), shared_mem=40, sanitize=mode)
        assert fault.kind == "illegal-address"
        assert fault.line
    kernel(*call(0), shared_mem=40, sanitize=mode)  # the next launch is unharmed


@pytest.mark.parametrize("mode", ["bounds", "none", "memory"])
def test_they_are_variables_of_their_types(module: kspec.RawModule, mode: str) -> None:
    y = np.zeros(3, np.int32)
    module.get_function("sizes")((1,), (1,), (y,), shared_mem=4, sanitize=mode)
    assert y.tolist() == [256 + 128 + 1, 0, 9]
    out = np.zeros(5 * 64, np.float32)
    module.get_function("turn")((5,), (64,), (out,), sanitize=mode)
    for block in range(5):
        values = np.arange(64, dtype=np.float32) + block
        assert out[64 * block] == values.sum()
        assert (out[64 * block + 1 : 64 * block + 64] == values[62::-1]).all()


def test_nothing_is_left_of_an_earlier_block(module: kspec.RawModule) -> None:
    y = np.zeros(20, np.float32)
    for mode in ("bounds", "none"):
        module.get_function("stale")((20,), (1,), (y,), sanitize=mode)
        assert np.isnan(y).all()
    fault = fault_of(module.get_function("stale"), (2,), (1,), (y,), sanitize="init")
    assert fault.kind == "uninitialized-read" and fault.line
    assert "offset 12 of __shared__ row (256 bytes)" in str(fault)


def test_races(module: kspec.RawModule) -> None:
    y = np.zeros(128, np.float32)
    module.get_function("turn")((2,), (64,), (y,), sanitize="race")
    fault = fault_of(module.get_function("use"), (1,), (2,), (y, np.int32(0), np.int32(0)),
                     sanitize="race")  # fmt: skip
    assert fault.kind == "race" and fault.line
    assert "offset 0 of __shared__ row (256 bytes)" in str(fault)


@pytest.mark.parametrize("mode", ["bounds", "none", "race"])
def test_blocks_of_a_cooperative_launch_have_their_own(mode: str) -> None:
    y = np.zeros(12, np.float32)
    kernel = kspec.RawKernel(CODE, "meet", enable_cooperative_groups=True)
    kernel((4,), (3,), (y,), sanitize=mode)
    assert y.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]


@pytest.mark.parametrize(
    "text",
    [
        "struct A { static __shared__ int s[4]; };",
        "template <class T> struct A { static __shared__ T s; };",
    ],
)
def test_data_members_are_refused_as_by_nvrtc(text: str) -> None:
    with pytest.raises(CompileError, match=r"a data member cannot be __shared__"):
        compile_host(CudaSource("k.cu", text))
