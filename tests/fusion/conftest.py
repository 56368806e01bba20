"""The fixtures of every test that launches."""

from __future__ import annotations

from tests.contract.conftest import launches
from tests.devices import device, place

__all__ = ["device", "launches", "place"]
