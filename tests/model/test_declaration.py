"""Keyword arguments that calls of only some kernels have."""

from __future__ import annotations

from kspec.model.declaration import ElementwiseDeclaration, ReductionDeclaration
from kspec.model.neighbours.samples import Sample
from kspec.model.neighbours.windows import Window
from kspec.model.signature import Param, Signature

SIDES = Signature((Param("T", "u"),)), Signature((Param("T", "v"),))
WINDOW = Window("u", (("R", 1),), ("nearest", "wrap"))
SIZED = ElementwiseDeclaration("sized", *SIDES, sizes=(("R", (1, 2)), ("N", ())))
WINDOWED = ElementwiseDeclaration("windowed", *SIDES, sizes=(("R", ()),), windows=(WINDOW,))
ADJOINT = ElementwiseDeclaration("adjoint", *SIDES, adjoint=WINDOW)
SAMPLED = ElementwiseDeclaration("sampled", *SIDES, samples=(Sample("u", 1, ("wrap",)),))
PLAIN = ElementwiseDeclaration("plain", *SIDES)
REDUCTION = ReductionDeclaration("sum", *SIDES)


def test_options_are_sizes_and_the_boundary() -> None:
    kernels = (SIZED, WINDOWED, ADJOINT, SAMPLED, PLAIN, REDUCTION)
    assert [one.call_options for one in kernels] == [
        ("R", "N"),
        ("R", "boundary"),
        ("boundary",),
        ("boundary",),
        (),
        (),
    ]
    assert [one.size_names for one in kernels] == [("R", "N"), ("R",), (), (), (), ()]


def test_shared_options_are_given_and_known() -> None:
    given = {"N": 0, "R": None, "boundary": "wrap", "axis": 1}
    kernels = (SIZED, WINDOWED, SAMPLED, PLAIN, REDUCTION)
    assert [one.shared_options(given) for one in kernels] == [
        {"N": 0},
        {"boundary": "wrap"},
        {"boundary": "wrap"},
        {},
        {},
    ]
