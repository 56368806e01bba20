"""One kernel object called from several threads at once, and from a forked process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.libraries import LIBRARIES, Library

DOUBLE = kspec.ElementwiseKernel("T x", "T y", "y = x + x", "double_of")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_of")
DTYPES = ["float32", "float64", "int8", "int32", "int64", "uint16"]


@pytest.mark.threads
def test_first_calls_race(place: ArrayDevice) -> None:
    def work(dtype: str) -> bool:
        x = np.arange(100).astype(dtype)
        sizes = [place.numpy(TOTAL(place.array(x[:12]))) for _ in range(20)]
        doubles = [place.numpy(DOUBLE(place.array(x[:50]))) for _ in range(20)]
        return all(size == 66 for size in sizes) and all(
            np.array_equal(double, 2 * x[:50]) for double in doubles
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, DTYPES * 4))


RAW = kspec.RawKernel(
    r"""
extern "C" __global__ void minus(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = -x[i];
}
""",
    "minus",
    params=["const float* x", "float* y", "int n"],
)


@pytest.fixture
def restless() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.threads
def test_all_kinds_of_calls(library: Library) -> None:
    """Shapes that come again and shapes that do not, given and made outputs, numbers that change."""
    library.ready()
    add = kspec.ElementwiseKernel("T x, T y, T a", "T z", "z = x + a * y", "add_in_threads")
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total_in_threads")
    errors: list[str] = []

    def expect(what: str, got: Any, want: Any) -> None:
        if not np.array_equal(library.numpy(got), want):
            errors.append(what)

    def work(number: int) -> None:
        generator = np.random.default_rng(number)
        for step in range(25):
            size = 64 if step % 2 else int(generator.integers(1, 200))
            x = generator.integers(-9, 9, size).astype("float32")
            mine = library.array(x)
            expect("made", add(mine, mine, number), x + number * x)
            expect("sum", total(mine), np.float32(x.sum()))
            out = library.output(np.zeros(size, "float32"))
            add(mine, mine, step, out)
            expect("given", out, x + step * x)
            RAW((4,), (64,), (mine, out, size))
            expect("raw", out, -x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert errors == []


def kinds_of_kernels(round_number: int) -> list[tuple[Callable[..., Any], Callable[..., Any]]]:
    """Return new kernels of every kind on the host device, each with its reference."""
    k = round_number + 1
    add = kspec.ElementwiseKernel("T x, T y", "T z", f"z = x + {k} * y", "add_of_kinds")
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", f"y = {k} * a", "0", "total_of_kinds")
    text = RAW.code.replace("-x[i]", f"{k} * x[i]")
    raw = kspec.RawKernel(text, "minus", params=["const float* x", "float* y", "int n"])

    @kspec.fuse
    def fused(x, y):
        z = x * k - y
        return z, z.sum()

    def run_raw(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        out = np.zeros_like(x)
        raw((4,), (64,), (x, out, x.size))
        return out

    return [
        (add, lambda x, y: x + k * y),
        (lambda x, y: total(x), lambda x, y: k * x.sum()),
        (lambda x, y: total(np.stack([x, y]), axis=1), lambda x, y: [k * x.sum(), k * y.sum()]),
        (run_raw, lambda x, y: k * x),
        (lambda x, y: fused(x, y)[0], lambda x, y: k * x - y),
        (lambda x, y: fused(x, y)[1], lambda x, y: (k * x - y).sum()),
    ]


@pytest.mark.usefixtures("restless")
@pytest.mark.threads
def test_sixteen_threads_meet_in_first_and_repeated_calls() -> None:
    """Without a GIL they run at the same time (docs/arrays.md, Threads)."""
    threads, rounds = 16, 3
    barrier = threading.Barrier(threads)

    def work(number: int) -> list[str]:
        generator = np.random.default_rng(number)
        wrong = []
        for round_number in range(rounds):
            if barrier.wait(60) == 0:
                shared[:] = kinds_of_kernels(round_number)
            barrier.wait(60)
            for step in range(12):
                size = 40 if step % 3 else int(generator.integers(1, 200))
                dtype = "float32" if step % 4 else "float64"
                x, y = generator.integers(-9, 9, (2, size)).astype(dtype)
                for index in generator.permutation(len(shared)).tolist():
                    kernel, reference = shared[index]
                    if index == 3 and dtype != "float32":
                        continue  # the raw kernel has one type
                    if not np.array_equal(kernel(x, y), reference(x, y)):
                        wrong.append(f"{round_number=} {step=} {index=}")
        return wrong

    shared: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(work, range(threads)))
    assert found == [[]] * threads


@pytest.mark.filterwarnings("ignore:.*fork")  # of Python 3.12 and of JAX: we know
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_goes_on() -> None:
    # More elements than one thread takes, so that the pool is awake in the parent.
    x = np.ones(200_000)
    assert DOUBLE(x).sum() == 400_000
    child = os.fork()
    if child == 0:
        os._exit(0 if DOUBLE(x).sum() == 400_000 else 1)
    assert os.waitpid(child, 0)[1] == 0
