"""The GPU's code for scans and segments, run on the CPU: tiles, chains of tiles, and their edges.

The headers take the branch for CUDA where ``KSPEC_HOST`` is not defined, and the schedule is a
GPU's. Blocks of 128 or 256 threads then run on the host device.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime.driver.device import Gpu
from kspec.runtime.memory.workspace import KeptScratch
from kspec.runtime.schedules import scan_schedule, segment_schedule, wave_schedule
from kspec.runtime.schedules.scan_schedule import (
    ScanSchedule,
    ScanTile,
    column_tile,
    high_tile,
    walked_tile,
)
from kspec.runtime.schedules.segment_schedule import Parts, SegmentTile
from tests.forms.kernels import (
    CSR,
    LARGE_SUM,
    LARGE_WEIGHTED,
    MODELS,
    NO_IDENTITY,
    OF_SEGMENT,
    PLUS_TEN,
    SCALED,
    SIZES,
    SUM,
    WEIGHTED,
)
from tests.forms.reference import BOUNDS, bounds, integers, numbers, scanned_sum, sums
from tests.forms.test_scan import WAYS, ways

# Those that differ in their accumulators' bytes, or in what they read of the loop.
TILED = ("mean", "two", "matrices", "argmax", "permutations", "hash", "wide")
# The same for kernels of columns, whose tiles depend on the accumulator alone.
COLUMNS_TILED = ("two", "matrices", "argmax", "permutations", "wide")
SMALL_AND_LARGE = ("bool", "int8", "bfloat16", "complex128")
# Of the GPU: multiprocessors, and bytes of shared memory of a block.
PROCESSORS, ROOM = 3, 232_448
LINES = {"scan": "kspec::ScanLines<8>", "segments": "kspec::SegmentLines<8>"}
COLUMNS = {"scan": "kspec::ScanColumns<8>", "segments": "kspec::SegmentColumns<8>"}
WALKS = "kspec::ScanWalks<8>"


@pytest.fixture(autouse=True)
def schedules(gpu_code: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[ScanSchedule]]:
    """Compile and schedule as for a GPU, for kernels that are made in the test.

    Yields the schedules. One thread of the operating system runs all blocks, unless the test says
    otherwise: tiles that wait for others do so in a loop. So no blocks stay that wait for all.
    """
    made: list[ScanSchedule] = []

    def on_a_gpu(choose: Callable[..., ScanSchedule]) -> Callable[..., ScanSchedule]:
        def chosen(*args: Any) -> ScanSchedule:
            *given, host = args
            assert host is None
            made.append(choose(*given, Gpu(PROCESSORS, ROOM)))
            return made[-1]

        return chosen

    monkeypatch.setenv("KSPEC_HOST_THREADS", "1")
    for module, name in (scan_schedule, "choose_scan"), (segment_schedule, "choose_segments"):
        monkeypatch.setattr(module, name, on_a_gpu(getattr(module, name)))
    monkeypatch.setattr(wave_schedule, "_FEWEST_WAVES", float("inf"))
    yield made
    assert made


@pytest.fixture(params=["1", "2"])
def threads(
    schedules: list[ScanSchedule], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run blocks in one, or two threads of the operating system."""
    monkeypatch.setenv("KSPEC_HOST_THREADS", request.param)


def anew(kernel: kspec.ReductionKernel) -> kspec.ReductionKernel:
    """Return a kernel of the same spec that has not been compiled yet."""
    return kspec.ReductionKernel.from_spec(kernel.spec)


def size_of(name: str) -> int:
    """Return the bytes of a model's accumulator."""
    declared = MODELS[name].kernel.declaration
    plain = {"mean": 8, "two": 4}
    return plain.get(name) or SIZES[declared.accumulator]


def shift_of(schedule: ScanSchedule) -> int:
    """Return how far packs of a plan are shifted; -1 if it has none."""
    packed, shift = struct.unpack_from("2i", schedule.head, 24 if "Scan" in schedule.layout else 48)
    return int(shift) if packed else -1


