"""A kernel that begins while the one before it still runs: programmatic dependent launch.

What a kernel does before ``grid_dependency_synchronize()`` needs nothing of the other one.
``python examples/dependent_launch.py`` runs on every device present; kernels overlap on GPUs of
compute capability 9.0 and newer, and wait by themselves on others.
"""

import numpy as np

import kspec

CODE = r"""
#include <kspec/dependent_launch.cuh>

extern "C" __global__ void square(const float* x, float* y, int n) {
  kspec::trigger_programmatic_launch_completion();  // the next kernel may begin
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * x[i];
}

extern "C" __global__ void smooth(const float* y, const float* window, float* z, int n) {
  __shared__ float weights[9];
  if (threadIdx.x < 9) weights[threadIdx.x] = window[threadIdx.x];  // there all the time
  __syncthreads();
  kspec::grid_dependency_synchronize();  // from here on y is complete
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n - 8) return;
  float sum = 0;
  for (int k = 0; k < 9; k++) sum += weights[k] * y[i + k];
  z[i] = sum;
}
"""


def main():
    module = kspec.RawModule(code=CODE)
    square, smooth = module.get_function("square"), module.get_function("smooth")
    n = 100_000
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    window = np.hanning(9).astype(np.float32)
    expected = np.convolve(x.astype(np.float64) ** 2, window, "valid")
    grid, block = ((n + 255) // 256,), (256,)
    for device in kspec.devices():
        given, weights = kspec.asarray(x, device=device), kspec.asarray(window, device=device)
        y, z = kspec.empty(n, "float32", device), kspec.empty(n - 8, "float32", device)
        square(grid, block, (given, y, n))
        smooth(grid, block, (y, weights, z, n), pdl=True)
        error = np.abs(kspec.asnumpy(z) - expected).max()
        print(f"{device}: error {error:.1e}")
        assert error < 1e-4


if __name__ == "__main__":
    main()
