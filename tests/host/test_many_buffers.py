"""More buffers of the host device at once than a process may have guarded mappings."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import kspec
from kspec.errors import HostFault
from kspec.host.buffers import HostBuffer, check_canaries

ADD = """
extern "C" __global__ void add(int* x, int n, int a) { if (threadIdx.x < n) x[threadIdx.x] += a; }
extern "C" __global__ void reach(int* x, int i) { x[i] = 1; }
extern "C" __global__ void follow(int** x, int i) { x[0][i] = 1; }
"""


def mappings() -> int:
    return len(Path("/proc/self/maps").read_text().splitlines())


def fill(buffer: HostBuffer, value: int) -> None:
    ctypes.memset(buffer.ptr, value, buffer.nbytes)


@pytest.fixture(scope="module")
def crowd() -> Iterator[list[HostBuffer]]:
    """So many buffers that later ones are pooled."""
    buffers = [HostBuffer(64) for _ in range(9000)]
    yield buffers
    for buffer in buffers:
        buffer.free()


def test_more_arrays_than_mappings() -> None:
    before = mappings()
    arrays = [kspec.empty(1 + k % 50, "int32", device="host") for k in range(40_000)]
    assert mappings() - before < 30_000
    kernel = kspec.RawKernel(ADD, "add")
    for array in (arrays[0], arrays[20_000], arrays[-1]):
        array[...] = 5
        kernel((1,), (64,), (array, array.size, 3))
        assert (kspec.asnumpy(array) == 8).all()
        with pytest.raises(HostFault, match="illegal-address"):
            kspec.RawKernel(ADD, "reach")((1,), (1,), (array, array.size))
    del arrays, array
    assert mappings() - before < 1000


@pytest.mark.parametrize("alignment", [1, 16, 256, 4096])
@pytest.mark.parametrize("nbytes", [0, 1, 7, 16, 100, 4096, 40_000, 70_000, 1 << 20])
def test_pooled_buffers(crowd: list[HostBuffer], nbytes: int, alignment: int) -> None:
    buffers = [HostBuffer(nbytes, alignment) for _ in range(40)]
    spans = sorted((one.ptr, one.ptr + max(1, one.nbytes)) for one in buffers)
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert all(one.ptr % alignment == 0 for one in buffers)
    for number, buffer in enumerate(buffers):
        fill(buffer, number)
    check_canaries()
    for number, buffer in enumerate(buffers):
        assert ctypes.string_at(buffer.ptr, nbytes) == bytes([number]) * nbytes
    for buffer in buffers[::2]:
        buffer.free()
    again = [HostBuffer(nbytes, alignment) for _ in range(20)]
    for buffer in again:
        fill(buffer, 99)
    for number, buffer in list(enumerate(buffers))[1::2]:
        assert ctypes.string_at(buffer.ptr, nbytes) == bytes([number]) * nbytes
    check_canaries()
    for buffer in [*again, *buffers[1::2]]:
        buffer.free()


@pytest.mark.parametrize("nbytes", [5, 4096, 70_001])
@pytest.mark.parametrize(("offset", "kind"), [(-1, "underflow"), (0, "overflow")])
def test_damage_beside_pooled_buffers(
    crowd: list[HostBuffer], nbytes: int, offset: int, kind: str
) -> None:
    buffer = HostBuffer(nbytes)
    place = offset if offset < 0 else nbytes
    ctypes.memset(buffer.ptr + place, 1, 1)
    with pytest.raises(HostFault, match=f"buffer-{kind}: the byte at offset {place} of buffer"):
        check_canaries()
    check_canaries()


def test_a_wrong_index_between_pooled_buffers(crowd: list[HostBuffer]) -> None:
    arrays = [kspec.zeros(4, "int32", device="host") for _ in range(20)]
    pointers = np.array([arrays[7].__array_interface__["data"][0]], np.uint64)
    follow = kspec.RawKernel(ADD, "follow")
    follow((1,), (1,), (pointers, 3))
    with pytest.raises(HostFault, match="illegal-address"):
        follow((1,), (1,), (pointers, 4))
    assert [kspec.asnumpy(one).sum() for one in arrays] == [0] * 7 + [1] + [0] * 12


def test_pools_give_memory_back(crowd: list[HostBuffer]) -> None:
    before = mappings()
    for _ in range(3):
        buffers = [HostBuffer(1000) for _ in range(5000)]
        fill(buffers[-1], 1)
        for buffer in buffers:
            buffer.free()
    assert mappings() <= before + 20
