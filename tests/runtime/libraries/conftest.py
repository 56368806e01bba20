"""Tests of array libraries run with each of them."""

from tests.devices import every_device as device

__all__ = ["device"]
