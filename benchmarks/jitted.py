"""Kernels from Python functions beside the same kernels in CUDA C++, and what calls of them cost.

The Python text is the same for kspec and CuPy; `kspec.jit` and `cupyx.jit` are given to it.
numba's differs in its names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import kspec
from benchmarks.machines import Machine
from benchmarks.results import Figure
from benchmarks.timing import Call

SECTION = "jit beside CUDA C++"
_SLOWER = 1.05  # times as long as CUDA C++ is allowed
_TILE = 16
_BINS = 256


@dataclass(frozen=True)
class Problem:
    """A kernel in Python and in CUDA C++.

    Attributes
    ----------
    name : str
        What it does.
    python : callable
        Returns the kernel: ``python(jit)``.
    cuda : str
        The same kernel in CUDA C++, called ``kernel``.
    arguments : callable
        Returns the arguments and the array that is written to: ``arguments(machine)``.
    launch : callable
        Returns grid and block for a machine.
    """

    name: str
    python: Callable[[Any], Any]
    cuda: str
    arguments: Callable[[Machine], tuple[tuple[Any, ...], Any]]
    launch: Callable[[Machine], tuple[tuple[int, ...], tuple[int, ...]]]

    @property
    def label(self) -> str:
        """The name with its section, which patterns are matched with."""
        return f"jit/{self.name}"


def _matmul(jit: Any) -> Any:
    @jit.rawkernel()
    def matmul(a, b, c, n):  # type: ignore[no-untyped-def]
        x, y = jit.threadIdx.x, jit.threadIdx.y
        column = jit.blockIdx.x * 16 + x
        row = jit.blockIdx.y * 16 + y
        left = jit.shared_memory(np.float32, 256)
        right = jit.shared_memory(np.float32, 256)
        total = np.float32(0)
        for tile in range(n // 16):
            left[y * 16 + x] = a[row * n + tile * 16 + x]
            right[y * 16 + x] = b[(tile * 16 + y) * n + column]
            jit.syncthreads()
            for k in range(np.uint32(16)):
                total += left[y * 16 + k] * right[k * 16 + x]
            jit.syncthreads()
        c[row * n + column] = total

    return matmul


_MATMUL = """
extern "C" __global__ void kernel(const float* a, const float* b, float* c, int n) {
  const int x = threadIdx.x, y = threadIdx.y;
  const int column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
  __shared__ float left[256], right[256];
  float total = 0;
  for (int tile = 0; tile < n / 16; ++tile) {
    left[y * 16 + x] = a[row * n + tile * 16 + x];
    right[y * 16 + x] = b[(tile * 16 + y) * n + column];
    __syncthreads();
    for (int k = 0; k < 16; ++k) total += left[y * 16 + k] * right[k * 16 + x];
    __syncthreads();
  }
  c[row * n + column] = total;
}
"""


def _mandelbrot(jit: Any) -> Any:
    @jit.rawkernel()
    def mandelbrot(out, width, height, most):  # type: ignore[no-untyped-def]
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        j = jit.blockIdx.y * jit.blockDim.y + jit.threadIdx.y
        if i < width and j < height:
            cx = np.float32(-2.0) + np.float32(3.0) * np.float32(i) / np.float32(width)
            cy = np.float32(-1.5) + np.float32(3.0) * np.float32(j) / np.float32(height)
            x = np.float32(0)
            y = np.float32(0)
            count = np.uint32(0)
            while count < most and x * x + y * y < np.float32(4.0):
                step = x * x - y * y + cx
                y = np.float32(2.0) * x * y + cy
                x = step
                count += 1
            out[j * width + i] = count

    return mandelbrot


_MANDELBROT = """
extern "C" __global__ void kernel(int* out, int width, int height, int most) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= width || j >= height) return;
  const float cx = -2.0f + 3.0f * i / width, cy = -1.5f + 3.0f * j / height;
  float x = 0, y = 0;
  int count = 0;
  while (count < most && x * x + y * y < 4.0f) {
    const float step = x * x - y * y + cx;
    y = 2.0f * x * y + cy;
    x = step;
    ++count;
  }
  out[j * width + i] = count;
}
"""


def _stencil(jit: Any) -> Any:
    @jit.rawkernel()
    def stencil(x, out, n):  # type: ignore[no-untyped-def]
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        j = jit.blockIdx.y * jit.blockDim.y + jit.threadIdx.y
        if i > 0 and i < n - 1 and j > 0 and j < n - 1:
            near = x[j * n + i - 1] + x[j * n + i + 1] + x[j * n - n + i] + x[j * n + n + i]
            out[j * n + i] = near - np.float32(4.0) * x[j * n + i]

    return stencil


_STENCIL = """
extern "C" __global__ void kernel(const float* x, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i > 0 && i < n - 1 && j > 0 && j < n - 1) {
    const float near =
        x[j * n + i - 1] + x[j * n + i + 1] + x[j * n - n + i] + x[j * n + n + i];
    out[j * n + i] = near - 4.0f * x[j * n + i];
  }
}
"""


def _histogram(jit: Any) -> Any:
    @jit.rawkernel()
    def histogram(x, out, n):  # type: ignore[no-untyped-def]
        counts = jit.shared_memory(np.uint32, 256)
        counts[jit.threadIdx.x] = 0
        jit.syncthreads()
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        while i < n:
            jit.atomic_add(counts, x[i], 1)
            i += jit.gridDim.x * jit.blockDim.x
        jit.syncthreads()
        jit.atomic_add(out, jit.threadIdx.x, counts[jit.threadIdx.x])

    return histogram


_HISTOGRAM = """
extern "C" __global__ void kernel(const int* x, unsigned int* out, unsigned int n) {
  __shared__ unsigned int counts[256];
  counts[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&counts[x[i]], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], counts[threadIdx.x]);
}
"""


def _side(machine: Machine, most: int) -> int:
    """Return the side of a square, a multiple of the tile."""
    side = min(most, int(machine.elements**0.5))
    return max(_TILE, side // _TILE * _TILE)


def _matmul_side(machine: Machine) -> int:
    return _side(machine, 2048 if machine.kind == "cuda" else 64)


def _matmul_arguments(machine: Machine) -> tuple[tuple[Any, ...], Any]:
    n = _matmul_side(machine)
    a, b = (machine.random("float32", n * n, seed) for seed in range(2))
    c = machine.empty("float32", n * n)
    return (a, b, c, np.uint32(n)), c


def _square(side: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (side // _TILE, side // _TILE), (_TILE, _TILE)


def _image_side(machine: Machine) -> int:
    return _side(machine, 4096 if machine.kind == "cuda" else 128)


def _mandelbrot_arguments(machine: Machine) -> tuple[tuple[Any, ...], Any]:
    side = _image_side(machine)
    out = machine.empty("int32", side * side)
    return (out, np.uint32(side), np.uint32(side), np.uint32(256)), out


def _stencil_side(machine: Machine) -> int:
    return _side(machine, 16384 if machine.kind == "cuda" else 256)


def _stencil_arguments(machine: Machine) -> tuple[tuple[Any, ...], Any]:
    n = _stencil_side(machine)
    x, out = machine.random("float32", n * n, 0), machine.empty("float32", n * n)
    out[...] = 0
    return (x, out, np.uint32(n)), out


def _histogram_arguments(machine: Machine) -> tuple[tuple[Any, ...], Any]:
    count = machine.elements // 4
    x = (machine.random("float32", count, 0) * _BINS).astype("int32")
    out = machine.empty("uint32", _BINS)
    out[...] = 0
    return (x, out, np.uint32(count)), out


PROBLEMS: tuple[Problem, ...] = (
    Problem(
        "tiled matrix product",
        _matmul,
        _MATMUL,
        _matmul_arguments,
        lambda machine: _square(_matmul_side(machine)),
    ),
    Problem(
        "Mandelbrot set",
        _mandelbrot,
        _MANDELBROT,
        _mandelbrot_arguments,
        lambda machine: _square(_image_side(machine)),
    ),
    Problem(
        "stencil of five points",
        _stencil,
        _STENCIL,
        _stencil_arguments,
        lambda machine: _square(_stencil_side(machine)),
    ),
    Problem(
        "histogram",
        _histogram,
        _HISTOGRAM,
        _histogram_arguments,
        lambda machine: ((1056 if machine.kind == "cuda" else 4,), (_BINS,)),
    ),
)


def run(machine: Machine, problem: Problem) -> Iterator[Figure]:
    """Measure a kernel; yield its time in units of that of CUDA C++."""
    name = f"{problem.name}: times as long"
    limit = _SLOWER if machine.kind == "cuda" else None
    try:
        ratio, wrong = _measure(machine, problem)
        text = "WRONG RESULT: differs from CUDA C++" if wrong else ""
        yield Figure(SECTION, name, ratio, "", limit, problem=text)
    except Exception as error:  # one kernel must not stop the others
        text = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:160]}"
        yield Figure(SECTION, name, 0.0, "", limit, problem=text)
    finally:
        machine.free()


def _measure(machine: Machine, problem: Problem) -> tuple[float, bool]:
    from kspec import jit

    arguments, out = problem.arguments(machine)
    grid, block = problem.launch(machine)
    calls: dict[str, Call] = {
        "jit": functools.partial(problem.python(jit), grid, block, arguments),
        "cuda": functools.partial(kspec.RawKernel(problem.cuda, "kernel"), grid, block, arguments),
    }
    found = {}
    for name, call in calls.items():
        out[...] = 0
        call()
        machine.finish()
        found[name] = np.array(kspec.asnumpy(out), copy=True)
    times = {name: machine.time([call], 0.3) for name, call in calls.items()}
    close = np.allclose(found["jit"], found["cuda"], rtol=1e-5, atol=1e-5)
    return times["jit"].median / times["cuda"].median, not close
