"""Tests here run on every device: see `tests.devices`."""

from __future__ import annotations

from tests.devices import device, place

__all__ = ["device", "place"]
