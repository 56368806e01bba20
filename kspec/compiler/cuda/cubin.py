"""Code size of each kernel: a cubin in, bytes by lowered name out.

::

    code_sizes(image.code)["_Z1kPf"]    # 384

A cubin is an ELF file, where each function has a section of its own for its instructions.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from kspec.model.stages import Image

_HEADER = struct.Struct("<16s2HI3QI6H")
_SECTION = struct.Struct("<2I4Q2I2Q")
_CODE = b".text."


def code_sizes(cubin: bytes) -> dict[str, int]:
    """Return the bytes of instructions of each function of a cubin; nothing of other files."""
    if cubin[:5] != b"\x7fELF\x02" or len(cubin) < _HEADER.size:
        return {}
    header = _HEADER.unpack_from(cubin)
    offset, size, count, names = header[6], header[11], header[12], header[13]
    if size != _SECTION.size or names >= count or offset + size * count > len(cubin):
        return {}
    sections = [_SECTION.unpack_from(cubin, offset + size * index) for index in range(count)]
    strings = sections[names][4]
    sizes = {}
    for section in sections:
        start = strings + section[0]
        name = cubin[start : cubin.find(b"\0", start)]
        if name.startswith(_CODE):
            sizes[name.removeprefix(_CODE).decode(errors="replace")] = section[5]
    return sizes


def with_code_sizes(image: Image) -> Image:
    """Return an image whose figures say how large the code of each kernel is."""
    if not image.figures:
        return image
    sizes = code_sizes(image.code)
    figures = {
        name: replace(one, code_bytes=sizes.get(image.symbols.get(name, name), -1))
        for name, one in image.figures.items()
    }
    return replace(image, figures=figures)
