"""Schedules of windows on GPUs: how many elements a block takes."""

from __future__ import annotations

import itertools

import pytest

from kspec.model.neighbours.windows import BoundWindow
from kspec.runtime.memory import c_strides
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule, Member
from kspec.runtime.schedules.window_schedule import choose_windows

NEAR = ((1, 1), (1, 1))


@pytest.mark.parametrize(
    ("shape", "reach", "size", "blocks"),
    [
        ((1000, 1000), NEAR, 4, 4 * 63),  # packs: 256 columns, 16 rows
        ((1000, 128), NEAR, 4, 1 * 32),  # short rows: 128 columns, 32 rows
        ((1000, 512), NEAR, 1, 1 * 32),
        ((1000, 2048), NEAR, 1, 1 * 125),  # 2048 columns, 8 rows
        ((64, 64, 128), (*NEAR, (1, 1)), 4, 16 * 8),  # 4 planes, 8 rows
        ((64, 64, 128), ((0, 0), *NEAR), 4, 64 * 4),  # one plane, 16 rows
        ((1000, 1001), NEAR, 4, 4 * 42),  # staged: 24 rows
        ((1000, 127), NEAR, 4, 1 * 21),  # 128 columns, 48 rows
        ((1000, 1001), NEAR, 8, 8 * 42),  # two columns of a thread
        ((1000, 1001), NEAR, 16, 16 * 42),  # one
        ((1000, 1001), ((3, 3), (3, 3)), 4, 4 * 63),  # 16 rows
        ((1000, 1000), ((3, 3), (3, 3)), 4, 4 * 32),  # packs, 32 rows
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


@pytest.mark.parametrize(
    ("shape", "threads"),
    [
        ((27, 27), 5 * 32),  # five warps with six rows each
        ((63, 63), 6 * 32),  # two blocks with 36 rows instead of 48
        ((48, 63), 8 * 32),
        ((25, 1001), 2 * 3 * 32),  # two warps side by side: two blocks of 18 rows
        ((1, 1001), 2 * 32),
    ],
)
def test_blocks_have_the_warps_that_rows_need(shape: tuple[int, ...], threads: int) -> None:
    assert schedule(shape, [NEAR], 4).block == threads


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
