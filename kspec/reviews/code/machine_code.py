"""A cubin in, the basic blocks of a kernel out, with the source of their instructions.

::

    blocks = read_blocks(code)
    blocks[0].instructions[3].frames    # (("kernel.cu", 5),)

NVIDIA documents no encoding.  What is read here was found in code for architectures 8.0 to 12.0:
instructions have 16 bytes; the lowest 12 bits are the opcode, the next 4 the predicate, of which 7
is "always".  Code that looks different is not read, and reviews then do without it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from kspec.dataclass import dataclass
from kspec.model.stages import MachineCode
from kspec.reviews.code.elf import FUNCTION, ElfSection, ElfSymbol, read_sections, read_symbols
from kspec.reviews.code.line_table import Frames, LineRow, read_rows

_SIZE = 16
_ALWAYS = 7
_SECOND = 87  # bits of a branch: a second predicate
_WITH_NEAR = 90  # the first architecture whose branches have the lowest bits elsewhere
_IF_APART = 91  # and whether it is for warps whose threads are apart where they should not be
# Opcodes.
_BRANCH, _BRANCH_TO_REGISTER, _CALL, _RETURN, _EXIT, _NOTHING = (
    0x947,
    0x949,
    0x944,
    0x950,
    0x94D,
    0x918,
)
_UNIFORM_BRANCH = 0x547  # by a predicate that all threads share
_BEGIN_MEETING, _MEET = 0x945, 0x941  # BSSY, BSYNC
_ENDS = {_BRANCH, _BRANCH_TO_REGISTER, _CALL, _RETURN, _EXIT}
_MARKS = {_BEGIN_MEETING, _MEET, _EXIT}  # whose lines say little: they are moved about
# Loads, stores and atomics of all spaces.
_MEMORY = {
    *(0x980, 0x981, 0x984, 0x985, 0x986, 0x988, 0xFAE),
    *(0x38C, 0x38D, 0x3A8, 0x3A9, 0x98C, 0x98E, 0x9A3, 0x9A8, 0x9A9),
}


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes
    ----------
    address : int
        Offset in the kernel.
    frames : tuple
        Lines that it is from, the innermost first.
    opcode : int
        The lowest 12 bits.
    predicated : bool
        Whether some of the active threads may do nothing.
    target : int or None
        Of a branch or call; None of branches that are hardly ever taken.
    """

    address: int
    frames: Frames
    opcode: int
    predicated: bool
    target: int | None

    @property
    def is_mark(self) -> bool:
        """Whether its line says little about where it is executed."""
        return self.opcode in _MARKS

    @property
    def is_branch(self) -> bool:
        """Whether threads may go on elsewhere."""
        return self.opcode in _ENDS

    @property
    def accesses_memory(self) -> bool:
        """Whether it is a load, a store or an atomic."""
        return self.opcode in _MEMORY


@dataclass(frozen=True)
class Block:
    """A basic block.

    Attributes
    ----------
    instructions : tuple of Instruction
        At least one.
    successors : tuple of int
        Numbers of the blocks that may follow.
    is_slow_path : bool
        Whether it calls one of the compiler's own functions, which rare values need.
    """

    instructions: tuple[Instruction, ...]
    successors: tuple[int, ...]
    is_slow_path: bool


def read_blocks(code: MachineCode) -> tuple[Block, ...]:
    """Return the basic blocks of a kernel; nothing if the code is not understood."""
    try:
        return _blocks(tuple(_instructions(code)))
    except (ValueError, IndexError, struct.error):
        return ()


def _instructions(code: MachineCode) -> Iterator[Instruction]:
    sections = read_sections(code.cubin)
    symbols = read_symbols(sections)
    numbers = {one.name: number for number, one in enumerate(sections)}
    own = numbers.get(f".text.{code.symbol}")
    lines = numbers.get(".debug_line")
    if own is None or lines is None:
        raise ValueError("no code with line tables")
    text = sections[own].data
    relocations = dict(_relocations(sections, symbols))
    rows = [one for one in read_rows(sections[lines].data, relocations) if one.section == own]
    end = _end_of_kernel(symbols, own, code.symbol, text)
    yield from _with_frames(text[:end], sorted(rows, key=lambda one: one.address), code.arch)


