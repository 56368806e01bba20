"""CUDA's semantics, stated once and tested on every device: the host, and CUDA where there is one.

Each module holds its sources as constants named ``*SOURCE``; `test_sources.py` compiles all of
them with NVRTC, so that a machine without a GPU still knows that a GPU's compiler takes them.
"""

from __future__ import annotations

from tests.compiling import optimized
from tests.devices import device, place

__all__ = ["device", "optimized", "place"]
