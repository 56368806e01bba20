"""Complex numbers in raw kernels: ``complex<T>``, and sources written for ``cuComplex.h``.

``python examples/complex_numbers.py`` runs on every device present.
"""

import numpy as np

import kspec

OPERATORS = r"""
#include <cupy/complex.cuh>

extern "C" __global__ void escape(const complex<float>* c, int* steps, int n, int limit) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  complex<float> z = 0;
  int step = 0;
  for (; step < limit && norm(z) <= 4; step++) z = z * z + c[i];
  steps[i] = step;
}
"""
FUNCTIONS = r"""
#include <cuComplex.h>

extern "C" __global__ void escape(const cuFloatComplex* c, int* steps, int n, int limit) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  cuFloatComplex z = make_cuFloatComplex(0, 0);
  int step = 0;
  for (; step < limit && cuCabsf(z) <= 2; step++) z = cuCaddf(cuCmulf(z, z), c[i]);
  steps[i] = step;
}
"""
KERNELS = {
    "complex<float>": kspec.RawKernel(OPERATORS, "escape"),
    "cuComplex.h": kspec.RawKernel(FUNCTIONS, "escape", translate_cucomplex=True),
}


def main():
    axis = np.linspace(-1, 1, 64, dtype=np.float32)
    c = (1.5 * axis - 0.5 + 1.25j * axis[:, None]).astype(np.complex64)
    z, expected = np.zeros_like(c), np.ones(c.shape, bool)
    for _ in range(50):
        z = np.where(expected, z * z + c, z)
        expected &= np.abs(z) <= 2
    for device in kspec.devices():
        for name, escape in KERNELS.items():
            steps = kspec.zeros(c.shape, "int32", device)
            escape((16,), (256,), (kspec.asarray(c, device=device), steps, c.size, 50))
            inside = kspec.asnumpy(steps) == 50
            print(f"{device}: {name} has {inside.sum()} points in the Mandelbrot set")
            assert (inside != expected).sum() <= 4  # on the edge, where rounding decides


if __name__ == "__main__":
    main()
