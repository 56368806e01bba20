"""A filter whose weights are in constant memory, replaced between launches.

``python examples/constant_filter.py`` runs on every device present.
"""

import numpy as np

import kspec

CODE = r"""
__constant__ float weights[5];

extern "C" __global__ void filter(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n - 4) return;
  float sum = 0;
  for (int k = 0; k < 5; k++) sum += weights[k] * x[i + k];
  y[i] = sum;
}
"""
FILTERS = {"mean": [0.2, 0.2, 0.2, 0.2, 0.2], "slope": [0.2, 0.1, 0, -0.1, -0.2]}


def main():
    module = kspec.RawModule(code=CODE)
    kernel = module.get_function("filter")
    x = np.cumsum(np.random.default_rng(0).normal(size=10_000)).astype(np.float32)
    for device in kspec.devices():
        # The variable as an array; with CuPy, cupy.asarray(weights) is the same memory.
        weights = module.get_global("weights", device).array(5, "float32")
        for name, values in FILTERS.items():
            weights[...] = values
            y = kspec.empty(x.size - 4, "float32", device)
            kernel((40,), (256,), (kspec.asarray(x, device=device), y, x.size))
            error = np.abs(kspec.asnumpy(y) - np.correlate(x, values, "valid")).max()
            print(f"{device}: {name}, error {error:.1e}")
            assert error < 1e-3


if __name__ == "__main__":
    main()
