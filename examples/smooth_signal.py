"""A noisy signal made smooth in four ways: the forms of a mean, and a low-pass filter as a scan.

``python examples/smooth_signal.py`` runs on every device present. The signal is a year of daily
temperatures; ``docs/gallery.py`` draws it.
"""

import math

import numpy as np
from kspec_kernels import filters, statistics

import kspec

DAYS = 365
WINDOW = 31  # days


def temperatures():
    """Return a temperature for each day, with weather that lasts for some days."""
    days = np.arange(DAYS)
    noise = np.random.default_rng(4).normal(scale=2.5, size=DAYS)
    weather = filters.biquad.scan(noise, 1.0, 0.0, 0.0, -0.75, 0.0)
    return (10 - 9 * np.cos(2 * np.pi * days / DAYS) + weather).astype(np.float32)


def months():
    """Return the day at which each month begins, and the last one ends."""
    lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    return np.concatenate([[0], np.cumsum(lengths)])


def low_pass(period):
    """Return b0, b1, b2, a1, a2 of a Butterworth filter that keeps what is slower than `period`."""
    k = math.tan(math.pi / period)
    scale = 1 / (1 + math.sqrt(2) * k + k * k)
    b = k * k * scale
    return b, 2 * b, b, 2 * (k * k - 1) * scale, (1 - math.sqrt(2) * k + k * k) * scale


def smooth(x, bounds):
    """Return the smoothed curves by their names, on the device of `x`."""
    filtered = filters.biquad.scan(x, *low_pass(60))
    return {
        "running": statistics.mean.window(x, WINDOW, boundary="shrink"),
        "monthly": statistics.mean.segments(x, bounds),
        "so far": statistics.mean.scan(x),
        "filtered": filtered,
        # Once more from the end: that takes the delay back.
        "both ways": filters.biquad.scan(filtered, *low_pass(60), reverse=True),
    }


def recursive(x, b0, b1, b2, a1, a2):
    """Return the filtered signal, one element after the other."""
    y, z1, z2 = np.empty(x.size), 0.0, 0.0
    for n, value in enumerate(x.tolist()):
        y[n] = b0 * value + z1
        z1, z2 = b1 * value - a1 * y[n] + z2, b2 * value - a2 * y[n]
    return y


def expected(x, bounds):
    x, half = x.astype(np.float64), WINDOW // 2
    filtered = recursive(x, *low_pass(60))
    windows = [x[max(0, n - half) : n + half + 1] for n in range(x.size)]
    return {
        "running": np.array([one.mean() for one in windows]),
        "monthly": np.add.reduceat(x, bounds[:-1]) / np.diff(bounds),
        "so far": np.cumsum(x) / np.arange(1, x.size + 1),
        "filtered": filtered,
        "both ways": recursive(filtered[::-1], *low_pass(60))[::-1],
    }


def main():
    x, bounds = temperatures(), months()
    wanted = expected(x, bounds)
    for device in kspec.devices():
        found = smooth(kspec.asarray(x, device=device), kspec.asarray(bounds, device=device))
        errors = {name: np.abs(kspec.asnumpy(y) - wanted[name]).max() for name, y in found.items()}
        print(f"{device}:", ", ".join(f"{name} {error:.0e}" for name, error in errors.items()))
        assert max(errors.values()) < 1e-3


if __name__ == "__main__":
    main()
