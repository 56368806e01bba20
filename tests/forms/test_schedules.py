"""Schedules of scans and segments: tiles, carries, and agreement with the headers."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspec.compiler import ImageCache, compile_source
from kspec.config import cache_dir
from kspec.host.modules import load_module
from kspec.model.stages import HOST as HOST_TARGET
from kspec.model.stages import CudaSource
from kspec.runtime.driver.device import HOST
from kspec.runtime.memory.array_view import ArrayView
from kspec.runtime.schedules import marshal, reduction_schedule
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.scan_schedule import (
    LineTile,
    LookBack,
    Scanned,
    ScanSchedule,
    choose_scan,
    column_tile,
)
from kspec.runtime.schedules.segment_schedule import BOUNDS, Segmented, choose_segments
from kspec.runtime.schedules.strides import Axes, broadcast_strides, collapse
from tests.profiles import examples

GROUP = 32
FLOAT, RESULT = Member(4, 4, 4096, False), Member(4, 4, 8192, True)


class TestLookBack:
    """The look-back of ``kspec/carry.cuh``, tile by tile."""

    @staticmethod
    def walk(tiles: int, tile: int) -> tuple[set[int], dict[int, range]]:
        """Return the entries that a tile publishes, and those it reads, with the tiles of each."""
        published, read = set(), {}
        base, count, index, last, width = 0, tiles, tile, True, 1
        while True:
            if last:
                published.add(base + index)
            inside = index % GROUP
            for one in range(index - inside, index):
                read[base + one] = range(one * width, (one + 1) * width)
            last = last and inside == GROUP - 1
            if count <= GROUP:
                return published, read
            base, count, index = base + count, -(-count // GROUP), index // GROUP
            width *= GROUP

    @given(st.one_of(st.integers(2, 40), st.integers(1, 64).map(lambda k: 32 * k + 1)))
    @settings(max_examples=examples(40))
    def test_each_tile_reads_all_before_it(self, tiles: int) -> None:
        published: set[int] = set()
        for tile in range(tiles):
            own, read = self.walk(tiles, tile)
            covered = list(itertools.chain.from_iterable(read.values()))
            assert sorted(covered) == list(range(tile))
            assert set(read) <= published, "an entry that a later tile publishes"
            assert not own & published, "an entry of two tiles"
            published |= own
        assert max(published) < LookBack(tiles).entries

    @given(st.integers(1, 3000), st.randoms(use_true_random=False))
    @settings(max_examples=examples(40))
    def test_the_last_to_leave_cleans_up(self, tiles: int, order: Any) -> None:
        look_back = LookBack(tiles)
        counters = [0] * look_back.groups
        left = set().union(*(self.walk(tiles, tile)[0] for tile in range(tiles)))
        ended = 0
        for tile in order.sample(range(tiles), tiles):
            base, counter, count, index = 0, 0, tiles, tile
            while True:
                group = index // GROUP
                members = min(count - group * GROUP, GROUP)
                counters[counter + group] += 1
                if counters[counter + group] < members:
                    break
                counters[counter + group] = 0
                first = base + group * GROUP
                left -= set(range(first, first + members))
                if count <= GROUP:
                    ended += 1
                    break
                base, count, index = base + count, -(-count // GROUP), group
                counter += count
        assert ended == 1 and not any(counters) and not left

    @pytest.mark.parametrize(
        ("tiles", "levels", "groups"),
        [
            (1, [1], 1),
            (32, [32], 1),
            (33, [33, 2], 2 + 1),
            (1024, [1024, 32], 32 + 1),
            (1025, [1025, 33, 2], 33 + 2 + 1),
            (32**3, [32**3, 1024, 32], 1024 + 32 + 1),
            (32**3 + 1, [32**3 + 1, 1025, 33, 2], 1025 + 33 + 2 + 1),
        ],
    )
    def test_levels(self, tiles: int, levels: list[int], groups: int) -> None:
        look_back = LookBack(tiles, chains=3)
        assert look_back.levels == levels
        assert (look_back.entries, look_back.groups) == (sum(levels), groups)
        assert look_back.counters >= 4 * (2 + 3 * groups)
        assert look_back.counters % 256 == 0

    def test_bytes(self) -> None:
        assert LookBack(1, chains=9).nbytes(8) == 0
        assert LookBack(2).nbytes(4) == 256 + 2 * 8
        assert LookBack(2).nbytes(1) == 256 + 2 * 8
        assert LookBack(2).nbytes(12) == 256 + 2 * 3 * 8
        assert LookBack(40, chains=5, columns=32).nbytes(8) == 256 + 5 * 32 * 42 * 2 * 8


PROLOGUE = '#include "kspec/elements.cuh"\n#include "kspec/reduce.cuh"\n'
SIZES = [*range(1, 130), 192, 255, 256, 512]


def compiled(text: str, name: str, *, before: str = "") -> Any:
    """Return a kernel of the host device; the headers come after the text `before`."""
    source = CudaSource(f"{name}.cu", f"{before}{PROLOGUE}{text}", (name,))
    image = compile_source(source, HOST_TARGET, ImageCache(cache_dir()))
    return load_module(image).get_kernel(image.symbols[name])


def test_tiles_are_those_of_the_headers() -> None:
    rows = "\n".join(
        f"  *out++ = kspec::LineTile<Bytes<{n}>>::THREADS, *out++ = kspec::LineTile<Bytes<{n}>>::SIZE,"
        f" *out++ = kspec::ColumnTile<Bytes<{n}>>::SIZE, *out++ = kspec::LookBack<Bytes<{n}>>::WORDS;"
        for n in SIZES
    )
    text = (
        "template <int N> struct Bytes { char bytes[N]; };\n"
        'static_assert(kspec::LookBack<int>::GROUP == 32 && kspec::ColumnTile<int>::SIDE == 32, "");\n'
        'static_assert(kspec::ColumnTile<int>::WARPS * 32 == 256, "threads");\n'
        f"__global__ void tiles(int* out) {{\n{rows}\n}}\n"
    )
    found = np.zeros((len(SIZES), 4), "int32")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    kernel = compiled(text, "tiles", before="#undef KSPEC_HOST\n")
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    wanted = [
        (LineTile.of(n).threads, LineTile.of(n).size, column_tile(n), -(-n // 4)) for n in SIZES
    ]
    assert found.tolist() == [list(row) for row in wanted]


def test_tiles_fit_in_shared_memory() -> None:
    """Elements, with gaps, what warps say to each other, and where segments begin and end."""
    limit, largest = 48 * 1024, reduction_schedule.MAX_ACCUMULATOR
    for size in range(1, largest + 1):
        tile, carry = LineTile.of(size), size + 16
        every = 128 // size if tile.items > 1 else tile.size
        assert (tile.size + tile.size // every) * size + 9 * carry + tile.size // 8 <= limit
        assert 7 * 32 * carry + 9 * column_tile(size) <= limit


def scanned(*extents: int, operands: int = 2, length: int = 100, **flags: bool) -> Scanned:
    """Return the axes of a scan of contiguous rows of floats."""
    steps, step = [], 4 * length
    for extent in extents:
        steps.append(step)
        step *= 2 * extent  # with gaps, so that axes do not merge
    return Scanned(Axes(extents, (tuple(steps),) * operands), length, (4,) * operands, **flags)


def segmented(*extents: int, operands: int = 2, length: int = 100) -> Segmented:
    steps = tuple(8 << 4 * k for k in range(len(extents)))
    bounds = ArrayView(1 << 20, (6,), (-4,), "uint32", HOST)
    return Segmented(Axes(extents, (steps,) * operands), length, (4,) * operands, bounds)


def scan_schedule(*extents: int, columns: bool = False, operands: int = 2) -> ScanSchedule:
    axes = scanned(*extents, operands=operands)
    if columns:
        strides = ((4, *axes.rows.strides[0][1:]),) * operands
        axes = Scanned(Axes(extents, strides), 100, (4 * extents[0],) * operands)
    return choose_scan(axes, [FLOAT] * operands, lambda: 8, on_host=False)


def segment_schedule(*extents: int, operands: int = 2) -> ScanSchedule:
    members = [FLOAT] * (operands - 1)
    return choose_segments(
        segmented(*extents, operands=operands), members, lambda: 8, on_host=False
    )


PACKED = {
    "kspec::Reduction<kspec::ScanLines<8>, 1, 1>": scan_schedule(3, 5),
    "kspec::Reduction<kspec::ScanLines<8>, 3, 2>": scan_schedule(operands=5),
    "kspec::Reduction<kspec::ScanLines<64>, 1, 1>": scan_schedule(*[2] * 9),
    "kspec::Reduction<kspec::ScanColumns<8>, 1, 1>": scan_schedule(64, columns=True),
    "kspec::Reduction<kspec::ScanColumns<64>, 2, 1>": scan_schedule(
        64, *[2] * 8, columns=True, operands=3
    ),
    "kspec::Reduction<kspec::SegmentLines<8>, 1, 1>": segment_schedule(),
    "kspec::Reduction<kspec::SegmentLines<8>, 2, 3>": segment_schedule(operands=5),
    "kspec::Reduction<kspec::SegmentColumns<8>, 1, 1>": segment_schedule(64),
    "kspec::Reduction<kspec::SegmentColumns<64>, 1, 2>": segment_schedule(*[2] * 9, operands=3),
}


def test_packed_sizes_are_the_compilers() -> None:
    types = list(PACKED)
    assert [
        f"kspec::Reduction<{PACKED[one].layout}, {one.split('>, ')[1]}" for one in types
    ] == types
    params = ", ".join(f"{ctype} p{number}" for number, ctype in enumerate(types))
    kernel = compiled(f"__global__ void sizes({params}) {{}}\n", "sizes")
    assert dict(zip(types, kernel.parameter_sizes, strict=True)) == {
        ctype: len(one.pack(0)) for ctype, one in PACKED.items()
    }


def read(ctype: str, fields: str, packed: bytes, name: str) -> list[int]:
    """Return the fields that a kernel reads from a packed plan ``p``."""
    text = (
        f"__global__ void {name}({ctype} p, long long* out) {{\n"
        f"  const long long found[] = {{{fields}}};\n"
        "  for (int k = 0; k < (int)(sizeof(found) / sizeof(found[0])); ++k) out[k] = found[k];\n}\n"
    )
    found = np.full(fields.count(",") + 1, -77, "int64")
    block = marshal.PackedParameters([packed, struct.pack("P", found.ctypes.data)])
    compiled(text, name).launch((1, 1, 1), (1, 1, 1), block.address)
    return [int(one) for one in found]


LOOK_BACK = "p.chains, p.tiles, p.entries, p.groups, (long long)p.carries, (long long)p.counters"
AXES = "p.steps[0], p.steps[1], p.rows.ndim, p.rows.extents[0], p.rows.strides[1][0]"


def test_kernels_find_what_scans_packed() -> None:
    fields = (
        "p.outputs, p.length, p.exclusive, p.reversed, p.packed, p.shift, p.narrow, "
        f"p.by_length.divide(7 * 40000 + 3), {LOOK_BACK}, {AXES}"
    )
    axes = Axes((60,), ((160_000,), (160_000,)))
    for exclusive, reverse, shift in [(True, False, 3), (False, True, -1), (False, False, 3)]:
        members = [Member(4, 4, 4096 + 12, False), Member(4, 4, 8192 + 12, True)]
        given = Scanned(axes, 40_000, (4, 4), exclusive, reverse)
        schedule = choose_scan(given, members, lambda: 8, on_host=False)
        tiles = -(-(60 * 40_000 + max(shift, 0)) // LineTile.of(8).size)
        look_back = LookBack(tiles)
        address = 1 << 24
        assert schedule.scratch == look_back.nbytes(8)
        wanted = [60, 40_000, exclusive, reverse, shift >= 0, max(shift, 0), 1, 7]
        wanted += [1, tiles, look_back.entries, look_back.groups]
        wanted += [address + look_back.counters, address, 4, 4, 1, 60, 160_000]
        packed = schedule.pack(address)
        ctype = "kspec::Reduction<kspec::ScanLines<8>, 1, 1>"
        assert read(ctype, fields, packed, "scans") == [int(one) for one in wanted]


def test_kernels_find_what_segments_packed() -> None:
    fields = (
        "p.outputs, p.length, p.segments, (long long)p.bounds.data, p.bounds.stride, "
        f"p.bounds.bytes, p.bounds.is_signed, p.packed, p.shift, {LOOK_BACK}, {AXES}"
    )
    for dtype, size, sign in [("uint32", 4, 0), ("int8", 1, 1), ("int64", 8, 1)]:
        bounds = ArrayView(1 << 20, (6,), (-8,), dtype, HOST)
        axes = Axes((70,), ((4,), (4,)))
        given = Segmented(axes, 1000, (280, 280), bounds)
        schedule = choose_segments(given, [FLOAT], lambda: 8, on_host=False)
        look_back = LookBack(-(-1000 // column_tile(8)), 3, 32)
        wanted = [70, 1000, 5, 1 << 20, -8, size, sign, 0, 0]
        wanted += [3, look_back.tiles, look_back.entries, look_back.groups]
        wanted += [(1 << 24) + look_back.counters, 1 << 24, 280, 280, 1, 70, 4]
        packed = schedule.pack(1 << 24)
        ctype = "kspec::Reduction<kspec::SegmentColumns<8>, 1, 1>"
        assert read(ctype, fields, packed, "segments") == wanted
        assert packed[BOUNDS : BOUNDS + 8] == struct.pack("P", 1 << 20)


def schedule_of(
    shape: tuple[int, ...],
    axis: int,
    order: str = "C",
    *,
    accumulator: int = 4,
    offsets: tuple[int, int] = (0, 0),
    reverse: bool = False,
) -> ScanSchedule:
    """Return the GPU's schedule of a scan of floats, to an output in C order."""
    strides = [np.empty(shape, "float32", one).strides for one in (order, "C")]
    beside = [k for k in range(len(shape)) if k != axis]
    rows = collapse(
        [shape[k] for k in beside], [tuple(steps[k] for k in beside) for steps in strides], False
    )
    given = Scanned(rows, shape[axis], tuple(one[axis] for one in strides), False, reverse)
    members = [Member(4, 4, 4096 + offsets[0], False), Member(4, 4, 8192 + offsets[1], True)]
    return choose_scan(given, members, lambda: accumulator, on_host=False)


