from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.cpp.names import name_problem
from kspec.errors import SignatureSyntaxError, UnknownTypeError
from kspec.model import dtypes
from kspec.model.signature import Param, Signature
from kspec.spec.parser import parse_signature, scan_signature

names = st.from_regex(r"[A-Za-z_][A-Za-z_0-9]{0,8}", fullmatch=True).filter(
    lambda name: not name_problem(name)
)
types = st.sampled_from([row.name for row in dtypes.TABLE]) | st.sampled_from(string.ascii_letters)
signatures = st.builds(
    lambda params: Signature(tuple(params)),
    st.lists(st.builds(Param, types, names, st.booleans(), st.booleans())),
)


@given(signatures)
def test_parsing_undoes_printing(signature: Signature) -> None:
    text = str(signature)
    assert parse_signature(text) == signature
    assert str(parse_signature(text)) == text


@given(signatures, st.text(" \t\n", min_size=1))
def test_white_space_does_not_matter(signature: Signature, space: str) -> None:
    if signature.params:
        text = str(signature).replace(" ", space).replace(",", space + ",")
        assert parse_signature(text + space) == signature


@given(st.text(alphabet="T xyraw,f4_non_const?*\n8é{:}", max_size=30))
def test_any_text_parses_or_points_at_a_character(text: str) -> None:
    signature, errors = scan_signature(text)
    for error in errors:
        assert 0 <= error.offset < len(text)
        assert 1 <= error.length <= len(text) - error.offset
    if not errors:
        assert parse_signature(str(signature)) == signature


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("T x", "T x"),
        ("T x,raw T y", "T x, raw T y"),
        ("  int\n x ", "int64 x"),
        ("float x, complex y, uint z, intp w", "float64 x, complex128 y, uint64 z, int64 w"),
        ("<f4 x, =i2 y", "float32 x, int16 y"),
        ("f x, d y", "f x, d y"),
        ("_non_const raw T x", "raw _non_const T x"),
        ("raw _non_const bfloat16 x", "raw _non_const bfloat16 x"),
    ],
)
def test_canonical_spelling(text: str, canonical: str) -> None:
    assert str(parse_signature(text)) == canonical


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        (" ", " ", "no parameter"),
        ("T x,", ",", "comma too many"),
        ("T x, , T y", " ", "comma too many"),
        ("T", "T", "write a type and a name"),
        ("const T x", "const", "inputs are const already"),
        ("in T x", "in", "unknown keyword 'in'"),
        ("unsigned int x", "unsigned", "write 'uint32' for 'unsigned int'"),
        ("raw long long x", "long", "write 'int64' for 'long long'"),
        ("raw raw T x", "raw", "given twice"),
        ("? x", "?", "must be a letter"),
        ("1 x", "1", "must be a letter"),
        ("é x", "é", "must be a letter"),
        ("T* x", "T*", "is a pointer"),
        ("T 9x", "9x", "not a C identifier"),
        ("T x(3)", "x(3)", "not a C identifier"),
        ("T x[3", "[", "']' is missing"),
        ("T x[]", "]", "'' is not a dimension"),
        ("T x[n / 2]", "n / 2", "is not a dimension"),
        ("T x[3][4]", "[4]", "nothing can follow ']'"),
        ("raw T x[n]", "[n]", "the number of its axes"),
        ("T é", "é", "not a C identifier"),
        ("T class", "class", "is a C++ keyword"),
        ("T blockIdx", "blockIdx", "already means something"),
        ("T NULL", "NULL", "already means something"),
        ("T CUDART_INF", "CUDART_INF", "already means something"),
        ("T __CUDACC__", "__CUDACC__", "already means something"),
    ],
)
def test_syntax_errors(text: str, marked: str, message: str) -> None:
    with pytest.raises(SignatureSyntaxError, match=message.replace("+", r"\+")) as caught:
        parse_signature(text)
    error = caught.value
    assert error.text[error.offset : error.offset + error.length] == marked
    assert not isinstance(error, TypeError)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flaot32 x", "did you mean 'float32'"),
        ("size_t x", "write 'uint64' for 'size_t'"),
        ("char x", "write 'int8' for 'char'"),
        (">f4 x", "Unsupported dtype '>f4': kernels compute in the machine's byte order"),
        ("float128 x", "Unsupported dtype 'float128'; kernels know bool, int8"),
        ("object x", "Unsupported dtype 'object'"),
        ("datetime64 x", "Unsupported dtype 'datetime64'"),
        ("vector x", "unknown type 'vector'; expected one of bool, int8"),
    ],
)
def test_unknown_types(text: str, message: str) -> None:
    with pytest.raises(UnknownTypeError, match=message) as caught:
        parse_signature("T a, " + text)
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)
    assert caught.value.offset == len("T a, ")


def test_the_caret_of_a_long_list() -> None:
    with pytest.raises(SignatureSyntaxError) as caught:
        parse_signature("T x,\n  T class")
    assert str(caught.value).splitlines()[1:] == ["      T class", "        ^^^^^"]
