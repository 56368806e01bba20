"""A kernel from a Python function: which points stay near zero, and how long the others do.

``python examples/jit_mandelbrot.py`` runs on every device present.
"""

import numpy as np

import kspec
from kspec import jit


@jit.rawkernel(device=True)
def steps(cx, cy, most):
    """Return how often z * z + c is taken before it leaves a circle of radius 2."""
    x = y = np.float32(0)
    for count in range(most):
        if x * x + y * y > 4:
            return count
        x, y = x * x - y * y + cx, 2 * x * y + cy
    return most


@jit.rawkernel()
def mandelbrot(out, most):
    height, width = out.shape
    i, j = jit.grid(2)
    if i < width and j < height:
        out[j, i] = steps(np.float32(3 * i / width - 2), np.float32(2 * j / height - 1), most)


def main():
    width, height, most = 96, 40, 50
    c = (3 * np.arange(width) / width - 2) + 1j * (2 * np.arange(height) / height - 1)[:, None]
    z, expected = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(most):
        inside = np.abs(z) <= 2
        expected += inside
        z = np.where(inside, z * z + c, z)
    for device in kspec.devices():
        out = kspec.zeros((height, width), "int32", device)
        mandelbrot[(width // 16, height // 8), (16, 8)](out, most)
        found = kspec.asnumpy(out)
        same = (found == expected).mean()
        print(f"{device}: {same:.1%} of the points as with NumPy")
        assert same > 0.99  # in 32 bits some points at the edge leave earlier or later
    for row in found[::4]:
        print("".join(" .:-=+*#%@"[min(9, count * 10 // most)] for count in row))


if __name__ == "__main__":
    main()
