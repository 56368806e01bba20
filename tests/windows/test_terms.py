"""Which operations are sums, and which of them read their window layer by layer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.cpp.expansion import Expansion
from kspec.model.neighbours.windows import Reach
from kspec.render import render_specs
from kspec.spec.models import ElementwiseSpec
from kspec.spec.neighbours.layers import sum_of
from tests.devices import ArrayDevice
from tests.windows.sums import REACHES, sum_of_layers

LINES: Reach = ((1, 1), (1, 2))
TOP = "u(-1, -1) + u(-1, 0) + u(-1, 1) + u(-1, 2)"
MIDDLE = "u(0, -1) + u(0, 0) + u(0, 1) + u(0, 2)"
BOTTOM = "u(1, -1) + u(1, 0) + u(1, 1) + u(1, 2)"


def sizes(text: str, reach: Reach = LINES, expansion: Expansion | None = None) -> list[int]:
    """Return how many terms the groups of a sum have."""
    return [len(terms) for terms in sum_of(text, "u", "v", reach, expansion or Expansion())]


@pytest.mark.parametrize("reach", REACHES, ids=str)
def test_layers_in_their_order(reach: Any) -> None:
    layers = sum(reach[0]) + 1
    assert len(sum_of_layers(reach).spec.terms) == layers
    (window,) = sum_of_layers(reach).spec.declaration().windows
    assert window.layered


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        (f"v = {TOP} + {MIDDLE} + {BOTTOM};", [4, 4, 4]),
        (f"v = -{TOP} - {MIDDLE} - 3 + {BOTTOM} - w[0] / 2", [4, 5, 5]),
        (f"v = 1 + {TOP} + {MIDDLE} + {BOTTOM}", [5, 4, 4]),
        (f"v = {TOP} + {MIDDLE.replace('u(0, 0)', 'u')} + {BOTTOM}", [4, 4, 4]),
        (f"v = {BOTTOM} + {MIDDLE} + {TOP}", [12]),
        (f"v = {MIDDLE} + {TOP} + {BOTTOM}", [12]),
        (f"v = {TOP} + {MIDDLE} + {BOTTOM} + u(0, 0)", [13]),
        (f"v = {TOP} + {MIDDLE} + {BOTTOM} * u(0, 0)", [12]),
        (f"v = {TOP} + {MIDDLE} + {BOTTOM} + u(k, 0)", [13]),
        (f"v = {TOP} + {MIDDLE}", [8]),
        ("v = u(-1, 0) + u(0, -1) - 4 * u + u(0, 1) + u(1, 0)", [5]),
        ("v = u(-1, 0)", []),
        ("v = u(-1, 0) * u(1, 0)", []),
        ("v = u(-1, 0) < u(1, 0) + 1", []),
        ("v = a ? u(-1, 0) : u(1, 0) + u", []),
        ("v = u(-1, 0) + u, w = 1", []),
        ("v = u(-1, 0) + v", []),
        ("v += u(-1, 0) + u(1, 0)", []),
        ("T a = u(-1, 0); v = a + u(1, 0)", []),
        ("v = (2 * u(-1, 0) + u(1, 0)) * 3 + u", []),
        ("v = u(-1, 0) + OTHER", []),
        ("", []),
        (";", []),
        ("v = ", []),
        ("v = +", []),
    ],
)
def test_operations(operation: str, expected: list[int]) -> None:
    expansion = Expansion.of("#define OTHER v")
    assert sizes(operation, LINES, expansion) == expected


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        (((1, 1), (2, 2)), [4, 4, 4]),
        (((1, 1), (4, 4)), [12]),  # of 27 that are near
        (((1, 1), ("R", "R")), [12]),
        (((1, 1),), [12]),
        (((1, 1), (0, 0), (1, 2)), [4, 4, 4]),
        (((0, 0), (1, 1), (1, 2)), [12]),
        (((1, 1), (0, 0), (0, 0), (1, 2)), [12]),
    ],
)
def test_reaches(reach: Reach, expected: list[int]) -> None:
    text = f"v = {TOP} + {MIDDLE} + {BOTTOM}"
    text = text.replace(", ", ", 0" * (len(reach) - 2) + ", ")
    assert sizes(text, reach) == expected


def test_products_and_signs() -> None:
    text = "v = -w[k + 1] * u(-1) * 2 - a / b * u(1) + f(u) - (float)u(2) * -.5f + u(1) * 3 / n"
    (terms,) = sum_of(text, "u", "v", ((2, 2),), Expansion())
    assert [(term.sign, term.factors) for term in terms] == [
        ("-", ("w[k + 1] * u(-1)", "2")),
        ("-", ("a / b", "u(1)")),
        ("+", None),
        ("-", ("(float)u(2)", "-.5f")),
        ("+", None),
    ]


def has_parts(**changes: Any) -> bool:
    spec = {
        "name": "add",
        "inputs": "T u",
        "outputs": "T v",
        "operation": "v = 2 * u(-1) + u(1)",
        "windows": {"u": {"reach": [1], "boundary": "nearest"}},
    }
    return "kspec::layered(" in render_specs([ElementwiseSpec(**(spec | changes))], "add.cu").text


def test_kernels_that_do_more() -> None:
    """Or whose products are to be rounded by themselves."""
    assert has_parts()
    assert has_parts(inputs="T u, raw T w", operation="v = w[0] * u(-1) + w[1] * u(1)")
    assert not has_parts(operation="v = 2 * u(-1) + u(1) + i")
    assert not has_parts(inputs="T u, T w", operation="v = w * u(-1) + u(1)")
    assert not has_parts(outputs="T v, T w", operation="v = 2 * u(-1) + u(1); w = v")
    assert not has_parts(loop_prep="T a = 1", operation="v = a * u(-1) + u(1)")
    assert not has_parts(options=["--fmad=false"])
    assert not has_parts(options=["-fmad", "false"])


def test_sums_beside_raw_kernels_with_parameters(device: ArrayDevice) -> None:
    """The headers of both are in one text."""
    kernel = kspec.ElementwiseKernel(
        "T u",
        "T v",
        "v = 2 * u(-1) + u(1)",
        "beside",
        preamble='#include "kspec/params.cuh"',
        windows={"u": {"reach": [1], "boundary": "wrap"}},
    )
    u = np.arange(5.0)
    expected = 2 * np.roll(u, 1) + np.roll(u, -1)
    np.testing.assert_array_equal(device.numpy(kernel(device.array(u))), expected)
