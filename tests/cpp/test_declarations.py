"""Statements, and what they declare."""

import pytest

from kspec.cpp.brackets import angle_end, call_start, group_end, split_at_commas
from kspec.cpp.declarations import parse_declaration, without_template_head
from kspec.cpp.tokens import Token, spelled, tokens_of


def read(text: str) -> list[Token]:
    return [*tokens_of(text)]


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("A<int> x", "<int>"),
        ("A<B<C<int>>> x", "<B<C<int>>>"),
        ("A<(3 > 2), x[1 > 0]> y", "<(3 > 2), x[1 > 0]>"),
        ("A<1 << 3> y", "<1 << 3>"),
        ("A<N < 3> y", "<N < 3>"),
        ("a < b; c > d", ""),
        ("a < b) > c", ""),
    ],
)
def test_template_arguments(text: str, inside: str) -> None:
    tokens = read(text)
    end = angle_end(tokens, 1)
    assert spelled(tokens[1:end] if end else []) == inside


def test_groups() -> None:
    tokens = read("f(a, {b, [c]}) + (")
    assert group_end(tokens, 1) == tokens.index(next(t for t in tokens if t.text == "+"))
    assert group_end(tokens, len(tokens) - 1) == len(tokens)
    parts = split_at_commas(read("A<b, c> x, f(1, 2), {3, 4}, a < b"))
    assert [spelled(part) for part in parts] == ["A<b, c> x", "f(1, 2)", "{3, 4}", "a < b"]


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("x + g.sync", "g.sync"),
        ("return p->tiles[i + 1].sync", "p->tiles[i + 1].sync"),
        ("(a).b(c, d(1)).f", "b(c, d(1)).f"),
        ("= cg::this_grid().sync", "cg::this_grid().sync"),
        ("__syncthreads", "__syncthreads"),
    ],
)
def test_where_a_call_begins(text: str, start: str) -> None:
    tokens = read(text)
    assert spelled(tokens[call_start(tokens) :]) == start


@pytest.mark.parametrize(
    ("text", "type_", "names"),
    [
        ("float s[1 << 3]", "float", "s"),
        ("const unsigned long long int n = 3", "const unsigned long long int", "n"),
        ("int a, *b[2], &c = a, (*d)[4]", "int", "a b c d"),
        ("span<const float> s", "span<const float>", "s"),
        ("ns::A<int>::template B<3>::type s", "ns::A<int>::template B<3>::type", "s"),
        ("typename T::value_type *x", "typename T::value_type", "x"),
        ("void (*f)(int) = g, (*h[2])(int)", "void", "f h"),
        ("int A::*member = &A::b", "int", "member"),
        ("int A::x = 3", "int", "x"),
        ("decltype(1 < 2) a = f<int, 3>(2), b", "decltype(1 < 2)", "a b"),
        ("struct A { int b; } c, d", "struct A { int b; }", "c d"),
        ("int x{1}, y(2), z = {3, 4}", "int", "x y z"),
        ("auto [a, b] = c", "auto", ""),
    ],
)
def test_declarations(text: str, type_: str, names: str) -> None:
    found = parse_declaration(read(text))
    if not names:
        assert found is None
        return
    assert found is not None and found.type == type_
    assert [one.name for one in found.declarators] == names.split()
    assert not any(one.is_function for one in found.declarators)


@pytest.mark.parametrize(
    "text",
    [
        "int f(int x = g(3))",
        'extern "C" void (f)(int)',
        "auto f(A) -> B<C>",
        "__device__ A<B> f(A<(1 > 2)> x) noexcept",
        "inline void f()",
    ],
)
def test_functions(text: str) -> None:
    found = parse_declaration(read(text))
    assert found is not None
    assert [(one.name, one.is_function) for one in found.declarators] == [("f", True)]


@pytest.mark.parametrize(
    "text", ["x = 3", "f(3)", "return", "", "a.b = c", "++x", "goto end", "*p"]
)
def test_other_statements(text: str) -> None:
    found = parse_declaration(read(text))
    assert found is None or text == "goto end"


def test_attributes_are_set_apart() -> None:
    text = "[[a::b(1)]] static __align__(8) int alignas(T) x __attribute__((used))"
    found = parse_declaration(read(text))
    assert found is not None
    assert [spelled(one) for one in found.attributes] == [
        "[[a::b(1)]]", "__align__(8)", "alignas(T)", "__attribute__((used))"
    ]  # fmt: skip
    assert (found.type, found.specifiers, found.declarators[0].name) == ("int", {"static"}, "x")


def test_template_heads() -> None:
    text = "template <class T> template <int N = (3 > 2)> A<T> x"
    assert spelled(without_template_head(read(text))) == "A<T> x"
    assert without_template_head(read("template <class T")) == []
