"""C++ text as tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.cpp.tokens import spelled, tokens_of


def texts(text: str, comments: bool = False) -> list[str]:
    return [token.text for token in tokens_of(text, comments)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<<=b>>=c", ["a", "<<=", "b", ">", ">=", "c"]),
        ("A<B<C>>x", ["A", "<", "B", "<", "C", ">", ">", "x"]),
        ("k<<<1,2>>>()", ["k", "<<<", "1", ",", "2", ">", ">", ">", "(", ")"]),
        ("a->*b->c::d...", ["a", "->*", "b", "->", "c", "::", "d", "..."]),
        ("x<=>y==!z&&w", ["x", "<=>", "y", "==", "!", "z", "&&", "w"]),
        ("1'000 0x1p-3f .5e+2 1.f..", ["1'000", "0x1p-3f", ".5e+2", "1.f.."]),
        ("u8\"a\" L'\\'' 'ab' \"\\\"//\"_s", ['u8"a"', "L'\\''", "'ab'", '"\\"//"', "_s"]),
        ('R"x(a)" )")x" b', ['R"x(a)" )")x"', "b"]),
        ("<% a<:1:> %> <::b> <:::c", ["{", "a", "[", "1", "]", "}", "<", "::", "b", ">", "[", "::", "c"]),
        ("größe $x a$b", ["größe", "$", "x", "a$b"]),
        ("a \\\n b \\ c", ["a", "b", "\\", "c"]),
        ("a // b \\\n c\nd /* e\n */ f /* g", ["a", "d", "f"]),
        ("'a b", ["'", "a", "b"]),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


def test_comments_on_request() -> None:
    assert texts("a // b\n/* c */ d", comments=True) == ["a", "// b", "/* c */", "d"]


@pytest.mark.parametrize(
    ("text", "directive"),
    [
        (" #define A 1 // one\n", " #define A 1 "),
        ("#define A \\\n  2\n", "#define A \\\n  2"),
        ('#define URL "http://x /* y"\n', '#define URL "http://x /* y"'),
        ("#define A /* a\n b */ 3\n", "#define A /* a\n b */ 3"),
        ("%:pragma once\n", "%:pragma once"),
    ],
)
def test_directives(text: str, directive: str) -> None:
    found = [*tokens_of(f"x\n{text}y")]
    assert [token.kind for token in found] == ["word", "directive", "word"]
    assert found[1].text == directive


@given(st.text(st.sampled_from("ab1<>:%\"'/*\\\n #(){}.-=&$é") | st.characters(), max_size=60))
def test_any_text_is_split(text: str) -> None:
    """Tokens come in order, do not overlap, and leave out nothing but space."""
    end = 0
    for token in tokens_of(text, comments=True):
        assert token.start >= end and token.end > token.start
        assert not text[end : token.start].replace("\\", "").strip()
        end = token.end
    assert not text[end:].replace("\\", "").strip()


def test_spelled() -> None:
    assert spelled([*tokens_of("a  >>b /* c */ <:1:>")]) == "a >>b [1]"
    assert spelled([]) == ""
