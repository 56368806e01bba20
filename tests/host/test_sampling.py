"""Blocks that reviews look at: all of small grids, runs within large ones, and parts that add up."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from kspec.host.sampling import parts, sampled_runs


@given(st.integers(1, 10**6), st.integers(1, 32))
def test_runs_are_in_order_and_within(blocks: int, warps: int) -> None:
    runs = sampled_runs(blocks, warps)
    bounds = [bound for run in runs for bound in run]
    assert bounds == sorted(bounds) and bounds[0] >= 0 and bounds[-1] <= blocks
    looked_at = sum(last - first for first, last in runs)
    assert looked_at == min(blocks, max(16, 512 // warps) // 4 * 4) or runs == [(0, blocks)]


@given(st.integers(1, 10**5), st.integers(1, 32))
def test_parts_are_all_blocks_in_order(blocks: int, warps: int) -> None:
    runs = sampled_runs(blocks, warps)
    found = parts(blocks, runs)
    assert found[0][0] == 0 and found[-1][1] == blocks
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert [(first, last) for first, last, run in found if run] == runs
    assert [run for _, _, run in found if run] == list(range(1, len(runs) + 1))
