"""Edges in a noisy image: a Gaussian blur in two passes, then Sobel's operator.

``python examples/image_blur.py`` runs on every device present. Blur and slopes are shipped kernels.
``docs/gallery.py`` draws the images.
"""

import numpy as np
from kspec_kernels import stencils

import kspec

try:
    from scipy.ndimage import correlate1d
except ImportError:

    def correlate1d(image, weights, axis):
        """Return weighted sums of neighbours; beyond its edges the image is reflected."""
        reach = [(0, 0), (0, 0)]
        reach[axis] = (len(weights) // 2, len(weights) // 2)
        padded = np.pad(image, reach, "symmetric")
        return np.lib.stride_tricks.sliding_window_view(padded, len(weights), axis) @ weights


SIZE = 128  # pixels along each side
SIGMA, RADIUS = 2.0, 8  # of the blur, in pixels

steepness = kspec.ElementwiseKernel("T dy, T dx", "T slope", "slope = hypot(dy, dx)", "steepness")


def discs():
    """Return bright discs on a dark ground, with noise."""
    random = np.random.default_rng(0)
    y, x = np.indices((SIZE, SIZE))
    image = np.full((SIZE, SIZE), 0.1)
    for brightness in np.linspace(0.3, 1, 12):
        row, column = random.uniform(0, SIZE, 2)
        image[np.hypot(y - row, x - column) < random.uniform(6, 24)] = brightness
    return (image + random.normal(scale=0.1, size=image.shape)).astype(np.float32)


def blur(image):
    rows = stencils.gaussian_rows(image, SIGMA, R=RADIUS)
    return stencils.gaussian_columns(rows, SIGMA, R=RADIUS)


def edges(image):
    """Return the slope of each pixel, which is largest at edges."""
    return steepness(*stencils.sobel(image))


def expected(image):
    weights = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / SIGMA) ** 2)
    image = image.astype(np.float64)
    for axis in (0, 1):
        image = correlate1d(image, weights / weights.sum(), axis)
    across = [correlate1d(image, [-1, 0, 1], axis) for axis in (0, 1)]
    dy, dx = (correlate1d(slope, [1, 2, 1], 1 - axis) for axis, slope in enumerate(across))
    return image, np.hypot(dy, dx)


def main():
    image = discs()
    wanted = expected(image)
    for device in kspec.devices():
        blurred = blur(kspec.asarray(image, device=device))
        found = (kspec.asnumpy(made) for made in (blurred, edges(blurred)))
        errors = [np.abs(one - two).max() for one, two in zip(found, wanted, strict=True)]
        print(f"{device}: error of the blur {errors[0]:.0e}, of the edges {errors[1]:.0e}")
        assert max(errors) < 1e-5


if __name__ == "__main__":
    main()
