"""Schedules of items: which of them are packed and staged, how much memory, and the headers'."""

from __future__ import annotations

import itertools
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kspec.compiler import ImageCache, compile_source
from kspec.config import cache_dir
from kspec.host.modules import load_module
from kspec.model import dtypes
from kspec.model.stages import HOST as HOST_TARGET
from kspec.model.stages import CudaSource, strided_capacity
from kspec.runtime.driver.device import HOST
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Axes, marshal
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule
from kspec.runtime.schedules.item_schedule import ItemMember, choose_items, is_small, pack_core

SHARED = 48 * 1024


def item(*shape: int, itemsize: int = 4, ptr: int = 4096, **fields: Any) -> ItemMember:
    """Return contiguous items."""
    strides = tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    fields = {"written": False, "strides": strides} | fields
    return ItemMember(itemsize, ptr, shape=shape, **fields)


def schedule(
    *members: ItemMember, extents: tuple[int, ...] = (1000,), on_host: bool = False, **strides: Any
) -> ElementwiseSchedule:
    """Return the schedule of items that follow each other; ``_0`` are other strides of the first."""
    steps = []
    for number, member in enumerate(members):
        plain = tuple(member.nbytes * math.prod(extents[:axis]) for axis in range(len(extents)))
        steps.append(strides.get(f"_{number}", plain))
    return choose_items(Axes(extents, tuple(steps)), members, math.prod(extents), on_host=on_host)


def fields_of(found: ElementwiseSchedule, operands: int) -> tuple[int, ...]:
    """Return staged, packed, room of a warp, number of the first new operand, and places."""
    packed = struct.calcsize(f"2Q{2 + operands}i")
    return struct.unpack_from(
        f"2Q{2 + operands}i", found.elements, len(found.elements) - marshal.up(packed, 8)
    )


class TestItemMember:
    @pytest.mark.parametrize(
        ("shape", "itemsize", "nbytes", "access", "pitch"),
        [
            ((3,), 4, 12, 4, 12),
            ((3, 3), 4, 36, 4, 36),
            ((3, 3), 8, 72, 8, 72),
            ((4, 4), 4, 64, 16, 80),
            ((2, 2), 4, 16, 16, 16),
            ((12,), 4, 48, 16, 48),
            ((2,), 4, 8, 8, 8),
            ((3,), 1, 3, 1, 3),
            ((3,), 2, 6, 2, 6),
            ((64,), 8, 512, 16, 528),
            ((3,), 16, 48, 16, 48),
            ((0,), 4, 0, 1, 1),
        ],
    )
    def test_accesses(
        self, shape: tuple[int, ...], itemsize: int, nbytes: int, access: int, pitch: int
    ) -> None:
        found = item(*shape, itemsize=itemsize)
        assert (found.nbytes, found.access, found.pitch) == (nbytes, access, pitch)

    def test_structs_have_no_accesses(self) -> None:
        found = item(4, itemsize=8, is_struct=True)
        assert (found.nbytes, found.access, found.pitch) == (32, 1, 33)

    @pytest.mark.parametrize(
        ("itemsize", "shape", "small"),
        [
            (8, (64,), True),
            (8, (8, 8), True),
            (8, (65,), False),
            (16, (32,), True),
            (16, (33,), False),
            (1, (64,), True),
            (1, (65,), False),
            (4, (0, 1000), True),
            (24, (22,), False),
        ],
    )
    def test_small_ones(self, itemsize: int, shape: tuple[int, ...], small: bool) -> None:
        assert is_small(itemsize, shape) is small

    @pytest.mark.parametrize(
        ("shape", "strides", "contiguous"),
        [
            ((3, 4), (16, 4), True),
            ((3, 4), (4, 12), False),
            ((3, 4), (32, 4), False),
            ((1, 4), (0, 4), True),
            ((3, 1), (4, 999), True),
            ((4,), (-4,), False),
            ((4,), (0,), False),
            ((1,), (0,), True),
        ],
    )
    def test_contiguous_ones(
        self, shape: tuple[int, ...], strides: tuple[int, ...], contiguous: bool
    ) -> None:
        assert ItemMember(4, 4096, False, shape, strides).is_contiguous is contiguous