def _relocations(
    sections: Sequence[ElfSection], symbols: Sequence[ElfSymbol]
) -> Iterator[tuple[int, int]]:
    """Yield offsets of addresses in the line table, and the numbers of their sections."""
    for name, row in ((".rela.debug_line", "<QQq"), (".rel.debug_line", "<QQ")):
        table = next((one for one in sections if one.name == name), None)
        for offset, info, *_ in struct.iter_unpack(row, table.data if table else b""):
            yield offset, symbols[info >> 32].section


def _end_of_kernel(symbols: Sequence[ElfSymbol], own: int, name: str, text: bytes) -> int:
    """Return the end of the kernel's own code: after it are functions that it calls, or nothing."""
    ends = [
        one.value
        for one in symbols
        if one.section == own and one.kind == FUNCTION and one.name != name and one.value
    ]
    end = min(ends, default=len(text) // _SIZE * _SIZE)
    while end and _opcode(text, end - _SIZE) == _NOTHING:
        end -= _SIZE
    last = end - _SIZE
    if not ends and last >= 0 and _opcode(text, last) == _BRANCH:
        return last  # to itself: it guards the end, and is never executed
    return end


def _with_frames(text: bytes, rows: Sequence[LineRow], arch: str) -> Iterator[Instruction]:
    row = -1
    for address in range(0, len(text), _SIZE):
        while row + 1 < len(rows) and rows[row + 1].address <= address:
            row += 1
        word = int.from_bytes(text[address : address + _SIZE], "little")
        opcode = word & 0xFFF
        predicated = word >> 12 & 15 != _ALWAYS
        goes = opcode in (_BRANCH, _CALL)
        if opcode == _BRANCH:
            predicated = predicated or word >> _SECOND & 7 != _ALWAYS
            goes = not word >> _IF_APART & 1
        elif opcode == _UNIFORM_BRANCH:
            opcode, predicated, goes = _BRANCH, True, True
        frames = rows[row].frames if row >= 0 else ()
        target = _target(word, address, arch) if goes else None
        yield Instruction(address, frames, opcode, predicated, target)


def _opcode(text: bytes, address: int) -> int:
    return int.from_bytes(text[address : address + 2], "little") & 0xFFF


def _target(word: int, address: int, arch: str) -> int:
    """Return the target of a branch, which is counted in words from the next instruction on."""
    far = word >> 34 & (1 << 48) - 1
    if far >> 47:
        far -= 1 << 48
    if int(arch.removeprefix("sm_").rstrip("af")) >= _WITH_NEAR:
        far = far << 8 | word >> 16 & 0xFF
    return address + _SIZE + 4 * far


def _blocks(code: Sequence[Instruction]) -> tuple[Block, ...]:
    if not code:
        return ()
    places = {one.address: number for number, one in enumerate(code)}
    begins = {0}
    for number, one in enumerate(code):
        if one.opcode == _BRANCH and one.target is not None:
            begins.add(places.get(one.target, -1))
        if one.is_branch:
            begins.add(number + 1)
    if -1 in begins:
        raise ValueError("a branch leaves the kernel")
    starts = sorted(one for one in begins if one < len(code))
    numbers = {start: number for number, start in enumerate(starts)}
    return tuple(
        _block(code[start:end], number, places, numbers)
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(code)], strict=True))
    )


def _block(
    code: Sequence[Instruction],
    number: int,
    places: dict[int, int],
    numbers: dict[int, int],
) -> Block:
    last = code[-1]
    following = set()
    if last.opcode == _BRANCH and last.target is not None:
        following.add(numbers[places[last.target]])
    leaves = last.opcode in (_BRANCH_TO_REGISTER, _RETURN, _EXIT)
    leaves = leaves or (last.opcode == _BRANCH and last.target is not None)
    if (last.predicated or not leaves) and number + 1 < len(numbers):
        following.add(number + 1)
    slow = last.opcode == _CALL and last.target not in places
    return Block(tuple(code), tuple(sorted(following)), slow)
