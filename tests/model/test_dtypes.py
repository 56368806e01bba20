from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kspec.errors import UnknownTypeError
from kspec.model import dtypes


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    return np.dtype(getattr(ml_dtypes, name, name))


@pytest.mark.parametrize("row", dtypes.TABLE, ids=lambda row: row.name)
def test_the_table_agrees_with_numpy(row: dtypes.DType) -> None:
    dtype = numpy_dtype(row.name)
    assert dtype.name == row.name
    assert dtype.itemsize == row.itemsize
    assert row.alignment == row.itemsize  # on the device, complex numbers too
    if row.package != "ml_dtypes":  # it calls most of its kinds "V"
        assert dtype.kind == row.kind
    assert dtypes.lookup(row.name) is row
    assert dtypes.from_ctype(row.ctype) is row
    assert dtypes.canonical_name(row.name) == row.name
    assert dtypes.is_known(row.name)


@pytest.mark.parametrize("spelling", sorted(dtypes._ALIASES))
def test_aliases_are_numpys(spelling: str) -> None:
    assert np.dtype(spelling).name == dtypes.canonical_name(spelling)


@pytest.mark.parametrize("spelling", ["<f4", "=f4", "<i8", "|b1", "|u1"])
def test_native_byte_order_is_accepted(spelling: str) -> None:
    assert np.dtype(spelling).name == dtypes.canonical_name(spelling)


@pytest.mark.parametrize(
    "spelling",
    ["", ">f4", "f16", "longdouble", "str", "object", "M8[s]", "float3", "<<f4", "O", "V", "V0"],
)
def test_unsupported_types(spelling: str) -> None:
    with pytest.raises(UnknownTypeError) as caught:
        dtypes.canonical_name(spelling)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    "spelling",
    ["longdouble", "clongdouble", "str", "U3", "bytes", "S", "object", "datetime64[ns]", "m8", "V"],
)
def test_what_numpy_has_and_kernels_have_not_is_an_unsupported_dtype(spelling: str) -> None:
    np.dtype(spelling)
    with pytest.raises(UnknownTypeError, match=r"Unsupported dtype .*; kernels know bool, int8"):
        dtypes.canonical_name(spelling)


def test_big_endian_numbers_are_not_taken_for_native_ones() -> None:
    message = (
        "Unsupported dtype '>f4': kernels compute in the machine's byte order; write 'float32'"
    )
    with pytest.raises(UnknownTypeError, match=message):
        dtypes.canonical_name(">f4")


@pytest.mark.parametrize("name", ["V1", "V8", "V300"])
def test_raw_bytes(name: str) -> None:
    row = dtypes.lookup(dtypes.canonical_name(f"|{name}"))
    assert (row.name, row.itemsize, row.alignment) == (name, int(name[1:]), 1)
    assert row.ctype == f"kspec::Void<{name[1:]}>"


def test_the_type_of_textures_is_no_dtype() -> None:
    assert dtypes.lookup("cudaTextureObject_t") is dtypes.TEXTURE
    with pytest.raises(UnknownTypeError):
        dtypes.canonical_name("cudaTextureObject_t")


def test_lookup_wants_canonical_names() -> None:
    with pytest.raises(UnknownTypeError, match="unsupported dtype 'f4'"):
        dtypes.lookup("f4")
    assert not dtypes.is_known("f4")


@pytest.mark.parametrize(
    ("ctype", "name"),
    [
        ("unsigned  int", "uint32"),
        ("complex < float >", "complex64"),
        ("size_t", "uint64"),
        ("char", "int8"),
        ("__half", "float16"),
        ("cuDoubleComplex", "complex128"),
    ],
)
def test_c_spellings(ctype: str, name: str) -> None:
    row = dtypes.from_ctype(ctype)
    assert row is not None
    assert row.name == name
    assert dtypes.from_ctype("my_struct") is None
    assert dtypes.from_ctype("void") is None


def test_accumulators_are_ctypes_of_the_table() -> None:
    ctypes = {row.ctype for row in dtypes.TABLE}
    assert {row.accumulator for row in dtypes.TABLE} <= ctypes
