"""What text shows of reads and changes; in doubt the answers cost time, never correctness."""

from __future__ import annotations

import pytest

from kspec.cpp.assignment import assigns_first, only_assigns
from kspec.cpp.expansion import Expansion
from kspec.cpp.flow import changes, declared_addresses, declared_names

HARMLESS = (
    "#define SQUARE(v) ((v) * (v))\n#define N 3\n__device__ float half(float v) { return v / 2; }"
)
UNSEEN = '#include "mine.cuh"'


@pytest.mark.parametrize(
    ("operation", "preamble", "options", "assigned"),
    [
        # What is plain to see.
        ("y = x * x", "", (), True),
        ("T d = x - 1; y = d * d;", "", (), True),
        ("for (int k = 0; k < 3; ++k) { f(k); } y = x;", "", (), True),
        ("y = half(x)", HARMLESS, (), True),
        ("y = SQUARE(x) + N", HARMLESS, (), True),
        ("y = x * N", "", ("-DN=3",), True),
        ("y = x; if (x > 0) return", "", (), True),
        ("y = x  // y", "", (), True),
        ("if (x > 0) y = x; else y = 0", "", (), True),
        ("if (x > 0) { T t = x; y = t; } else if (x < 0) { y = 1; } else y = 2;", "", (), True),
        ("if constexpr (N > 2) { y = x; f(y); } else { y = 0; }", "", (), True),
        ("{ T t = x; y = t; } f(y)", "", (), True),
        ("if (x > 0) f(x); else g(x); do { g(x); } while (x > 0); y = x", "", (), True),
        ("switch (k) { case 1: g(x); } while (x > 0) g(x); y = x", "", (), True),
        # What the text itself reads, or goes around.
        ("if (y > 0) y = x; else y = 0", "", (), False),
        ("if (x > 0) y = x; else if (x < 0) y = 0", "", (), False),
        ("if (x > 0) y = x; else y += 1", "", (), False),
        ("if (x > 0) { y = x; } else { return; }", "", (), False),
        ("if (x > 0) if (x > 1) y = 1; else y = 2;", "", (), False),
        ("while (x > 0) { y = x; }", "", (), False),
        ("for (int k = 0; k < 3; ++k) y = x; f(y);", "", (), False),
        ("switch (k) { case 1: y = x; }", "", (), False),
        ("{ T y; y = x; }", "", (), False),
        ("auto f = [&] { y = x; }; y = x", "", (), False),
        ("} y = x; {", "", (), False),
        ("{" * 5000 + "y = x;", "", (), False),
        ("y += x", "", (), False),
        ("y = y + x", "", (), False),
        ("T t = y; y = t + x", "", (), False),
        ("if (x > 0) y = x;", "", (), False),
        ("if (x > 0) { y = x; }", "", (), False),
        ("if (x > 0) continue; y = x;", "", (), False),
        ("add(y, x); y = 2 * y;", "", (), False),
        ("for (; y = x, x < 3; ) {}", "", (), False),
        # What macros hide.
        ("T t = OLD; y = t + x", "#define OLD y", (), False),
        ("y = OLD + x", "#define OLD y", (), False),
        ("T t = OLD; y = t + x", "", ("-DOLD=y",), False),
        ("T t = OLD; y = t + x", "", ("--define-macro", "OLD=y"), False),
        ("T t = OLD; y = t + x", "#define OLD BEFORE\n#define BEFORE y", (), False),
        ("T t = OLD; y = t + x", "#def\\\nine OLD \\\n y", (), False),
        ("T t = OLD; y = t + x", "/* old */ # /* a\nb */ define OLD /* c\n */ y", (), False),
        ("T t = OLD; y = t + x", "%:define OLD y", (), False),
        ("T t = OLD(x); y = t", "#define OLD(v) ((v) + y)", (), False),
        ("T t = OLD; y = t + x", "#define OLD 1\n#undef OLD\n#define OLD y", (), False),
        ("T t = PASTE(o, ld); y = t", "#define PASTE(a, b) a##b\n", (), False),
        ("T t = s.old; y = t", "#define old old + y", (), False),
        ("WHEN(x) y = x;", "#define WHEN(v) if (v > 0)", (), False),
        ("SKIP; y = x;", "#define SKIP if (x > 0) continue", (), False),
        ("BEGIN T t = x; y = t; END", "#define BEGIN if (x > 0) {\n#define END }", (), False),
        ("FOR ; ; y = x, ++k) {}", "#define FOR for (int k = 0; k < 2", (), False),
        ("\n#define OLD y\nT t = OLD; y = t;", "", (), False),
        ("if (x > 0) y = x; else y = OLD", "#define OLD y", (), False),
        ("if (x > 0) WHEN(x) y = x; else y = 1", "#define WHEN(v) if (v > 1)", (), False),
        ("WHEN(x) { y = x; }", "#define WHEN(v) if (v > 1)", (), False),
        ("WHEN(x) if (x > 2) y = x; else y = 1;", "#define WHEN(v) if (v > 1)", (), False),
        ("while (x) #define OLD y\n g(OLD); y = 1;", "", (), False),
        # Macros that are not used, or not before the output is set, hide nothing.
        ("y = x", "#define OLD y", (), True),
        ("y = x; T t = OLD;", "#define OLD y", (), True),
        ("y = x", "#define SKIP if (x > 0) continue", (), True),
        # Headers of the user's may define any macro, those of the toolkit do not.
        ("y = half(x)", UNSEEN, (), False),
        ("T t = OLD; y = t + x", UNSEEN, (), False),
        ("y = x * x", UNSEEN, (), True),
        ("y = half(x)", "#include HEADER", (), False),
        ("y = half(x)", "", ("--pre-include=mine.cuh",), False),
        ("y = half(x)", "", ("-include", "mine.cuh"), False),
        ("y = half(x)", "#include <mine.cuh>", ("-Ifolder",), False),
        ("y = half(x)", "#include <cuda_fp16.h>", (), True),
        ("y = half(x)", "#include <cupy/complex.cuh>", ("-Ifolder",), True),
        ("y = half(x)", '#include "kspec/loop.cuh"', (), True),
    ],
)
def test_an_output_is_set_before_it_can_be_read(
    operation: str, preamble: str, options: tuple[str, ...], assigned: bool
) -> None:
    found = Expansion.of(preamble, operation, options=options, variables=("x", "y", "T"))
    assert assigns_first("y", operation, found) is assigned


