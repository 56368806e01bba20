"""Texture and surface objects of the host device: the structure that a handle points to.

`kspec.runtime.texture` fills it in; ``include/kspec_host/texture.h`` reads it.
"""

from __future__ import annotations

import ctypes

# Marks the structure: fetches refuse any other handle.
MAGIC = 0x6B735458


class TextureData(ctypes.Structure):
    """`TextureData` of ``texture.h``, field for field."""

    _fields_ = (
        ("magic", ctypes.c_uint),
        ("dimensions", ctypes.c_int),
        ("kind", ctypes.c_int),
        ("bits", ctypes.c_int),
        ("channels", ctypes.c_int),
        ("linear_filter", ctypes.c_int),
        ("normalized_float", ctypes.c_int),
        ("normalized_coordinates", ctypes.c_int),
        ("srgb", ctypes.c_int),
        ("address", ctypes.c_int * 3),
        ("border", ctypes.c_float * 4),
        ("extent", ctypes.c_longlong * 3),
        ("stride", ctypes.c_longlong * 3),
        ("data", ctypes.c_void_p),
    )
