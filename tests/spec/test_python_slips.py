"""Python that compiles as C++ and means something else is refused where it is declared."""

from __future__ import annotations

import numpy as np
import pytest

import kspec
from kspec.errors import SpecError

SLIPS = [
    ("x // 2", "x / 2"),
    ("x // (2 * z)", "x / (2 * z)"),
    ("(x + 1) // abs(z)", "(x + 1) / abs(z)"),
    ("x // x - z", "x / x - z"),
    ("0 < x < 1", "0 < x && x < 1"),
    ("(z >= x + 1 > 0) ? x : z", "z >= x + 1 && x + 1 > 0"),
    ("x or 5", "x ? x : 5"),
    ("max(x and 2, z)", "x ? 2 : x"),
    ("1/2 * x", "1.0 / 2"),
    ("pow(x, z * (1 / 3))", "1.0 / 3"),
]


@pytest.mark.parametrize(("text", "better"), SLIPS)
def test_slips(text: str, better: str) -> None:
    with pytest.raises(SpecError, match="in CUDA C") as caught:
        kspec.ElementwiseKernel("T x, T z", "T y", f"y = {text}", "slip")
    assert f"write '{better}'" in str(caught.value)
    assert str(caught.value).startswith("kernel 'slip': operation: ")
    with pytest.raises(SpecError, match=r"map_expr: .* in CUDA C"):
        kspec.ReductionKernel("T x, T z", "T y", text, "a + b", "y = a", "0", "slip")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x // the value", 4),
        ("x // x is enough", 4),
        ("x; // 2", 4),
        ("x /* a */ / 2", 2),
        ("(long long)x >> 1 > 1", 1),
        ("static_cast<T>(x) > 1", 1),
        ("twice<(1 < 2)>(x) < 9", 1),
        ("x > 1 or 0", 1),
        ("x or z", 1),
        ("x == 4 and x < 5", 1),
        ("x * 1 / 2", 2),
        ("3 / 2", 1),
        ("(long long)x << 1 < 9", 1),
    ],
)
def test_what_is_meant_as_it_is(text: str, value: float) -> None:
    kernel = kspec.ElementwiseKernel(
        "T x, T z",
        "T y",
        f"y = {text}",
        "meant",
        preamble="template <bool B> __device__ double twice(double x) { return 2 * x; }",
    )
    assert kernel(np.array([4.0]), np.array([0.0])).tolist() == [value]
