"""Main cases move 16 bytes at once, and keep nothing in local memory: as PTX says, without a GPU."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import kspec
from kspec.compiler import compile_source
from kspec.model.stages import (
    COLUMNS,
    FLAT,
    LINES,
    PACKS,
    ROWS,
    SHORT_LINES,
    Specialization,
    Target,
)
from kspec.render import render_specs

SQUARES = kspec.ElementwiseKernel("T x, T y", "T z", "z = (x - y) * (x - y)", "squares")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")

# Kernel, layout, aligned packs that a thread loads at once.
WARP = kspec.ElementwiseKernel(
    "raw T x, T a, T b",
    "T z",
    "z = x.sample(a, b)",
    "warp",
    samples={"x": {"boundary": "nearest"}},
)

CASES = [
    (SQUARES, FLAT, 2),
    (SQUARES, ROWS, 2),
    (SQUARES, PACKS, 2),
    (TOTAL, LINES, 4),
    (TOTAL, SHORT_LINES, 4),
    (TOTAL, COLUMNS, 4),
]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(("kernel", "layout", "loads"), CASES)
@pytest.mark.usefixtures("optimized_code")
def test_sixteen_bytes_at_once(kernel: object, layout: str, loads: int, dtype: str) -> None:
    assert isinstance(kernel, kspec.ElementwiseKernel | kspec.ReductionKernel)
    binding = (("T", dtype),)
    wanted = Specialization(kernel.name, binding, layout).name_expression
    source = render_specs([kernel.spec], "accesses.cu", binding)
    image = compile_source(replace(source, name_expressions=(wanted,)), Target("compute_90"))
    text = image.code.decode()
    wide = re.findall(r"\b(ld|st)(?:\.global)?(?:\.nc)?\.v(?:4\.[ubf]32|2\.[ubf]64)\s", text)
    assert wide.count("ld") >= loads
    if kernel is SQUARES and layout == FLAT:
        assert wide.count("st") == 1
    assert not re.search(r"\.local\b", text), "arrays or addresses in local memory"


@pytest.mark.usefixtures("optimized_code")
def test_samples_load_their_elements_together() -> None:
    """Each load was behind a branch of its own, and waited for the one before."""
    binding = (("T", "float32"),)
    name = Specialization(WARP.name, binding, FLAT, (2,)).name_expression
    source = render_specs([WARP.spec], "warp.cu", binding)
    image = compile_source(replace(source, name_expressions=(name,)), Target("compute_90"))
    blocks = re.split(r"^\$L\w+:|\bbra\b", image.code.decode(), flags=re.M)
    assert max(block.count("ld.global.nc") for block in blocks) == 4
