"""Arguments of calls that only some kernels have, and those that must be arrays."""

from __future__ import annotations

import numpy as np
import pytest

import kspec
from kspec.errors import ArgumentTypeError
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


def test_reductions_need_the_arrays_that_they_index() -> None:
    kernel = kspec.ReductionKernel(
        "T x, T y", "T z", "x * _raw_y[_j % 3]", "a + b", "z = a", "0", "indexed"
    )
    needed = {one.name: kernel.declaration.needs_array(one) for one in kernel.declaration.inputs}
    assert needed == {"x": False, "y": True}
    y = np.array([1.0, 10.0, 100.0])
    assert kernel(2.0, y) == 222
    with pytest.raises(ArgumentTypeError, match="y must be an array, not float"):
        kernel(y, 2.0)
