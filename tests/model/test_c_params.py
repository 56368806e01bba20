from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.cpp.names import name_problem
from kspec.errors import SignatureSyntaxError
from kspec.model import dtypes
from kspec.model.raw.c_params import parse_c_params
from kspec.model.signature import CParam

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True).filter(
    lambda x: not name_problem(x)
)
ctypes = st.sampled_from([row.ctype for row in dtypes.TABLE] + ["T", "void", "my::pair<int, T>"])
values = st.builds(CParam, ctypes, names)
pointers = st.builds(CParam, ctypes, names, st.just(True), st.booleans(), st.booleans())


@given(st.lists(values | pointers, min_size=1))
def test_parsing_undoes_printing(params: list[CParam]) -> None:
    assert parse_c_params(", ".join(map(str, params))) == tuple(params)
    assert parse_c_params([str(param) for param in params]) == tuple(params)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("const float* x1", CParam("float", "x1", pointer=True, const=True)),
        ("float const *x", CParam("float", "x", pointer=True, const=True)),
        ("T* __restrict__ arr", CParam("T", "arr", pointer=True)),
        ("const T *__restrict__ arr", CParam("T", "arr", pointer=True, const=True)),
        ("float* const x", CParam("float", "x", pointer=True)),
        ("const int n", CParam("int", "n")),
        ("float x[16]", CParam("float", "x", pointer=True)),
        ("float** rows", CParam("float*", "rows", pointer=True)),
        ("unsigned n", CParam("unsigned int", "n")),
        ("long unsigned int n", CParam("unsigned long", "n")),
        ("long long int n", CParam("long long", "n")),
        ("unsigned char c", CParam("unsigned char", "c")),
        ("Foo<float *> f", CParam("Foo<float*>", "f")),
        ("span<const float> s", CParam("span<const float>", "s")),
        ("span<const float>* s", CParam("span<const float>", "s", pointer=True)),
        ("const Foo<T*, 3>** p", CParam("Foo<T*, 3>*", "p", pointer=True, const=True)),
        ("a::Foo<b::Bar<int>>::type *p", CParam("a::Foo<b::Bar<int>>::type", "p", pointer=True)),
        ("float x[N /* all */]", CParam("float", "x", pointer=True)),
        ("Foo<sizeof(int[3])> f", CParam("Foo<sizeof(int[3])>", "f")),
        ("struct P p // a struct", CParam("struct P", "p")),
        ("complex< float > z", CParam("complex<float>", "z")),
        ("cuda::std::complex<double>* z", CParam("cuda::std::complex<double>", "z", pointer=True)),
        ("cudaTextureObject_t tex", CParam("cudaTextureObject_t", "tex")),
        (
            "const T *x=nullptr",
            CParam("T", "x", pointer=True, const=True, nullable=True),
        ),
        ("float x[3] = nullptr", CParam("float", "x", pointer=True, nullable=True)),
    ],
)
def test_spellings(text: str, expected: CParam) -> None:
    assert parse_c_params(text) == (expected,)
    assert parse_c_params(str(expected)) == (expected,)


def test_no_parameters() -> None:
    assert parse_c_params("") == parse_c_params([]) == parse_c_params("void") == ()


def test_commas_inside_templates() -> None:
    assert [param.name for param in parse_c_params("pair<int, float>* p, int n")] == ["p", "n"]


@pytest.mark.parametrize(
    ("text", "marked", "message"),
    [
        ("int n,", ",", "comma too many"),
        ("const float*", "const float*", "needs a type and a name"),
        ("n", "n", "needs a type and a name"),
        ("const n", "const n", "needs a type and a name"),
        ("unsigned int", "int", "C\\+\\+ keyword"),
        ("float& r", "&", "not a reference"),
        ("float *x y", "float *x", "not a C type"),
        ("float x[2][3]", "float x[2][3]", "needs a type and a name"),
        ("float (*f)(int)", "float (*f)(int)", "needs a type and a name"),
        ("[3]", r"[3]", "needs a type and a name"),
        ("int 3 n", "int 3", "not a C type"),
        ("pair<int n", "pair<int", "not a C type"),
        ("float x = 3", "float x = 3", "needs a type and a name|not a C type"),
        ("float* x = 0", "float* x = 0", "needs a type and a name|not a C type"),
        (
            "int n = nullptr",
            "int n = nullptr",
            "'n' is not a pointer; only pointers have '= nullptr'",
        ),
        ("float* = nullptr", "float* = nullptr", "needs a type and a name"),
    ],
)
def test_errors(text: str, marked: str, message: str) -> None:
    with pytest.raises(SignatureSyntaxError, match=message) as caught:
        parse_c_params(text)
    error = caught.value
    assert error.text[error.offset : error.offset + error.length] == marked
