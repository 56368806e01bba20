"""Variables that statements read before they set them, or never set: plain to see, or no answer."""

from __future__ import annotations

import pytest

from kspec.cpp.assignment import assigns_first, never_assigns, reads_first
from kspec.cpp.expansion import Expansion

SEEN = Expansion.of(variables=("x", "y", "z", "T"))
READ_FIRST = [
    *(f"y {sign}= x" for sign in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")),
    *("y++", "++y;", "y--;", "y.a += 1", "y[0] += x", "y(0, k) += x", "y += y", "y *= abs(x);"),
    *("y = y + x", "y = -y", "y = max(y, x)", "y = x * 2 + y * 3; z = 2", "y += x > 0 ? x : z"),
    *("T t = y; y = t + x", "T t = y + 1; y = t", "float t = y;", "z = y; y = 1", "z += y; y = 3"),
    *("{ y += x; }", "do { y += x; } while (x > y);", "while (y < 3) y = y + 1;"),
    *("for (int k = 0; k < 3; ++k) y += k;", "for (int k = 0; k < 3; ++k) { T d = k; y += d; }"),
    *("if (y > 0) y = x;", "if (x > 0) y += x; else y -= x;"),
]
# Each may set `y` before it reads it, in some case at least.
DOUBTFUL = [
    *("f(x, &y); y += x", "f(x, y); y += 1", "sincos(x, &y, &z); y += z", "y += f(y)"),
    *(
        "T& r = y; r = x",
        "auto& r = y; r = x",
        "T& r(y); r = x",
        "T& r{y}; r = 3",
        "const T& r = y",
    ),
    *("T* p = &y; *p = x", "*&y = x", "auto& [a, b] = y; a = 3;", "for (auto& e : y) e = 3;"),
    *("swap(y, z)", "std::tie(y, z) = g(x)", "memcpy(&y, &x, sizeof(T))", "new (&y) T(x)"),
    *("(x > 0 ? y : z) = x", "(y) = x", "(T&)y = x", "reinterpret_cast<int&>(y) = 2"),
    *("z = y = x", "z = (y = x)", "y = x, y += x", "T t = x; t += (y = 3);", "y.set(3); y += 2"),
    *("if (x > 0) y = x;", "if (x > 0) y += x; else y = x", "if (x < 0) return; y += x;"),
    *("y = x > 0 ? y + x : x", "y = x && y", "bool b = x > 0 || y > 3; y = 2", "x > 0 && (y = 3)"),
    *("switch (k) { case 0: y = 1; break; default: y += 2; }", "switch (k) { case 0: y += 1; }"),
    *("for (y = 0; y < 3; ++y) ;", "for (int k = 0; k < 9; k += y) { y = 1; }"),
    *("for (int k = 0; k < 3; ++k) { if (k == 0) y = 0; y += k; }", "again: y += x; goto again;"),
    "for (int k = 0; k < 3; ++k) { if (k > 0) y += k; else y = 0; }",
    *("auto f = [&] { y += x; }; y = 0; f();", "auto f = [&](T v) { y += v; }; y = 0; f(x);"),
    *("decltype(y) t = 0; y = t", "y = sizeof(y)", "using U = decltype(y); y = U(0)"),
    *("#if A\ny += x;\n#else\ny = x;\n#endif", 'asm("mov %0, %1;" : "=f"(y) : "f"(x));'),
    *("{ T y = 0; y += x; }", "SET(y); y += x", "Reference r = y; r.set(x);"),
]
NEVER = [
    *("T w = (x - z) * (x - z)", "sqrt(a)", "", "T w = y", "z = y + x", "z = max(y, x)"),
    *("T y = x * x", "T y = x; y += 1", "const T y = x", "float y; y = 3", "T t = x; T y = t;"),
]


@pytest.mark.parametrize("text", READ_FIRST)
def test_reads_first(text: str) -> None:
    assert reads_first("y", text, SEEN)
    assert not assigns_first("y", text, SEEN)


@pytest.mark.parametrize("text", [*DOUBTFUL, "y = x", "y = 0; y += x;", "y(0) = 0; y(0) += x;"])
def test_does_not_surely_read_first(text: str) -> None:
    assert not reads_first("y", text, SEEN)


@pytest.mark.parametrize("text", NEVER)
def test_never_assigns(text: str) -> None:
    assert never_assigns("y", text, SEEN)


@pytest.mark.parametrize("text", [*DOUBTFUL, *READ_FIRST])
def test_may_assign(text: str) -> None:
    assert never_assigns("y", text, SEEN) is (text == "float t = y;")


@pytest.mark.parametrize(
    ("defined", "text"),
    [
        ("COND if (x > 0)", "COND y += x; y = 1"),
        ("COND if (x > 0)", "COND z = y + 1; y = 1"),
        ("COND(c) if (c)", "COND(x > 0) y += x; else y = 1;"),
        ("OPEN {", "OPEN y = x; }"),
        ("AUTO", "AUTO y = x"),
        ("NEW y", "NEW = x; y += 1"),
        ("SET(v) v = 0", "SET(y); y += x"),
        ("WRITE y = 0", "WRITE; y += x"),
    ],
)
def test_macros_may_stand_for_anything(defined: str, text: str) -> None:
    expansion = Expansion.of(f"#define {defined}", variables=("x", "y", "z", "T"))
    assert not reads_first("y", text, expansion)
    assert not never_assigns("y", text, expansion)


def test_functions_of_the_preamble_may_take_references() -> None:
    text = "z = norm(x, y); y += 1"
    assert reads_first("y", text, SEEN)
    own = Expansion.of(variables=("x", "y"), declared=("norm",))
    assert not reads_first("y", text, own)
    assert never_assigns("y", "norm(x, y)", SEEN)
    assert not never_assigns("y", "norm(x, y)", own)


def test_blocks_in_each_other() -> None:
    assert not reads_first("y", "{" * 5000 + "y += x" + "}" * 5000)
