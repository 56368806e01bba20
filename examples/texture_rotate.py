"""An image turned about its centre, by a texture that interpolates between pixels.

``python examples/texture_rotate.py`` runs on every device present.
"""

import numpy as np

import kspec
from kspec import texture

CODE = r"""
extern "C" __global__ void rotate(cudaTextureObject_t image, float* out, int width, int height,
                                  float sine, float cosine) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= width || y >= height) return;
  float u = x + 0.5f - 0.5f * width, v = y + 0.5f - 0.5f * height;  // pixels have half a width
  out[y * width + x] = tex2D<float>(image, cosine * u - sine * v + 0.5f * width,
                                    sine * u + cosine * v + 0.5f * height);
}
"""
WIDTH, HEIGHT, ANGLE = 96, 64, 0.3


def smooth_texture(image, device):
    """Return a texture of an image: linear between pixels, zero outside."""
    channel = texture.ChannelFormatDescriptor(32, 0, 0, 0, texture.cudaChannelFormatKindFloat)
    array = texture.CUDAarray(channel, WIDTH, HEIGHT, device=device)
    array.copy_from(image)
    return texture.TextureObject(
        texture.ResourceDescriptor(texture.cudaResourceTypeArray, cuArr=array),
        texture.TextureDescriptor(
            [texture.cudaAddressModeBorder] * 2, texture.cudaFilterModeLinear
        ),
    )


def rotate_exactly(image, sine, cosine):
    """Return what the kernel computes, with NumPy."""
    y, x = np.indices(image.shape)
    u, v = x + 0.5 - WIDTH / 2, y + 0.5 - HEIGHT / 2
    column = cosine * u - sine * v + WIDTH / 2 - 0.5
    row = sine * u + cosine * v + HEIGHT / 2 - 0.5
    left, top = np.floor(column).astype(int), np.floor(row).astype(int)
    padded = np.pad(image, 64)
    result = 0
    for down in (0, 1):
        for right in (0, 1):
            weight = abs(1 - down - (row - top)) * abs(1 - right - (column - left))
            result = result + weight * padded[top + down + 64, left + right + 64]
    return result


def main():
    rotate = kspec.RawKernel(CODE, "rotate")
    y, x = np.indices((HEIGHT, WIDTH))
    image = np.sin(x / 5).astype(np.float32) * np.cos(y / 7).astype(np.float32)
    sine, cosine = np.float32(np.sin(ANGLE)), np.float32(np.cos(ANGLE))
    expected = rotate_exactly(image, sine, cosine)
    for device in kspec.devices():
        out = kspec.empty(image.shape, "float32", device)
        arguments = smooth_texture(image, device), out, WIDTH, HEIGHT, sine, cosine
        rotate((6, 8), (16, 8), arguments)
        error = np.abs(kspec.asnumpy(out) - expected).max()
        print(f"{device}: error {error:.1e}, the weights have 8 bits")
        assert error < 4 / 256


if __name__ == "__main__":
    main()
