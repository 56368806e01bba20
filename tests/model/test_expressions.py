"""The integer expressions of specs mean what they mean in Python, and nothing else is accepted."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.expressions import ExpressionError, ExpressionScope, Number, parse_expression
from kspec.model.raw.launch_rules import LaunchRules, evaluate, scope_of

PARAMS = parse_c_params("int n, const float* x, bool flag, long long m, float a, T b, Pair p")
SCOPE = scope_of("shared_mem", PARAMS, ())


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def array(shape: tuple[int, ...]) -> Any:
    return SimpleNamespace(shape=shape, size=math.prod(shape), ndim=len(shape), itemsize=4)


LEAVES = ["n", "m", "x.size", "x.ndim", "x.itemsize", "x.shape[0]", "x.shape[-1]", "block.x"]
LEAVES += ["block.y", "grid.z", "0", "1", "7", "256"]


def extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return larger integers, in the sorts of spaces that people leave."""
    space = st.sampled_from(["", " ", "\n  "])
    operator = st.sampled_from(["+", "-", "*", "//", "%"])
    comparison = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
    # Without parentheses, a choice in a comparison would be a choice between a comparison and more.
    whole = inner.map("({})".format)
    test = st.one_of(
        st.just("flag"),
        st.builds("{} {} {}".format, whole, comparison, whole),
        st.builds("{} < {} <= {}".format, whole, whole, whole),
        st.builds("not ({} > {})".format, whole, whole),
        st.builds("({} > 3 or flag and {} != 2)".format, whole, whole),
    )
    return st.one_of(
        st.builds("{}{}{}{}{}".format, inner, space, operator, space, inner),
        st.builds("({}{}{})".format, inner, operator, inner),
        st.builds("-{}".format, inner),
        st.builds("+{}".format, inner),
        st.builds("ceil_div({}, {})".format, inner, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("max({}, {},{})".format, inner, inner, inner),
        st.builds("({} if {} else {})".format, inner, test, inner),
        st.builds("{} if {} else {}".format, inner, test, inner),
    )


expressions = st.recursive(st.sampled_from(LEAVES), extended, max_leaves=12)
small = st.integers(-5, 300)


@given(expressions, small, small, st.booleans(), st.lists(st.integers(0, 9), min_size=1))
@example("n if flag else m if n > m else 3", 1, 2, False, [1])
@example("-n ** 0 if flag else 1".replace("** 0", ""), 3, 2, True, [1])
def test_they_mean_what_they_mean_in_python(
    text: str, n: int, m: int, flag: bool, extents: list[int]
) -> None:
    x = array(tuple(extents))
    block, grid = SimpleNamespace(x=32, y=4, z=1), SimpleNamespace(x=5, y=1, z=2)
    names = {"n": n, "m": m, "flag": flag, "x": x, "block": block, "grid": grid}
    names |= {"min": min, "max": max, "ceil_div": ceil_div}
    parsed = parse_expression(text, SCOPE)
    values = {"v0": n, "v3": m, "v2": flag, "s1": x.shape, "i1": 4}
    values |= {"b0": 32, "b1": 4, "b2": 1, "g0": 5, "g1": 1, "g2": 2}
    try:
        expected = eval(text.replace("\n", " "), names)
    except ZeroDivisionError:
        with pytest.raises(ZeroDivisionError):
            evaluate(parsed, values)
    else:
        assert evaluate(parsed, values) == expected
        assert type(evaluate(parsed, values)) is int


@given(st.text(max_size=30) | st.text("nmx.[]()+-*/<>=0123 ,:\n\"'#\\é", max_size=20))
@example("(" * 300 + "1" + ")" * 300)
@example("-" * 10_000 + "1")
@example("+".join("1" * 1000))
@example("9" * 10_000)
@example("n\0")
@example("\ud800")
def test_any_text_is_an_expression_or_an_error_inside_of_it(text: str) -> None:
    try:
        parsed = parse_expression(text, SCOPE)
    except ExpressionError as error:
        assert error.problems
        for problem in error.problems:
            assert 0 <= problem.offset <= max(0, len(text) - 1)
            assert problem.length >= 1
    else:
        assert parsed.text == text
        compile(parsed.python, "", "eval")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os')", "n.real", "n.__class__", "x.__class__", "x.T", "x.shape.count",
        "x.shape[n]", "x.shape[:1]", "x.shape[0][0]", "().__class__", "(lambda: 1)()", "[1][0]",
        "{n}", "f'{n}'", "n := 2", "yield", "await n", "*x", "min(*x)", "max(n, key=n)", "n if n",
        "print(n)", "eval('1')", "n is n", "n in x", "1.0", "1j", "'1'", "True", "None", "...",
        "n / m", "n ** m", "n << 1", "~n", "n and m", "not n", "n > 1", "x", "x.shape", "block",
        "a", "b", "p", "p.x", "n; m", "n = 1", "", "   ", "#", "min", "ceil_div", "min(n)",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_expression(text, SCOPE)


def test_every_problem_is_reported_where_it_is() -> None:
    text = "  é + lenght * x.size(n) - 1.5"
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text, ExpressionScope({"n": Number("v0"), "length": Number("v1")}))
    found = [(text[one.offset :][: one.length], one.message) for one in caught.value.problems]
    assert [where for where, _ in found] == ["é", "lenght", "x.size", "1.5"]
    assert found[1][1] == "unknown name 'lenght'; did you mean 'length'?"


def test_what_an_expression_depends_on() -> None:
    parsed = parse_expression("max(n, x.size) + n * x.shape[1] + block.x", SCOPE)
    assert parsed.values == (
        ("n", "v0"),
        ("x.size", "prod(s1)"),
        ("x.shape", "s1"),
        ("block.x", "b0"),
    )


def test_parameters_may_have_the_names_of_functions() -> None:
    scope = scope_of("grid", parse_c_params("int min, float* len, int prod"), ())
    parsed = parse_expression("min(min, len.size) + prod", scope)
    assert evaluate(parsed, {"v0": 9, "s1": (2, 3), "v2": 100}) == 106


def test_what_comes_first() -> None:
    """Defaults, then block, then grid, then shared memory."""
    params = parse_c_params("int n, int m, float* x")
    rules = LaunchRules(("block.x + m",), ("m",), "grid.x * block.y", (("m", "n"), ("n", 3)))
    with pytest.raises(ExpressionError, match="'n' has a default itself"):
        rules.parse(params)
    for rule, name in (
        ("block", "grid"),
        ("block", "block"),
        ("grid", "grid"),
        ("defaults", "block"),
    ):
        with pytest.raises(ExpressionError, match="is not known yet"):
            parse_expression(f"{name}.x", scope_of(rule, params, ()))
