"""Blocks that run as loops over their threads: which do, with the same results and faults."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kspec
from kspec.compiler.host import find_compiler
from kspec.errors import HostFault
from kspec.host.runtime import load_runtime
from tests.host import looped_kernels
from tests.host.checked import fault_of, zig_compiler
from tests.profiles import examples
from tests.seeds.sources import FX3, MY_ADD

CODE = r"""
extern "C" __global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  x[i] *= factor;
}
extern "C" __global__ void box(const int* x, int* y, int depth, int rows, int columns) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  unsigned k = threadIdx.z + blockDim.z * blockIdx.z;
  if (i < columns && j < rows && k < depth) {
    const size_t at = ((size_t)k * rows + j) * columns + i;
    y[at] = 2 * x[at] + i - j;
  }
}
extern "C" __global__ void shift(const float* x, float* y, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i + by] = x[i] + 1;
}
extern "C" __global__ void where(int* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) {
    out[4 * i] = threadIdx.x + 1000 * blockIdx.x;
    out[4 * i + 1] = (int)blockDim.x - (int)threadIdx.x;
    out[4 * i + 2] = gridDim.x * blockDim.x;
    out[4 * i + 3] = threadIdx.x % 32 == 0 ? 1 : 0;
  }
}
extern "C" __global__ void strided(float* x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    x[i] = x[i] > 0 ? sqrtf(x[i]) : -x[i];
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float as[16][16], bs[16][16];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int t = 0; t < n / 16; t++) {
    as[ty][tx] = a[row * n + t * 16 + tx];
    bs[ty][tx] = b[(t * 16 + ty) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += as[ty][k] * bs[k][tx];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
extern "C" __global__ void total(const float* x, float* out) {
  extern __shared__ float s[];
  int i = threadIdx.x;
  s[i] = x[blockIdx.x * blockDim.x + i];
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half >>= 1) {
    if (i < half) s[i] += s[i + half];
    __syncthreads();
  }
  if (i == 0) out[blockIdx.x] = s[0];
}
extern "C" __global__ void steps(const float* x, float* y, int n) {
  int i = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    sum += x[k + i];
    __syncthreads();
  }
  for (int k = n - 16; k >= 0; k -= 16) sum += x[k + i];
  y[blockIdx.x * 16 + i] = sum;
}
extern "C" __global__ void halves(int* x, int n) {
  for (int k = n; k; k /= 2) x[k] += threadIdx.x;
}
extern "C" __global__ void stale(int* out) {
  __shared__ int s[32];
  out[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
  s[threadIdx.x] = 7;
}
extern "C" __global__ void divide(const int* x, const int* y, int* z, int by) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  z[i] = x[i] / y[i] + x[i] / by;
}
extern "C" __global__ void per_row(const int* x, int* y, int width) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i / width] + i % width;
}
extern "C" __global__ void wraps(float* x, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x - 1;
  if (i < n) x[i] = 1;
}
extern "C" __global__ void spins(float* x, int n) {
  int i = threadIdx.x;
  for (int k = 0; k < n; k++) x[i] = x[i] * 0.5f + k;
}
extern "C" __global__ void gather(const float* x, const int* index, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[index[i]];
}
extern "C" __global__ void address(unsigned* x) {
  const unsigned* mine = &threadIdx.x;
  x[blockIdx.x * blockDim.x + threadIdx.x] = *mine;
}
extern "C" __global__ void half_meet(int* x) {
  if (x[threadIdx.x] > 0) __syncthreads();
  x[threadIdx.x] = 1;
}
"""
LOOPED = (
    "scale", "box", "shift", "where", "strided", "matmul", "total", "steps", "halves", "stale", "divide", "per_row",
    "wraps", "spins",
)  # fmt: skip


def looped() -> int:
    """Return how many blocks of the last launch ran as loops."""
    return load_runtime().looped()


@pytest.fixture(scope="module")
def kernels() -> Callable[[str], Any]:
    module = kspec.RawModule(code=CODE)
    return lambda name: module.get_function(name)


def test_what_is_read() -> None:
    from kspec.compiler.host.rewrite import rewrite

    assert rewrite(CODE, loops=True).looped == frozenset(LOOPED)
    assert not rewrite(CODE).looped


@settings(max_examples=examples(60))
@given(
    size=st.integers(1, 3000),
    threads=st.integers(1, 260),
    more=st.integers(0, 3),
    offset=st.integers(0, 5),
)
def test_elements(
    kernels: Callable[[str], Any], size: int, threads: int, more: int, offset: int
) -> None:
    memory = np.random.default_rng(size).random(size + 2 * offset, dtype=np.float32)
    want = memory.copy()
    want[offset : offset + size] *= np.float32(0.3)
    blocks = -(-size // threads) + more
    kernels("scale")((blocks,), (threads,), (memory[offset : offset + size], np.float32(0.3), size))
    np.testing.assert_array_equal(memory, want)
    assert looped() == size // threads
    out = np.zeros((size, 4), np.int32)
    kernels("where")((blocks,), (threads,), (out, size))
    i = np.arange(size)
    t, b = i % threads, i // threads
    columns = [t + 1000 * b, threads - t, np.full(size, blocks * threads), t % 32 == 0]
    np.testing.assert_array_equal(out, np.stack(columns, 1))


@settings(max_examples=examples(40))
@given(
    shape=st.tuples(*[st.integers(1, 20)] * 3),
    block=st.tuples(st.integers(1, 17), st.integers(1, 8), st.integers(1, 4)),
)
def test_three_axes(
    kernels: Callable[[str], Any], shape: tuple[int, ...], block: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).integers(-99, 99, shape, np.int32)
    y = np.zeros_like(x)
    depth, rows, columns = shape
    grid = tuple(-(-n // b) for n, b in zip((columns, rows, depth), block, strict=True))
    kernels("box")(grid, block, (x, y, depth, rows, columns))
    i, j = np.arange(columns), np.arange(rows)[:, None]
    np.testing.assert_array_equal(y, 2 * x + i - j)
    assert looped() == np.prod([n // b for n, b in zip((columns, rows, depth), block, strict=True)])


@pytest.mark.parametrize("by", [0, 1, 3, 7, 8, 100])
def test_overlapping_views(
    kernels: Callable[[str], Any], by: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thread reads what one before it has written: the loops keep the order.
    monkeypatch.setenv("KSPEC_HOST_THREADS", "1")
    x = np.arange(512 + by, dtype=np.float32)
    want = x.copy()
    for i in range(512):
        want[i + by] = want[i] + 1
    kernels("shift")((4,), (128,), (x, x, by))
    np.testing.assert_array_equal(x, want)
    assert looped() == 4
    y = np.arange(512 + by, dtype=np.float32)
    want = y.copy()
    for i in range(512):
        want[i] = want[i + by] + 1
    kernels("shift")((4,), (128,), (y[by:], y, 0))
    np.testing.assert_array_equal(y, want)
    assert looped() == 4


@pytest.mark.parametrize("block", [0, 1, 20, 38, 39])
@pytest.mark.parametrize("thread", [0, 1, 17, 31])
def test_faults_are_those_of_a_thread(
    kernels: Callable[[str], Any], block: int, thread: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSPEC_HOST_THREADS", "1")  # the first fault of two is reported
    x = np.zeros(40 * 32, np.float32)
    first = block * 32 + thread  # that is out of bounds
    y, by = (np.zeros(first, np.float32), 0) if first else (x.copy(), -1)
    fault = fault_of(kernels("shift"), (40,), (32,), (x, y, by))
    place = "0 bytes past the end of argument 1" if first else "4 bytes before argument 1"
    assert f"shift: illegal-address: write of 4 bytes at {place} ({y.nbytes} bytes)" in str(fault)
    assert f"at kernel.cu:17 [block ({block},0,0) thread ({thread},0,0)]" in str(fault)
    assert looped() == block
    assert (y[: first or None] == (1 if first else 0)).all()


def test_matrix_product(kernels: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_HOST_THREADS", "1")  # the first fault of two is reported
    a, b = np.random.default_rng(0).random((2, 64, 64), dtype=np.float32)
    c = np.zeros_like(a)
    kernels("matmul")((4, 4), (16, 16), (a, b, c, 64))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    assert looped() == 16
    same = np.zeros_like(a)
    with kspec.checking(order="reverse"):
        kernels("matmul")((4, 4), (16, 16), (a, b, same, 64))
    np.testing.assert_array_equal(c, same)
    assert looped() == 0
    fault = fault_of(kernels("matmul"), (4, 5), (16, 16), (a, b, c, 64))
    assert "[block (0,4,0) thread (0,0,0)]" in str(fault)


def test_other_blocks_than_shared_arrays_have_room_for(kernels: Callable[[str], Any]) -> None:
    a = np.ones((64, 64), np.float32)
    fault = fault_of(kernels("matmul"), (1, 1), (17, 16), (a, a, a.copy(), 64))
    assert "past the end of __shared__ as (1024 bytes)" in str(fault)
    assert "[block (0,0,0) thread (16,15,0)]" in str(fault)


def test_tree_in_dynamic_shared_memory(kernels: Callable[[str], Any]) -> None:
    x, out = np.arange(8 * 64, dtype=np.float32), np.zeros(8, np.float32)
    kernels("total")((8,), (64,), (x, out), shared_mem=64 * 4)
    np.testing.assert_array_equal(out, x.reshape(8, 64).sum(axis=1))
    assert looped() == 8
    fault = fault_of(kernels("total"), (8,), (64,), (x, out), shared_mem=63 * 4)
    assert "thread (63,0,0)" in str(fault) and "dynamic shared memory" in str(fault)


@pytest.mark.parametrize("rest", [0, 1, 15])
def test_loops_with_steps(kernels: Callable[[str], Any], rest: int) -> None:
    # k + i stays below n if 16 divides it.
    x, y = np.arange(80 + rest, dtype=np.float32), np.zeros(32, np.float32)
    call = (2,), (16,), (x, y, x.size)
    if rest:
        assert f"thread ({rest},0,0)" in str(fault_of(kernels("steps"), *call))
        return
    kernels("steps")(*call)
    np.testing.assert_array_equal(y, np.tile(2 * x.reshape(5, 16).sum(axis=0), 2))
    assert looped() == 2


def test_loops_down_to_zero(kernels: Callable[[str], Any]) -> None:
    x = np.zeros(41, np.int32)
    kernels("halves")((1,), (4,), (x, 40))
    assert np.flatnonzero(x).tolist() == [1, 2, 5, 10, 20, 40] and set(x[x > 0]) == {6}
    assert looped() == 1
    kernels("halves")((1,), (4,), (x, 0))
    assert looped() == 1
    fault = fault_of(kernels("halves"), (1,), (4,), (x, -3))  # from below
    assert "write of 4 bytes" in str(fault) or "read of 4 bytes" in str(fault)


def test_shared_memory_is_new_in_each_block(kernels: Callable[[str], Any]) -> None:
    out = np.zeros(32 * 32, np.int32)
    kernels("stale")((32,), (32,), (out,))
    assert (out == -1).all() and looped() == 32


def test_integer_division(kernels: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_HOST_THREADS", "1")  # the first fault of two is reported
    x, y, z = np.arange(64, dtype=np.int32), np.ones(64, np.int32), np.zeros(64, np.int32)
    kernels("divide")((2,), (32,), (x, y, z, 2))
    np.testing.assert_array_equal(z, x + x // 2)
    y[37] = 0
    fault = fault_of(kernels("divide"), (2,), (32,), (x, y, z, 2))
    assert fault.kind == "integer-division" and "block (1,0,0) thread (5,0,0)" in str(fault)
    kernels("per_row")((2,), (32,), (x, z, 3))
    np.testing.assert_array_equal(z, x[x // 3] + x % 3)
    assert looped() == 2
    fault = fault_of(kernels("per_row"), (2,), (32,), (x, z, 0))
    assert fault.kind == "integer-division" and "block (0,0,0) thread (0,0,0)" in str(fault)


def test_indices_that_wrap_around(kernels: Callable[[str], Any]) -> None:
    x = np.zeros(100, np.float32)
    kernels("wraps")((4,), (32,), (x, 100))
    assert (x == 1).all()
    assert looped() == 2  # in the first block an index is 0u - 1, in the last some are too large


def test_grid_stride_loops(kernels: Callable[[str], Any]) -> None:
    x = np.linspace(-3, 3, 1001, dtype=np.float32)
    want = np.where(x > 0, np.sqrt(np.abs(x)), -x)
    kernels("strided")((3,), (64,), (x, 1001))
    np.testing.assert_array_equal(x, want)
    assert looped() == 3


@pytest.mark.parametrize("name", ["gather", "address", "half_meet"])
def test_other_kernels_run_thread_by_thread(kernels: Callable[[str], Any], name: str) -> None:
    if name == "half_meet":
        x = np.ones(64, np.int32)
        x[33] = 0
        kernels(name)((1,), (64,), (x,))  # a thread that returns meets no other
    elif name == "address":
        x = np.zeros(64, np.uint32)
        kernels(name)((2,), (32,), (x,))
        np.testing.assert_array_equal(x, np.arange(64) % 32)
    else:
        y, source = np.zeros(64, np.float32), np.arange(64, dtype=np.float32)
        kernels(name)((2,), (32,), (source, np.arange(63, -1, -1, dtype=np.int32), y))
        np.testing.assert_array_equal(y, source[::-1])
    assert looped() == 0


def test_a_loop_can_be_stopped(kernels: Callable[[str], Any]) -> None:
    x = np.zeros(64, np.float32)
    with kspec.checking(timeout=0.2), pytest.raises(HostFault) as caught:
        kernels("spins")((1,), (64,), (x, 2**31 - 1))
    assert caught.value.kind == "timeout"
    line = CODE.split("\n").index("  for (int k = 0; k < n; k++) x[i] = x[i] * 0.5f + k;") + 1
    assert caught.value.line == line and "thread (0,0,0)" in str(caught.value)


def test_several_launching_threads(kernels: Callable[[str], Any]) -> None:
    arrays = [np.ones(5000, np.float32) for _ in range(4)]

    def run(x: np.ndarray) -> None:
        for _ in range(50):
            kernels("scale")((20,), (256,), (x, np.float32(2), 5000))
            kernels("scale")((20,), (256,), (x, np.float32(0.5), 5000))

    threads = [threading.Thread(target=run, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all((x == 1).all() for x in arrays)


def test_templates_and_types() -> None:
    names = ["fx3<float>", "fx3<double>", "fx3<int>", "fx3<complex<float>>"]
    module = kspec.RawModule(code="#include <cupy/complex.cuh>\n" + FX3, name_expressions=names)
    types = np.float32, np.float64, np.int32, np.complex64
    for name, kind in zip(names, types, strict=True):
        x = np.arange(1000).astype(kind)
        module.get_function(name)((8,), (128,), (x, 1000))
        np.testing.assert_array_equal(x, 3 * np.arange(1000).astype(kind))
        assert looped() == (0 if kind is np.complex64 else 7)


def test_in_place() -> None:
    x = np.arange(1024, dtype=np.float32)
    kspec.RawKernel(MY_ADD, "my_add")((8,), (128,), (x, x, x))
    np.testing.assert_array_equal(x, 2 * np.arange(1024))
    assert looped() == 8


def test_names_with_other_meanings() -> None:
    code = r"""
    template <class T> __global__ void k(T* x) { x[threadIdx.x] = 1; }
    template <> __global__ void k<int>(int* x) { x[threadIdx.x] = 2; }
    __device__ float sqrtf(int x, int y) { return x + y; }
    extern "C" __global__ void mine(float* x) { x[threadIdx.x] = sqrtf(3, 4); }
    """
    names = ["k<int>", "k<float>", "mine"]
    module = kspec.RawModule(code=code, name_expressions=names)
    for name, kind, value in zip(names, (np.int32, np.float32, np.float32), (2, 1, 7), strict=True):
        x = np.zeros(32, kind)
        module.get_function(name)((1,), (32,), (x,))
        assert (x == value).all() and looped() == 0


def test_namespaces() -> None:
    code = r"""
    namespace outer { namespace {
    extern "C" __global__ void c(float* x) { x[threadIdx.x] = 1; }
    template <int N> __global__ void t(float* x) { x[threadIdx.x] = N; }
    } }
    extern "C" { __global__ void d(float* x) { x[threadIdx.x] = 3; } }
    """
    names = ["outer::t<2>"]
    module = kspec.RawModule(code=code, name_expressions=names)
    for value, name in enumerate(("c", "outer::t<2>", "d"), 1):
        x = np.zeros(32, np.float32)
        module.get_function(name)((1,), (32,), (x,))
        assert (x == value).all() and looped() == 1


def test_errors_are_shown_once() -> None:
    code = """
extern "C" __global__ void k(const float* x) {
  x[threadIdx.x] = 1;
}"""
    with pytest.raises(kspec.CompileError) as caught:
        kspec.RawKernel(code, "k").compile()
    assert str(caught.value).count("read-only") == 1


@pytest.mark.parametrize("compiler", ["default", "zig"])
def test_random_kernels(compiler: str) -> None:
    command = zig_compiler() if compiler == "zig" else find_compiler()
    ran = 0
    for case in looped_kernels.cases(seed=7, kernels=examples(12)):
        text, blocks, _ = looped_kernels.difference(case, command)
        assert not text, text
        ran += bool(blocks)
    assert ran >= 2
