"""What the host device costs: ``python -m benchmarks.host_device``.

Ratios to NumPy are of one run, results compared first; costs per CUDA thread, barrier and launch
are differences of runs, so that what they share drops out.
"""

from __future__ import annotations

import ctypes
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import kspec
from benchmarks.results import Figure
from kspec.compiler.host.compile import compile_host
from kspec.host.kernels import NativeKernel
from kspec.host.modules import load_module
from kspec.model.stages import CudaSource

KERNELS = r"""
extern "C" __global__ void empty() {}
extern "C" __global__ void barriers(int count) {
  for (int i = 0; i < count; ++i) __syncthreads();
}
extern "C" __global__ void one_each(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1;
}
"""
RAW_KERNELS = r"""
template <typename T> __global__ void fx3(T* arr, int N) {
  unsigned int tid = blockIdx.x * blockDim.x + threadIdx.x;
  if (tid < N) arr[tid] = arr[tid] * 3;
}
extern "C" __global__ void my_add(const float* x1, const float* x2, float* y) {
  int tid = blockDim.x * blockIdx.x + threadIdx.x;
  y[tid] = x1[tid] + x2[tid];
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float rows[16][16], columns[16][16];
  int tx = threadIdx.x, ty = threadIdx.y;
  int row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
  float sum = 0;
  for (int tile = 0; tile < n / 16; tile++) {
    rows[ty][tx] = a[row * n + tile * 16 + tx];
    columns[ty][tx] = b[(tile * 16 + ty) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum += rows[ty][k] * columns[k][tx];
    __syncthreads();
  }
  c[row * n + column] = sum;
}
"""
_ROUNDS = 7


def _figure(what: str, value: float, unit: str, limit: float, at_least: bool = False) -> Figure:
    return Figure("host device", what, value, unit, limit, at_least)


