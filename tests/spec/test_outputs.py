"""Texts that leave outputs alone, or read the array that is reduced: errors of constructors."""

from __future__ import annotations

from typing import Any

import pytest

import kspec


def elementwise(operation: str, outputs: str = "T y", **fields: Any) -> kspec.ElementwiseKernel:
    return kspec.ElementwiseKernel("T x", outputs, operation, "f", **fields)


def reduction(post_map: str, inputs: str = "T x", **fields: Any) -> kspec.ReductionKernel:
    map_expr, reduce = fields.pop("map", "x"), fields.pop("reduce", "a + b")
    identity = fields.pop("identity", "0")
    return kspec.ReductionKernel(inputs, "T y", map_expr, reduce, post_map, identity, "f", **fields)


def test_never_assigned() -> None:
    with pytest.raises(kspec.SpecError) as caught:
        elementwise("T w = x * x")
    assert str(caught.value) == (
        "kernel 'f': operation: output y is never assigned; assign it, as in 'y = ...', or leave "
        "it out of the outputs\n    T w = x * x\n    ^"
    )
    with pytest.raises(kspec.SpecError) as caught:
        reduction("sqrt(a)")
    assert str(caught.value) == (
        "kernel 'f': post_map_expr: output y is never assigned; write 'y = sqrt(a)'\n"
        "    sqrt(a)\n    ^"
    )


@pytest.mark.parametrize(
    "operation",
    [
        "y = x",
        "sincos(x, &y, &z); z = y",
        "store(x, y)",
        "STORE",
        "if (x > 0) y = x",
        "auto& to = y; to = x",
        "_raw_y[i] = x",
        "y.real(x)",
    ],
)
def test_assigned_in_some_way(operation: str) -> None:
    elementwise(operation, preamble="#define STORE y = x")


@pytest.mark.parametrize("outputs", ["raw T y", ""])
def test_nothing_to_assign(outputs: str) -> None:
    elementwise('printf("%f", (double)x)', outputs)


def test_core_dimensions_begin_as_zeros() -> None:
    kspec.ElementwiseKernel("T x[n]", "T y[n]", "T w = x(0)", "f")


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"post_map": "y = x * rsqrt(a)", "map": "x * x"}, "x"),
        ({"post_map": "y = w * a + x", "map": "x * w", "inputs": "T x, T w"}, "x"),
        ({"post_map": "y = a", "reduce": "a + b * x"}, "x"),
        ({"post_map": "y = a", "identity": "x"}, "x"),
        ({"post_map": "y = a + x", "inputs": "T x, raw T w", "map": "x * w[_j]"}, "x"),
    ],
)
def test_arrays_that_are_reduced(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(kspec.SpecError, match=f"cannot read {name}, the array that is reduced"):
        reduction(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"post_map": "y = a * s", "inputs": "T x, T s"},
        {"post_map": "y = a * s", "inputs": "T x, T s", "map": "x * s"},
        {"post_map": "y = a", "reduce": "a + s * b", "inputs": "T x, T s"},
        {"post_map": "y = a", "identity": "s", "inputs": "T x, T s"},
        {"post_map": "y = a.x"},
    ],
)
def test_numbers_beside_an_array(fields: dict[str, Any]) -> None:
    reduction(**fields)


def test_a_returned_value_is_assigned() -> None:
    with pytest.raises(kspec.SpecError, match="output y is never assigned; write 'y = x'"):
        kspec.ElementwiseKernel("T x", "T y", "return x", "f")
