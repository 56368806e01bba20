"""Spellings of one name expression have one normal form; different ones do not."""

from __future__ import annotations

import pytest

from kspec.cpp.name_expressions import find_symbol, is_expression, normal_form

SAME = [
    ("k<int>", ["k< int >", " k <int>", "::k<int>", "&k<int>", "& ::k<signed>", "k<signed int>"]),
    ("k<unsigned>", ["k<unsigned int>", "k<int unsigned>"]),
    ("k<unsigned long>", ["k<long unsigned int>", "k<unsigned long int>"]),
    ("k<long long>", ["k<signed long long int>", "k<long long int>"]),
    ("k<short>", ["k<short int>", "k<signed short>"]),
    ("k<long double>", ["k<double long>"]),
    ("k<const float*>", ["k<float const *>", "k<const float *>"]),
    ("k<const volatile int>", ["k<int volatile const>"]),
    ("ns::k<ns::T, 4>", ["ns :: k<::ns::T,4>"]),
    ("k<pair<int, pair<int, int>>>", ["k<pair<int,pair<int,int> > >"]),
    ("k<const vec<unsigned>*>", ["k<const vec<unsigned int> *>"]),
    ("k<T&&>", ["k< ::T && >"]),
    ("k<1 << 3, 1000>", ["k<1<<3 /* eight */, 1000>"]),
    ("k<span<const float>>", ["k<span<float const>>"]),
    ("&ns::table", ["ns::table", "& ns::table"]),
]
DIFFERENT = [
    "k<int>",
    "k<unsigned>",
    "k<char>",
    "k<signed char>",
    "k<unsigned char>",
    "k<short>",
    "k<long>",
    "k<long long>",
    "k<double>",
    "k<long double>",
    "k<int*>",
    "k<const int*>",
    "k<int* const>",
    "k<int&>",
    "k<int&&>",
    "k<4>",
    "k<4, int>",
    "k<ns::T>",
    "k<T>",
    "ns::k<T>",
    "k",
]


@pytest.mark.parametrize(
    ("one", "other"), [(one, other) for one, others in SAME for other in others]
)
def test_one_meaning(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)
    assert normal_form(normal_form(other)) == normal_form(other)


def test_different_meanings() -> None:
    assert len({normal_form(one) for one in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize("broken", ["", "k<", ">", "k<int", "<>,*", "::", "k<'a'>"])
def test_what_does_not_parse_has_some_form(broken: str) -> None:
    assert isinstance(normal_form(broken), str)


def test_find_symbol() -> None:
    symbols = {"k<int>": "_Z1kIiEvPT_", "plain": "_Z5plainPf"}
    assert find_symbol("k< signed >", symbols) == "_Z1kIiEvPT_"
    assert find_symbol("plain", symbols) == "_Z5plainPf"
    assert find_symbol("&plain", symbols) == "_Z5plainPf"
    assert find_symbol("k<float>", symbols) is None
    assert find_symbol("_Z1kIiEvPT_", symbols) is None


def test_names_that_are_no_expressions() -> None:
    assert not is_expression("_Z1kIiEvPT_") and is_expression("ns::k") and is_expression("k<int>")
