"""Grids, blocks and threads in one to three dimensions."""

from __future__ import annotations

import numpy as np
import pytest

from tests.devices import ArrayDevice
from tests.semantics.harness import run

IDS_SOURCE = r"""
extern "C" __global__ void ids(unsigned* out) {
  unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  unsigned size = blockDim.x * blockDim.y * blockDim.z;
  unsigned* o = out + 12 * (size * block + thread);
  o[0] = threadIdx.x; o[1] = threadIdx.y; o[2] = threadIdx.z;
  o[3] = blockIdx.x; o[4] = blockIdx.y; o[5] = blockIdx.z;
  __syncthreads();
  o[6] = blockDim.x; o[7] = blockDim.y; o[8] = blockDim.z;
  o[9] = gridDim.x; o[10] = gridDim.y; o[11] = gridDim.z;
  if (o[0] != threadIdx.x || o[1] != threadIdx.y || o[2] != threadIdx.z) o[0] = 99;
}
"""


@pytest.mark.parametrize(
    ("grid", "block"),
    [((3,), (33,)), ((2, 3), (5, 4)), ((2, 1, 3), (3, 4, 5)), ((1, 2, 2), (1, 1, 64))],
)
def test_ids(grid: tuple[int, ...], block: tuple[int, ...], place: ArrayDevice) -> None:
    shape = [(*sizes, 1, 1)[:3] for sizes in (grid, block)]
    blocks = np.stack(np.unravel_index(np.arange(np.prod(grid)), shape[0][::-1])[::-1], -1)
    threads = np.stack(np.unravel_index(np.arange(np.prod(block)), shape[1][::-1])[::-1], -1)
    out = np.zeros((len(blocks), len(threads), 12), np.uint32)
    (out,) = run(place, IDS_SOURCE, "ids", grid, block, out)
    assert (out[..., :3] == threads).all()
    assert (out[..., 3:6] == blocks[:, None]).all()
    assert (out[..., 6:9] == shape[1]).all() and (out[..., 9:] == shape[0]).all()
