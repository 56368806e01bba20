"""Rows normalised by a cluster of two blocks, each with half a row in its shared memory.

The blocks read each other's sums: distributed shared memory.  ``python
examples/cluster_normalize.py`` needs a GPU of compute capability 9.0.
"""

import numpy as np

import kspec

CODE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// One row for each cluster; all blocks of a cluster run at the same time.
extern "C" __global__ void normalize(const float* x, float* y, int n) {
#if __CUDA_ARCH__ >= 900  // others compile it, but can not launch it
  extern __shared__ float mine[];  // this block's part of the row
  __shared__ float sum;
  cg::cluster_group cluster = cg::this_cluster();
  int part = n / cluster.num_blocks();
  long long start = (long long)(blockIdx.x / cluster.num_blocks()) * n
                    + cluster.block_rank() * part;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  float partial = 0;
  for (int i = threadIdx.x; i < part; i += blockDim.x) {
    mine[i] = x[start + i];
    partial += mine[i] * mine[i];
  }
  atomicAdd(&sum, partial);
  cluster.sync();
  float total = 0;
  for (int k = 0; k < cluster.num_blocks(); k++) total += *cluster.map_shared_rank(&sum, k);
  for (int i = threadIdx.x; i < part; i += blockDim.x) y[start + i] = mine[i] * rsqrtf(total);
  cluster.sync();  // nobody may leave while its sum is read
#endif
}
"""


def main():
    normalize = kspec.RawKernel(CODE, "normalize")
    rows, n = 16, 40_000
    bytes_of_a_part = n // 2 * 4
    normalize.max_dynamic_shared_size_bytes = bytes_of_a_part
    x = np.random.default_rng(0).normal(size=(rows, n)).astype(np.float32)
    expected = x / np.sqrt((x * x).sum(axis=1, keepdims=True))
    for device in kspec.devices():
        y = kspec.empty(x.shape, "float32", device)
        arguments = kspec.asarray(x, device=device), y, n
        sizes = (2 * rows,), (256,)
        try:
            normalize(*sizes, arguments, cluster=(2,), shared_mem=bytes_of_a_part)
        except (kspec.NotSupportedError, kspec.LaunchError) as error:
            print(f"{device}: {error}")  # says what clusters need
            continue
        error = np.abs(kspec.asnumpy(y) - expected).max()
        print(f"{device}: error {error:.1e}")
        assert error < 1e-6


if __name__ == "__main__":
    main()
