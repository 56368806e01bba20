"""Which operations only select, as far as their text tells; in doubt the answer costs time only."""

from __future__ import annotations

import pytest

from kspec.cpp.expansion import Expansion
from kspec.cpp.selection import Names, only_selects, with_auto

NAMES = Names(windows=("u", "w"), inputs=("x",), outputs=("v",), types=(("T",),), sizes=("R",))


@pytest.mark.parametrize(
    "operation",
    [
        "v = u(-1, 0)",
        "v = u",
        "v = x;",
        ";; v = x;;",
        "v = (min(u(-1, 0), (u)));  // v + 1",
        "v = max(min(u(-1, R), w(+R - 1, 2 * R)), x)",
        "T a = u(0, 1), b = min(a, x); const T c = max(a, b); auto d = c; v = d",
        "T a = u(1); a = min(a, x); v = a; v = max(v, u);",
        "const auto a = min(u(-1), u(1));\nv = a;",
    ],
)
def test_it_only_selects(operation: str) -> None:
    assert only_selects(operation, NAMES)


@pytest.mark.parametrize(
    "operation",
    [
        # More than a selection.
        "v = u(-1) + u(1)",
        "v = -u(1)",
        "v = min(u(-1), 3)",
        "v = 0",
        "v = 'a'",
        "v = u(-1) < u(1) ? u(-1) : u(1)",
        "v = min(u(-1) + 1, u(1))",
        "v += x",
        "v++",
        "v = (T)u(1)",
        "v = T(u(1))",
        "v = min<T>(u(1), u)",
        "v = min(x, min(x, i))",
        "v = n",
        "v = fminf(u(1), x)",
        "v = ::min(u(1), x)",
        "v = std::max(u(1), x)",
        "v = min(x)",
        "v = min(x, x, x)",
        "v = min()",
        "v = x[0]",
        "v = u.sample(1)",
        # What is read at offsets that are not constants.
        "v = u(x)",
        "v = u(u(1))",
        "v = u((int)x)",
        "v = u()",
        "v = x(1)",
        # Declarations of other types, names and shapes.
        "int a = x; v = a",
        "float a = u(1); v = a",
        "T a; a = x; v = a",
        "T a(x); v = a",
        "T a{x}; v = a",
        "T a[2] = {x, x}; v = a[0]",
        "T& a = v; a = x",
        "T* a = &x; v = x",
        "static T a = x; v = a",
        "auto [a] = x; v = a",
        "T = x; v = x",
        "const v = x",
        "T u = x; v = u",
        "T min = x; v = min",
        "T R = x; v = R",
        "T a = x; T a = x; v = a",
        "T a = x, v = a",
        # Statements.
        "if (x) v = x;",
        "for (;;) v = x;",
        "{ v = x; }",
        "do { v = x; } while (0)",
        "return",
        "continue; v = x",
        "f(x); v = x",
        "x = u(1); v = x",
        "u = x; v = x",
        "const T a = x; a = u; v = a",
        "v = w = x",
        "v = x, v = u",
        "#pragma unroll\nv = x",
        "#define Y x\nv = x",
        # Values that are not there yet.
        "v = v",
        "v = a; T a = x",
        "T a = a; v = a",
        "T a = x",
        "",
        # Text that does not end.
        "v = min(x, u(1)",
        "v = x)",
        "v =",
        "v = " + "(" * 5000 + "x" + ")" * 5000,
    ],
)
def test_it_does_more(operation: str) -> None:
    assert not only_selects(operation, NAMES)


def test_what_macros_hide() -> None:
    operation = "v = min(u(-1), x)"
    assert only_selects(operation, NAMES, Expansion.of("#define min3(a, b, c) min(a, min(b, c))"))
    assert not only_selects(operation, NAMES, Expansion.of("#define x x + 1"))
    assert not only_selects(operation, NAMES, Expansion.of("#define min(a, b) (a) + (b)"))
    assert not only_selects(operation, NAMES, Expansion.of('#include "mine.cuh"'))
    assert not only_selects(operation, NAMES, Expansion.of("", options=("-Dx=2",)))


def test_every_output_is_set() -> None:
    names = Names(inputs=("x",), outputs=("v", "w"))
    assert only_selects("v = x; w = v", names)
    assert not only_selects("v = x", names)


def test_types_of_several_words() -> None:
    names = Names(inputs=("x",), outputs=("v",), types=(("unsigned", "char"),))
    operation = "const unsigned char a = x; unsigned char b = a, c = b; v = c"
    assert only_selects(operation, names)
    assert with_auto(operation, names) == "const auto a = x; auto b = a, c = b; v = c"
    assert not only_selects("unsigned a = x; v = a", names)


def test_auto_keeps_lines_and_comments() -> None:
    operation = "T a = u(1), // T\n  b = x;\nconst T c = b;\nv = c"
    expected = "auto a = u(1), // T\n  b = x;\nconst auto c = b;\nv = c"
    assert with_auto(operation, NAMES) == expected