def parts_of(schedule: ScanSchedule, accumulator: int, segments: int, *inputs: Any) -> Parts:
    """Return how segments of one column are divided."""
    shift = shift_of(schedule)
    pack = 16 // max(one.itemsize for one in inputs) if shift >= 0 else 1
    tile = SegmentTile(accumulator, pack, tuple(one.itemsize for one in inputs))
    tiles = max(1, -(-(len(inputs[0]) + max(shift, 0)) // tile.size))
    resident = PROCESSORS * tile.blocks(Gpu(PROCESSORS, ROOM), gathers=False)
    return Parts.of(tiles, tile.size, segments, accumulator, resident)


def tiles_of(schedule: ScanSchedule, accumulator: int, *packed: Any) -> int:
    """Return the tiles of lines, given the arrays of which packs are taken if there are any."""
    shift = shift_of(schedule)
    pack = 16 // max(one.itemsize for one in packed) if shift >= 0 else 1
    return max(1, -(-(packed[0].size + max(shift, 0)) // ScanTile.of(accumulator, pack).size))


def allow_stretches(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Divide segments of one column in so many stretches, if there are tiles for them."""
    parts_of = Parts.of
    monkeypatch.setattr(Parts, "of", lambda *given: parts_of(*given[:-1], resident=most))


# Elements' accumulators are kept in registers, or elements are mapped twice.
sums_of_scans = pytest.mark.parametrize("plus", [SUM, LARGE_SUM], ids=["kept", "runs"])


class TestScanLines:
    @ways
    @pytest.mark.parametrize("name", TILED)
    def test_every_kernel(
        self, name: str, way: dict[str, bool], schedules: list[ScanSchedule]
    ) -> None:
        model, tile = MODELS[name], ScanTile.of(size_of(name)).size
        kernel = anew(model.kernel)
        for shape in [(1,), (tile - 1,), (2 * tile + 1,), (5, tile // 2 - 3), (2, tile)]:
            inputs = model.draw(*shape)
            wanted = model.scan(inputs, **way)
            found = kernel.scan(*inputs, **way)
            model.check(found, wanted, str(shape))
            assert schedules[-1].layout == LINES["scan"]
            arrays = *inputs, *(found if isinstance(found, tuple) else (found,))
            assert schedules[-1].division.tiles == tiles_of(schedules[-1], size_of(name), *arrays)

    @pytest.mark.parametrize("way", WAYS[:2], ids=["plain", "exclusive"])
    def test_more_tiles_than_a_group(
        self, way: dict[str, bool], threads: None, schedules: list[ScanSchedule]
    ) -> None:
        model = MODELS["matrices"]
        kernel = anew(model.kernel)
        for count, rows in ((33, 1), (70, 1), (65, 3)):
            inputs = model.draw(rows, (count * ScanTile.of(32).size - 5) // rows)
            found = kernel.scan(*inputs, **way)
            model.check(found, model.scan(inputs, **way))
            tiles = tiles_of(schedules[-1], 32, *inputs, *found)
            assert schedules[-1].division.tiles == tiles >= count

    def test_more_groups_than_a_group(self, schedules: list[ScanSchedule]) -> None:
        model, tile = MODELS["wide"], ScanTile.of(192).size
        kernel = anew(model.kernel)
        (x,) = model.draw(3, (40 * 32 * tile + 2 * tile + 7) // 3)
        model.check(kernel.scan(x, exclusive=True), model.scan((x,), exclusive=True))
        assert schedules[-1].division.groups == 41

    @pytest.mark.parametrize("dtype", SMALL_AND_LARGE)
    def test_every_dtype(self, dtype: str) -> None:
        x = numbers(dtype, 9001)
        kernel = anew(SUM)
        for way in WAYS:
            np.testing.assert_array_equal(kernel.scan(x, **way), scanned_sum(x, **way))

    @sums_of_scans
    def test_shifted_packs(
        self, schedules: list[ScanSchedule], plus: kspec.ReductionKernel
    ) -> None:
        """Operands whose first elements are equally far from aligned addresses."""
        for dtype, width in (("float32", 4), ("int16", 8), ("uint8", 16), ("float64", 2)):
            kernel, shifts = anew(plus), set()
            for start, size in itertools.product(range(6), (1, 3, 5000)):
                x, wanted = (integers(6000, dtype=dtype) for _ in range(2))
                part = slice(start, start + size)
                wanted[part] = scanned_sum(wanted[part])
                kernel.scan(x[part], out=x[part])
                shifts.add(shift_of(schedules[-1]))
                np.testing.assert_array_equal(x, wanted)
            assert -1 not in shifts and len(shifts) == min(width, 6)

    @sums_of_scans
    def test_packs_that_are_not_abreast(
        self, schedules: list[ScanSchedule], plus: kspec.ReductionKernel
    ) -> None:
        kernel, x = anew(plus), integers(5001, dtype="float32")
        np.testing.assert_array_equal(kernel.scan(x[1:]), np.cumsum(x[1:]))
        assert shift_of(schedules[-1]) == -1
        np.testing.assert_array_equal(kernel.scan(x[4:]), np.cumsum(x[4:]))
        assert shift_of(schedules[-1]) == 0

    @sums_of_scans
    def test_strides(self, plus: kspec.ReductionKernel) -> None:
        kernel = anew(plus)
        for x in (integers(5000), integers(6, 1500), integers(3, 5, 700)):
            for view in (x[::-1], x[..., ::-1], x[::2], x[..., ::3], x[..., 1:], x[..., :1]):
                for axis, way in itertools.product({0, view.ndim - 1}, (WAYS[0], WAYS[3])):
                    np.testing.assert_array_equal(
                        kernel.scan(view, axis=axis, **way), scanned_sum(view, axis=axis, **way)
                    )

    @pytest.mark.parametrize("weighted", [WEIGHTED, LARGE_WEIGHTED], ids=["kept", "runs"])
    def test_broadcast_inputs_and_numbers(
        self, schedules: list[ScanSchedule], weighted: kspec.ReductionKernel
    ) -> None:
        kernel = anew(weighted)
        x, row = integers(5, 1000, dtype="float32"), integers(1000, dtype="float32", seed=1)
        for w in (row, row[:5, None], row[:1], row[:1, None], np.float32(3), 3):
            np.testing.assert_array_equal(kernel.scan(x, w), np.cumsum(x * w, 1))
        assert shift_of(schedules[-1]) == 0
        column = row[:5, None]
        np.testing.assert_array_equal(kernel.scan(column, row), np.cumsum(column * row, 1))

    @sums_of_scans
    def test_in_place(self, plus: kspec.ReductionKernel) -> None:
        kernel = anew(plus)
        for way in WAYS:
            for shape in [(9000,), (3, 5000), (2000, 3)]:
                x = integers(*shape)
                wanted = scanned_sum(x, **way)
                np.testing.assert_array_equal(kernel.scan(x, out=x, **way), wanted)

    def test_the_identity(self) -> None:
        x = integers(9000)
        plus_ten, greatest = anew(PLUS_TEN), anew(NO_IDENTITY)
        np.testing.assert_array_equal(plus_ten.scan(x), np.cumsum(x) + 10)
        np.testing.assert_array_equal(plus_ten.scan(x, exclusive=True), np.cumsum(x) - x + 10)
        np.testing.assert_array_equal(greatest.scan(x), np.maximum.accumulate(x))

    def test_many_axes(self, schedules: list[ScanSchedule]) -> None:
        x = integers(*[2] * 14).transpose(*range(0, 14, 2), *range(1, 14, 2))[..., :1, :]
        kernel = anew(SUM)
        np.testing.assert_array_equal(kernel.scan(x, axis=-1), np.cumsum(x, -1))
        assert schedules[-1].layout == "kspec::ScanLines<64>"

    def test_rows_that_begin_with_tiles(self) -> None:
        kernel, tile = anew(SUM), ScanTile.of(8).size
        for length in (tile // 4, tile // 4 + 1, tile // 4 - 1):
            x = integers(13, length)
            np.testing.assert_array_equal(kernel.scan(x), np.cumsum(x, 1))
            found = kernel.scan(x, exclusive=True)
            np.testing.assert_array_equal(found, np.cumsum(x, 1) - x)

    def test_wide_indices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Rows are found by 64-bit division if there are too many elements for 32 bits."""
        monkeypatch.setattr(scan_schedule, "_NARROW_LIMIT", 0)
        kernel, x = anew(SUM), integers(7, 900)
        for way in WAYS:
            np.testing.assert_array_equal(kernel.scan(x, **way), scanned_sum(x, **way))

    def test_numbers_in_the_post_map(self) -> None:
        x, kernel = integers(9000), anew(SCALED)
        np.testing.assert_array_equal(kernel.scan(x, 3), 3 * np.cumsum(x))


class TestScanWaves:
    """Blocks that stay run in as many threads of the operating system, for they wait for each other."""

    @pytest.fixture(autouse=True)
    def waves(
        self, schedules: list[ScanSchedule], monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[None]:
        monkeypatch.setattr(wave_schedule, "_FEWEST_WAVES", 2 / PROCESSORS)
        monkeypatch.setattr(ScanSchedule, "cooperative", False)
        monkeypatch.setenv("KSPEC_HOST_THREADS", str(PROCESSORS))
        yield
        assert schedules[-1].layout == "kspec::ScanWaves<8>"

    @ways
    @pytest.mark.parametrize("name", ["sum", "mean", "two", "argmax", "first_order", "hash"])
    def test_every_kernel(
        self, name: str, way: dict[str, bool], schedules: list[ScanSchedule]
    ) -> None:
        model, kernel = MODELS[name], anew(MODELS[name].kernel)
        for shape in [(14_336,), (50_001,), (41, 1000), (3, 20_011), (5000, 9), (30_000, 1)]:
            inputs = model.draw(*shape)
            model.check(kernel.scan(*inputs, **way), model.scan(inputs, **way), str(shape))
            assert schedules[-1].waves is not None

    def test_many_waves(self, schedules: list[ScanSchedule]) -> None:
        """Slots are used again and again, and the last wave is not full."""
        kernel, x = anew(SUM), integers(80 * 7168 + 5, dtype="float32")
        for way in WAYS:
            np.testing.assert_array_equal(kernel.scan(x, **way), scanned_sum(x, **way))
        assert schedules[-1].division.tiles == 81

    def test_more_launches_than_one_with_the_same_memory(
        self, schedules: list[ScanSchedule]
    ) -> None:
        kernel, out = anew(SUM), np.empty(30_001, "float32")
        for seed in range(5):
            x = integers(30_001, dtype="float32", seed=seed)
            kernel.scan(x, out=out)
            np.testing.assert_array_equal(out, np.cumsum(x))

    @pytest.mark.parametrize("dtype", SMALL_AND_LARGE[:-1])
    def test_every_dtype(self, dtype: str, schedules: list[ScanSchedule]) -> None:
        x = numbers(dtype, 130_001)
        kernel = anew(SUM)
        for way in WAYS:
            np.testing.assert_array_equal(kernel.scan(x, **way), scanned_sum(x, **way))

    def test_shifted_packs(self, schedules: list[ScanSchedule]) -> None:
        for dtype, width in (("float32", 4), ("int16", 8), ("float64", 2)):
            kernel, shifts = anew(SUM), set()
            for start, (size, way) in enumerate(itertools.product((40_000, 40_003), WAYS)):
                x, wanted = (integers(41_000, dtype=dtype) for _ in range(2))
                part = slice(start, start + size)
                wanted[part] = scanned_sum(wanted[part], **way)
                kernel.scan(x[part], out=x[part], **way)
                shifts.add(shift_of(schedules[-1]))
                np.testing.assert_array_equal(x, wanted)
            assert shifts == set(range(width))

    def test_numbers_and_single_elements(self, schedules: list[ScanSchedule]) -> None:
        kernel = anew(WEIGHTED)
        x = integers(3, 20_000, dtype="float32")
        for w in (np.float32(3), 3, x[:1, :1]):
            np.testing.assert_array_equal(kernel.scan(x, w), np.cumsum(x * w, 1))
            wanted = np.cumsum((x * w)[:, ::-1], 1)[:, ::-1]
            np.testing.assert_array_equal(kernel.scan(x, w, reverse=True), wanted)

    def test_the_identity(self, schedules: list[ScanSchedule]) -> None:
        x = integers(3, 20_001)
        plus_ten, greatest = anew(PLUS_TEN), anew(NO_IDENTITY)
        np.testing.assert_array_equal(plus_ten.scan(x), np.cumsum(x, 1) + 10)
        found = plus_ten.scan(x, exclusive=True)
        np.testing.assert_array_equal(found, np.cumsum(x, 1) - x + 10)
        np.testing.assert_array_equal(greatest.scan(x), np.maximum.accumulate(x, 1))

    def test_the_number_of_the_row(self, schedules: list[ScanSchedule]) -> None:
        x, w = integers(300, 145), integers(300, seed=1)
        kernel = anew(OF_SEGMENT)
        for way in WAYS[:1] + WAYS[2:3]:
            wanted = scanned_sum(x * w[:, None], **way)
            np.testing.assert_array_equal(kernel.scan(x, w, **way), wanted)

    def test_wide_indices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(scan_schedule, "_NARROW_LIMIT", 0)
        kernel, x = anew(SUM), integers(70, 900)
        for way in WAYS:
            np.testing.assert_array_equal(kernel.scan(x, **way), scanned_sum(x, **way))


class TestScanColumns:
    @pytest.fixture(autouse=True, params=[10**6, 0], ids=["divided", "walking"])
    def walks(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Let other blocks, or the same, go on with the next tiles."""
        monkeypatch.setattr(scan_schedule, "_WALKING_BLOCKS", request.param)
        return not request.param

    @ways
    @pytest.mark.parametrize("name", COLUMNS_TILED)
    def test_every_kernel(
        self, name: str, way: dict[str, bool], walks: bool, schedules: list[ScanSchedule]
    ) -> None:
        model, size = MODELS[name], size_of(name)
        walks = walks and size <= 96
        tile = walked_tile(size) if walks else high_tile(size)
        kernel = anew(model.kernel)
        for length, rows in [
            (1, 9),
            (tile - 1, 31),
            (tile, 32),
            (2 * tile + 3, 33),
            (tile + 1, 70),
        ]:
            inputs = model.draw(length, rows)
            wanted = model.scan(inputs, 0, **way)
            model.check(kernel.scan(*inputs, axis=0, **way), wanted, f"{length} by {rows}")
            assert schedules[-1].layout == (WALKS if walks else COLUMNS["scan"])
            assert schedules[-1].division.tiles == -(-length // tile)
            assert schedules[-1].division.chains == -(-rows // 32)

    def test_more_tiles_than_a_group(
        self, threads: None, walks: bool, schedules: list[ScanSchedule]
    ) -> None:
        model, tile = MODELS["matrices"], walked_tile(32) if walks else high_tile(32)
        kernel = anew(model.kernel)
        for count, rows in ((33, 40), (70, 9)):
            inputs = model.draw(count * tile - 5, rows)
            model.check(kernel.scan(*inputs, axis=0), model.scan(inputs, 0))
            assert schedules[-1].division.tiles == count

    def test_more_groups_than_a_group(self, schedules: list[ScanSchedule]) -> None:
        model, tile = MODELS["wide"], high_tile(192)
        kernel = anew(model.kernel)
        (x,) = model.draw(40 * 7 * tile + tile + 7, 8)
        for way in (WAYS[0], WAYS[3]):
            model.check(kernel.scan(x, axis=0, **way), model.scan((x,), 0, **way))
        assert schedules[-1].division.groups == 41

    def test_strides(self, walks: bool, schedules: list[ScanSchedule]) -> None:
        kernel = anew(SUM)
        x = integers(3, 300, 40)
        for view in (x, x[:, ::-1], x[..., ::-1], x[:, ::2, ::2], x[::2, 1:, 1:], x[0]):
            axis = view.ndim - 2
            for way in (WAYS[0], WAYS[3]):
                np.testing.assert_array_equal(
                    kernel.scan(view, axis=axis, **way), scanned_sum(view, axis=axis, **way)
                )
                assert schedules[-1].layout == (WALKS if walks else COLUMNS["scan"])

    def test_in_place(self) -> None:
        kernel = anew(SUM)
        for way in WAYS:
            x = integers(300, 45)
            wanted = scanned_sum(x, axis=0, **way)
            np.testing.assert_array_equal(kernel.scan(x, out=x, axis=0, **way), wanted)

    def test_broadcast_inputs(self) -> None:
        kernel = anew(WEIGHTED)
        x, w = integers(300, 45), integers(300, 1, seed=1)
        for inputs in ((x, w), (x, 3), (w, x[:1]), (x, x[7])):
            wanted = np.cumsum(np.multiply(*inputs), 0)
            np.testing.assert_array_equal(kernel.scan(*inputs, axis=0), wanted)

    def test_the_identity(self) -> None:
        x = integers(300, 45)
        plus_ten, greatest = anew(PLUS_TEN), anew(NO_IDENTITY)
        np.testing.assert_array_equal(plus_ten.scan(x, axis=0), np.cumsum(x, 0) + 10)
        found = plus_ten.scan(x, axis=0, exclusive=True)
        np.testing.assert_array_equal(found, np.cumsum(x, 0) - x + 10)
        np.testing.assert_array_equal(greatest.scan(x, axis=0), np.maximum.accumulate(x, 0))

    def test_the_number_of_the_row(self) -> None:
        x, w = integers(300, 45), integers(45, seed=1)
        found = anew(OF_SEGMENT).scan(x, w, axis=0)
        np.testing.assert_array_equal(found, np.cumsum(x * w, 0))


class TestSegmentLines:
    @pytest.mark.parametrize("name", TILED)
    def test_every_kernel(self, name: str, schedules: list[ScanSchedule]) -> None:
        model, tile = MODELS[name], SegmentTile(size_of(name), 1, ()).size
        kernel = anew(model.kernel)
        for length, kind in itertools.product((1, tile - 1, 2 * tile + 5), BOUNDS):
            inputs, indptr = model.draw(length), bounds(length, kind)
            wanted = model.segments(inputs, indptr)
            model.check(kernel.segments(*inputs, indptr), wanted, f"{length} {kind}")
            if len(indptr) == 1:
                continue  # nothing is launched
            assert schedules[-1].layout == LINES["segments"]
            divided = parts_of(schedules[-1], size_of(name), len(indptr) - 1, *inputs)
            assert schedules[-1].division == divided

    @pytest.mark.parametrize("stretches", [1, 8, 1024])
    def test_many_tiles(
        self,
        stretches: int,
        threads: None,
        schedules: list[ScanSchedule],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        allow_stretches(monkeypatch, stretches)
        model = MODELS["matrices"]
        kernel = anew(model.kernel)
        for count, kind in ((33, "mixed"), (70, "long"), (65, "one"), (34, "inside")):
            inputs = model.draw(count * SegmentTile(32, 1, ()).size - 5)
            indptr = bounds(len(inputs[0]), kind)
            model.check(kernel.segments(*inputs, indptr), model.segments(inputs, indptr))
            division = schedules[-1].division
            assert division == parts_of(schedules[-1], 32, len(indptr) - 1, *inputs)
            assert division.tiles == min(stretches, count)

    @pytest.mark.parametrize("stretches", [1, 2, 5, 1024])
    def test_uneven_segments(
        self, stretches: int, schedules: list[ScanSchedule], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Stretches are shorter where there are many segments, and some have no tile at all."""
        allow_stretches(monkeypatch, stretches)
        kernel, x = anew(SUM), integers(9 * 7168 + 100, dtype="int32")
        half = len(x) // 2
        single = np.arange(half, len(x) + 1)
        empty = np.full(70_000, 3 * 7168)
        for indptr in (
            np.append(0, single),
            np.append(single - half, len(x)),
            np.sort(np.concatenate([[0], single, empty])),
            np.sort(np.concatenate([single - half, empty, [len(x)]])),
        ):
            wanted = np.append(0, np.cumsum(x))[indptr]
            np.testing.assert_array_equal(kernel.segments(x, indptr), np.diff(wanted))
            assert schedules[-1].division.tiles == min(stretches, 10)

    @pytest.mark.parametrize("kind", ["long", "mixed"])
    def test_many_chunks(
        self, kind: str, schedules: list[ScanSchedule], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        allow_stretches(monkeypatch, 1283)
        model, tile = MODELS["wide"], SegmentTile(192, 1, ()).size
        (x,) = model.draw(5 * 256 * tile + 2 * tile + 7)
        indptr = bounds(len(x), kind)
        kernel, wanted = anew(model.kernel), model.segments((x,), indptr)
        for _ in range(1 + (kind == "mixed")):  # the next one finds what the one before has left
            model.check(kernel.segments(x, indptr), wanted)
        assert (schedules[-1].division.chunks, schedules[-1].blocks) == (41, 1283)

    @pytest.mark.parametrize("dtype", SMALL_AND_LARGE)
    def test_every_dtype(self, dtype: str) -> None:
        x, kernel = numbers(dtype, 9001), anew(SUM)
        for kind in BOUNDS:
            indptr = bounds(9001, kind)
            np.testing.assert_array_equal(kernel.segments(x, indptr), sums(x, indptr.tolist()))

    def test_segments_that_begin_with_tiles(self) -> None:
        kernel, tile = anew(SUM), SegmentTile(8, 2, (8,)).size
        x = integers(4 * tile + 3)
        at = np.arange(1, 5) * tile
        for near in ([0], [0, 0, 0], [-1], [1], [-1, 0, 1], [-1, -1, 0, 0, 1, 1]):
            indptr = np.sort(np.add.outer(near, at), None)
            for ends in ([], [0, len(x)], [len(x)]):
                wanted = np.concatenate([ends[:-1], indptr[indptr <= len(x)], ends[-1:]])
                wanted = wanted.astype("int64")
                found = kernel.segments(x, wanted)
                np.testing.assert_array_equal(found, sums(x, wanted.tolist()))

    def test_more_ends_than_are_near(self) -> None:
        """A tile of single bytes has more of them than a block keeps."""
        kernel, x = anew(SUM), integers(50_000, dtype="uint8")
        drawn = np.random.default_rng(0)
        for times, size in ((1, 50_000), (3, 20_000), (5000, 40)):
            indptr = np.repeat(np.sort(drawn.choice(50_001, size, replace=False)), times)
            wanted = sums(x, indptr.tolist()).astype("uint8")
            np.testing.assert_array_equal(kernel.segments(x, indptr), wanted)

    def test_bounds_of_every_dtype(self) -> None:
        x, kernel = integers(120), anew(SUM)
        for size, sign in itertools.product((1, 2, 4, 8), "iu"):
            indptr = bounds(120, "mixed").astype(f"{sign}{size}")
            np.testing.assert_array_equal(kernel.segments(x, indptr), sums(x, indptr.tolist()))

    def test_shifted_packs(self, schedules: list[ScanSchedule]) -> None:
        kernel, drawn = anew(CSR), np.random.default_rng(0)
        value, column = drawn.integers(0, 9, 9000).astype("float64"), drawn.integers(0, 30, 9000)
        column, x = column.astype("int32"), drawn.integers(0, 9, 30).astype("float64")
        shifts = set()
        for start, size in itertools.product(range(5), (1, 3, 8000)):
            values, columns = (one[start : start + size] for one in (value, column))
            for kind in ("short", "mixed", "inside"):
                indptr = bounds(size, kind)
                wanted = sums(values * x[columns], indptr.tolist())
                np.testing.assert_array_equal(kernel.segments(values, columns, x, indptr), wanted)
                shifts.add(shift_of(schedules[-1]))
        assert shifts == {0, 1}

    def test_shifted_packs_of_bytes(self, schedules: list[ScanSchedule]) -> None:
        """Packs of nearly as many elements as a thread has."""
        kernel, shifts = anew(SUM), set()
        for start, size in itertools.product((0, 1, 7, 15), (1, 9, 1290, 9000)):
            x = integers(10_000, dtype="uint8")[start : start + size]
            indptr = bounds(size, "mixed")
            wanted = sums(x, indptr.tolist()).astype("uint8")
            np.testing.assert_array_equal(kernel.segments(x, indptr), wanted)
            shifts.add(shift_of(schedules[-1]))
        assert shifts == {0, 1, 7, 15}

    def test_strides_and_numbers(self, schedules: list[ScanSchedule]) -> None:
        kernel, x = anew(WEIGHTED), integers(9000)
        for view in (x[::-1], x[::2], x[1:], x):
            indptr = bounds(len(view), "mixed")
            wanted = sums(3 * view, indptr.tolist())
            np.testing.assert_array_equal(kernel.segments(view, 3, indptr), wanted)
            np.testing.assert_array_equal(kernel.segments(view, x[:1] * 0 + 3, indptr), wanted)
        assert shift_of(schedules[-1]) == 0

    def test_the_number_of_the_segment(self) -> None:
        kernel, x = anew(OF_SEGMENT), integers(9000)
        for kind in BOUNDS:
            indptr = bounds(9000, kind)
            w = integers(len(indptr), seed=1)
            wanted = sums(x, indptr.tolist()) * w[:-1]
            np.testing.assert_array_equal(kernel.segments(x, w, indptr), wanted)

    def test_the_identity(self) -> None:
        kernel, x = anew(PLUS_TEN), integers(9000)
        for kind in BOUNDS:
            indptr = bounds(9000, kind)
            np.testing.assert_array_equal(kernel.segments(x, indptr), sums(x, indptr.tolist()) + 10)

    def test_no_elements(self) -> None:
        kernel = anew(PLUS_TEN)
        assert kernel.segments(np.zeros(0), np.zeros(700, int)).tolist() == [10] * 699


class TestSegmentColumns:
    @pytest.mark.parametrize("name", COLUMNS_TILED)
    def test_every_kernel(self, name: str, schedules: list[ScanSchedule]) -> None:
        model, tile = MODELS[name], column_tile(size_of(name))
        kernel = anew(model.kernel)
        shapes = [(1, 2), (tile, 31), (2 * tile + 5, 33)]
        for (length, columns), kind in itertools.product(shapes, BOUNDS):
            inputs, indptr = model.draw(length, columns), bounds(length, kind)
            wanted = model.segments(inputs, indptr)
            model.check(kernel.segments(*inputs, indptr), wanted, f"{length} by {columns} {kind}")
            assert schedules[-1].layout == COLUMNS["segments"]
            assert schedules[-1].division.tiles == -(-length // tile)
            assert schedules[-1].division.chains == -(-columns // 32)

    def test_more_tiles_than_a_group(self, threads: None, schedules: list[ScanSchedule]) -> None:
        model, tile = MODELS["matrices"], column_tile(32)
        kernel = anew(model.kernel)
        for count, kind in ((33, "mixed"), (70, "long"), (65, "one"), (34, "inside")):
            inputs = model.draw(count * tile - 5, 40 if count < 40 else 3)
            indptr = bounds(len(inputs[0]), kind)
            model.check(kernel.segments(*inputs, indptr), model.segments(inputs, indptr))
            assert schedules[-1].division.tiles == count

    @pytest.mark.parametrize("kind", ["one", "mixed"])
    def test_more_groups_than_a_group(self, kind: str, schedules: list[ScanSchedule]) -> None:
        model, tile = MODELS["wide"], column_tile(192)
        (x,) = model.draw(40 * 7 * tile + tile + 7, 2)
        indptr = bounds(len(x), kind)
        model.check(anew(model.kernel).segments(x, indptr), model.segments((x,), indptr))
        assert schedules[-1].division.groups == 41

    def test_segments_that_begin_with_tiles(self) -> None:
        kernel, tile = anew(SUM), column_tile(8)
        x = integers(4 * tile + 3, 3)
        at = np.arange(5) * tile
        for near in ([0], [0, 0, 0], [-1], [1], [-1, 0, 1], [-1, -1, 0, 0, 1, 1]):
            indptr = np.clip(np.sort(np.add.outer(near, at), None), 0, len(x))
            found = kernel.segments(x, indptr)
            np.testing.assert_array_equal(found, sums(x, indptr.tolist()))

    def test_views(self) -> None:
        kernel, x = anew(SUM), integers(300, 5, 9)
        for view in (x[::-1], x[:, ::-1, ::2], x.transpose(0, 2, 1), x[1:, 1:, :1], x[:, 0]):
            for kind in BOUNDS:
                indptr = bounds(len(view), kind)
                found = kernel.segments(view, indptr)
                np.testing.assert_array_equal(found, sums(view, indptr.tolist()))

    def test_the_number_of_the_segment(self) -> None:
        kernel, x = anew(OF_SEGMENT), integers(300, 40)
        for kind in BOUNDS:
            indptr = bounds(300, kind)
            w = integers(len(indptr), seed=1)
            wanted = sums(x, indptr.tolist()) * w[:-1, None]
            np.testing.assert_array_equal(kernel.segments(x, w, indptr), wanted)

    def test_the_identity(self) -> None:
        kernel, x = anew(PLUS_TEN), integers(300, 40)
        for kind in BOUNDS:
            indptr = bounds(300, kind)
            np.testing.assert_array_equal(kernel.segments(x, indptr), sums(x, indptr.tolist()) + 10)

    def test_no_elements(self) -> None:
        found = anew(PLUS_TEN).segments(np.zeros((0, 3)), np.zeros(700, int))
        np.testing.assert_array_equal(found, np.full((699, 3), 10))


WRONG = {
    "beyond the end": [0, 10, 20_000],
    "before the beginning": [-5, 3, 900],
    "backwards": [900, 0],
    "far away": [2**55, -(2**55), 2**55],
    "one too large": [0, 800, 10, 20, 900],
    "one too small": [0, 300, 1, 500, 600, 900],
    "any order": [440, 691, 496, 655, 377, 226, 615, 532, 131, 112, 204, 715, 395, 669, 34, 441],
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("columns", [1, 3])
def test_wrong_bounds_make_wrong_outputs(name: str, columns: int) -> None:
    """Nothing outside of arrays and shared memory is read or written, and nothing hangs."""
    kernel = anew(PLUS_TEN)
    length = 900 if columns > 1 else 9000
    x = np.ones((length, columns) if columns > 1 else length)
    kernel.segments(x, np.array(WRONG[name]) * (length // 900), sanitize="memory")
    found = kernel.segments(x, np.array([0, length]))
    np.testing.assert_array_equal(found, np.full((1, *x.shape[1:]), length + 10))


@pytest.mark.parametrize("form", ["scan", "segments"])
@pytest.mark.parametrize("shape", [(9000,), (300, 40)], ids=str)
class TestChecks:
    """Any order of threads, barriers, and bounds of shared memory."""

    @pytest.mark.parametrize(
        "check", [{"order": "reverse"}, {"order": "random:3"}, {"sanitize": "memory,race"}], ids=str
    )
    def test_they_pass(self, form: str, shape: tuple[int, ...], check: dict[str, str]) -> None:
        model = MODELS["matrices"]
        kernel, inputs = anew(model.kernel), model.draw(*shape)
        if form == "scan":
            model.check(kernel.scan(*inputs, axis=0, **check), model.scan(inputs, 0))
        else:
            indptr = bounds(shape[0], "mixed")
            found = kernel.segments(*inputs, indptr, **check)
            model.check(found, model.segments(inputs, indptr))


class TestScratch:
    """Memory that is zeroed once, and kept from launch to launch."""

    @pytest.fixture
    def launches(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
        """Return a function that returns the number of launches that the kept memory counts."""
        kept: list[KeptScratch] = []
        create = KeptScratch.__init__

        def noted(self: KeptScratch, device: Any, stream: int, nbytes: int, zeroed: int) -> None:
            assert zeroed == nbytes
            create(self, device, stream, nbytes, zeroed)
            if self.ptr:
                kept.append(self)

        def count() -> int:
            tickets = [struct.unpack("2I", ctypes.string_at(one.ptr, 8)) for one in kept]
            assert not any(taken for taken, _ in tickets)
            return sum(number for _, number in tickets)

        monkeypatch.setattr(KeptScratch, "__init__", noted)
        return count

    @pytest.mark.parametrize("shape", [(9000,), (3, 2500), (33 * 512 + 7,)], ids=str)
    def test_lines(
        self, shape: tuple[int, ...], threads: None, launches: Callable[[], int]
    ) -> None:
        model = MODELS["matrices"]
        kernel = anew(model.kernel)
        for seed in range(6):
            inputs = model.draw(*shape, seed=seed)
            model.check(kernel.scan(*inputs), model.scan(inputs))
            assert launches() == seed + 1
        assert kernel.cache_info().plans == 1

    def test_columns(
        self, threads: None, launches: Callable[[], int], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KSPEC_HOST_SANITIZE", "none")  # checked launches are no plans
        model = MODELS["wide"]
        kernel = anew(model.kernel)
        for seed in range(6):
            inputs = model.draw(40 * high_tile(192), 40, seed=seed)
            model.check(kernel.scan(*inputs, axis=0), model.scan(inputs, 0))
            assert launches() == seed + 1
        assert kernel.cache_info().plans == 1

    @pytest.mark.parametrize("shape", [(9000,), (33 * 512 + 7,), (1100, 40)], ids=str)
    def test_segments(
        self, shape: tuple[int, ...], threads: None, launches: Callable[[], int]
    ) -> None:
        takes_tickets = len(shape) > 1  # those of one column find zeros, and leave zeros
        model = MODELS["matrices"]
        kernel = anew(model.kernel)
        for seed in range(6):
            inputs = model.draw(*shape, seed=seed)
            indptr = np.sort(np.random.default_rng(seed).integers(0, shape[0] + 1, 50))
            model.check(kernel.segments(*inputs, indptr), model.segments(inputs, indptr))
            assert launches() == (seed + 1 if takes_tickets else 0)
        assert kernel.cache_info().plans == 1

    def test_calls_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Launches of several threads do not share their scratch memory."""
        monkeypatch.setenv("KSPEC_HOST_THREADS", "2")
        kernel, x = anew(SUM), integers(3, 20_000)
        wanted = np.cumsum(x, 1)
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(lambda _: kernel.scan(x), range(60)):
                np.testing.assert_array_equal(found, wanted)

    def test_a_single_tile_needs_none(self, launches: Callable[[], int]) -> None:
        model = MODELS["matrices"]
        inputs = model.draw(500)
        model.check(anew(model.kernel).scan(*inputs), model.scan(inputs))
        assert launches() == 0


class TestBits:
    @pytest.mark.parametrize("shape", [(200_000,), (3000, 40)], ids=str)
    def test_the_number_of_threads_changes_none(
        self, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        x = np.random.default_rng(1).normal(size=shape).astype("float32")
        indptr = bounds(shape[0], "long")
        kernel, found = anew(SUM), []
        for threads in ("1", "2", "2", "3"):
            monkeypatch.setenv("KSPEC_HOST_THREADS", threads)
            found.append(kernel.scan(x, axis=0).tobytes() + kernel.segments(x, indptr).tobytes())
        assert len(set(found)) == 1
