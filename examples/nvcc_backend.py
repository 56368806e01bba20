"""The nvcc backend: a source that shares a C++ type with host code, and includes its headers.

``python examples/nvcc_backend.py`` needs nvcc for a GPU; the host device has its own compiler.
"""

import numpy as np

import kspec

CODE = r"""
#include <cmath>
#include <vector>

// Part of a program that also runs on the CPU: NVRTC has no <vector>.
struct Polynomial {
  std::vector<double> on_the_host;
  __host__ __device__ static double value(const double* factors, int degree, double x) {
    double sum = 0;
    for (int k = degree; k >= 0; k--) sum = std::fma(sum, x, factors[k]);
    return sum;
  }
};

extern "C" __global__ void evaluate(const double* factors, int degree, double* x) {
  x[threadIdx.x] = Polynomial::value(factors, degree, x[threadIdx.x]);
}
"""


def main():
    evaluate = kspec.RawKernel(CODE, "evaluate", backend="nvcc")
    factors, x = np.array([1.0, -2.0, 3.0]), np.linspace(-1, 1, 8)
    for device in kspec.devices():
        values = kspec.asarray(x, device=device)
        try:
            evaluate((1,), (8,), (kspec.asarray(factors, device=device), 2, values))
        except kspec.ToolNotFoundError as error:
            print(f"{device}: {error}")
            continue
        print(f"{device}: {kspec.asnumpy(values).round(3)}")
        assert np.allclose(kspec.asnumpy(values), np.polyval(factors[::-1], x))


if __name__ == "__main__":
    main()
