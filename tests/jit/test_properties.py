"""Random typed expressions and control flow are what NumPy computes, in mode "numpy".

A kernel has many examples, each of which reads its own operands and stores one result; it is also
called as the Python function that it is, with NumPy's numbers. Every constant says its type, for
NumPy would give it that of its neighbour.
"""

from __future__ import annotations

import linecache
import random
import re
import warnings
from typing import Any

import numpy as np
import pytest

from kspec import jit
from kspec.jit import types
from tests.devices import ArrayDevice

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
EXAMPLES = 250  # of a kernel
# Each makes functions of its own, and each function is compiled.
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 8))]

_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "//": "floor_divide"}
_ARITHMETIC |= {"%": "remainder", "/": "divide"}
_BITS = {"&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor"}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


class Examples:
    """Writes the lines of one example after the other."""

    def __init__(self, seed: int, floats: bool) -> None:
        self.random = random.Random(seed)
        self.types = INTEGERS + FLOATS if floats else INTEGERS
        self.floats = floats
        self.known: dict[str, str] = {}

    def loop(self, name: str, *given: str) -> str:
        return types.loop("numpy", name, given)[1]

    def constant(self, dtype: str) -> str:
        if dtype in FLOATS:
            return f"np.{dtype}({self.random.choice([-2.5, -1.0, 0.0, 0.5, 3.0, 1e3])})"
        low = 0 if dtype[0] == "u" else -3
        return f"np.{dtype}({self.random.randint(low, 7)})"

    def operand(self) -> tuple[str, str]:
        if self.random.random() < 0.25:
            dtype = self.random.choice(self.types)
            return self.constant(dtype), dtype
        return self.random.choice(list(self.known.items()))

    def value(self, depth: int) -> tuple[str, str]:
        """Return a number and its type."""
        if depth == 0 or self.random.random() < 0.15:
            return self.operand()
        kind = self.random.choice(("arithmetic",) * 4 + ("bits", "choice", "function", "cast"))
        a, s = self.value(depth - 1)
        b, t = self.value(depth - 1)
        if kind == "arithmetic" or (kind == "bits" and {s, t} & {*FLOATS}):
            sign = self.random.choice(list(_ARITHMETIC)[: 6 if self.floats else 5])
            found = self.loop(_ARITHMETIC[sign], s, t)
            if self.floats or found in INTEGERS:
                return f"({a} {sign} {b})", found
            return a, s
        if kind == "bits":
            sign = self.random.choice(list(_BITS))
            try:
                return f"({a} {sign} {b})", self.loop(_BITS[sign], s, t)
            except TypeError:  # int64 and uint64 have nothing in common
                return a, s
        if kind == "choice":
            return f"({a} if {self.condition(depth - 1)} else np.{s}({self.constant(s)}))", s
        if kind == "function":
            return self.function(a, s, b, t)
        wider = self.random.choice([one for one in self.types if np.can_cast(s, one)])
        return f"np.{wider}({a})", wider

    def function(self, a: str, s: str, b: str, t: str) -> tuple[str, str]:
        name = self.random.choice(("maximum", "minimum", "negative", "absolute", "where", "square"))
        if name in ("negative", "absolute", "square"):
            words = {"negative": f"(-{a})", "absolute": f"abs({a})", "square": f"np.square({a})"}
            return words[name], self.loop(name, s)
        if name == "where":
            return f"np.where({self.condition(0)}, {a}, np.{s}({self.constant(s)}))", s
        found = self.loop(name, s, t)
        return (f"np.{name}({a}, {b})", found) if self.floats or found in INTEGERS else (a, s)

    def condition(self, depth: int) -> str:
        a, b, c = (self.value(depth)[0] for _ in range(3))
        first, second = self.random.choice(_COMPARISONS), self.random.choice(_COMPARISONS)
        simple = f"{a} {first} {b}"
        return self.random.choice(
            [
                simple,
                f"(not {simple})",
                f"{a} {first} {b} {second} {c}",
                f"({simple} and {b} {second} {c})",
                f"({simple} or {b} {second} {c})",
            ]
        )

    def lines(self, number: int) -> list[str]:
        """Return the lines of an example, whose result is stored at its number."""
        self.known = {}
        lines = []
        for word in "abc":
            dtype = self.random.choice(self.types)
            name = f"{word}_{dtype}"
            self.known[name] = dtype
            lines.append(f"{name} = in_{dtype}[{number}, {'abc'.index(word)}]")
        text, dtype = self.value(3)
        result = f"r_{dtype}"
        lines.append(f"{result} = {text}")
        self.known[result] = dtype
        lines += self.change(result, dtype)
        if dtype in FLOATS:
            return [*lines, f"out_f[{number}] = np.float64({result})"]
        return [*lines, f"out_i[{number}] = np.int64({result})"]

    def change(self, name: str, dtype: str) -> list[str]:
        """Return a statement around assignments to a variable."""
        one, two = self.assignment(name, dtype), self.assignment(name, dtype)
        kind = self.random.choice(("none", "if", "else", "for", "while"))
        if kind == "if":
            return [f"if {self.condition(1)}:", f"    {one}"]
        if kind == "else":
            other = self.assignment(name, dtype)
            return [
                *(f"if {self.condition(1)}:", f"    {one}"),
                *(f"elif {self.condition(0)}:", f"    {two}", "else:", f"    {other}"),
            ]
        if kind == "for":
            start, stop, step = self.random.choice(((0, 3, 1), (5, 0, -2), (2, 2, 1), (1, 9, 3)))
            leave = self.random.choice(("continue", "break"))
            return [
                f"for k in range({start}, {stop}, {step}):",
                *("    if np.int64(k) == np.int64(3):", f"        {leave}", f"    {one}"),
            ]
        if kind == "while":
            count = "n = np.int64(0)", "while n < np.int64(4):", "    n += np.int64(1)"
            return [*count, f"    if {self.condition(0)}:", "        continue", f"    {two}"]
        return []

    def assignment(self, name: str, dtype: str) -> str:
        for _ in range(20):
            text, found = self.value(1)
            if np.can_cast(found, dtype, "same_kind"):
                return f"{name} = np.{dtype}({text})"
        return f"{name} = {self.constant(dtype)}"


