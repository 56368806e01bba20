"""A scanned surface: points turned by quaternions, and a plane fitted to the points of each cell.

``python examples/scanned_surface.py`` runs on every device present. Each row of cells was scanned
from another direction. ``docs/gallery.py`` draws the planes as a relief.
"""

import numpy as np
from kspec_kernels import linear, statistics

import kspec

CELLS = 60  # along each side
POINTS = 20  # in a cell

# The normal equations of z = a x + b y + c, of one point.
normal_equations = kspec.ElementwiseKernel(
    "T p[3]",
    "T A[3, 3], T b[3]",
    """
    const T row[3] = {p(0), p(1), 1};
    #pragma unroll
    for (int r = 0; r < 3; ++r) {
      #pragma unroll
      for (int c = 0; c < 3; ++c) A(r, c) = row[r] * row[c];
      b(r) = row[r] * p(2);
    }
    """,
    "normal_equations",
)


def surface(x, y):
    """Return the height of a hill with ripples."""
    return np.exp(-(x * x + y * y) / 0.2) + 0.05 * np.sin(12 * x + 6 * y)


def scan():
    """Return noisy points of each cell, as the scanner saw them, and its turns.

    The unit of x and y is half a cell, and the middle of the cell is at zero.
    """
    random = np.random.default_rng(2)
    middles = (np.arange(CELLS) + 0.5) / CELLS * 2 - 1
    inside = random.uniform(-1, 1, (2, CELLS, CELLS, POINTS))
    x, y = inside / CELLS + np.stack(np.meshgrid(middles, middles))[..., None]
    height = surface(x, y) + random.normal(scale=0.003, size=x.shape)
    points = np.stack([*inside, height], axis=-1)
    turns = random.normal(size=(CELLS, 1, 1, 4))
    turns /= np.linalg.norm(turns, axis=-1, keepdims=True)
    seen = linear.quaternion_rotate(turns * [-1, -1, -1, 1], points)  # the other way round
    return seen.astype(np.float32), turns.astype(np.float32)


def planes(seen, turns):
    """Return a, b and c of each cell, on the device of the points."""
    points = linear.quaternion_rotate(turns, seen)
    A, b = normal_equations(points)
    return linear.solve(statistics.total(A, axis=2), statistics.total(b, axis=2))


def rotation_matrices(turns):
    x, y, z, w = np.moveaxis(turns.astype(np.float64), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def expected(seen, turns):
    points = (rotation_matrices(turns) @ seen.astype(np.float64)[..., None])[..., 0]
    ones = np.ones_like(points[..., :1])
    design = np.concatenate([points[..., :2], ones], axis=-1)
    return (np.linalg.pinv(design) @ points[..., 2:])[..., 0]


def main():
    seen, turns = scan()
    wanted = expected(seen, turns)
    for device in kspec.devices():
        placed = [kspec.asarray(one, device=device) for one in (seen, turns)]
        error = np.abs(kspec.asnumpy(planes(*placed)) - wanted).max()
        print(f"{device}: {CELLS * CELLS} planes, error {error:.0e}")
        assert error < 1e-4


if __name__ == "__main__":
    main()
