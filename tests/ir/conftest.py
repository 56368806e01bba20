"""The fixtures of every test that launches."""

from __future__ import annotations

from tests.compiling import little_optimized
from tests.devices import device, place

__all__ = ["device", "little_optimized", "place"]
