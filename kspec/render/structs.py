"""Assertions that compare the structs of a spec file with those of its raw sources.

Every line has its position in the spec file, so that a layout that differs is reported there::

    specs/points.toml(5): error: Point.y is float32 at byte 4 ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kspec.cpp.directives import line_directive
from kspec.model import dtypes
from kspec.model.dtypes import Field
from kspec.spec.struct_tables import Struct

HEADER = "kspec/field.cuh"
_ELSE = "in this spec, but not in the source"


def struct_checks(structs: Iterable[Struct], path: str) -> tuple[str, ...]:
    """Return the lines that check structs of a spec file; they follow the structs' source."""
    return tuple(line for struct in structs for line in _checks(struct, path))


def _checks(struct: Struct, path: str) -> Iterator[str]:
    name, row = struct.name, dtypes.lookup(struct.dtype)
    for field in row.fields:
        yield line_directive(struct.lines.get(field.name, struct.line), path)
        member = f"{name}::{field.member}"
        where = f"KSPEC_OFFSET({name}, {field.member}) == {field.offset}"
        size = f"sizeof({member}) == {field.itemsize}"
        kind = f"kspec::is_field_kind<decltype({member})>('{field.dtype.kind}')"
        message = f"{name}.{field.name} is {_described(field)} at byte {field.offset} {_ELSE}"
        yield f'static_assert({where} && {size} && {kind}, "{message}");'
    yield line_directive(struct.line, path)
    size = f"sizeof({name}) == {row.itemsize} && alignof({name}) == {row.alignment}"
    message = f"{name} has {row.itemsize} bytes, aligned to {row.alignment}, {_ELSE}"
    yield f'static_assert({size}, "{message}");'


def _described(field: Field) -> str:
    extents = "".join(f"[{extent}]" for extent in field.shape)
    return f"{'a struct' if field.dtype.fields else field.dtype.name}{extents}"
