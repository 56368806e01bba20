from __future__ import annotations

import pytest

from kspec.spec.fragments import identifiers, macros, offset_of, template_parameters


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


def test_macros() -> None:
    assert macros("int i;\n # define A \\\n i\n#undef A\n") == " # define A \\\n i"


def test_template_parameters() -> None:
    assert template_parameters("template <typename T, class U> void f();") == ("T", "U")
