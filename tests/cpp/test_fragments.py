from __future__ import annotations

import pytest

from kspec.cpp.fragments import (
    end_of_expression,
    identifiers,
    macros,
    offset_of,
    template_parameters,
    unbalanced,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("y = x", ("y", "x")),
        ("y = y", ("y",)),
        ("a.b->c . d", ("a",)),
        ("a::b", ("a", "b")),
        ("1.0f + 0x1Fu + 1e-5 + .5f + 1'000", ()),
        ("x // y\n z /* w\n */ v", ("x", "z", "v")),
        (r'f("a\"b", \'c\', x)'.replace("\\'", "'"), ("f", "x")),
        ('R"(a // " b)" x', ("x",)),
        ("/* open", ()),
    ],
)
def test_identifiers(text: str, words: tuple[str, ...]) -> None:
    assert identifiers(text) == words


def test_offset_of() -> None:
    assert offset_of("x", "/* x */ y.x + x") == 14
    assert offset_of("q", "x") == -1


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("int i;\n # define A \\\n i\n#undef A\n", "#define A  i"),
        ("#def\\\nine A i", "#define A i"),
        ("/* a */ # /* b */ define A /* c\n d */ i // e", "#define A            i"),
        ("%:define A i", "#define A i"),
        ("#define A i\r\nint j;", "#define A i"),
        ('const char* text = "\\\n#define A i";', ""),
        ("// #define A i\n/*\n#define B i\n*/", ""),
    ],
)
def test_macros(text: str, found: str) -> None:
    assert macros(text) == found


def test_template_parameters() -> None:
    assert template_parameters("template <typename T, class U> void f();") == ("T", "U")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "y = f(x[0], {1, 2});",
        "// ( it's\ny = x; /* [ */",
        'y = \')\' + f("({[\\"");',
        "y = 1'000 + 0xff'ffu;",
        'y = R"q(")")q"[0];',
        "#define OPEN {\ny = x;",
        "#ifdef A\nif (x) {\n#else\n{\n#endif\n}",
        "#error don't\ny = x;",
    ],
)
def test_balanced(text: str) -> None:
    assert unbalanced(text) is None


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("y = (x;", 4, "'(' is never closed"),
        ("y = f(x[0);", 9, "')' closes '['"),
        ("y = x); }", 5, "')' closes nothing"),
        ("if (x) {\n  y = 1;\n", 7, "'{' is never closed"),
        ("#define A (\ny = x)", 17, "')' closes nothing"),
        ("y = 'a;", 4, "the quote ' is never closed"),
        ('y = "a;\n"', 4, 'the quote " is never closed'),
        ("y = x; /* never", 7, "the comment is never closed"),
        ("y = x; /*/", 7, "the comment is never closed"),
    ],
)
def test_unbalanced(text: str, offset: int, message: str) -> None:
    assert unbalanced(text) == (offset, message)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("a + b", -1),
        ("a + b;", 5),
        ("a; b", 1),
        ("[&] { int c = a; return c; }()", -1),
        ("a /* ; */ + ';'", -1),
    ],
)
def test_end_of_expression(text: str, offset: int) -> None:
    assert end_of_expression(text) == offset


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("p -> /* of */ member + x", ("p", "x")),
        ("a<:i:> = x <<= 1'000u;", ("a", "i", "x")),
        ("#define OLD(v) (y + v.z) // not n\nx", ("define", "OLD", "v", "y", "x")),
        ('R"(n)" "m" u8"k" x', ("x",)),
        ("größe", ("größe",)),
    ],
)
def test_words_are_those_of_cpp(text: str, words: tuple[str, ...]) -> None:
    assert identifiers(text) == words


def test_types_in_comments_are_not_parameters() -> None:
    text = "template <typename T, class... U> /* class V */ struct A;"
    assert template_parameters(text) == ("T", "U")


def test_digraphs_are_brackets() -> None:
    assert unbalanced("y = x<:i:>;") is None
    assert unbalanced("<% y = x;") == (0, "'{' is never closed")
