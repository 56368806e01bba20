"""Descriptions of images, for the message that one cannot be loaded.

The formats are not documented; what is read here was found in files of CUDA 12 and 13.  Whatever
looks different is described by its first bytes.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from kspec.dataclass import dataclass

_ELF, _FATBIN = b"\x7fELF", struct.pack("<I", 0xBA55ED50)
_EM_CUDA = 190
_FATBIN_HEADER = struct.Struct("<IHHQ")  # magic, version, size of this, size of all members
_MEMBER = struct.Struct("<HHIQ12xI8xI")  # kind, version, size of this, size, arch, flags
_PTX_MEMBER = 1
_SUFFIXES = {1 << 20: "a", 1 << 21: "f"}  # bits of the flags
_PTX_VERSION = re.compile(rb"^\s*\.version\s+(\d+)\.(\d+)", re.MULTILINE)
_PTX_TARGET = re.compile(rb"^\s*\.target\s+sm_(\d+[af]?)", re.MULTILINE)


@dataclass(frozen=True)
class Contents:
    """Contents of an image.

    Attributes
    ----------
    kind : str
        ``"cubin"``, ``"PTX"``, ``"fatbin"``, or what it seems to be.
    archs : tuple of str
        Architectures of its code: ``"sm_90"``, or ``"compute_80"`` for PTX.
    ptx_version : tuple of int or None
        Of PTX alone: major and minor.
    """

    kind: str
    archs: tuple[str, ...] = ()
    ptx_version: tuple[int, int] | None = None


def contents_of(code: bytes) -> Contents:
    r"""Return the contents of an image.

    >>> contents_of(b".version 9.0\n.target sm_80").archs
    ('compute_80',)
    """
    version = _PTX_VERSION.search(code)
    if code[:4] == _ELF:
        return Contents("cubin", _cubin_archs(code))
    if code[:4] == _FATBIN:
        return Contents("fatbin", tuple(_fatbin_archs(code)))
    if version is not None:
        target = _PTX_TARGET.search(code)
        archs = (f"compute_{target[1].decode()}",) if target else ()
        return Contents("PTX", archs, (int(version[1]), int(version[2])))
    if not code:
        return Contents("empty file")
    return Contents(f"file that begins with {code[:8]!r} and is not a cubin, PTX or fatbin")


def _cubin_archs(code: bytes) -> tuple[str, ...]:
    if len(code) < 52 or struct.unpack_from("<H", code, 18)[0] != _EM_CUDA:
        return ()
    (flags,) = struct.unpack_from("<I", code, 48)
    number = (flags >> 8 if code[8] >= 8 else flags) & 0xFF  # by the version of the ABI
    return (f"sm_{number}",)


def _fatbin_archs(code: bytes) -> Iterator[str]:
    if len(code) < _FATBIN_HEADER.size:
        return
    offset = _FATBIN_HEADER.unpack_from(code)[2]
    while offset + _MEMBER.size <= len(code):
        kind, _, header, size, number, flags = _MEMBER.unpack_from(code, offset)
        if header < _MEMBER.size:
            return
        prefix = "compute" if kind == _PTX_MEMBER else "sm"
        suffix = "".join(letter for bit, letter in _SUFFIXES.items() if flags & bit)
        yield f"{prefix}_{number}{suffix}"
        offset += header + size
