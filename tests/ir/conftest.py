"""The fixtures of every test that launches."""

from __future__ import annotations

from tests.devices import device, place

__all__ = ["device", "place"]
