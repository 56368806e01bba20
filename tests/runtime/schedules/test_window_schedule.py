"""Schedules of windows on GPUs: how many elements a block takes."""

from __future__ import annotations

import itertools

import pytest

from kspec.model.neighbours.windows import BoundWindow
from kspec.runtime.memory.array_view import c_strides
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule, Member
from kspec.runtime.schedules.window_schedule import choose_windows

NEAR = ((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("shape", "reach", "size", "blocks"),
    [
        ((1000, 1000), NEAR, 4, 4 * 63),  # packs: 256 columns, 16 rows
        ((1000, 1001), NEAR, 4, 4 * 63),  # staged: the same
        ((1000, 127), NEAR, 4, 1 * 32),  # 128 columns, 32 rows
        ((1000, 1001), NEAR, 8, 8 * 63),  # two columns of a thread
        ((1000, 1001), NEAR, 16, 16 * 63),  # one
        ((1000, 1001), NEAR, 2, 8 * 42),  # narrow elements are not staged: 128 columns, 24 rows
        ((1000, 1001), ((6, 6), (1, 1)), 4, 16 * 25),  # nor what is tall: 64 columns, 40 rows
        ((1025,), ((1, 1),), 4, 2),  # 1024 elements
        ((9, 1001), ((2, 2),), 2, 9),
        ((1025,), ((40, 40),), 4, 5),  # more than 64 neighbours: 256 elements
    ],
)
def test_blocks(
    shape: tuple[int, ...], reach: tuple[tuple[int, int], ...], size: int, blocks: int
) -> None:
    assert schedule(shape, [reach], size).grid == (blocks, 1, 1)


def test_shared_memory_needs_no_permission() -> None:
    """Windows of any reach leave room for 16 bytes that a kernel has besides, or are not staged."""
    found = {
        schedule((1000, row), [((up, up), (side, side))] * count, size).shared_mem
        for row, up, side, size, count in itertools.product(
            (1001, 63), range(5), range(32), (4, 8, 16), range(1, 8)
        )
    }
    assert 0 in found and 40 << 10 < max(found) <= (48 << 10) - 16
    assert len(found) > 50


def schedule(
    shape: tuple[int, ...], reaches: list[tuple[tuple[int, int], ...]], size: int
) -> ElementwiseSchedule:
    """Return the schedule of an operation with windows of these reaches."""
    windows = [BoundWindow(f"u{k}", reach, "nearest") for k, reach in enumerate(reaches)]
    members = [*[Member(size, size, 4096, False)] * len(windows), Member(size, size, 8192, True)]
    return choose_windows(
        shape,
        (c_strides(shape, size),) * len(members),
        members,
        windows,
        [size] * len(windows),
        keep_order=True,
        merge=True,
        on_host=False,
    )
