"""A kernel that launches kernels, one for each row, with as many threads as the row is long.

``python examples/dynamic_parallelism.py`` needs a GPU; ``-dc`` links CUDA's device runtime.
"""

import numpy as np

import kspec

CODE = r"""
__global__ void square(float* row) { row[threadIdx.x] *= row[threadIdx.x]; }

extern "C" __global__ void square_rows(float* values, const int* starts, int rows) {
  int row = threadIdx.x;
  if (row < rows) square<<<1, starts[row + 1] - starts[row]>>>(values + starts[row]);
}
"""


def main():
    gpus = [device for device in kspec.devices() if not device.is_host]
    if not gpus:
        print("kernels that launch kernels need a GPU")
        return
    square_rows = kspec.RawKernel(CODE, "square_rows", ("-dc",))
    starts = np.array([0, 3, 4, 9, 16], np.int32)
    values = np.arange(16, dtype=np.float32)
    for gpu in gpus:
        squares = kspec.asarray(values, device=gpu)
        square_rows((1,), (32,), (squares, kspec.asarray(starts, device=gpu), starts.size - 1))
        print(f"{gpu}: {kspec.asnumpy(squares).astype(int)}")
        assert np.array_equal(kspec.asnumpy(squares), values * values)


if __name__ == "__main__":
    main()
