"""Pixels blurred from a texture into a surface, whose array the next pass reads as a texture.

``python examples/surface_blur.py`` runs on every device present.
"""

import numpy as np

import kspec
from kspec import texture

CODE = r"""
extern "C" __global__ void blur(cudaTextureObject_t from, cudaSurfaceObject_t to, int width,
                                int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++) {
      uchar4 one = tex2D<uchar4>(from, x + dx + 0.5f, y + dy + 0.5f);  // the edges continue
      sum = make_uint4(sum.x + one.x, sum.y + one.y, sum.z + one.z, sum.w + one.w);
    }
  uchar4 mean = make_uchar4(sum.x / 9, sum.y / 9, sum.z / 9, sum.w / 9);
  surf2Dwrite(mean, to, x * sizeof(uchar4), y);  // x counts bytes
}
"""
WIDTH, HEIGHT, PASSES = 100, 60, 4


class Image:
    """An array of RGBA pixels that kernels read as a texture and write as a surface."""

    def __init__(self, device):
        channel = texture.ChannelFormatDescriptor(8, 8, 8, 8, texture.cudaChannelFormatKindUnsigned)
        flags = texture.cudaArraySurfaceLoadStore
        self.array = texture.CUDAarray(channel, WIDTH, HEIGHT, flags=flags, device=device)
        resource = texture.ResourceDescriptor(texture.cudaResourceTypeArray, cuArr=self.array)
        clamp = texture.TextureDescriptor([texture.cudaAddressModeClamp] * 2)
        self.texture = texture.TextureObject(resource, clamp)
        self.surface = texture.SurfaceObject(resource)


def blur_exactly(pixels):
    """Return one pass, with NumPy."""
    padded = np.pad(pixels.astype(int), [(1, 1), (1, 1), (0, 0)], "edge")
    windows = [padded[y : y + HEIGHT, x : x + WIDTH] for y in range(3) for x in range(3)]
    return sum(windows) // 9


def main():
    blur = kspec.RawKernel(CODE, "blur")
    pixels = np.random.default_rng(0).integers(0, 256, (HEIGHT, WIDTH, 4), np.uint8)
    expected = pixels
    for _ in range(PASSES):
        expected = blur_exactly(expected)
    for device in kspec.devices():
        here, there = Image(device), Image(device)
        here.array.copy_from(pixels.reshape(HEIGHT, 4 * WIDTH))
        for _ in range(PASSES):
            blur((7, 8), (16, 8), (here.texture, there.surface, WIDTH, HEIGHT))
            here, there = there, here
        out = np.empty((HEIGHT, 4 * WIDTH), np.uint8)
        here.array.copy_to(out)
        correct = np.array_equal(out.reshape(pixels.shape), expected)
        print(f"{device}: {PASSES} passes are {'right' if correct else 'WRONG'}")
        assert correct


if __name__ == "__main__":
    main()