@pytest.mark.parametrize(
    ("operation", "preamble", "found"),
    [
        ("x(0) = 1; if (a) x(1) = 2; else x(2) = 3;", "", True),
        ("for (int k = 0; k < n; ++k) x(k) = b(k)", "", True),
        ("#pragma unroll\nfor (int k = 0; k < n; ++k) { x(k) = b(k); }", "", True),
        ("  # pragma unroll 4\nfor (int k = 0; k < n; ++k) x(k) = b(k);", "", True),
        ("#pragma omp parallel\nx(0) = 1;", "", False),
        ("#ifdef OLD\nx(0) = 1;\n#endif", "", False),
        ("x(0) += 1;", "", False),
        ("x(0) = x(1);", "", False),
        ("x(0) = 1; f(x);", "", False),
        ("x(0) = 1, x(1) = 2;", "", False),
        ("++x(0);", "", False),
        ("x(0) = OLD;", "#define OLD x(1)", False),
    ],
)
def test_elements_are_only_assigned(operation: str, preamble: str, found: bool) -> None:
    expansion = Expansion.of(preamble, operation, options=(), variables=("x", "b", "T"))
    assert only_assigns("x", operation, expansion) is found


def test_what_loop_prep_declares() -> None:
    text = "T s = 0, t(1); const T c = s; float b[2]; auto& r = b[0]; const T* p = &w[0]; f(q + 1);"
    assert {"s", "t", "b", "r", "p"} <= declared_names(text)
    assert not declared_names(text) & {"c", "f", "q"}
    assert not declared_names("")
    assert not declared_names("const double a { 0.5 }; constexpr int b = a * 2, c(3); y = pow(b);")
    assert "f" in declared_names("const auto f = [&](T v) { s += v; };")
    assert "p" in declared_names("const T a = 1, *p = w;")


@pytest.mark.parametrize(
    ("operation", "preamble", "changed"),
    [
        ("y = x", "", False),
        ("y = s * x + (s - 1)", "", False),
        ("y = x > s ? s : x", "", False),
        ("if (s == x || s <= 3 || s != 2) y = 1", "", False),
        ("y = max(x, s) + __expf(s) + (float)s + float(s) + T(s)", "", False),
        ("y = other(x, s + 1)", "", False),
        ("y = s[1] + s.part + p->s", "", False),
        ("y = x & s && x", "", True),  # looks like a reference
        ("y = SQUARE(x)", "#define SQUARE(v) ((v) * (v))", False),
        ("s = x", "", True),
        ("s <<= 1", "", True),
        ("y = s++", "", True),
        ("y = --s", "", True),
        ("(s) *= 2", "", True),
        ("s[0] = x", "", True),
        ("s.part -= x", "", True),
        ("s.step()", "", True),
        ("y = s(x)", "", True),
        ("y = draw(&s)", "", True),
        ("y = draw(s)", "", True),
        ("y = draw<float>(x, s)", "", True),
        ("y = draw(x > 0 ? s : t)", "", True),
        ("auto& r = s; r = x", "", True),
        ("auto&& r = s; r = x", "", True),
        ("auto& [a, b] = s; a = x", "", True),
        ("for (auto& v : s) v += x", "", True),
        ("T (&r)[2] = s; r[0] = x", "", True),
        ("T* p = s.parts; p[0] = x", "", True),
        ("decltype(auto) r = (s); r = x", "", True),
        ("(x > 0 ? s : t) += x", "", True),
        ("y = (x > 0 ? s : t) + x", "", False),
        ("[&](T v) { s += v; }(x)", "", True),
        ("NEXT; y = x", "#define NEXT ++s", True),
        ("y = s NEXT", "#define NEXT += 1", True),
        ("y = s", '#include "mine.cuh"', False),
        ("y = half(x)", '#include "mine.cuh"', True),
        ('asm("add.f32 %0, %0, 1.0;" : "+f"(s))', "", True),
    ],
)
def test_a_variable_is_changed(operation: str, preamble: str, changed: bool) -> None:
    found = Expansion.of(preamble, operation, variables=("x", "y", "T", "s"))
    assert changes({"s"}, operation, found) is changed


def test_arrays_and_pointers_of_loop_prep() -> None:
    text = "T s[2], t = a * b, *p = s; const T* const q = w; auto r = &t; f(c * d);"
    assert declared_addresses(text) == {"s", "p", "q", "r"}


@pytest.mark.parametrize(
    ("operation", "changed"),
    [
        ("y = s[0] * x", False),
        ("y = *s + x", False),
        ("s[0] += x", True),
        ("*s += x", True),
        ("*(s + 1) += x", True),
        ("(s + 1)[0] += x", True),
        ("T* p; p = s; p[0] += x", True),
        ("auto p = s; p[0] += x", True),
        ("y = draw(s + 1)", True),
    ],
)
def test_an_array_is_changed(operation: str, changed: bool) -> None:
    found = Expansion.of(operation, variables=("x", "y", "T", "s"))
    assert changes({"s"}, operation, found, frozenset({"s"})) is changed
