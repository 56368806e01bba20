"""Drawn statements, run in every way that their conditions can turn out: readers claim no more."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kspec.cpp.assignment import assigns_first, never_assigns, reads_first
from kspec.cpp.expansion import Expansion

SEEN = Expansion.of(variables=("x", "y", "z", "T", "c"))
READ, SET, EITHER = "read", "set", "either"
# Statements, and how they use `y`, in order.
SIMPLE: dict[str, tuple[str, ...]] = {
    "z = x;": (),
    "T t = x + 1;": (),
    "y = x;": (SET,),
    "y = y * x;": (READ, SET),
    "y += x;": (READ, SET),
    "y++;": (READ, SET),
    "z = y + 1;": (READ,),
    "z -= max(y, x);": (READ,),
    "f(x, y);": (EITHER,),
    "g(&y);": (EITHER,),
    "h(x);": (),
}
Statement = tuple[str, Any, Any]


def compound(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    body = st.lists(inner, max_size=3)
    return st.one_of(
        st.tuples(st.just("if"), body, st.one_of(st.none(), body)),
        st.tuples(st.sampled_from(["for", "while", "do", "block"]), body, st.none()),
        st.tuples(st.just("if y"), body, st.one_of(st.none(), body)),
    )


STATEMENTS = st.recursive(
    st.tuples(st.just("simple"), st.sampled_from([*SIMPLE]), st.none()), compound, max_leaves=8
)


def text_of(program: list[Statement]) -> str:
    return " ".join(map(_text, program))


def _text(statement: Statement) -> str:
    kind, body, other = statement
    if kind == "simple":
        return str(body)
    inner = f"{{ {text_of(body)} }}"
    if kind in ("if", "if y"):
        condition = "c > 0" if kind == "if" else "y > 0"
        return f"if ({condition}) {inner}" + (f" else {{ {text_of(other)} }}" if other else "")
    heads = {"for": "for (int k = 0; k < 2; ++k) ", "while": "while (c > 0) ", "do": "do "}
    return f"{heads.get(kind, '')}{inner}" + (" while (c > 0);" if kind == "do" else "")


def uses_of(program: list[Statement], choices: Iterator[bool]) -> Iterator[str]:
    """Yield the uses of `y` in one run; loops run twice."""
    for kind, body, other in program:
        if kind == "simple":
            yield from SIMPLE[body]
        elif kind in ("if", "if y"):
            yield from (READ,) if kind == "if y" else ()
            yield from uses_of(body if next(choices) else other or [], choices)
        else:
            for _ in range(1 if kind == "block" else 2):
                yield from uses_of(body, choices)


def runs_of(program: list[Statement]) -> list[tuple[str, ...]]:
    """Return the uses of `y` in runs whose first conditions turn out in every way."""
    return [
        tuple(uses_of(program, itertools.cycle(choices)))
        for choices in itertools.product((True, False), repeat=6)
    ]


@given(st.lists(STATEMENTS, max_size=4))
def test_no_reader_claims_more_than_is_so(program: list[Statement]) -> None:
    text, runs = text_of(program), runs_of(program)
    if reads_first("y", text, SEEN):
        assert all(run[:1] == (READ,) for run in runs), text
    if assigns_first("y", text, SEEN):
        assert all(run[:1] == (SET,) for run in runs), text
    if never_assigns("y", text, SEEN):
        assert all({*run} <= {READ} for run in runs), text
