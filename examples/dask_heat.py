"""Heat on a plate in blocks: a stencil over a Dask array, whose blocks exchange their edges.

``python examples/dask_heat.py`` runs on every device present, and in blocks if Dask is installed.
``docs/gallery.py`` draws the plate.
"""

import numpy as np

import kspec

SHAPE = (240, 320)
STEPS = 100

# One step in time; the plate lets no heat out.
step = kspec.ElementwiseKernel(
    "T u, T rate",
    "T v",
    "v = u(0, 0) + rate * (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4 * u(0, 0))",
    "heat_step",
    windows={"u": {"reach": [1, 1], "boundary": "nearest"}},
)


def hot_spots():
    """Return a cold plate with a few hot rectangles."""
    plate = np.zeros(SHAPE, np.float32)
    for top, left, height, width in ((30, 40, 60, 30), (120, 150, 40, 120), (180, 20, 30, 90)):
        plate[top : top + height, left : left + width] = 100
    return plate


def spread(plate, steps, apply=lambda kernel, *args: kernel(*args)):
    """Return the plate after some steps; `apply` calls a kernel."""
    for _ in range(steps):
        plate = apply(step, plate, 0.25)
    return plate


def in_blocks(plate, steps):
    """Return the plate after some steps in blocks; None without Dask."""
    try:
        import dask.array as da
    except ImportError:
        return None
    import kspec.dask

    blocks = da.from_array(plate, chunks=(100, 128))
    for _ in range(0, steps, 20):  # graphs of a few steps at a time
        blocks = spread(blocks, 20, kspec.dask.apply).persist()
    return blocks.compute()


def expected(plate, steps):
    plate = plate.astype(np.float64)
    for _ in range(steps):
        x = np.pad(plate, 1, "edge")
        around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
        plate = plate + 0.25 * (around - 4 * plate)
    return plate


def main():
    plate = hot_spots()
    want = expected(plate, STEPS)
    for device in kspec.devices():
        now = spread(kspec.asarray(plate, device=device), STEPS)
        error = np.abs(kspec.asnumpy(now) - want).max()
        print(f"{device}: {STEPS} steps, error {error:.1e}")
        assert error < 1e-3
    blocks = in_blocks(plate, STEPS)
    if blocks is None:
        print("without blocks: Dask is not installed")
    else:
        np.testing.assert_array_equal(blocks, spread(plate, STEPS))
        print("blocks of a Dask array: the same bits")


if __name__ == "__main__":
    main()
