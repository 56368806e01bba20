"""Which layout a reduction takes on a GPU, and how its work is shared."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from kspec.model.stages import COLUMNS, LINES, SHORT_LINES
from kspec.runtime import schedules as layout
from kspec.runtime.schedules import Axes
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.reduction_schedule import ReductionLoop
from kspec.runtime.schedules.reductions import ReductionSchedule, choose_host

SMS = 132  # of an H200
STRIDED = "kspec::Strided<8>"


def schedule(
    *arrays: np.ndarray, axis: tuple[int, ...] | None = None, offset: int = 0
) -> ReductionSchedule:
    """Return how a reduction of arrays is shared; their first addresses are aligned + offset."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    reduced = tuple(range(len(shape))) if axis is None else axis
    kept = tuple(k for k in range(len(shape)) if k not in reduced)
    strides = [layout.broadcast_strides(x.shape, x.strides, shape) for x in arrays]
    out = np.empty([shape[k] for k in kept], "float32")
    kept_strides = [tuple(steps[k] for k in kept) for steps in strides] + [out.strides]
    return ReductionLoop(
        layout.collapse([shape[k] for k in kept], kept_strides, keep_order=False),
        layout.collapse(
            [shape[k] for k in reduced],
            [tuple(steps[k] for k in reduced) for steps in strides],
            keep_order=False,
        ),
        [Member(x.itemsize, x.itemsize, 4096 + offset, False) for x in arrays],
        SMS,
        lambda tag, threads: 4 * SMS,
        4,
    ).schedule()


