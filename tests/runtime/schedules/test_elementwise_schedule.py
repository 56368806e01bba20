"""Which layout a loop takes on a GPU, for the layouts of arrays that matter."""

from __future__ import annotations

import numpy as np
import pytest

from kspec.model.stages import FLAT, PACKS, ROWS, TILES, pack_size
from kspec.runtime import schedules as layout
from kspec.runtime.schedules.elementwise_schedule import (
    ElementwiseSchedule,
    Member,
    choose,
    choose_host,
)


def schedule(
    *arrays: np.ndarray, out: np.ndarray, offsets: tuple[int, ...] = (), **options
) -> ElementwiseSchedule:
    """Return the schedule for broadcast arrays, as if each began at an aligned address + offset."""
    operands = [*arrays, out]
    offsets = (*offsets, *[0] * (len(operands) - len(offsets)))
    shape = np.broadcast_shapes(*(array.shape for array in operands))
    strides = [layout.broadcast_strides(x.shape, x.strides, shape) for x in operands]
    axes = layout.collapse(shape, strides, keep_order=False)
    members = [
        Member(x.itemsize, x.itemsize, 4096 + offset, x is out)
        for x, offset in zip(operands, offsets, strict=True)
    ]
    return choose(axes, members, int(np.prod(shape)), **options)


def zeros(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.zeros(shape, dtype)


SQUARE = zeros(1024, 1024)

CASES = {
    "contiguous": ((SQUARE, SQUARE), FLAT),
    "a single element": ((SQUARE, zeros(1, 1)), FLAT),
    "Fortran order alike": ((SQUARE.T,), FLAT),
    "row broadcast": ((SQUARE, zeros(1024)), ROWS),
    "column broadcast": ((SQUARE, zeros(1024, 1)), ROWS),
    "short rows": ((SQUARE[:, :8], zeros(8)), PACKS),
    "odd rows": ((zeros(1023, 1021), zeros(1021)), PACKS),
    "cropped by a pack": ((zeros(1024, 1028)[:, 4:],), ROWS),
    "cropped by an element": ((zeros(1024, 1025)[:, 1:],), PACKS),
    "every other element": ((zeros(2048)[::2],), "kspec::Strided<8>"),
    "backwards": ((zeros(2048)[::-1],), "kspec::Strided<8>"),
    "transposed": ((SQUARE.T, SQUARE), TILES),
    "transposed, odd": ((zeros(1021, 1021).T, zeros(1021, 1021)), "kspec::Tiles"),
    "transposed, few columns": ((zeros(1024, 8).T,), "kspec::Strided<8>"),
    "complex128": ((zeros(64, 64, dtype="complex128"), zeros(64)), "kspec::Strided<8>"),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts(name: str) -> None:
    arrays, wanted = CASES[name]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    order = "F" if name.startswith("Fortran") else "C"
    assert schedule(*arrays, out=np.zeros(shape, arrays[0].dtype, order)).layout == wanted


def test_threads_that_load_next_to_nothing_take_two_packs() -> None:
    whole = schedule(SQUARE, zeros(1024), out=zeros(1024, 1024))
    light = schedule(zeros(1024, 1), zeros(1024), out=zeros(1024, 1024))
    assert (whole.layout, light.layout) == (ROWS, ROWS)
    assert (whole.block, whole.grid) == (128, (2, 1024, 1))
    assert (light.block, light.grid) == (256, (1, 512, 1))


def test_more_than_eight_axes_are_strided() -> None:
    x = np.zeros((4,) * 9, "float32")[(slice(None, None, 2),) * 9]
    assert schedule(x, out=np.zeros(x.shape, "float32")).layout == "kspec::Strided<64>"


def test_the_order_of_elements_forbids_tiles() -> None:
    assert schedule(SQUARE.T, SQUARE, out=zeros(1024, 1024), tiles=False).layout != TILES


def test_the_first_output_is_brought_into_step() -> None:
    x, out = zeros(1000), zeros(1000)
    even = schedule(x, out=out)
    odd = schedule(x, out=out, offsets=(0, 4))  # three elements before the first pack
    assert even.threads == 250
    assert odd.threads == 249 + 3 + 1
    assert odd.elements != even.elements


def test_elements_beside_the_blocks_around_a_pack() -> None:
    """A pack of an input out of step is read with what lies beside it: both ends go singly."""
    x, out = zeros(1000), zeros(1000)
    assert schedule(x, out=out, offsets=(4,)).threads == 248 + 4 + 4
    assert schedule(x, out=out, offsets=(8, 4)).threads == 248 + 3 + 5
    assert schedule(x[:7], out=out[:7], offsets=(4,)).threads == 7


@pytest.mark.parametrize(
    ("itemsizes", "size"),
    [([4, 4], 4), ([2, 4], 4), ([1], 16), ([8, 1], 2), ([16, 4], 1), ([12], 1), ([], 1)],
)
def test_pack_sizes(itemsizes: list[int], size: int) -> None:
    assert pack_size(itemsizes) == size


def test_the_host_walks_flat_or_strided() -> None:
    axes = layout.collapse((6, 4), [(16, 4), (16, 4)])
    members = [Member(4, 4, 4096, False), Member(4, 4, 8192, True)]
    assert choose_host(axes, members, 24).layout == FLAT
    assert choose_host(axes, members, 24, flat=False).layout == "kspec::Strided<8>"
