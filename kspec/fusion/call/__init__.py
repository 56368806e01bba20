"""Fused functions: what `kspec.fusion` makes of array code, called on the arrays of any library.

``function`` is what users meet; ``running`` calls the kernels of a program, ``rows`` the one that
keeps rows in registers; ``looks``, ``overlaps`` and ``copies`` are about the arrays of a call.
"""

from kspec.fusion.call.function import Fused, fuse

__all__ = ["Fused", "fuse"]
