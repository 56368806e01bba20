"""Each device once."""

from tests.compiling import little_optimized
from tests.devices import place

__all__ = ["little_optimized", "place"]
