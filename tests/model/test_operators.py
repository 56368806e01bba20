"""Kernels as operators of a dispatcher: their schemas, where no dispatcher is there."""

from __future__ import annotations

import pytest

import kspec
from kspec.model.operators import operators


@pytest.mark.parametrize(
    ("inputs", "names"),
    [
        ("T x, T y", ["", "y", "x"]),
        ("T x, T y, T z", ["", "z", "y", "x", "y_z", "x_z", "x_y"]),
        ("T long_one, T other_one", ["", "other_one", "long_one"]),
        ("T x, T y, T x_y", ["", "in2", "in1", "in0", "in1_in2", "in0_in2", "in0_in1"]),
        ("T op, T y", ["", "in1", "in0"]),
    ],
)
def test_overloads_are_named_by_the_inputs_that_are_numbers(inputs: str, names: list[str]) -> None:
    kernel = kspec.ElementwiseKernel(inputs, "T w", "w = 1", "overloads_of")
    assert [one.overload for one in operators(kernel.declaration)] == names
