"""The largest accumulators that are promised compile in every layout of a reduction."""

from __future__ import annotations

import pytest

from kspec.model.stages import COLUMNS, LINES, SHORT_LINES, Specialization, Target, strided
from kspec.pipeline import LazySource
from kspec.runtime.schedules.reduction_schedule import MAX_ACCUMULATOR
from kspec.spec.building import build_spec
from kspec.spec.models import ReductionSpec
from tests.compiling import compiled

PREAMBLE = f"""
struct Large {{ int item[{MAX_ACCUMULATOR // 4}]; }};
__device__ inline Large sum(const Large& a, const Large& b) {{
  Large both;
  for (int k = 0; k < {MAX_ACCUMULATOR // 4}; ++k) both.item[k] = a.item[k] + b.item[k];
  return both;
}}
"""


@pytest.mark.parametrize("layout", [strided(1), LINES, SHORT_LINES, COLUMNS])
def test_shared_memory_has_room(layout: str) -> None:
    spec = build_spec(
        ReductionSpec,
        name="large",
        inputs="int32 x",
        outputs="int32 y",
        map="Large{{x}}",
        reduce="sum(a, b)",
        post_map="y = a.item[0]",
        reduce_type="Large",
        preamble=PREAMBLE,
    )
    wanted = Specialization("large", (), layout)
    image = compiled(LazySource(spec)(wanted), Target("sm_80"))
    assert image.figures[wanted.name_expression].shared_bytes <= 48 << 10
