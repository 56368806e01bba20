"""Schedules of reductions by key: which algorithm, how much memory, and agreement with headers."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import kspec
from kspec.model.dtypes import lookup
from kspec.model.forms.kinds import BY_KEY, LAYOUTS
from kspec.model.stages import Specialization, Target, key_groups
from kspec.pipeline import LazySource
from kspec.runtime.driver.device import HOST, Gpu
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, marshal
from kspec.runtime.schedules.key_schedule import (
    KEYS,
    PROGRESS,
    Joined,
    Keyed,
    KeySchedule,
    choose_keys,
    counted_size,
)
from tests.compiling import compiled as compiled_for
from tests.compiling import optimized
from tests.forms.kernels import SUM
from tests.forms.test_schedules import compiled, read

__all__ = ["optimized"]

FLOAT_SUM = Joined(4, lookup("float32"), "SUM")
INT_SUM = Joined(4, lookup("int32"), "SUM")
STRUCT = Joined(24)


def keyed(*extents: int, length: int = 1000, count: int = 9, dtype: str = "int32") -> Keyed:
    steps = tuple(4 << 4 * k for k in range(len(extents)))
    keys = ArrayView(1 << 20, (length,), (-8,), dtype, HOST)
    return Keyed(Axes(extents, (steps, steps)), length, count, (280, 284), keys)


def schedule(
    axes: Keyed, how: Joined, deterministic: bool = True, on_host: bool = False, room: int = 0
) -> KeySchedule:
    """Return the schedule for a GPU with 100 multiprocessors, or the host device.

    `room`: bytes of shared memory of a block, for accumulators of each thread.
    """
    gpu = None if on_host else Gpu(100, room)
    return choose_keys(axes, how, lambda: how.size, gpu, deterministic=deterministic)


def plan_of(found: KeySchedule) -> dict[str, int]:
    """Return the numbers of a plan that tell algorithms apart."""
    names = ("tiles", "chunk", "copies", "held", "passes")
    return dict(zip(names, struct.unpack_from("2q3i", found.head, 48), strict=True))


@pytest.mark.parametrize(
    ("how", "deterministic", "count", "layout", "few"),
    [
        (FLOAT_SUM, True, 256, "KeyRuns", True),
        (FLOAT_SUM, True, 10**6, "KeySorted", False),
        (FLOAT_SUM, False, 256, "KeyCells", True),
        (FLOAT_SUM, False, 10**6, "KeyCells", False),
        # In any order there are the same bits.
        (INT_SUM, True, 256, "KeyCells", True),
        (INT_SUM, True, 10**6, "KeyCells", False),
        (Joined(1, lookup("int8"), "SUM"), True, 256, "KeyRuns", True),
        (Joined(1, lookup("int8"), "SUM"), True, 10**6, "KeyCells", False),
        (Joined(8, lookup("int64"), "PRODUCT"), True, 10**6, "KeyCells", False),
        # Not so with numbers that have signed zeros and NaN.
        (Joined(4, lookup("float32"), "LARGEST"), True, 10**6, "KeySorted", False),
        (Joined(4, lookup("float32"), "LARGEST"), False, 10**6, "KeyCells", False),
        (Joined(8, lookup("int64"), ""), True, 10**6, "KeySorted", False),
        (STRUCT, True, 100, "KeyRuns", True),
        (STRUCT, False, 100, "KeyRuns", True),
        (STRUCT, True, 10**4, "KeySorted", False),
        (STRUCT, False, 10**4, "KeyCells", False),
    ],
)
def test_algorithms(how: Joined, deterministic: bool, count: int, layout: str, few: bool) -> None:
    found = schedule(keyed(length=10**6, count=count), how, deterministic)
    assert found.layout == f"kspec::{layout}<8>"
    assert bool(plan_of(found)["copies"]) == few


def test_where_groups_are_worth_it() -> None:
    """Of keys with some rows each, if they are not too many, and where there is room."""

    def layout(*extents: int, room: int = 120_000, **keywords: int) -> str:
        return schedule(keyed(*extents, **keywords), FLOAT_SUM, room=room).layout

    many = {"length": 10**7, "count": 2**20 - 1}
    assert layout(**many) == "kspec::KeyGroups<8>"
    assert layout(length=2**21 - 1, count=10**5) == "kspec::KeySorted<8>"
    assert layout(length=10**7, count=2**20) == "kspec::KeySorted<8>"
    assert layout(length=2**22 - 5, count=2**20 - 1) == "kspec::KeySorted<8>"
    assert layout(2, **many) == "kspec::KeySorted<8>"
    assert layout(**many, room=100_000) == "kspec::KeySorted<8>"
    found = [schedule(keyed(**many), FLOAT_SUM, room=room).blocks for room in (120_000, 232_448)]
    assert found == [100, 200]


def test_where_blocks_have_accumulators_of_their_own() -> None:
    """If they add to each of all often enough, of as many as there is room for."""

    def held(length: int, count: int, room: int = 101_024, how: Joined = INT_SUM) -> int:
        return plan_of(schedule(keyed(length=length, count=count), how, room=room))["held"]

    assert held(10**8, 10_000) == 10_000
    assert held(10**8, 10**5) == 12_500
    assert held(10**8, 10**5, how=replace(INT_SUM, counted=False)) == 25_000
    assert held(10**8, 10**6) == 0
    assert held(15 * 10**5 - 1, 10_000) == 0
    assert held(15 * 10**5, 10_000) == 10_000
    assert held(10**8, 10_000, room=0) == 0
    assert held(10**8, 256) == 0  # they have several of each


@pytest.mark.parametrize(
    ("count", "passes"), [(300, 1), (1023, 1), (1024, 2), (10**6, 2), (2**20, 3)]
)
def test_passes_of_sorting(count: int, passes: int) -> None:
    """Keys of no output are sorted too, behind the others."""
    found = schedule(keyed(8, length=10**5, count=count), Joined(192))
    assert plan_of(found)["passes"] == passes
    assert plan_of(found)["chunk"] == 10**5


def test_memory_is_bounded() -> None:
    """Rows beyond some millions are sorted later, in the same memory."""
    sizes = {
        schedule(keyed(*extents, length=2**33, count=10**5), Joined(16)).scratch
        for extents in ((), (2,), (64,))
    }
    assert max(sizes) < 2**30
    groups = schedule(keyed(length=2**33, count=10**6), FLOAT_SUM, room=120_000)
    assert groups.layout == "kspec::KeyGroups<8>"
    assert groups.scratch < 2**30
    few = schedule(keyed(length=2**33), FLOAT_SUM).scratch
    assert few < 2**20


def test_too_many_keys() -> None:
    axes = keyed(length=5, count=2**32 - 1)
    with pytest.raises(kspec.NotSupportedError, match="n is 4294967295: in the order of elements"):
        schedule(axes, FLOAT_SUM)
    assert schedule(axes, FLOAT_SUM, deterministic=False).layout == "kspec::KeyCells<8>"


def test_the_host_takes_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_HOST_THREADS", "4")
    for length, count, blocks in [(9, 99, 1), (1 << 20, 99, 4), (1 << 20, 3, 3), (0, 0, 1)]:
        found = schedule(keyed(length=length, count=count), FLOAT_SUM, on_host=True)
        assert (found.blocks, found.threads) == (blocks, 1)


PLANS = {
    "kspec::Reduction<kspec::KeyCells<8>, 1, 1>": schedule(keyed(3), INT_SUM),
    "kspec::Reduction<kspec::KeyRuns<8>, 1, 1>": schedule(keyed(), FLOAT_SUM),
    "kspec::Reduction<kspec::KeyRuns<64>, 1, 1>": schedule(keyed(*[2] * 9), STRUCT),
    "kspec::Reduction<kspec::KeyGroups<8>, 1, 1>": schedule(
        keyed(length=2**21, count=10**5), FLOAT_SUM, room=120_000
    ),
    "kspec::Reduction<kspec::KeySorted<8>, 1, 1>": schedule(keyed(count=10**6), FLOAT_SUM),
}


def test_packed_sizes_are_the_compilers() -> None:
    params = ", ".join(f"{ctype} p{number}" for number, ctype in enumerate(PLANS))
    kernel = compiled(f"__global__ void key_sizes({params}) {{}}\n", "key_sizes")
    assert kernel.parameter_sizes == tuple(len(one.pack(0)) for one in PLANS.values())


def test_kernels_find_what_was_packed() -> None:
    fields = (
        "p.outputs, p.length, p.count, (long long)p.keys.data, p.keys.stride, p.keys.bytes, "
        "p.keys.is_signed, p.tiles, p.chunk, p.copies, p.held, p.passes, p.bits, (long long)p.progress, "
        "(long long)p.cells, (long long)p.counts, (long long)p.states, (long long)p.sorting, "
        "(long long)p.edges, p.steps[0], p.steps[1], p.rows.ndim, p.rows.extents[0]"
    )
    axes = keyed(70, length=10_000, count=70_000, dtype="uint16")
    found = schedule(axes, FLOAT_SUM)
    tiles = -(-10_000 // (8 * 16))  # of 32 columns
    parts = (
        PROGRESS,
        8 * 2 * 70 * 70_000,
        0,
        0,
        4 * (4 * 10_000 + 2**9 * (4 + 1)),
        2 * tiles * 70 * 16,
    )
    assert found.parts == tuple(-(-one // 256) * 256 for one in parts)
    ends = [1 << 24]
    for one in found.parts:
        ends.append(ends[-1] + one)
    wanted = [70, 10_000, 70_000, 1 << 20, -8, 2, 0, 1, 10_000, 0, 0, 2, 9, *ends[:-1]]
    wanted += [280, 284, 1, 70]
    packed = found.pack(1 << 24)
    ctype = "kspec::Reduction<kspec::KeyRuns<8>, 1, 1>"
    assert read(ctype, fields, packed, "keys") == wanted
    assert packed[KEYS : KEYS + 8] == struct.pack("P", 1 << 20)


def test_layouts_and_sizes_are_those_of_the_headers() -> None:
    """`counted_size` is what the compiler makes of accumulators of any size, or more."""
    sizes = [1, 2, 3, 4, 8, 12, 16, 24, 32, 64, 192]
    rows = "\n".join(
        f"  *out++ = sizeof(kspec::Total<Words<{n if n < 4 else n // 4}, {kind}>>);"
        for n in sizes
        for kind in [("char" if n < 4 else "int")]
    )
    text = (
        "template <int N, class T> struct Words { T words[N]; };\n"
        f"__global__ void key_totals(long long* out) {{\n{rows}\n}}\n"
    )
    found = _numbers(text, len(sizes))
    assert all(one <= counted_size(n, 8) for n, one in zip(sizes, found, strict=True)), found


def _numbers(text: str, count: int) -> list[int]:
    found = np.zeros(count, "int64")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    kernel = compiled(text, "key_totals", before="#undef KSPEC_HOST\n")
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    return [int(one) for one in found]


@pytest.mark.parametrize(
    "arch", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("sm_80", "sm_100")), "sm_120"]
)
@pytest.mark.parametrize("tag", LAYOUTS[BY_KEY])
def test_they_compile_for_gpus(tag: Callable[[int], str], arch: str) -> None:
    binding = (("T", "float32"),)
    source = LazySource(SUM.spec)(Specialization("form_sum", binding, tag(1)))
    image = compiled_for(source, Target(arch))
    (figures,) = image.figures.values()
    # GPUs of which two blocks are on a multiprocessor have few registers for counting keys.
    assert figures.spill_bytes <= (40 if tag is key_groups and arch == "sm_100" else 0)
    assert figures.shared_bytes <= 48 * 1024
