"""Each device once."""

from tests.devices import place

__all__ = ["place"]
