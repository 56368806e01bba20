"""Which kernels have a second text of their operation, for pairs of narrow elements."""

from __future__ import annotations

from typing import Any

import pytest

from kspec.render import render_specs
from kspec.spec.models import ElementwiseSpec

WINDOWS = {"u": {"reach": [1], "boundary": "nearest"}}
SELECTS = {
    "name": "lowest",
    "inputs": "T u",
    "outputs": "T v",
    "operation": "v = min(u(-1), u(1))",
    "windows": WINDOWS,
}


def has_pairs(dtype: str = "", **changes: Any) -> bool:
    spec = ElementwiseSpec(**(SELECTS | changes))
    binding = [("T", dtype)] if dtype else None
    return "kspec::selection(" in render_specs([spec], "lowest.cu", binding).text


@pytest.mark.parametrize("dtype", ["", "uint8", "int8", "uint16", "int16"])
def test_narrow_elements(dtype: str) -> None:
    assert has_pairs(dtype)


@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "float16", "bool", "complex64"])
def test_other_elements(dtype: str) -> None:
    assert not has_pairs(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int16"])
def test_types_without_a_placeholder(dtype: str) -> None:
    assert has_pairs(inputs=f"{dtype} u", outputs=f"{dtype} v")
    assert not has_pairs(inputs=f"{dtype} u", outputs="int32 v")


@pytest.mark.parametrize(
    "changes",
    [
        {"windows": {}, "operation": "v = u"},
        {"inputs": "T u, S x"},
        {"inputs": "T u, float32 x"},
        {"inputs": "T u, raw T x"},
        {"inputs": "T u, _non_const T x"},
        {"preamble": "template <class T> __device__ T min(T a, T b) { return a + b; }"},
        {"loop_prep": "const int k = 0;"},
        {"options": ("-Dmin=max",)},
        {"options": ("-include", "mine.h")},
        {"samples": {"u": {"order": 0}}, "operation": "v = u.sample(1)"},
        {"operation": "v = min(u(-1), u(1)) + i"},
    ],
)
def test_kernels_that_do_more(changes: dict[str, Any]) -> None:
    assert not has_pairs(**changes)