def kernel_of(seed: int, floats: bool) -> jit.JitKernel:
    examples = Examples(seed, floats)
    arrays = [f"in_{one}" for one in INTEGERS + FLOATS]
    lines = [f"def examples({', '.join(arrays)}, out_i, out_f):"]
    for number in range(EXAMPLES):
        # Each in a branch of its own: the variables' types differ.
        lines += [f"    {line}" for line in renamed(examples.lines(number), number)]
    text = "\n".join(lines) + "\n"
    name = f"<examples {seed} {floats}>"
    linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
    space: dict[str, Any] = {"np": np}
    exec(compile(text, name, "exec"), space)
    made = jit.rawkernel(mode="numpy")(space["examples"])
    assert isinstance(made, jit.JitKernel)
    return made


def renamed(lines: list[str], number: int) -> list[str]:
    """Return lines whose variables are those of one example only."""
    words = re.compile(r"\b([abcr]_(?:u?int|float)\d+|n)\b")
    return [words.sub(rf"\1_{number}", line) for line in lines]


def inputs(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found: list[Any] = []
    for name in INTEGERS:
        info = np.iinfo(name)
        wide = rng.integers(info.min, info.max, (EXAMPLES, 3), name, endpoint=True)
        small = (wide % np.array(5, name)).astype(name)
        found.append(np.where(rng.random((EXAMPLES, 3)) < 0.5, small, wide))
    for name in FLOATS:
        values = rng.choice([0.0, -0.0, 1.0, -1.5, 0.1, 7.0, 1e10, np.inf, np.nan], (EXAMPLES, 3))
        found.append(values.astype(name))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_examples(seed: int, place: ArrayDevice) -> None:
    # A GPU multiplies and adds at once, so that its floating-point numbers differ.
    kernel = kernel_of(seed, place.is_host)
    given = inputs(seed)
    expected = np.zeros(EXAMPLES, np.int64), np.zeros(EXAMPLES, np.float64)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        kernel.function(*given, *expected)
    out_i, out_f = place.zeros(EXAMPLES, np.int64), place.zeros(EXAMPLES)
    kernel[1, 1](*map(place.array, given), out_i, out_f)
    np.testing.assert_array_equal(place.numpy(out_i), expected[0])
    np.testing.assert_array_equal(place.numpy(out_f), expected[1])
