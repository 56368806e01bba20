"""A C++ template, compiled for two types, and how its kernels are named.

``python examples/templates.py`` runs on every device present.
"""

import numpy as np

import kspec

CODE = r"""
#include <limits>

template <class T, int N> __global__ void largest(const T* x, int n, T* y) {
  __shared__ T found[N];
  T mine = std::numeric_limits<T>::lowest();
  for (int i = threadIdx.x; i < n; i += N) mine = x[i] > mine ? x[i] : mine;
  found[threadIdx.x] = mine;
  for (int half = N / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half && found[threadIdx.x + half] > found[threadIdx.x])
      found[threadIdx.x] = found[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *y = found[0];
}
"""
THREADS = 128
KERNELS = {"float32": f"largest<float, {THREADS}>", "int64": f"largest<long long, {THREADS}>"}


def main():
    module = kspec.RawModule(code=CODE, name_expressions=list(KERNELS.values()))
    for device in kspec.devices():
        for dtype, name in KERNELS.items():
            x = np.random.default_rng(0).normal(scale=1e6, size=10_000).astype(dtype)
            y = kspec.empty(1, dtype, device)
            kernel = module.get_function(name.replace(", ", ","))  # any spelling will do
            kernel((1,), (THREADS,), (kspec.asarray(x, device=device), x.size, y))
            found = kspec.asnumpy(y)[0]
            print(f"{device}: {name} found {found}")
            assert found == x.max()


if __name__ == "__main__":
    main()
