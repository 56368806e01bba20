"""malloc(), free(), new and delete of kernels: one heap for all launches, whatever they check."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import kspec

CODE = r"""
struct Node { int value; Node* next; };
struct alignas(64) Wide { float values[16]; };
extern "C" __global__ void make(int** keep, int n) {
  *keep = (int*)malloc(n * sizeof(int));
  for (int i = 0; i < n; i++) (*keep)[i] = i;
}
extern "C" __global__ void get(int* const* keep, int* out, int i) { out[0] = (*keep)[i]; }
extern "C" __global__ void put_byte(char** keep, int i) { (*keep)[i] = 1; }
extern "C" __global__ void drop(char** keep, int i) { free(*keep + i); }
extern "C" __global__ void drop_array(int* x) { free(x); }
extern "C" __global__ void push(Node** keep, int n) {
  *keep = nullptr;
  for (int i = 0; i < n; i++) *keep = new Node{i, *keep};
}
extern "C" __global__ void pop(Node** keep, int* out) {
  out[0] = 0;
  for (Node* node = *keep; node; node = *keep) {
    out[0] += node->value;
    *keep = node->next;
    delete node;
  }
}
extern "C" __global__ void aligned(int* out) {
  Wide* wide = new Wide[3];
  *out = (size_t)wide % 64;
  delete[] wide;
}
extern "C" __global__ void placed(int* out) { new (out + threadIdx.x) int(threadIdx.x); }
extern "C" __global__ void each(int* out, int n) {
  int* x = new int[n];
  for (int i = 0; i < n; i++) x[i] = threadIdx.x + i;
  out[blockIdx.x * blockDim.x + threadIdx.x] = x[n - 1];
  delete[] x;
}
extern "C" __global__ void much(char** keep, long long size) { *keep = (char*)malloc(size); }
extern "C" __global__ void few(int** keep, int* out, long long size) {
  *keep = new int[size];
  out[0] = *keep == nullptr;
}
"""
MODES = ("bounds", "none", "memory", "race", "undefined")


@pytest.fixture(scope="module")
def module() -> kspec.RawModule:
    return kspec.RawModule(code=CODE)


class Heap:
    """The kernels of the module, by one thread."""

    def __init__(self, module: kspec.RawModule) -> None:
        self.module = module
        self.keep = np.zeros(1, np.uint64)
        self.out = np.full(64, -1, np.int32)

    def __call__(self, name: str, *arguments: Any, **options: Any) -> None:
        self.module.get_function(name)((1,), (1,), arguments, **options)

    def fault(self, name: str, *arguments: Any, **options: Any) -> str:
        with pytest.raises(kspec.HostFault) as caught:
            self(name, *arguments, **options)
        assert caught.value.kind == "illegal-address"
        assert caught.value.line, caught.value
        return str(caught.value)


@pytest.fixture
def heap(module: kspec.RawModule) -> Heap:
    return Heap(module)


@pytest.mark.parametrize("first", MODES)
def test_memory_of_one_launch_is_that_of_the_next(heap: Heap, first: str) -> None:
    heap("make", heap.keep, np.int32(10), sanitize=first)
    for then in MODES:
        heap("get", heap.keep, heap.out, np.int32(9), sanitize=then)
        assert heap.out[0] == 9
        if then == "none":
            continue
        words = "past the end of memory from malloc() (40 bytes)"
        for byte in (40, 42, 55):
            fault = heap.fault("put_byte", heap.keep, np.int32(byte), sanitize=then)
            assert f"write of 1 bytes at {byte - 40} bytes {words}" in fault
        fault = heap.fault("get", heap.keep, heap.out, np.int32(-1), sanitize=then)
        assert "4 bytes before memory from malloc() (40 bytes)" in fault
    for then in MODES:
        fault = heap.fault("drop", heap.keep, np.int32(4), sanitize=then)
        assert "which malloc() did not return" in fault
    heap("drop", heap.keep, np.int32(0), sanitize=first)
    for then in MODES:
        fault = heap.fault("drop", heap.keep, np.int32(0), sanitize=then)
        assert "free() of address" in fault
        assert "which was freed before" in fault
        if then != "none":
            fault = heap.fault("get", heap.keep, heap.out, np.int32(1), sanitize=then)
            assert "offset 4 of freed memory from malloc() (40 bytes)" in fault


@pytest.mark.parametrize("mode", MODES)
def test_new_and_delete(heap: Heap, mode: str) -> None:
    heap("push", heap.keep, np.int32(1000), sanitize=mode)
    heap("pop", heap.keep, heap.out, sanitize=mode)
    assert heap.out[0] == 499_500
    heap("aligned", heap.out, sanitize=mode)
    assert heap.out[0] == 0
    assert "which malloc() did not return" in heap.fault("drop_array", heap.out, sanitize=mode)


@pytest.mark.parametrize("include", ["", "#include <new>", "#include <type_traits>"])
def test_placement_new(heap: Heap, include: str) -> None:
    module = kspec.RawModule(code=f"{include}\n{CODE}") if include else heap.module
    module.get_function("placed")((1,), (64,), (heap.out,))
    assert heap.out.tolist() == list(range(64))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [1, 8, 100, 5000, 100_000])
def test_every_thread_has_blocks(heap: Heap, mode: str, size: int) -> None:
    # Those of one thread are given to others, which is no race between them.
    out = np.zeros(256, np.int32)
    shape = ((64,), (4,)) if size == 100_000 else ((4,), (64,))
    heap.module.get_function("each")(*shape, (out, np.int32(size)), sanitize=mode)
    assert (out == np.tile(np.arange(shape[1][0]), shape[0][0]) + size - 1).all()


def test_overruns_of_unchecked_kernels_damage_no_more_than_their_neighbours(heap: Heap) -> None:
    kept = [np.zeros(1, np.uint64) for _ in range(8)]
    for keep in kept:
        heap("make", keep, np.int32(10), sanitize="none")
    # One with a neighbour in front: nothing is mapped there of the first one of all.
    kept.sort(key=lambda keep: int(keep[0]))
    _, keep = min(itertools.pairwise(kept), key=lambda two: int(two[1][0]) - int(two[0][0]))
    for byte in (-16, -8, -1, 40, 48, 64):  # where others keep the books
        heap("put_byte", keep, np.int32(byte), sanitize="none")
    for keep in kept:
        heap("drop", keep, np.int32(0), sanitize="none")
    heap("push", heap.keep, np.int32(100))
    heap("pop", heap.keep, heap.out)
    assert heap.out[0] == 4950


def test_more_memory_than_there_is(heap: Heap) -> None:
    for size in (1 << 40, 1 << 62):
        heap("much", heap.keep, size)
        assert heap.keep[0] == 0
    heap("few", heap.keep, heap.out, 1 << 40)
    assert heap.out[0] == 1
    assert heap.keep[0] == 0
    heap("much", heap.keep, 0)
    assert heap.keep[0]
    fault = heap.fault("put_byte", heap.keep, np.int32(0))
    assert "0 bytes past the end of memory from malloc() (0 bytes)" in fault


def test_large_blocks(heap: Heap) -> None:
    heap("much", heap.keep, 3_000_001)
    heap("put_byte", heap.keep, np.int32(3_000_000))
    fault = heap.fault("put_byte", heap.keep, np.int32(3_000_001))
    assert "0 bytes past the end of memory from malloc() (3000001 bytes)" in fault
    heap("drop", heap.keep, np.int32(0))
    assert "read of 4 bytes" in heap.fault("get", heap.keep, heap.out, np.int32(0))