def shift(schedule: ScanSchedule) -> int:
    packed, shifted = struct.unpack_from("2i", schedule.head, 24)
    return shifted if packed else -1


class TestScans:
    @pytest.mark.parametrize(
        ("shape", "axis", "layout", "blocks"),
        [
            ((1 << 20,), 0, "ScanLines", 256),
            ((1024, 1024), 1, "ScanLines", 256),
            ((1024, 1024), 0, "ScanColumns", 32 * 8),
            ((1000, 7), 0, "ScanLines", 2),
            ((1000, 8), 0, "ScanColumns", 8),
            ((50, 1000, 33), 1, "ScanColumns", 52 * 8),
            ((50, 1000, 33), 0, "ScanColumns", 1032),
            ((1, 1), 0, "ScanLines", 1),
        ],
    )
    def test_layouts(self, shape: tuple[int, ...], axis: int, layout: str, blocks: int) -> None:
        schedule = schedule_of(shape, axis)
        assert (schedule.layout, schedule.blocks) == (f"kspec::{layout}<8>", blocks)
        assert schedule.threads == 256

    def test_the_output_decides(self) -> None:
        assert schedule_of((1024, 1024), 1, "F").layout == "kspec::ScanLines<8>"
        assert schedule_of((1024, 1024), 0, "F").layout == "kspec::ScanColumns<8>"

    @pytest.mark.parametrize(
        ("offsets", "wanted"),
        [((0, 0), 0), ((4, 4), 1), ((12, 28), 3), ((4, 8), -1), ((4, 0), -1), ((2, 2), -1)],
    )
    def test_packs(self, offsets: tuple[int, int], wanted: int) -> None:
        assert shift(schedule_of((5000,), 0, offsets=offsets)) == wanted
        assert shift(schedule_of((5, 1000), 1, offsets=offsets)) == wanted
        assert shift(schedule_of((5000,), 0, offsets=offsets, reverse=True)) == -1
        assert shift(schedule_of((5, 1000), 1, "F", offsets=offsets)) == -1

    def test_a_shift_may_need_another_tile(self) -> None:
        assert schedule_of((4096,), 0).blocks == 1
        assert schedule_of((4096,), 0, offsets=(4, 4)).blocks == 2
        assert schedule_of((4096,), 0, offsets=(4, 0)).blocks == 1

    def test_large_accumulators_have_smaller_tiles(self) -> None:
        found = [schedule_of((1 << 16,), 0, accumulator=size) for size in (4, 8, 12, 33, 97)]
        assert [one.threads for one in found] == [256, 256, 256, 256, 128]
        assert [one.blocks for one in found] == [16, 32, 52, 256, 512]

    def test_the_host_takes_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_HOST_THREADS", "4")

        def never() -> int:
            raise AssertionError("the host needs no carries")

        for rows, length, blocks in [
            (1, 1 << 20, 1),
            (3, 1 << 20, 3),
            (99, 1 << 20, 16),
            (99, 9, 1),
        ]:
            schedule = choose_scan(
                scanned(rows, length=length), [FLOAT, RESULT], never, on_host=True
            )
            assert (schedule.blocks, schedule.threads, schedule.scratch) == (blocks, 1, 0)


