"""Heat spreading along a rod: all steps in one launch, in which the blocks wait for each other.

``python examples/cooperative_heat.py`` runs on every device present.
"""

import numpy as np

import kspec

CODE = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void spread(float* now, float* next, int n, int steps) {
  cg::grid_group grid = cg::this_grid();
  for (int step = 0; step < steps; step++) {
    for (int i = grid.thread_rank(); i < n; i += grid.size()) {
      float left = now[max(i - 1, 0)], right = now[min(i + 1, n - 1)];
      next[i] = now[i] + 0.25f * (left - 2 * now[i] + right);
    }
    grid.sync();  // every point of this step, before any of the next one
    float* swapped = now;
    now = next;
    next = swapped;
  }
}
"""
STEPS = 100


def main():
    spread = kspec.RawKernel(CODE, "spread", enable_cooperative_groups=True)
    rod = np.zeros(4096, np.float32)
    rod[1000:1100] = 100
    expected = rod.astype(np.float64)
    for _ in range(STEPS):
        around = np.pad(expected, 1, "edge")
        expected += 0.25 * (around[:-2] - 2 * expected + around[2:])
    for device in kspec.devices():
        now, next = kspec.asarray(rod, device=device), kspec.empty(rod.size, "float32", device)
        # More blocks than fit at the same time would be refused.
        spread((8,), (128,), (now, next, rod.size, STEPS))
        error = np.abs(kspec.asnumpy(now) - expected).max()
        print(f"{device}: {STEPS} steps in one launch, error {error:.1e}")
        assert error < 1e-3


if __name__ == "__main__":
    main()
