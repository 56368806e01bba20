"""The cost of checking bounds on the host device: processor time checked over unchecked.

::

    python benchmarks/host_bounds.py

Results are compared with NumPy's. Processor time, because other programs share the cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kspec

CODE = r"""
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void stencil(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i] + x[i + 1];
}
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  __shared__ float s[16][16], t[16][16];
  int x = threadIdx.x, y = threadIdx.y, i = blockIdx.y * 16 + y, j = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    s[y][x] = a[i * n + k + x];
    t[y][x] = b[(k + y) * n + j];
    __syncthreads();
    for (int m = 0; m < 16; m++) sum += s[y][m] * t[m][x];
    __syncthreads();
  }
  c[i * n + j] = sum;
}
extern "C" __global__ void total(const float* x, float* y) {
  __shared__ float s[256];
  int k = threadIdx.x;
  s[k] = x[blockIdx.x * 256 + k];
  for (int step = 128; step; step >>= 1) {
    __syncthreads();
    if (k < step) s[k] += s[k + step];
  }
  if (k == 0) y[blockIdx.x] = s[0];
}
extern "C" __global__ void waves(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = expf(sinf(x[i]));
}
"""
N = 2_000_000
SIDE = 256


def _best(run: Callable[[], Any]) -> float:
    seconds = []
    for _ in range(7):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return min(seconds[1:])


def main() -> None:
    """Print a row for each kernel."""
    module = kspec.RawModule(code=CODE)
    rng = np.random.default_rng(0)
    x, y = rng.random(N, np.float32), np.zeros(N, np.float32)
    a, b, c = (rng.random((SIDE, SIDE), np.float32) for _ in range(3))
    blocks, n = -(-N // 256), np.int32(N)
    sums = np.zeros(N // 256, np.float32)
    stencil = x[:-2] + x[1:-1] + x[2:]
    tiles = (SIDE // 16, SIDE // 16)
    rows: tuple[tuple[str, Any, Any, Any, Callable[[], bool]], ...] = (
        ("saxpy", (blocks,), (256,), (np.float32(0), x, y, n), lambda: not y.any()),
        ("stencil", (blocks,), (256,), (x, y, n), lambda: np.allclose(y[1:-1], stencil)),
        ("matmul", tiles, (16, 16), (a, b, c, np.int32(SIDE)), lambda: np.allclose(c, a @ b)),
        (
            "total",
            (len(sums),),
            (256,),
            (x, sums),
            lambda: np.allclose(sums, x[: 256 * len(sums)].reshape(-1, 256).sum(1)),
        ),
        ("waves", (blocks,), (256,), (x, y, n), lambda: np.allclose(y, np.exp(np.sin(x)))),
    )
    print(f"{'kernel':10}{'unchecked':>12}{'checked':>12}{'ratio':>8}")
    for name, grid, block, args, is_right in rows:
        kernel = module.get_function(name)
        times = []
        for mode in ("none", "bounds"):
            with kspec.checking(mode):
                times.append(_best(lambda k=kernel, g=grid, t=block, v=args: k(g, t, v)))
            assert is_right(), name
        plain, checked = times
        ratio = checked / plain
        print(f"{name:10}{plain * 1e3:9.1f} ms{checked * 1e3:9.1f} ms{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    main()
