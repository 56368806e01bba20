"""Tests here run on every device, as users run kernels: see `tests.devices`."""

from tests.compiling import optimized
from tests.devices import device, place

__all__ = ["device", "optimized", "place"]