class TestChoices:
    @pytest.mark.parametrize(
        ("member", "steps", "packed", "staged"),
        [
            (item(3, 3), None, 1, 1),
            (item(3), None, 1, 1),  # three accesses
            (item(4), None, 1, 0),  # one
            (item(8), None, 1, 0),  # two
            (item(12), None, 1, 1),
            (item(1), None, 1, 0),
            (item(3, 3, ptr=4100), None, 1, 0),
            (item(3, 3, ptr=4098), None, 0, 0),
            (item(4, 4, ptr=4104), None, 0, 0),
            (item(3, 3), (-36,), 1, 0),
            (item(3, 3), (0,), 1, 0),
            (item(3, 3), (40,), 1, 0),
            (item(3, 3), (38,), 0, 0),
            (item(3, 3, strides=(4, 12)), None, 0, 0),
            (item(9, 9), None, 0, 0),  # large
            (item(64, itemsize=8), None, 1, 1),
            (item(0), None, 0, 0),
            (item(3, itemsize=8, is_struct=True), None, 0, 0),
            (item(), (4,), 0, 0),  # no core dimensions
            (item(), (0,), 0, 0),
        ],
    )
    def test_one_operand(
        self, member: ItemMember, steps: tuple[int, ...] | None, packed: int, staged: int
    ) -> None:
        found = schedule(member, **({} if steps is None else {"_0": steps}))
        assert fields_of(found, 1)[:2] == (staged, packed)
        warps = min(4, SHARED // (32 * member.pitch)) if member.shape else 4
        assert found.shared_mem == (warps * 32 * member.pitch if staged else 0)
        assert found.block == (32 * warps if staged else 128)

    def test_axes(self) -> None:
        """Items follow each other along all of them."""
        assert fields_of(schedule(item(3, 3), extents=(5, 7)), 1)[0] == 1
        assert fields_of(schedule(item(3, 3), extents=(5, 7), _0=(36, 216)), 1)[0] == 0
        assert fields_of(schedule(item(3, 3), extents=()), 1)[0] == 1

    def test_the_host_stages_nothing(self) -> None:
        found = schedule(item(3, 3), item(3, written=True, is_new=True), on_host=True)
        assert fields_of(found, 2) == (0, 0, 0, 1, 0, 0)
        assert (found.shared_mem, found.grid) == (0, None)

    def test_inputs_and_outputs_share_memory(self) -> None:
        """Inputs are read before outputs are written."""
        found = schedule(item(3, 3), item(3), item(9, written=True), item(5, written=True))
        assert fields_of(found, 4) == (15, 15, 32 * 56, 4, 0, 32 * 36, 0, 32 * 36)
        found = schedule(item(3), item(4), item(5, 5, written=True, is_new=True))
        assert fields_of(found, 3) == (5, 7, 32 * 100, 2, 0, 0, 0)

    def test_outputs_that_are_new(self) -> None:
        new = {"written": True, "is_new": True}
        assert fields_of(schedule(item(3), item(3)), 2)[3] == 2
        assert fields_of(schedule(item(3, **new)), 1)[3] == 0
        many = [item()] * 70 + [item(3, **new)] * 2
        found = schedule(*many)
        assert fields_of(found, 72)[:4] == (0, 0, 0, 70)

    @pytest.mark.parametrize(("count", "warps", "staged"), [(1, 2, 1), (2, 1, 2), (3, 1, 2)])
    def test_as_many_warps_as_have_memory(self, count: int, warps: int, staged: int) -> None:
        member = item(64, itemsize=8)  # 528 bytes: 16.5 KiB of a warp
        found = schedule(*[member] * count)
        assert found.block == 32 * warps
        assert fields_of(found, count)[0].bit_count() == staged
        assert found.shared_mem == warps * staged * 32 * 528

    def test_blocks_cover_all_items(self) -> None:
        for size in (1, 31, 128, 129, 1000):
            found = schedule(item(3, 3), extents=(size,))
            assert found.grid == (-(-size // 128), 1, 1)
            assert found.threads == size

    @pytest.mark.parametrize(("axes", "layout"), [(0, 8), (8, 8), (9, 64), (64, 64)])
    def test_layouts(self, axes: int, layout: int) -> None:
        for on_host in (False, True):
            found = schedule(item(3), extents=(1,) * axes, on_host=on_host)
            assert found.layout == f"kspec::Items<{layout}>"


_shapes = st.lists(st.integers(1, 9), max_size=3).map(tuple)


@given(
    shapes=st.lists(_shapes, min_size=1, max_size=70),
    sizes=st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=70, max_size=70),
    written=st.lists(st.booleans(), min_size=70, max_size=70),
    size=st.integers(1, 10**6),
)
def test_memory_is_bounded(
    shapes: list[tuple[int, ...]], sizes: list[int], written: list[bool], size: int
) -> None:
    """Places of a warp do not overlap, and blocks have what every device grants."""
    members = [
        item(*shape, itemsize=itemsize, written=out)
        for shape, itemsize, out in zip(shapes, sizes, written, strict=False)
    ]
    found = schedule(*members, extents=(size,))
    staged, packed, room, made, *places = fields_of(found, len(members))
    assert staged & ~packed == 0
    assert made == len(members)
    warps = found.block // 32
    assert found.shared_mem == warps * room <= SHARED
    assert 1 <= warps <= 4
    for side in (False, True):
        stretches = sorted(
            (places[number], places[number] + 32 * member.pitch)
            for number, member in enumerate(members)
            if member.written is side and staged >> number & 1
        )
        ends = [0, *(end for _, end in stretches)]
        assert [begin for begin, _ in stretches] == ends[:-1]
        assert ends[-1] <= room
        assert all(end % 16 == 0 for end in ends)


HEADERS = "\n".join(
    f'#include "kspec/{name}.cuh"' for name in ("half", "float8", "complex", "struct", "items")
)
GAPS = "{a: int8, b: float32}"
STRUCT = """
struct Gaps {
  signed char a;
  float b;
  template <int K> __device__ auto& at() { if constexpr (K == 0) return a; else return b; }
  template <int K> __device__ const auto& at() const {
    if constexpr (K == 0) return a; else return b;
  }
  KSPEC_STRUCT(Gaps, 2)
};
"""


def compiled(text: str, name: str) -> Any:
    """Return a kernel of the host device."""
    source = CudaSource(f"{name}.cu", f"{HEADERS}\n{text}", (name,))
    image = compile_source(source, HOST_TARGET, ImageCache(cache_dir()))
    return load_module(image).get_kernel(image.symbols[name])


def test_constants_are_those_of_the_headers() -> None:
    types = {row.name: row.ctype for row in dtypes.TABLE} | {GAPS: "Gaps"}
    shapes = [(n,) for n in (*range(14), 16, 24, 31, 32, 33, 63, 64, 65, 100)]
    shapes += [(3, 3), (4, 4), (2, 3, 4), (8, 8), (9, 9), (3, 1, 3, 2), (2, 0, 3)]
    rows = "\n".join(
        f"  row<{ctype}, {', '.join(map(str, shape))}>(out);"
        for ctype, shape in itertools.product(types.values(), shapes)
    )
    text = (
        f"{STRUCT}\n"
        "template <class T, int... D> __device__ void row(long long*& out) {\n"
        "  typedef kspec::CoreOf<kspec::In<T>, D...> Of;\n"
        "  *out++ = Of::BYTES, *out++ = Of::IS_SMALL, *out++ = Of::ACCESS, *out++ = Of::PITCH;\n"
        "  *out++ = Of::ACCESSES;\n"
        "}\n"
        f"__global__ void item_constants(long long* out) {{\n{rows}\n}}\n"
    )
    found = np.zeros((len(types) * len(shapes), 5), "int64")
    block = marshal.PackedParameters([struct.pack("P", found.ctypes.data)])
    compiled(text, "item_constants").launch((1, 1, 1), (1, 1, 1), block.address)
    for got, (name, shape) in zip(found.tolist(), itertools.product(types, shapes), strict=True):
        row = dtypes.lookup(name)
        one = item(*shape, itemsize=row.itemsize, is_struct=bool(row.fields))
        wanted = [one.nbytes, one.is_small, one.access, one.pitch, one.nbytes // one.access]
        assert got == wanted, (name, shape)


@pytest.mark.parametrize(("axes", "operands"), [(0, 1), (3, 4), (8, 5), (9, 2), (1, 70)])
def test_kernels_find_what_was_packed(axes: int, operands: int) -> None:
    members = [item(3, 3)] * (operands - 1) + [item(5, 5, written=True, is_new=True)]
    extents = tuple(range(2, 2 + axes))
    found = schedule(*members, extents=extents)
    ctype = f"kspec::Elements<kspec::Items<{strided_capacity(axes)}>, {operands}>"
    text = (
        f"__global__ void item_fields({ctype} p, long long* out) {{\n"
        "  *out++ = sizeof(p), *out++ = p.size(), *out++ = p.ndim(), *out++ = p.staged;\n"
        "  *out++ = p.packed, *out++ = p.stage, *out++ = p.made;\n"
        f"  for (int k = 0; k < {operands}; ++k) *out++ = p.places[k];\n"
        "}\n"
    )
    got = np.zeros(7 + operands, "int64")
    block = marshal.PackedParameters([found.elements, struct.pack("P", got.ctypes.data)])
    kernel = compiled(text, "item_fields")
    assert kernel.parameter_sizes[0] == len(found.elements)
    kernel.launch((1, 1, 1), (1, 1, 1), block.address)
    wanted = [len(found.elements), math.prod(extents), axes, *fields_of(found, operands)]
    assert got.tolist() == wanted


def test_arguments_are_packed_as_their_structures() -> None:
    view = ArrayView(4096, (7, 3, 4), (999, 4, 12), "float32", HOST)
    packed = pack_core(view, 2)
    assert packed == struct.pack("P2q", 4096, 4, 12)
    structures = [f"kspec::Core<kspec::{one}<float>, 3, 4>" for one in ("In", "InOut", "Out")]
    params = ", ".join(f"{ctype} p{number}" for number, ctype in enumerate(structures))
    kernel = compiled(f"__global__ void item_arguments({params}) {{}}\n", "item_arguments")
    assert kernel.parameter_sizes == (len(packed),) * 3


def test_structures_have_room_for_their_alignment() -> None:
    """The places of an odd number of operands end in the middle of a word."""
    for operands in range(1, 6):
        found = schedule(*[item(3)] * operands)
        assert len(found.elements) % 8 == 0
