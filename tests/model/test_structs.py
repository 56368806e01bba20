"""Structured dtypes as text: grammar, layout, and the C++ they become."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.errors import UnknownTypeError
from kspec.model import definitions, dtypes, structs
from kspec.runtime.memory import dtype_name, numpy_dtype

NAMES = st.sampled_from(["x", "y", "size", "at", "float", "a b", "ünï", 'q"', "kspec_0", ""])
LEAVES = st.sampled_from([row.name for row in dtypes.TABLE] + ["V3", "V8"])


def struct_texts(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    field = st.builds(
        structs.FieldText, NAMES, types, st.lists(st.integers(1, 3), max_size=2).map(tuple)
    )
    fields = st.lists(field, min_size=1, max_size=4, unique_by=lambda field: field.name)
    return st.builds(lambda chosen: str(structs.StructText(tuple(chosen))), fields)


STRUCTS = struct_texts(LEAVES | struct_texts(LEAVES))


@given(STRUCTS)
def test_text_and_numpy_dtype_are_inverse(text: str) -> None:
    name = dtypes.canonical_name(text)
    assert dtypes.canonical_name(name) == name
    assert str(structs.parse_struct(name)) == name
    row, dtype = dtypes.lookup(name), numpy_dtype(name)
    assert dtype_name(dtype) == name
    assert dtype.itemsize == row.itemsize
    assert [dtype.fields[field.name][1] for field in row.fields] == [
        field.offset for field in row.fields
    ]
    assert row.itemsize % row.alignment == 0
    assert all(field.offset % field.dtype.alignment == 0 for field in row.fields)


@pytest.mark.parametrize(
    ("text", "canonical", "offsets", "size", "alignment"),
    [
        ("{x:f4,y:i4}", "{x: float32, y: int32}", (0, 4), 8, 4),
        ("{x: int8, y: f8}", "{x: int8, y: float64}", (0, 8), 16, 8),
        ("{x: f4 @ 0, y: i4 @ 4; size 8}", "{x: float32, y: int32}", (0, 4), 8, 4),
        ("{x: f4, y: i4 @ 8}", "{x: float32, y: int32 @ 8}", (0, 8), 12, 4),
        ("{x: f4; size 16}", "{x: float32; size 16}", (0,), 16, 4),
        ("{x: f4; align 16}", "{x: float32; align 16}", (0,), 16, 16),
        ("{x: u1[3], z: c8}", "{x: uint8[3], z: complex64}", (0, 8), 16, 8),
        ("{y: f4 @ 4, x: f4 @ 0}", "{y: float32 @ 4, x: float32 @ 0}", (4, 0), 8, 4),
        ("{a: {b: c16}, n: b1}", "{a: {b: complex128}, n: bool}", (0, 16), 32, 16),
        ('{"a b": f4}', '{"a b": float32}', (0,), 4, 4),
    ],
)
def test_layouts(
    text: str, canonical: str, offsets: tuple[int, ...], size: int, alignment: int
) -> None:
    row = dtypes.lookup(dtypes.canonical_name(text))
    assert row.name == canonical
    assert tuple(field.offset for field in row.fields) == offsets
    assert (row.itemsize, row.alignment) == (size, alignment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "expected a field name, found the end"),
        ("{}", "expected a field name, found '}'"),
        ("{x}", "expected ':', found '}'"),
        ("{x: float32", "expected ',', ';' or '}', found the end"),
        ("{x: float32} y", "expected the end, found 'y'"),
        ("{x: float32[]}", "expected a number of elements"),
        ("{x: float32[0]}", "field 'x' has no elements"),
        ("{x: float32 @ y}", "expected an offset in bytes"),
        ("{x: float32; colour 3}", "expected 'size' or 'align', found 'colour'"),
        ("{x: float32; size 4; size 4}", "expected 'size' or 'align', found 'size'"),
        ("{x: flaot32}", "unknown type 'flaot32'"),
        ("{x: >f4}", "Unsupported dtype '>f4'"),
        ("{x: object}", "Unsupported dtype 'object'"),
        ("{x: float32, x: int32}", "two fields of .* are called 'x'"),
        ("{x: float64 @ 4}", "field 'x' is at offset 4, .* a float64 must be a multiple of 8"),
        ("{x: float32, y: float32 @ 0}", "fields 'x' and 'y' overlap"),
        ("{x: float32; size 6}", "has 6 bytes, but its size must be a multiple of 4"),
        ("{x: float64; size 4}", "size 4 of a struct is less than the 8 bytes of its fields"),
        ("{x: float32; align 2}", "alignment 2 of a struct must be a power of two from 4"),
        ("{x: float32; align 12}", "alignment 12"),
        ("{x: float32; align 32}", "to 16"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(UnknownTypeError, match=message):
        dtypes.canonical_name(text)


def test_members_are_named_after_the_fields_where_cpp_allows() -> None:
    row = dtypes.lookup("{x: int8, float: int8, at: int8, field_1: int8, size: int8}")
    assert [field.member for field in row.fields] == ["x", "field_1_", "field_2", "field_1", "size"]
    (text,) = definitions.definitions_for([row.name])
    assert "enum { field_count = 5, alignment = 1 };" in text  # the field `size` hides the constant


def test_headers_and_definitions_stand_in_the_order_of_their_use() -> None:
    name = "{a: {z: complex64}, h: float8_e5m2}"
    assert definitions.headers_for([name, "float32"]) == (
        "kspec/complex.cuh",
        "kspec/struct.cuh",
        "kspec/float8.cuh",
    )
    inner, outer = definitions.definitions_for([name, "{z: complex64}"])
    assert dtypes.lookup("{z: complex64}").ctype in inner.splitlines()[0]
    assert dtypes.lookup(name).ctype in outer.splitlines()[0]


def test_a_prelude_is_what_a_text_lacks() -> None:
    name = "{x: float32}"
    text = definitions.prelude([name, "float16"], "")
    assert text.startswith('#include "kspec/struct.cuh"\n#include "kspec/half.cuh"\nstruct ')
    assert definitions.prelude([name], text) == ""
    other = definitions.prelude(["{y: float32}"], text)
    assert other.startswith('#include "kspec/struct.cuh"\nstruct ')  # before its own use


def test_different_layouts_are_different_types() -> None:
    names = ["{x: float32}", "{x: int32}", "{x: float32; size 8}", "{x: float32; align 8}"]
    assert len({dtypes.lookup(name).ctype for name in names}) == len(names)
    assert np.dtype(numpy_dtype(names[2])).itemsize == 8