class TestSegments:
    @pytest.mark.parametrize(
        ("columns", "length", "layout", "blocks"),
        [
            (1, 100, "SegmentLines", 1),
            (1, 5000, "SegmentLines", 3),
            (1, 0, "SegmentLines", 1),
            (2, 100, "SegmentColumns", 2),
            (33, 1000, "SegmentColumns", 2 * 16),
            (70, 0, "SegmentColumns", 3),
        ],
    )
    def test_layouts(self, columns: int, length: int, layout: str, blocks: int) -> None:
        extents = (columns,) if columns > 1 else ()
        schedule = choose_segments(
            segmented(*extents, length=length), [FLOAT], lambda: 8, on_host=False
        )
        assert (schedule.layout, schedule.blocks) == (f"kspec::{layout}<8>", blocks)

    def test_the_host_takes_segments(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_HOST_THREADS", "4")
        bounds = ArrayView(4096, (100,), (8,), "int64", HOST)
        for length, count, blocks in [
            (9, 99, 1),
            (1 << 20, 99, 16),
            (1 << 20, 3, 3),
            (1 << 17, 99, 3),
        ]:
            view = ArrayView(bounds.ptr, (count + 1,), bounds.strides, bounds.dtype, HOST)
            given = Segmented(Axes((), ((), ())), length, (4, 4), view)
            schedule = choose_segments(given, [FLOAT], lambda: 0, on_host=True)
            assert (schedule.blocks, schedule.threads, schedule.scratch) == (blocks, 1, 0)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
@settings(max_examples=examples(60))
def test_packs_are_where_elements_are(shape: list[int], data: st.DataObject) -> None:
    """Element number n of a packed scan is number n in memory."""
    order = data.draw(st.permutations(range(len(shape))))
    view = np.arange(np.prod(shape), dtype="int32").reshape(shape).transpose(order)
    axis = data.draw(st.integers(0, view.ndim - 1))
    beside = [k for k in range(view.ndim) if k != axis]
    strides = broadcast_strides(view.shape, view.strides, view.shape)
    rows = collapse([view.shape[k] for k in beside], [tuple(strides[k] for k in beside)] * 2, False)
    given = Scanned(rows, view.shape[axis], (strides[axis],) * 2)
    schedule = choose_scan(given, [FLOAT, RESULT], lambda: 4, on_host=False)
    if schedule.layout == "kspec::ScanLines<8>" and shift(schedule) >= 0:
        rows_first = np.moveaxis(view, axis, -1).reshape(-1, view.shape[axis])
        order_of_rows = np.argsort(rows_first[:, 0])
        np.testing.assert_array_equal(rows_first[order_of_rows].ravel(), np.arange(view.size))
