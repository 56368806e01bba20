"""The line table of a cubin in, the source of each stretch of its code out.

::

    rows[3].frames      # (("kspec/pack.cuh", 31), ("kernel.cu", 5)): inlined into line 5

It is a line number program of DWARF 2.  NVIDIA's compilers add an extended opcode that says into
which earlier row the following ones are inlined; it is not documented, and was found in files of
CUDA 12 and 13.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

from kspec.dataclass import dataclass
from kspec.reviews.code.elf import text_at

Frame = tuple[str, int]  # a file and a line
Frames = tuple[Frame, ...]  # the innermost first

_PROLOGUE = struct.Struct("<IHIBBbBB")
_MOST_FRAMES = 64
_END, _ADDRESS, _INLINED = 1, 2, 0x90  # extended opcodes
_COPY, _ADVANCE, _LINE, _FILE, _COLUMN, _ADD_FIXED = 1, 2, 3, 4, 5, 9
_ADD_CONSTANT = 8


@dataclass(frozen=True)
class LineRow:
    """Source of the code from an address on.

    Attributes
    ----------
    section : int
        Symbol of the section that the address is in.
    address : int
        Offset in it.
    frames : tuple
        Lines, the innermost first; empty where a sequence ends.
    """

    section: int
    address: int
    frames: Frames


class _Program:
    """One line number program."""

    def __init__(self, data: bytes, begin: int, relocations: Mapping[int, int]) -> None:
        self._data, self._relocations = data, relocations
        length, version, size, self._step, _, self._base, self._range, self._first = (
            _PROLOGUE.unpack_from(data, begin)
        )
        if version > 3 or not self._range:
            raise ValueError("an unknown line table")
        self.end = begin + 4 + length
        self._start = begin + 10 + size
        self._at = begin + _PROLOGUE.size
        self._lengths = data[self._at : self._at + self._first - 1]
        self._at += self._first - 1
        folders = [""]
        while folder := self._text():
            folders.append(folder)
        self._files = [""]
        while name := self._text():
            number, _, _ = self._unsigned(), self._unsigned(), self._unsigned()
            self._files.append(f"{folders[number]}/{name}" if number else name)
        self._reset()

    def _reset(self) -> None:
        self._address, self._file, self._line, self._context, self._section = 0, 1, 1, 0, -1
        self._rows: list[tuple[Frame, int]] = []

    def rows(self) -> Iterator[LineRow]:
        """Yield the rows."""
        self._at = self._start
        while self._at < self.end:
            opcode = self._byte()
            if opcode >= self._first:
                advance = opcode - self._first
                self._address += advance // self._range * self._step
                self._line += self._base + advance % self._range
                yield self._row()
            elif opcode == _COPY:
                yield self._row()
            elif opcode == 0:
                yield from self._extended()
            else:
                self._standard(opcode)

    def _row(self) -> LineRow:
        frame = (self._files[self._file], self._line)
        frames, context = [frame], self._context
        self._rows.append((frame, context))
        while 0 < context < len(self._rows) and len(frames) < _MOST_FRAMES:
            outer, context = self._rows[context - 1]
            frames.append(outer)
        return LineRow(self._section, self._address, tuple(frames))

    def _extended(self) -> Iterator[LineRow]:
        size = self._unsigned()
        after = self._at + size
        opcode = self._byte()
        if opcode == _ADDRESS:
            self._section = self._relocations.get(self._at, -1)
            (self._address,) = struct.unpack_from("<Q", self._data, self._at)
        elif opcode == _INLINED:
            self._context = self._unsigned()
        elif opcode == _END:
            yield LineRow(self._section, self._address, ())
            self._reset()
        self._at = after

    def _standard(self, opcode: int) -> None:
        if opcode == _ADVANCE:
            self._address += self._unsigned() * self._step
        elif opcode == _LINE:
            self._line += self._signed()
        elif opcode == _FILE:
            self._file = self._unsigned()
        elif opcode == _ADD_CONSTANT:
            self._address += (255 - self._first) // self._range * self._step
        elif opcode == _ADD_FIXED:
            self._address += int.from_bytes(self._data[self._at : self._at + 2], "little")
            self._at += 2
        else:
            for _ in range(self._lengths[opcode - 1]):
                self._unsigned()

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        begin = self._at
        value = self._unsigned()
        bits = 7 * (self._at - begin)
        return value - (1 << bits) if value >> (bits - 1) else value

    def _text(self) -> str:
        text = text_at(self._data, self._at)
        self._at = self._data.index(b"\0", self._at) + 1
        return text


def read_rows(table: bytes, relocations: Mapping[int, int]) -> Iterator[LineRow]:
    """Yield the rows of all programs.

    Parameters
    ----------
    table : bytes
        The section ``.debug_line``.
    relocations : mapping
        Symbols of the sections that addresses are in, by the offset of the address.

    Raises
    ------
    ValueError, IndexError, struct.error
        If it is not such a table.
    """
    begin = 0
    while begin < len(table):
        program = _Program(table, begin, relocations)
        yield from program.rows()
        begin = program.end
