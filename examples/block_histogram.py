"""A raw kernel with shared memory, barriers and atomics, on every device present.

The arrays are kspec's own, so no array library but NumPy is needed: ``python
examples/block_histogram.py``.
"""

import numpy as np

import kspec

CODE = r"""
extern "C" __global__ void histogram(const unsigned char* data, int n, unsigned int* counts) {
  __shared__ unsigned int mine[256];
  mine[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[data[i]], 1u);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], mine[threadIdx.x]);
}
"""


def main():
    histogram = kspec.RawKernel(CODE, "histogram")
    data = np.random.default_rng(0).integers(0, 256, 1_000_000, dtype=np.uint8)
    for device in kspec.devices():
        counts = kspec.zeros(256, "uint32", device)
        histogram((64,), (256,), (kspec.asarray(data, device=device), data.size, counts))
        correct = np.array_equal(kspec.asnumpy(counts), np.bincount(data, minlength=256))
        print(f"{device}: {'right' if correct else 'WRONG'}")
        assert correct


if __name__ == "__main__":
    main()
