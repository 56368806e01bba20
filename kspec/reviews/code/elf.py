"""An ELF file of 64 bits in, its sections and symbols out: images of the host device, and cubins.

::

    text = next(one for one in read_sections(image.code) if one.name == ".text")
"""

from __future__ import annotations

import struct
from dataclasses import field

from kspec.dataclass import dataclass

_HEADER = struct.Struct("<16s2HI3QI6H")
_SECTION = struct.Struct("<2I4Q2I2Q")
_SYMBOL = struct.Struct("<IBBH2Q")
_SYMBOLS, _EMPTY = 2, 8  # kinds of sections
FUNCTION = 2  # a kind of symbols


@dataclass(frozen=True)
class ElfSection:
    """A section.

    Attributes
    ----------
    name : str
        Its name.
    kind, link : int
        As in the file: `link` is the number of another section.
    address : int
        Where it is loaded.
    data : bytes
        Its contents.
    """

    name: str
    kind: int
    link: int
    address: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class ElfSymbol:
    """A symbol: its kind, the number of its section, and what it covers."""

    name: str
    kind: int
    section: int
    value: int
    size: int


def read_sections(file: bytes) -> tuple[ElfSection, ...]:
    """Return the sections of a file; nothing if it is not an ELF file of 64 bits."""
    if file[:5] != b"\x7fELF\x02" or len(file) < _HEADER.size:
        return ()
    header = _HEADER.unpack_from(file)
    offset, size, count, names = header[6], header[11], header[12], header[13]
    if size != _SECTION.size or names >= count or offset + size * count > len(file):
        return ()
    rows = [_SECTION.unpack_from(file, offset + size * number) for number in range(count)]
    strings = rows[names][4]
    return tuple(
        ElfSection(
            text_at(file, strings + row[0]),
            row[1],
            row[6],
            row[3],
            b"" if row[1] == _EMPTY else file[row[4] : row[4] + row[5]],
        )
        for row in rows
    )


def read_symbols(sections: tuple[ElfSection, ...]) -> tuple[ElfSymbol, ...]:
    """Return the symbols of all sections, in their order."""
    table = next((one for one in sections if one.kind == _SYMBOLS), None)
    if table is None or table.link >= len(sections):
        return ()
    names = sections[table.link].data
    found = []
    for name, info, _, section, value, size in _SYMBOL.iter_unpack(
        table.data[: len(table.data) // _SYMBOL.size * _SYMBOL.size]
    ):
        found.append(ElfSymbol(text_at(names, name), info & 15, section, value, size))
    return tuple(found)


def text_at(data: bytes, offset: int) -> str:
    """Return the text that begins at an offset and ends before a zero."""
    return data[offset : data.find(b"\0", offset)].decode(errors="replace")