def big(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Return an array of any shape that takes no memory."""
    strides = np.cumprod([np.dtype(dtype).itemsize, *shape[:0:-1]])[::-1]
    return np.lib.stride_tricks.as_strided(np.zeros(1, dtype), shape, strides)


CASES = {
    "everything": ((big(1 << 28),), None, LINES, 1, 4 * SMS),
    "rows": ((big(16384, 16384),), (1,), LINES, 16384 // 2, 1),
    "columns": ((big(16384, 16384),), (0,), COLUMNS, 16384 // 256, 8),
    "short rows": ((big(1 << 23, 32),), (1,), SHORT_LINES, (1 << 23) // 128, 1),
    "tiny rows": ((big(1 << 23, 3),), (1,), SHORT_LINES, (1 << 23) // 512, 1),
    "rows in a quarter of the banks": ((big(1 << 23, 24),), (1,), SHORT_LINES, (1 << 23) // 64, 1),
    "rows of any length": ((big(1 << 20, 101),), (1,), SHORT_LINES, (1 << 20) // 32, 1),
    "rows as long as all banks": ((big(1 << 20, 64),), (1,), LINES, (1 << 20) // 64, 1),
    "two inputs in rows": (
        (big(1 << 20, 9), big(1 << 20, 9)),
        (1,),
        SHORT_LINES,
        (1 << 20) // 128,
        1,
    ),
    "rows of 4 KB": ((big(1 << 20, 1000),), (1,), SHORT_LINES, (1 << 20) // 4, 1),
    "odd rows of 4 KB": ((big(1 << 20, 1001),), (1,), LINES, (1 << 20) // 16, 1),
    "few rows of 4 KB": ((big(500, 1000),), (1,), LINES, 32, 1),
    "rows with gaps": ((big(1 << 20, 300)[:, :256],), (1,), LINES, (1 << 20) // 32, 1),
    "few long rows": ((big(64, 1 << 22),), (1,), LINES, 64, 8),
    "wide and low": ((big(64, 1 << 22),), (0,), COLUMNS, (1 << 22) // 512, 1),
    "tall and narrow": ((big(1 << 22, 64),), (0,), COLUMNS, 1, 4 * SMS),
    "the middle axis": ((big(256, 1024, 1024),), (1,), COLUMNS, 256 * 4, 1),
    "first and last": ((big(256, 1024, 1024),), (0, 2), LINES, 1024, 1),
    "every other element": ((big(1 << 28)[::2],), None, STRIDED, 1, 8 * SMS),
    "two inputs": ((big(1 << 24), big(1 << 24)), None, LINES, 1, 4 * SMS),
    "a broadcast row": ((big(4096, 4096), big(4096)), (1,), LINES, 4096 // 2, 1),
    "fewer columns than a pack": ((big(1 << 22, 3),), (0,), COLUMNS, 1, 4 * SMS),
    "an odd number of columns": ((big(1 << 18, 1001),), (0,), COLUMNS, 4, SMS),
    "few columns of few rows": ((big(100, 3),), (0,), STRIDED, 1, None),
    "few columns with gaps": ((big(1 << 20, 7)[:, :3],), (0,), STRIDED, 1, None),
    "columns with gaps": ((big(1 << 20, 77)[:, :65],), (0,), COLUMNS, 1, 4 * SMS),
    "the same row again and again": (
        (np.broadcast_to(big(64), (1 << 20, 64)),),
        (0,),
        STRIDED,
        64,
        None,
    ),
    "columns and a row": ((big(1 << 20, 33), big(33)), (0,), COLUMNS, 1, 4 * SMS),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str) -> None:
    arrays, axis, wanted, tiles, splits = CASES[name]
    found = schedule(*arrays, axis=axis)
    assert (found.layout, found.tiles) == (wanted, tiles)
    assert splits is None or found.splits == splits


def test_lines_of_any_alignment_are_lines() -> None:
    assert schedule(big(1 << 20), offset=4).layout == LINES
    assert schedule(big(4096, 5001), axis=(1,)).layout == LINES


def test_packs_that_are_not_abreast_are_strided() -> None:
    x, y = big(1 << 20), big(1 << 20)
    members = [Member(4, 4, 4096, False), Member(4, 4, 4100, False)]
    axes = layout.collapse(x.shape, [x.strides, y.strides], keep_order=False)
    kept = Axes((), ((), (), ()))
    found = ReductionLoop(kept, axes, members, SMS, lambda *_: SMS).schedule()
    assert found.layout == STRIDED


def test_large_accumulators_get_fewer_columns() -> None:
    kept = Axes((1 << 20,), ((4,), (4,)))
    reduced = Axes((4,), ((4 << 20,),))
    members = [Member(4, 4, 4096, False)]
    schedules = [
        ReductionLoop(kept, reduced, members, SMS, lambda *_: SMS, size).schedule()
        for size in (96, 97)
    ]
    assert [one.tiles for one in schedules] == [(1 << 20) // 512, (1 << 20) // 256]


def test_more_axes_than_there_is_room_for() -> None:
    x = np.zeros((2,) * 18, "float32").transpose(*range(0, 18, 2), *range(1, 18, 2))
    found = schedule(x, axis=tuple(range(9, 18)))
    assert found.layout == "kspec::Strided<64>"


def test_scratch_memory_begins_with_the_tickets() -> None:
    shared, alone = schedule(big(1 << 28)), schedule(big(16384, 16384), axis=(1,))
    assert (alone.tickets, alone.scratch(8)) == (0, 0)
    assert shared.tickets == 256
    assert shared.scratch(8) == 256 + 8 * shared.splits
    pointers = shared.pack(1 << 20)[len(shared.head) :][:16]
    assert struct.unpack("2P", pointers) == ((1 << 20) + 256, 1 << 20)


def test_the_host_gives_each_core_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_HOST_THREADS", "4")
    one = choose_host(Axes((), ((), ())), Axes((1 << 24,), ((4,),)))
    many = choose_host(Axes((1000,), ((4,), (4,))), Axes((100,), ((4000,),)))
    assert (one.layout, one.tiles, one.threads) == (STRIDED, 1, 1)
    assert one.splits == 16
    assert (many.tiles, many.splits) == (1000, 1)


def test_little_is_joined_by_no_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # what is small is small here
    assert schedule(big(1000, 1000), axis=(0,)).layout == STRIDED
    assert schedule(big(3000, 1000), axis=(0,)).layout == COLUMNS
