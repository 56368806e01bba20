"""Two galaxies that pass each other: the gravity of all pairs of bodies, as a reduction.

``python examples/n_body.py`` runs on every device present. ``docs/gallery.py`` draws the galaxies.
"""

import numpy as np

import kspec

STARS = 999  # around the core of a galaxy
SOFTENING = 0.2  # distance below which pulls no longer grow
STEP = 0.04
STEPS = 150

# The map computes the pull of body y on body x; the reduction adds up those of all bodies y.
gravity = kspec.ReductionKernel(
    "T x[3], T y[3], T mass, T softening",
    "T pull[3]",
    """[&] {
      const T d[3] = {y(0) - x(0), y(1) - x(1), y(2) - x(2)};
      const T r = rsqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + softening * softening);
      const T scale = mass * r * r * r;
      return Vector<T>{scale * d[0], scale * d[1], scale * d[2]};
    }()""",
    "Vector<T>{a.x + b.x, a.y + b.y, a.z + b.z}",
    "pull(0) = a.x; pull(1) = a.y; pull(2) = a.z",
    "Vector<T>{0, 0, 0}",
    "gravity",
    reduce_type="Vector<T>",
    preamble="template <class T> struct Vector { T x, y, z; };",
)

# Calls pass v and x as outputs, and the operation updates them.
move = kspec.ElementwiseKernel(
    "T pull, T kick, T drift", "T v, T x", "v += kick * pull; x += drift * v", "move"
)


def galaxies():
    """Return positions, velocities and masses of two cores, each with stars that circle it."""
    random = np.random.default_rng(6)
    radius = np.sqrt(random.uniform(0.05, 1, (2, STARS)))
    angle = random.uniform(0, 2 * np.pi, (2, STARS))
    speed = radius / (radius**2 + SOFTENING**2) ** 0.75
    x, v = np.zeros((2, 2, 1 + STARS, 3))  # the first of each galaxy is its core
    x[:, 1:, 0], x[:, 1:, 1] = radius * np.cos(angle), radius * np.sin(angle)
    v[:, 1:, 0], v[:, 1:, 1] = -speed * np.sin(angle), speed * np.cos(angle)
    x += np.reshape([[-1.5, -1.25, 0], [1.5, 1.25, 0]], (2, 1, 3))
    v += np.reshape([[0.5, 0, 0], [-0.5, 0, 0]], (2, 1, 3))
    mass = np.full((2, 1 + STARS), 0.05 / STARS)
    mass[:, 0] = 1
    return [part.astype(np.float32) for part in (x.reshape(-1, 3), v.reshape(-1, 3), mass.ravel())]


def pulls(x, mass):
    """Return the acceleration of each body, on the device of the bodies."""
    return gravity(x[:, None], x[None], mass, SOFTENING, axis=1)


def leapfrog(x, v, mass, steps):
    """Move the bodies, in place, by some steps in time."""
    pull = pulls(x, mass)
    for _ in range(steps):
        move(pull, STEP / 2, STEP, v, x)
        pull = pulls(x, mass)
        move(pull, STEP / 2, 0, v, x)


def expected(x, mass):
    """Return the acceleration and the potential of each body, with NumPy."""
    d = x - x[:, None]
    r = 1 / np.sqrt((d * d).sum(axis=-1) + SOFTENING**2)
    np.fill_diagonal(r, 0)  # a body does not pull at itself
    return np.einsum("xy,xyk->xk", mass * r**3, d), -r @ mass


def energy(x, v, mass):
    return mass @ ((v * v).sum(axis=-1) + expected(x, mass)[1]) / 2


def main():
    bodies = galaxies()
    x, v, mass = (part.astype(np.float64) for part in bodies)
    energy_before, momentum_before = energy(x, v, mass), mass @ v
    for device in kspec.devices():
        x, v, mass = (kspec.asarray(part, device=device) for part in bodies)
        leapfrog(x, v, mass, STEPS)
        pull = kspec.asnumpy(pulls(x, mass))
        x, v, mass = (kspec.asnumpy(part).astype(np.float64) for part in (x, v, mass))
        error = np.abs(pull - expected(x, mass)[0]).max()
        drift = abs(energy(x, v, mass) / energy_before - 1)
        momentum = np.abs(mass @ v - momentum_before).max()
        print(f"{device}: {mass.size} bodies, error of pulls {error:.0e};", end=" ")
        print(f"{STEPS} steps change energy by {drift:.0e}, momentum by {momentum:.0e}")
        assert error < 1e-4 and drift < 1e-3 and momentum < 1e-5


if __name__ == "__main__":
    main()