def best(
    function: Callable[[], object],
    rounds: int = _ROUNDS,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Return the median time of a call in seconds, after one that is not counted."""
    function()
    times = []
    for _ in range(rounds):
        start = clock()
        function()
        times.append(clock() - start)
    return statistics.median(times)


def ratios(elements: int) -> list[Figure]:
    """Return how many times as fast as NumPy the two kinds of generated kernels are."""
    generator = np.random.default_rng(0)
    a, b = (generator.random(elements, dtype=np.float32) for _ in range(2))
    got, want = np.empty_like(a), np.empty_like(a)
    axpy = kspec.ElementwiseKernel("T a, T b", "T c", "c = a * b + 1", "multiply_add")
    l2norm = kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "l2norm")

    def numpy_axpy() -> None:
        np.multiply(a, b, want)
        np.add(want, 1, want)

    ours, theirs = best(lambda: axpy(a, b, got)), best(numpy_axpy)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    np.testing.assert_allclose(l2norm(a), np.sqrt(np.sum(a * a)), rtol=1e-5)
    ours_norm = best(lambda: l2norm(a))
    theirs_norm = best(lambda: np.sqrt(np.sum(a * a)))
    return [
        _figure("a * b + 1, times as fast as NumPy", theirs / ours, "x", 1.5, at_least=True),
        _figure("L2 norm, times as fast as NumPy", theirs_norm / ours_norm, "x", 1, at_least=True),
    ]


def raw_kernels(elements: int = 1_000_000) -> list[Figure]:
    """Return the times of raw kernels on NumPy arrays: over NumPy's, and for each barrier."""
    module = kspec.RawModule(code=RAW_KERNELS, name_expressions=["fx3<float>"])
    fx3, my_add, matmul = map(module.get_function, ("fx3<float>", "my_add", "matmul"))
    threads = 128
    elements -= elements % threads  # my_add has no guard
    grid = (elements // threads,)
    x, y, got = np.random.default_rng(0).random((3, elements), dtype=np.float32)
    my_add(grid, (threads,), (x, y, got))
    np.testing.assert_array_equal(got, x + y)
    fx3(grid, (threads,), (got, elements))
    np.testing.assert_array_equal(got, (x + y) * 3)
    got[:] = 0  # it would grow beyond all bounds
    ours = best(lambda: fx3(grid, (threads,), (got, elements)), 101)
    numpys = best(lambda: np.multiply(got, 3, out=got), 101)
    ours_add = best(lambda: my_add(grid, (threads,), (x, y, got)), 101)
    numpys_add = best(lambda: np.add(x, y, out=got), 101)
    return [
        _figure("raw kernel fx3, 10^6 elements, time over NumPy's", ours / numpys, "x", 2),
        _figure("raw kernel my_add, time over NumPy's", ours_add / numpys_add, "x", 2),
        _matrix_product(matmul),
    ]


def _matrix_product(kernel: kspec.RawKernel, side: int = 512) -> Figure:
    a, b, c = np.random.default_rng(0).random((3, side, side), dtype=np.float32)
    grid = (side // 16, side // 16)
    time_ = best(lambda: kernel(grid, (16, 16), (a, b, c, side)))
    np.testing.assert_allclose(c, a @ b, rtol=1e-4)
    each = time_ / (side * side * 2 * (side // 16))
    return _figure("16x16 tiled matrix product, a thread and barrier", each * 1e9, "ns", 8)


def stencil(side: int = 1024) -> Figure:
    """Return the time of a five-point stencil in units of NumPy's slicing expression.

    Both are processor time, so that the number of cores does not count.
    """
    u = np.random.default_rng(0).random((side, side), dtype=np.float32)
    got, want = np.empty((side - 2, side - 2), np.float32), np.empty_like(u[1:-1, 1:-1])
    laplacian = kspec.ElementwiseKernel(
        "T u",
        "T v",
        "v = u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - T(4) * u(0, 0)",
        "laplacian",
        windows={"u": {"reach": [1, 1], "boundary": "valid"}},
    )

    def numpy() -> None:
        want[...] = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:] - 4 * u[1:-1, 1:-1]

    clock = time.process_time
    ours, theirs = best(lambda: laplacian(u, got), 31, clock), best(numpy, 31, clock)
    np.testing.assert_allclose(got, want, atol=1e-5)
    name = "5-point on the host, processor time over NumPy's"
    return Figure("stencil beside peers", name, ours / theirs, "x", 1.5)


def costs() -> list[Figure]:
    """Return the cost of a barrier, a thread and a launch."""
    image = compile_host(CudaSource("costs.cu", KERNELS))
    module = load_module(image)
    barrier = _barrier_cost(module.get_kernel("barriers"))
    thread = _thread_cost(module.get_kernel("one_each"))
    empty = module.get_kernel("empty")
    table = (ctypes.c_void_p * 1)()
    address = ctypes.addressof(table)
    calls = 2000

    def launches() -> None:
        for _ in range(calls):
            empty.launch((1, 1, 1), (1, 1, 1), address)

    return [
        _figure("barrier, per thread of 256", barrier * 1e9, "ns", 40),
        _figure("thread without barriers", thread * 1e9, "ns", 5),
        _figure("launch of one block", best(launches) / calls * 1e6, "us", 15),
    ]


def _barrier_cost(kernel: NativeKernel) -> float:
    blocks, threads = 64, 256

    def run(count: int) -> float:
        value = ctypes.c_int(count)
        table = (ctypes.c_void_p * 1)(ctypes.addressof(value))
        grid = (blocks, 1, 1)
        return best(lambda: kernel.launch(grid, (threads, 1, 1), ctypes.addressof(table)))

    return (run(41) - run(1)) / (40 * blocks * threads)


def _thread_cost(kernel: NativeKernel) -> float:
    n = 4_000_000
    data = np.zeros(n, np.float32)
    pointer, count = ctypes.c_void_p(data.ctypes.data), ctypes.c_int(n)
    table = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(count))
    grid = (-(-n // 256), 1, 1)
    return best(lambda: kernel.launch(grid, (256, 1, 1), ctypes.addressof(table))) / n


def memory() -> float:
    """Return the MiB that the stacks of full blocks take."""
    code = """
    __global__ void touch(float* x) {
      volatile char deep[2048]; deep[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = deep[0];
    }
    """
    touch = kspec.RawModule(code=code, name_expressions=["touch"]).get_function("touch")
    x = np.zeros(1024, np.float32)
    touch((1,), (1,), (x,))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    touch((8,), (1024,), (x,))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return (after - before) / 1024


def stacks() -> Figure:
    """Return the memory of a process that has not yet used more for something else."""
    code = "from benchmarks.host_device import memory; print(memory())"
    folder = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, check=True, capture_output=True, text=True
    )
    return _figure("stacks of 1024-thread blocks", float(done.stdout), "MiB", 64)


def first_launch() -> Figure:
    """Return the time of a process that builds the runtime and a kernel from nothing."""
    code = "import numpy as np, kspec; kspec.ElementwiseKernel('T x', 'T y', 'y = x')(np.ones(3))"
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        environment = {**os.environ, "KSPEC_CACHE_DIR": folder}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
        return _figure("first result, empty cache", time.perf_counter() - start, "s", 2)


def figures(elements: int = 10_000_000) -> Iterator[Figure]:
    """Yield everything; a part that fails is a figure with a problem."""
    parts: dict[str, Callable[[], Sequence[Figure]]] = {
        "memory": lambda: [stacks()],
        "ratios": lambda: ratios(elements),
        "raw kernels": raw_kernels,
        "costs": costs,
        "first launch": lambda: [first_launch()],
    }
    for name, part in parts.items():
        try:
            yield from part()
        except Exception as error:  # one part must not stop the others
            problem = f"{type(error).__name__}: {error}"
            yield Figure("host device", name, 0.0, "", problem=problem)


def main() -> None:
    """Measure everything and print one table."""
    table = Table("host device", "measured", "", "target", box=None)
    for figure in figures():
        table.add_row(figure.name, f"{figure.value:.2f}", figure.unit, figure.target)
    Console(width=80).print(table)


if __name__ == "__main__":
    main()
