"""Structured dtypes as text: their grammar, and the layouts that C++ structs have.

::

    {x: float32, n: int32[2], inner: {a: complex64}}     offsets, size, alignment as in C
    {x: float32, y: int32 @ 8; size 16; align 16}        where they differ from C's

>>> struct = parse_struct("{x: f4, n: i4[2] @ 8}")
>>> struct.fields[1]
FieldText(name='n', type='i4', shape=(2,), offset=8)

``parse_struct(str(struct)) == struct``.  `kspec.model.dtypes` makes rows of these,
`kspec.model.definitions` prints them as C++.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from kspec.cpp.names import KEYWORDS
from kspec.dataclass import dataclass
from kspec.errors import UnknownTypeError
from kspec.limits import ITEM_BYTES, NESTING

_TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|[<=|>]?\w+(?:\[\D[^\]]*\])?|[{}\[\]:,;@]|\S)')
_MAX_ALIGNMENT = 16  # that of launch parameters
# C++ keywords (`restrict` is one of C), types of other fields, and `at`, which every struct has.
_RESERVED = KEYWORDS - {"restrict"} | {"at", "complex", "float16", "bfloat16"}
_OURS = ("float8_", "Struct_", "kspec", "__")


@dataclass(frozen=True)
class FieldText:
    """One field as written: `type` any spelling of a dtype, `offset` None where C decides."""

    name: str
    type: str
    shape: tuple[int, ...] = ()
    offset: int | None = None

    def __str__(self) -> str:
        from kspec.cpp.names import is_identifier

        name = self.name if is_identifier(self.name) else json.dumps(self.name)
        extents = "".join(f"[{extent}]" for extent in self.shape)
        at = "" if self.offset is None else f" @ {self.offset}"
        return f"{name}: {self.type}{extents}{at}"


@dataclass(frozen=True)
class StructText:
    """A struct as written; `size` and `alignment` are None where C decides."""

    fields: tuple[FieldText, ...]
    size: int | None = None
    alignment: int | None = None

    def __str__(self) -> str:
        size = "" if self.size is None else f"; size {self.size}"
        align = "" if self.alignment is None else f"; align {self.alignment}"
        return f"{{{', '.join(map(str, self.fields))}{size}{align}}}"


@dataclass(frozen=True)
class Layout:
    """Offsets of the fields of a struct, in bytes."""

    offsets: tuple[int, ...]
    size: int
    alignment: int


def parse_struct(text: str) -> StructText:
    """Parse a struct; raise `UnknownTypeError` with the position of the problem."""
    parser = _Parser(text)
    struct = parser.struct()
    parser.expect("", "the end")
    return struct


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._next = 0
        self._depth = 0

    def _peek(self) -> str:
        return self._tokens[self._next][0]

    def _take(self) -> str:
        token = self._peek()
        self._next = min(self._next + 1, len(self._tokens) - 1)
        return token

    def _wrong(self, wanted: str) -> UnknownTypeError:
        token, start = self._tokens[self._next]
        found = repr(token) if token else "the end"
        message = f"a struct is written {{x: float32, y: int32}}: expected {wanted}, found {found}"
        return UnknownTypeError(message, self._text, start, len(token))

    def expect(self, token: str, wanted: str) -> None:
        if self._peek() != token:
            raise self._wrong(wanted)
        self._take()

    def _number(self, wanted: str) -> int:
        if not self._peek().isdecimal():
            raise self._wrong(wanted)
        return int(self._take())

    def struct(self) -> StructText:
        self.expect("{", "'{'")
        self._depth += 1
        if self._depth > NESTING:
            raise UnknownTypeError(f"structs are nested more than {NESTING} deep")
        fields = [self._field()]
        while self._peek() == ",":
            self._take()
            fields.append(self._field())
        numbers: dict[str, int] = {}
        while self._peek() == ";":
            self._take()
            if self._peek() not in ("size", "align") or self._peek() in numbers:
                raise self._wrong("'size' or 'align'")
            word = self._take()
            numbers[word] = self._number("a number of bytes")
        self.expect("}", "',', ';' or '}'")
        self._depth -= 1
        return StructText(tuple(fields), numbers.get("size"), numbers.get("align"))

    def _field(self) -> FieldText:
        from kspec.cpp.names import is_identifier

        name = self._peek()
        if name.startswith('"') and len(name) > 1:
            name = str(json.loads(name))
        elif not is_identifier(name):
            raise self._wrong("a field name")
        self._take()
        self.expect(":", "':'")
        type_ = self._type()
        shape = []
        while self._peek() == "[":
            self._take()
            shape.append(self._number("a number of elements"))
            self.expect("]", "']'")
        offset = None
        if self._peek() == "@":
            self._take()
            offset = self._number("an offset in bytes")
        return FieldText(name, type_, tuple(shape), offset)

    def _type(self) -> str:
        if self._peek() == "{":
            return str(self.struct())
        if not re.match(r"[<=|>]?\w", self._peek()):
            raise self._wrong("a type")
        return self._take()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    for match in _TOKEN.finditer(text):
        yield match[1], match.start(1)
    yield "", len(text)


def check_layout(
    struct: StructText, types: Sequence[str], sizes: Sequence[int], alignments: Sequence[int]
) -> tuple[str, Layout]:
    """Return the canonical text of a struct, and where its fields are.

    Parameters
    ----------
    struct : StructText
        As written.
    types, sizes, alignments : sequences
        Canonical name, size and alignment of each field's type.

    Raises
    ------
    UnknownTypeError
        For a layout that no C++ struct has; the message names the field.
    """
    names = [field.name for field in struct.fields]
    for name in dict.fromkeys(name for name in names if names.count(name) > 1):
        raise UnknownTypeError(f"two fields of {struct} are called {name!r}")
    offsets: list[int] = []
    fields: list[FieldText] = []
    end = 0
    for field, type_, size, alignment in zip(struct.fields, types, sizes, alignments, strict=True):
        natural = aligned(end, alignment)
        offset = natural if field.offset is None else field.offset
        if offset % alignment:
            raise UnknownTypeError(
                f"field {field.name!r} is at offset {offset}, but the offset of a {type_} must be "
                f"a multiple of {alignment} on a device"
            )
        if 0 in field.shape:
            raise UnknownTypeError(f"field {field.name!r} has no elements")
        end = offset + size * math.prod(field.shape)
        offsets.append(offset)
        explicit = None if offset == natural else offset
        fields.append(replace(field, type=type_, offset=explicit))
    ends = [
        offset + size * math.prod(field.shape)
        for offset, size, field in zip(offsets, sizes, fields, strict=True)
    ]
    _check_overlap(names, offsets, ends)
    if max(ends) > ITEM_BYTES:
        raise UnknownTypeError(f"a struct of {max(ends)} bytes; the limit is {ITEM_BYTES}")
    layout = Layout(tuple(offsets), *_size_and_alignment(struct, max(ends), max(alignments)))
    text = StructText(
        tuple(fields),
        None if layout.size == aligned(max(ends), layout.alignment) else layout.size,
        None if layout.alignment == max(alignments) else layout.alignment,
    )
    return str(text), layout


def _check_overlap(names: Sequence[str], offsets: Sequence[int], ends: Sequence[int]) -> None:
    order = sorted(range(len(names)), key=lambda k: offsets[k])
    for before, after in itertools.pairwise(order):
        if offsets[after] < ends[before]:
            raise UnknownTypeError(f"fields {names[before]!r} and {names[after]!r} overlap")


def _size_and_alignment(struct: StructText, end: int, minimum: int) -> tuple[int, int]:
    alignment = struct.alignment or minimum
    if alignment < minimum or alignment & (alignment - 1) or alignment > _MAX_ALIGNMENT:
        raise UnknownTypeError(
            f"alignment {alignment} of a struct must be a power of two from {minimum}, which its "
            f"fields need, to {_MAX_ALIGNMENT}"
        )
    size = aligned(end, alignment) if struct.size is None else struct.size
    if size < end:
        raise UnknownTypeError(
            f"size {size} of a struct is less than the {end} bytes of its fields"
        )
    if size % alignment:
        raise UnknownTypeError(
            f"the struct has {size} bytes, but its size must be a multiple of {alignment}, the "
            f"alignment of its most aligned field, on a device"
        )
    return size, alignment


def member_names(struct: StructText) -> tuple[str, ...]:
    """Return the C++ names of the fields: NumPy's, or ``field_<k>`` where it cannot."""
    from kspec.cpp.names import is_identifier

    taken = {field.name for field in struct.fields}
    members = []
    for number, field in enumerate(struct.fields):
        name = field.name
        if not is_identifier(name) or name in _RESERVED or name.startswith(_OURS):
            name = f"field_{number}"
            while name in taken:
                name += "_"
        members.append(name)
    return tuple(members)


def type_name(canonical: str, struct: StructText) -> str:
    """Return the C++ name of the struct with this canonical text."""
    words = "_".join(re.sub(r"\W|_+", "_", field.name) for field in struct.fields)
    digest = hashlib.sha256(canonical.encode()).hexdigest()[:12]
    return f"Struct_{re.sub('_+', '_', words[:24]).strip('_')}_{digest}".replace("__", "_")


def aligned(offset: int, alignment: int) -> int:
    """Return the first multiple of `alignment` from `offset` on."""
    return -(-offset // alignment) * alignment
