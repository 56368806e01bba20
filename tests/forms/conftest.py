"""Tests here run on every device: see `tests.devices`."""

from tests.devices import device, place

__all__ = ["device", "place"]
