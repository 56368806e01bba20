"""Schedules of scans and segments: tiles, carries, and agreement with the headers."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
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
from kspec.runtime.driver.device import HOST, Gpu
from kspec.runtime.driver.launch import NO_HOST_OPTIONS
from kspec.runtime.kernels.folding import launch_of
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import (
    Axes,
    broadcast_strides,
    collapse,
    marshal,
    reduction_schedule,
    rolling_schedule,
)
from kspec.runtime.schedules.elementwise_schedule import Member
from kspec.runtime.schedules.scan_schedule import (
    SIDE,
    TICKETS,
    LookBack,
    Scanned,
    ScanSchedule,
    ScanTile,
    choose_scan,
    column_tile,
    high_tile,
    walked_tile,
)
from kspec.runtime.schedules.segment_schedule import (
    BOUNDS,
    Parts,
    Segmented,
    SegmentTile,
    choose_segments,
)
from kspec.runtime.schedules.wave_schedule import Waves, WaveTile, choose_waves
from tests.profiles import examples

PROCESSORS, ROOM = 132, 232_448
GPU = Gpu(PROCESSORS, ROOM)
FLOAT, RESULT = Member(4, 4, 4096, False), Member(4, 4, 8192, True)


class TestLookBack:
    """The memory of ``kspec/carry.cuh``."""

    @pytest.mark.parametrize(
        ("accumulator", "lines", "columns"),
        [(1, 128, 28), (4, 128, 28), (8, 128, 28), (9, 64, 14), (16, 64, 14), (17, 32, 7)],
    )
    def test_groups(self, accumulator: int, lines: int, columns: int) -> None:
        for tiles, groups in [(1, 1), (lines, 1), (lines + 1, 2), (5 * lines, 5)]:
            look_back = LookBack(tiles, accumulator)
            assert (look_back.group, look_back.groups) == (lines, groups)
        side_by_side = LookBack(columns + 1, accumulator, 3, SIDE)
        assert (side_by_side.group, side_by_side.groups) == (columns, 2)

    def test_bytes(self) -> None:
        """A message of each tile, and one of what is before each group."""
        assert LookBack(1, 8, chains=9).nbytes == 0
        assert LookBack(2, 4).nbytes == 256 + 3 * 8
        assert LookBack(2, 1).nbytes == 256 + 3 * 8
        assert LookBack(2, 12).nbytes == 256 + 3 * 3 * 8
        assert LookBack(40, 8, chains=5, columns=32).nbytes == 256 + 5 * 32 * 42 * 2 * 8


class TestParts:
    """Stretches of ``kspec/segment_lines.cuh``, and the memory of ``kspec/segment_parts.cuh``."""

    def test_bytes(self) -> None:
        """A part of each stretch, and of each chunk of these."""
        assert Parts(1).nbytes == 0
        assert Parts(2, 8).nbytes == 256 + 3 * (2 * 16 + 16)
        assert Parts(33, 12).nbytes == 256 + 35 * (2 * 16 + 16)
        assert Parts(33, 13).nbytes == 256 + 35 * (2 * 32 + 16)
        assert Parts(32 * 32, 8).nbytes == 512 + (32 * 32 + 32) * (2 * 16 + 16)

    @pytest.mark.parametrize(
        ("tiles", "blocks"),
        [(1, 1), (395, 395), (396, 396), (3000, 396), (50_688, 396), (50_689, 2 * 396)],
    )
    def test_stretches(self, tiles: int, blocks: int) -> None:
        """As many for each resident block as for the others, of at most 128 tiles."""
        parts = Parts.of(tiles, 100, 0, 4, resident=396)
        assert (parts.tiles, parts.blocks, parts.chains, parts.groups) == (blocks, blocks, 1, 0)

    def test_the_end_of_a_segment_is_as_much_work_as_16_elements(self) -> None:
        assert Parts.of(3, 100, 0, 4, resident=3).work == 100
        assert Parts.of(3, 100, 30, 4, resident=3).work == 260
        assert Parts.of(3, 100, 1, 4, resident=3).work == 106  # 316 for 3 blocks: the last has less
        assert Parts.of(2048, 100, 2048, 4, resident=1024).work == 232


class TestResidentBlocks:
    """Of segments of one column, on an H200."""

    @pytest.mark.parametrize(
        ("tile", "gathers", "blocks", "carveout"),
        [
            (SegmentTile(4, 4, (4,)), False, 3, 98),
            (SegmentTile(4, 4, (4,)), True, 2, 66),
            (SegmentTile(4, 4, (4, 4)), False, 4, 87),
            (SegmentTile(4, 4, (4, 4)), True, 3, 66),
            (SegmentTile(4, 1, (4, 4)), True, 6, 34),
        ],
    )
    def test_what_is_gathered_has_a_third_of_the_memory(
        self, tile: SegmentTile, gathers: bool, blocks: int, carveout: int
    ) -> None:
        assert tile.blocks(GPU, gathers) == blocks
        assert GPU.carveout_of(blocks, tile.block) == carveout

    def test_one_block_is_always_there(self) -> None:
        assert Gpu(20, 48 * 1024).blocks_with(60_000) == 1
        assert Gpu(20, 48 * 1024).carveout_of(1, 60_000) == 100

    @pytest.mark.parametrize(("tiles", "carveout"), [(395, None), (396, 66), (500, 66)])
    def test_short_calls_leave_the_choice_to_the_driver(
        self, tiles: int, carveout: int | None
    ) -> None:
        bounds = ArrayView(1 << 20, (6,), (8,), "int64", HOST)
        axes = Segmented(Axes((), ((),) * 3), 2560 * tiles, (4,) * 3, bounds, gathers=True)
        schedule = choose_segments(axes, [FLOAT, FLOAT], lambda: 4, GPU)
        assert (schedule.blocks, schedule.carveout) == (min(tiles, 396), carveout)
        launch = launch_of(schedule, 0, NO_HOST_OPTIONS)
        assert (launch.shared_mem, launch.carveout) == (49_504, carveout)


PROLOGUE = '#include "kspec/elements.cuh"\n#include "kspec/reduce.cuh"\n'
SIZES = [*range(1, 130), 192, 255, 256, 512]


def compiled(text: str, name: str, *, before: str = "") -> Any:
    """Return a kernel of the host device; the headers come after the text `before`."""
    source = CudaSource(f"{name}.cu", f"{before}{PROLOGUE}{text}", (name,))
    image = compile_source(source, HOST_TARGET, ImageCache(cache_dir()))
    return load_module(image).get_kernel(image.symbols[name])


def test_tiles_are_those_of_the_headers() -> None:
    packs = (1, 2, 4, 8, 16)
    rows = "\n".join(f"  tiles<Bytes<{n}>, {pack}>(out);" for n in SIZES for pack in packs)
    text = (
        "template <int N> struct Bytes { char bytes[N]; };\n"
        'static_assert(kspec::ColumnTile<int>::SIDE == 32, "rows");\n'
        'static_assert(kspec::ColumnTile<int>::WARPS * 32 == 256, "threads");\n'
        "template <class Acc, int PACK> __device__ void tiles(int*& out) {\n"
        "  typedef kspec::ScanTile<Acc, PACK> Tile;\n"
        "  *out++ = Tile::THREADS, *out++ = Tile::SIZE;\n"
        "  *out++ = Tile::V, *out++ = kspec::ColumnTile<Acc>::SIZE;\n"
        "  *out++ = kspec::HighTile<Acc>::SIZE, *out++ = kspec::WalkedTile<Acc>::SIZE;\n"
        "  *out++ = kspec::LookBack<Acc, 32, 1>::GROUP, *out++ = kspec::LookBack<Acc, 7, 32>::GROUP;\n"
        "  struct alignas(16) Wide { Acc acc; };\n"
        "  *out++ = sizeof(kspec::SegmentPart<Acc>), *out++ = sizeof(kspec::SegmentPart<Wide>);\n"
        "}\n"
        f"__global__ void all_tiles(int* out) {{\n{rows}\n}}\n"
    )
    found = np.zeros((len(SIZES) * len(packs), 10), "int32")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    kernel = compiled(text, "all_tiles", before="#undef KSPEC_HOST\n")
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    wanted = []
    for n, pack in itertools.product(SIZES, packs):
        tile, groups = ScanTile.of(n, pack), (LookBack(1, n), LookBack(1, n, 1, SIDE))
        wanted.append([tile.threads, tile.size, tile.pack, column_tile(n)])
        wanted[-1] += [high_tile(n), walked_tile(n)]
        wanted[-1] += [one.group for one in groups]
    assert found[:, :8].tolist() == wanted
    parts = np.repeat([Parts(2, n).part for n in SIZES], len(packs))
    aligned = np.repeat([Parts(2, -(-n // 16) * 16).part for n in SIZES], len(packs))
    assert (found[:, 8] <= parts).all() and (found[:, 9] == aligned).all()


def test_segment_tiles_are_those_of_the_headers() -> None:
    sizes, inputs = [*range(1, 40), 96, 97, 192], [(1,), (4,), (8,), (4, 4), (8, 4), (2, 8, 8)]
    packs = (1, 2, 4, 8, 16)
    rows = "\n".join(
        f"  tile<Bytes<{n}>, {pack}, {sum(one)}, {one[0]}>(out);"
        for n, pack, one in itertools.product(sizes, packs, inputs)
    )
    text = (
        "template <int N> struct Bytes { char bytes[N]; };\n"
        "template <class Acc, int V, int BYTES, int FIRST> __device__ void tile(int*& out) {\n"
        "  typedef kspec::SegmentTile<Acc, V, BYTES, FIRST> Tile;\n"
        "  *out++ = Tile::THREADS, *out++ = Tile::SIZE;\n"
        "  *out++ = Tile::OF_ENDS + Tile::OF_MADE + Tile::SLOTS * Tile::SIZE * BYTES;\n"
        "}\n"
        f"__global__ void segment_tiles(int* out) {{\n{rows}\n}}\n"
    )
    found = np.zeros((len(sizes), len(packs), len(inputs), 3), "int32")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    kernel = compiled(text, "segment_tiles", before="#undef KSPEC_HOST\n")
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    for (i, n), (j, pack), (k, one) in itertools.product(
        enumerate(sizes), enumerate(packs), enumerate(inputs)
    ):
        tile = SegmentTile(n, pack, one)
        assert found[i, j, k].tolist() == [tile.threads, tile.size, tile.shared], tile


def test_rolling_tiles_are_those_of_the_headers() -> None:
    sizes = [*range(1, 40), 192]
    rows = "\n".join(f"  tile<Bytes<{n}>>(out);" for n in sizes)
    text = (
        "template <int N> struct Bytes { char bytes[N]; };\n"
        "template <class Acc> __device__ void tile(int*& out) {\n"
        "  typedef kspec::RollingTile<Acc> Tile;\n"
        "  *out++ = Tile::FITS ? Tile::SIZE : 0;\n"
        "}\n"
        f"__global__ void rolling_tiles(int* out) {{\n{rows}\n}}\n"
    )
    found = np.zeros(len(sizes), "int32")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    compiled(text, "rolling_tiles").launch((1, 1, 1), (1, 1, 1), block.address)
    assert found.tolist() == [rolling_schedule.most_elements(n) for n in sizes]


def test_tiles_fit_in_shared_memory() -> None:
    """A tile keeps its elements, but for runs, the carries of its warps, and a bit for each bound."""
    limit, largest = 48 * 1024, reduction_schedule.MAX_ACCUMULATOR
    for size, pack in itertools.product(range(1, largest + 1), (1, 2, 4, 8, 16)):
        tile, carry = ScanTile.of(size, pack), size + 16
        kept = tile.size * size if size <= 32 else 0
        assert kept + 9 * carry + tile.size // 8 <= limit
        single = SegmentTile(size, 1, (16,))
        assert single.shared + 8 * carry <= limit + 16 * 1024  # of the smallest devices
        slots = 9 if size <= 96 else 7
        assert slots * 32 * carry + 9 * column_tile(size) <= limit


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


def on_a_gpu(
    given: Scanned, members: Sequence[Member], accumulator: int, room: int = ROOM
) -> ScanSchedule:
    return choose_scan(given, members, lambda: accumulator, Gpu(PROCESSORS, room))


def scan_schedule(*extents: int, columns: bool = False, operands: int = 2) -> ScanSchedule:
    axes = scanned(*extents, operands=operands)
    if columns:
        strides = ((4, *axes.rows.strides[0][1:]),) * operands
        axes = Scanned(Axes(extents, strides), 100, (4 * extents[0],) * operands)
    return on_a_gpu(axes, [FLOAT] * operands, 8)


def segment_schedule(*extents: int, operands: int = 2) -> ScanSchedule:
    members = [FLOAT] * (operands - 1)
    return choose_segments(segmented(*extents, operands=operands), members, lambda: 8, GPU)


def wave_schedule(*extents: int) -> ScanSchedule:
    length = 10**8 if not extents else 10**8 // extents[0]
    strides = ((4 * length,),) * 2 if extents else ((), ())
    return on_a_gpu(Scanned(Axes(extents, strides), length, (4, 4)), [FLOAT, RESULT], 4)


PACKED = {
    "kspec::Reduction<kspec::ScanWaves<8>, 1, 1>": wave_schedule(1000),
    "kspec::Reduction<kspec::ScanLines<8>, 1, 1>": scan_schedule(3, 5),
    "kspec::Reduction<kspec::ScanLines<8>, 3, 2>": scan_schedule(operands=5),
    "kspec::Reduction<kspec::ScanLines<64>, 1, 1>": scan_schedule(*[2] * 9),
    "kspec::Reduction<kspec::ScanColumns<8>, 1, 1>": scan_schedule(64, columns=True),
    "kspec::Reduction<kspec::ScanWalks<8>, 1, 1>": scan_schedule(1 << 20, columns=True),
    "kspec::Reduction<kspec::ScanColumns<64>, 2, 1>": scan_schedule(
        8, *[2] * 8, columns=True, operands=3
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


LOOK_BACK = "p.chains, p.tiles, p.groups, (long long)p.carries, (long long)p.tickets"
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
        schedule = on_a_gpu(given, members, 8)
        tiles = -(-(60 * 40_000 + max(shift, 0)) // ScanTile.of(8, 4 if shift >= 0 else 1).size)
        look_back = LookBack(tiles, 8)
        address = 1 << 24
        assert schedule.scratch == look_back.nbytes
        wanted = [60, 40_000, exclusive, reverse, shift >= 0, max(shift, 0), 1, 7]
        wanted += [1, tiles, look_back.groups]
        wanted += [address + TICKETS, address, 4, 4, 1, 60, 160_000]
        packed = schedule.pack(address)
        ctype = "kspec::Reduction<kspec::ScanLines<8>, 1, 1>"
        assert read(ctype, fields, packed, "scans") == [int(one) for one in wanted]


def test_kernels_find_what_waves_packed() -> None:
    schedule = wave_schedule(1000)
    assert schedule.layout == "kspec::ScanWaves<8>"
    assert (schedule.blocks, schedule.threads, schedule.cooperative) == (PROCESSORS, 544, True)
    assert schedule.shared == 8 * 7168 * 4
    tiles = -(-(10**8) // 7168)
    ctype = "kspec::Reduction<kspec::ScanWaves<8>, 1, 1>"
    fields = "p.outputs, p.length, p.packed, p.shift, p.tiles, (long long)p.tickets"
    wanted = [1000, 10**5, 1, 0, tiles, 1 << 24]
    assert read(ctype, fields, schedule.pack(1 << 24), "waves") == wanted


CTYPES = {1: "signed char", 2: "short", 4: "float", 8: "double"}
OPERANDS = [
    ((4,), (4,)),
    ((4, 4), (4,)),
    ((2,), (4,)),
    ((8, 1), (2, 1)),
    ((1,), (1, 8)),
    ((2, 2, 2, 2), (2,)),
]


def members(inputs: Sequence[int], outputs: Sequence[int]) -> list[Member]:
    """Return operands of so many bytes."""
    return [
        *(Member(size, size, 4096, False) for size in inputs),
        *(Member(size, size, 8192, True) for size in outputs),
    ]


def test_tiles_of_waves_are_those_of_the_headers() -> None:
    lines = []
    for inputs, outputs in OPERANDS:
        types = [
            ", ".join(f"kspec::{way}<{CTYPES[size]}>" for size in sizes)
            for way, sizes in (("In", inputs), ("Out", outputs))
        ]
        lines.append(
            f"  one<kspec::Sizes<{types[0]}>, kspec::Sizes<{types[1]}>, {', '.join(types)}>(out);"
        )
    text = (
        "template <class In, class Out, class... Args> __device__ void one(int*& out) {\n"
        "  typedef kspec::WaveTile<kspec::PackSize<Args...>::value, In, Out> Tile;\n"
        "  *out++ = Tile::SIZE, *out++ = Tile::BYTES, *out++ = kspec::WAVE_TEAMS * Tile::THREADS + 32;\n"
        "  *out++ = Tile::STAGES;\n}\n" + "__global__ void wave_tiles(int* out) {\n"
    )
    found = np.zeros((len(OPERANDS), 4), "int32")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    body = "\n".join(lines)
    kernel = compiled(f"{text}{body}\n}}\n", "wave_tiles", before="#undef KSPEC_HOST\n")
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    tiles = [WaveTile.of(members(*one)) for one in OPERANDS]
    assert found.tolist() == [[one.size, one.nbytes, one.threads, 8] for one in tiles]


class TestWaves:
    def test_a_tile_holds_what_is_read_and_written(self) -> None:
        assert WaveTile.of(members((4,), (4,))) == WaveTile(4, 4)
        assert WaveTile.of(members((4, 2), (2, 2))) == WaveTile(4, 8)
        assert WaveTile.of(members((8,), (1,))) == WaveTile(2, 9)

    def test_blocks_stay_if_scans_are_long(self) -> None:
        least = 8 * PROCESSORS * 7168
        floats = members((4,), (4,))
        assert choose_waves(least - 1, 4, floats, GPU) is None
        assert choose_waves(least, 4, floats, GPU) == Waves(WaveTile(4, 4), PROCESSORS)

    @pytest.mark.parametrize(
        ("sizes", "accumulator", "room"),
        [
            ((4, 4), 17, ROOM),  # accumulators that are too wide
            ((1, 1), 16, ROOM),  # or a pack of them
            ((3, 3), 4, ROOM),  # elements that have no packs
            ((4, 4), 4, 100_000),  # too little shared memory
        ],
    )
    def test_what_has_no_waves(self, sizes: tuple[int, int], accumulator: int, room: int) -> None:
        operands = members(sizes[:1], sizes[1:])
        assert choose_waves(2**40, accumulator, operands, Gpu(PROCESSORS, room)) is None

    def test_shared_memory_suffices(self) -> None:
        """Beside the tiles there are the carries of warps, and the arrivals of copies."""
        for (inputs, outputs), accumulator in itertools.product(OPERANDS, (4, 8)):
            waves = choose_waves(2**40, accumulator, members(inputs, outputs), GPU)
            assert waves is not None
            carries = 2 * 9 * (2 * accumulator) + 8 * 8 * 8
            heard = 4 * (160 + 5) * accumulator // 4 + 4
            assert waves.tile.shared + carries + heard + 16 <= ROOM


def test_kernels_find_what_segments_packed() -> None:
    fields = (
        "p.outputs, p.length, p.segments, (long long)p.bounds.data, p.bounds.stride, "
        f"p.bounds.bytes, p.bounds.is_signed, p.packed, p.shift, {LOOK_BACK}, {AXES}"
    )
    for dtype, size, sign in [("uint32", 4, 0), ("int8", 1, 1), ("int64", 8, 1)]:
        bounds = ArrayView(1 << 20, (6,), (-8,), dtype, HOST)
        axes = Axes((70,), ((4,), (4,)))
        given = Segmented(axes, 1000, (280, 280), bounds)
        schedule = choose_segments(given, [FLOAT], lambda: 8, GPU)
        look_back = LookBack(-(-1000 // column_tile(8)), 8, 3, 32)
        wanted = [70, 1000, 5, 1 << 20, -8, size, sign, 0, 0]
        wanted += [3, look_back.tiles, look_back.groups]
        wanted += [(1 << 24) + TICKETS, 1 << 24, 280, 280, 1, 70, 4]
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
    return on_a_gpu(given, members, accumulator)


def shift(schedule: ScanSchedule) -> int:
    packed, shifted = struct.unpack_from("2i", schedule.head, 24)
    return shifted if packed else -1


class TestScans:
    @pytest.mark.parametrize(
        ("shape", "axis", "layout", "blocks"),
        [
            ((1 << 20,), 0, "ScanLines", 171),
            ((1024, 1024), 1, "ScanLines", 171),
            ((1024, 1024), 0, "ScanColumns", 32 * 2),
            ((1000, 7), 0, "ScanLines", 4),
            ((1000, 8), 0, "ScanColumns", 2),
            ((50, 1000, 33), 1, "ScanColumns", 52 * 2),
            ((50, 1000, 33), 0, "ScanWalks", 1032),
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
        assert schedule_of((6144,), 0).blocks == 1
        assert schedule_of((6144,), 0, offsets=(4, 4)).blocks == 2
        assert schedule_of((6144,), 0, offsets=(4, 0)).blocks == 3

    def test_tiles_of_accumulators(self) -> None:
        found = [schedule_of((1 << 16,), 0, accumulator=size) for size in (4, 8, 12, 33, 97)]
        assert [one.threads for one in found] == [256, 256, 256, 256, 128]
        assert [one.blocks for one in found] == [11, 22, 32, 16, 32]

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
            schedule = choose_scan(scanned(rows, length=length), [FLOAT, RESULT], never, None)
            assert (schedule.blocks, schedule.threads, schedule.scratch) == (blocks, 1, 0)


class TestSegments:
    @pytest.mark.parametrize(
        ("columns", "length", "layout", "blocks"),
        [
            (1, 100, "SegmentLines", 1),
            (1, 5000, "SegmentLines", 2),
            (1, 0, "SegmentLines", 1),
            (2, 100, "SegmentColumns", 2),
            (33, 1000, "SegmentColumns", 2 * 16),
            (70, 0, "SegmentColumns", 3),
        ],
    )
    def test_layouts(self, columns: int, length: int, layout: str, blocks: int) -> None:
        extents = (columns,) if columns > 1 else ()
        schedule = choose_segments(segmented(*extents, length=length), [FLOAT], lambda: 8, GPU)
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
            schedule = choose_segments(given, [FLOAT], lambda: 0, None)
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
    schedule = on_a_gpu(given, [FLOAT, RESULT], 4)
    if schedule.layout == "kspec::ScanLines<8>" and shift(schedule) >= 0:
        rows_first = np.moveaxis(view, axis, -1).reshape(-1, view.shape[axis])
        order_of_rows = np.argsort(rows_first[:, 0])
        np.testing.assert_array_equal(rows_first[order_of_rows].ravel(), np.arange(view.size))
