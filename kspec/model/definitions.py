"""CUDA text that the dtypes of a kernel need in front of it: headers, and C++ structs.

>>> headers_for(["float32", "complex64"])
('kspec/complex.cuh',)
>>> print(definitions_for(["{x: float32, n: int32}"])[0].splitlines()[0])
struct alignas(4) Struct_x_n_645f554a1e55 {

A struct dtype is printed here and not by a template, because a deployed package, which has no
templates, compiles kernels for structs that its specs did not know.  What all structs share is in
``kspec/struct.cuh``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kspec.model import dtypes
from kspec.model.dtypes import DType, Field
from kspec.model.structs import aligned

_CONSTANTS = ("field_count", "size", "alignment")


def headers_for(names: Iterable[str]) -> tuple[str, ...]:
    """Return the headers of ours that dtypes need, each once."""
    rows = map(dtypes.lookup, dict.fromkeys(names))
    return tuple(dict.fromkeys(header for row in rows for header in dtypes.headers(row)))


def definitions_for(names: Iterable[str]) -> tuple[str, ...]:
    """Return the C++ definition of each struct among dtypes, nested ones first."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        for row in _structs(dtypes.lookup(name)):
            if row.ctype not in found:
                found[row.ctype] = _definition(row)
    return tuple(found.values())


def prelude(names: Iterable[str], text: str) -> str:
    """Return the definitions that `text` needs in front of it for these dtypes."""
    wanted = tuple(names)
    structs = [one for one in definitions_for(wanted) if one not in text]
    lines = [f'#include "{header}"\n' for header in headers_for(wanted)]
    if not structs:  # which would need theirs in front of them, also if the text has them
        lines = [line for line in lines if line not in text]
    return "".join([*lines, *(f"{one}\n" for one in structs)])


def _structs(row: DType) -> Iterator[DType]:
    for field in row.fields:
        yield from _structs(field.dtype)
    if row.fields:
        yield row


def _definition(row: DType) -> str:
    name, fields = row.ctype, row.fields
    numbers = (len(fields), row.itemsize, row.alignment)
    # A field of the same name hides the constant.
    constants = [
        f"{constant} = {number}"
        for constant, number in zip(_CONSTANTS, numbers, strict=True)
        if all(field.member != constant for field in fields)
    ]
    lines = [
        f"struct alignas({row.alignment}) {name} {{",
        *(f"  {member}" for member in _members(row)),
        *([f"  enum {{ {', '.join(constants)} }};"] if constants else ()),
        f"  KSPEC_STRUCT({name}, {len(fields)})",
        *(_constructor(row) if len(fields) > 1 else ()),
        *_access(row, ""),
        *_access(row, "const "),
        "};",
        f'static_assert(sizeof({name}) == {row.itemsize}, "layout of {name}");',
    ]
    return "\n".join(lines)


def _constructor(row: DType) -> Iterator[str]:
    """Yield the constructor from all fields."""
    parameters = [
        _declared(field, f"kspec_{number}", const=True) for number, field in enumerate(row.fields)
    ]
    yield f"  __device__ inline {row.ctype}({', '.join(parameters)}) {{"
    for number, field in enumerate(row.fields):
        yield f"    kspec::set_field(this->{field.member}, kspec_{number});"
    yield "  }"


def _access(row: DType, const: str) -> Iterator[str]:
    """Yield ``at<k>()``."""
    yield f"  template <int K> __device__ inline {const}auto& at() {const}{{"
    yield f'    static_assert(0 <= K && K < {len(row.fields)}, "no such field");'
    for number, field in enumerate(row.fields):
        word = "else if" if number else "if"
        yield f"    {word} constexpr (K == {number}) return this->{field.member};"
    yield "  }"


def _members(row: DType) -> Iterator[str]:
    """Yield the members by offset, and bytes where C would not leave a gap by itself."""
    end = 0
    for number, field in enumerate(sorted(row.fields, key=lambda field: field.offset)):
        if aligned(end, field.dtype.alignment) != field.offset:
            yield f"unsigned char kspec_gap_{number}[{field.offset - end}];"
        yield f"{_declared(field, field.member)};"
        end = field.offset + field.itemsize
    if aligned(end, row.alignment) != row.itemsize:
        yield f"unsigned char kspec_gap_{len(row.fields)}[{row.itemsize - end}];"


def _declared(field: Field, name: str, const: bool = False) -> str:
    """Declare a member, or a parameter that holds the same."""
    extents = "".join(f"[{extent}]" for extent in field.shape)
    if not const:
        return f"{field.dtype.ctype} {name}{extents}"
    reference = f"(&{name}){extents}" if extents else f"&{name}"
    return f"const {field.dtype.ctype} {reference}"
