"""Constructors say which order is right where their arguments are a kernel in another one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import kspec
from kspec.errors import SignatureSyntaxError, SpecError

ELEMENTWISE = ("T x", "T y", "y = x * x", "squares")
REDUCTION = ("T x", "T y", "x * x", "a + b", "y = a", "0", "squares")
NAMES = "in_params, out_params, map_expr, reduce_expr, post_map_expr, identity, name"


def message_of(make: Any, arguments: Any) -> str:
    with pytest.raises(SpecError) as caught:
        make(*arguments)
    return str(caught.value)


@pytest.mark.parametrize("places", list(itertools.combinations(range(4), 2)))
def test_two_are_swapped(places: tuple[int, int]) -> None:
    given = [*ELEMENTWISE]
    first, second = places
    given[first], given[second] = given[second], given[first]
    assert message_of(kspec.ElementwiseKernel, given) == (
        "kernel 'squares': the order is in_params, out_params, operation, name; write 'T x', "
        "'T y', 'y = x * x', 'squares'"
    )


@pytest.mark.parametrize("place", range(6))
def test_the_name_is_elsewhere(place: int) -> None:
    given = [*REDUCTION[:-1]]
    given.insert(place, "squares")
    listed = ", ".join(map(repr, REDUCTION))
    assert message_of(kspec.ReductionKernel, given) == (
        f"kernel 'squares': the order is {NAMES}; write {listed}"
    )


@pytest.mark.parametrize("places", [(0, 1), (2, 3), (3, 4), (4, 5), (5, 6)])
def test_parts_of_reductions_are_swapped(places: tuple[int, int]) -> None:
    given: list[Any] = [*REDUCTION]
    given[5] = 0
    listed = ", ".join(map(repr, given))
    first, second = places
    given[first], given[second] = given[second], given[first]
    assert message_of(kspec.ReductionKernel, given).endswith(f"write {listed}")


def test_long_text_is_left_out() -> None:
    text = " ".join(["y = x;"] * 20)
    message = message_of(kspec.ElementwiseKernel, ("squares", "T x", "T y", text))
    assert message.endswith("write 'T x', 'T y', ..., 'squares'")


def test_other_mistakes_are_said_as_they_are() -> None:
    assert "'Ty' is not a parameter" in message_of(
        kspec.ElementwiseKernel, ("T x", "Ty", "y = x", "k")
    )
    with pytest.raises(SignatureSyntaxError):
        kspec.ElementwiseKernel("T x", "T", "y = x", "k")
    assert "never assigned" in message_of(
        kspec.ReductionKernel, (*REDUCTION[:4], "sqrt(a)", *REDUCTION[5:])
    )
    assert "cannot read x" in message_of(kspec.ReductionKernel, (*REDUCTION[:5], "x", "k"))
    assert "cannot read x" in message_of(
        kspec.ReductionKernel, (*REDUCTION[:4], "y = x * rsqrt(a)", *REDUCTION[5:])
    )
