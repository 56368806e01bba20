"""Generated kernels are reviewed with the schedule of a GPU, and give the same results with it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.host.recording import ReviewedLaunch
from kspec.model.checks import recording
from kspec.reviews.review import LaunchReview

ADD = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
TOTAL = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
# Only the post-map asks how many elements there are.
MEAN = kspec.ReductionKernel(
    "T x", "T y", "x", "a + b", "y = a / (_in_ind.size() / _out_ind.size())", "0", "mean"
)
BLUR = kspec.ElementwiseKernel(
    "T x",
    "T y",
    "y = x(-1, 0) + x(1, 0) + x(0, -1) + x(0, 1)",
    "around",
    windows={"x": {"reach": [1, 1], "boundary": "constant"}},
)
RANDOM = np.random.default_rng(7)
SQUARE = RANDOM.integers(0, 9, (256, 256)).astype("f4")
ODD = RANDOM.integers(0, 9, (67, 131)).astype("f4")
LONG = RANDOM.integers(0, 9, 1 << 18).astype("f4")
KEYS = RANDOM.integers(0, 50, 4096)
SEGMENTS = np.sort(RANDOM.integers(0, 4096, 99))
BOUNDS = np.r_[0, SEGMENTS, 4096]


def rolled(x: Any) -> Any:
    padded = np.pad(x, 1)
    return padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]


Case = tuple[Callable[[], Any], Any, str]
CASES: dict[str, Case] = {
    "flat": (lambda: ADD(LONG, LONG), 2 * LONG, "Flat"),
    "flat, odd": (lambda: ADD(LONG[1:], LONG[1:]), 2 * LONG[1:], ""),
    "transposed": (lambda: ADD(SQUARE, SQUARE.T), SQUARE + SQUARE.T, "Tiles"),
    "column and row": (lambda: ADD(SQUARE[:, :1], SQUARE[:1]), SQUARE[:, :1] + SQUARE[:1], "Rows"),
    "strided": (lambda: ADD(ODD[::2, ::3], 1), ODD[::2, ::3] + 1, "Strided"),
    "rows": (lambda: TOTAL(SQUARE, axis=1), SQUARE.sum(1), "Lines"),
    "odd rows": (lambda: TOTAL(ODD, axis=1), ODD.sum(1), ""),
    "columns": (lambda: TOTAL(SQUARE, axis=0), SQUARE.sum(0), ""),
    "odd columns": (lambda: TOTAL(ODD, axis=0), ODD.sum(0), ""),
    "all": (lambda: TOTAL(LONG), LONG.sum(), "Lines"),
    "scan of rows": (lambda: TOTAL.scan(SQUARE, axis=1), SQUARE.cumsum(1), "ScanLines"),
    "scan of columns": (lambda: TOTAL.scan(SQUARE, axis=0), SQUARE.cumsum(0), "ScanColumns"),
    "scan of all": (lambda: TOTAL.scan(LONG), LONG.cumsum(), ""),
    "segments": (
        lambda: TOTAL.segments(LONG[:4096], BOUNDS),
        np.add.reduceat(np.r_[LONG[:4096], 0], BOUNDS[:-1]) * (np.diff(BOUNDS) > 0),
        "SegmentLines",
    ),
    "by key": (
        lambda: TOTAL.by_key(LONG[:4096], KEYS, 50),
        np.bincount(KEYS, LONG[:4096], 50),
        "Key",
    ),
    "window": (
        lambda: TOTAL.window(SQUARE, 5, axis=1),
        np.lib.stride_tricks.sliding_window_view(SQUARE, 5, 1).sum(2),
        "Rolling",
    ),
    "means of windows": (
        lambda: MEAN.window(8 * SQUARE, 8, axis=1, boundary="shrink"),
        8
        * np.stack(
            [SQUARE[:, max(0, k - 4) : k + 4].mean(1, dtype="f4") for k in range(256)], axis=1
        ),
        "Rolling",
    ),
    "means of segments": (
        lambda: MEAN.segments(LONG[:4096], np.arange(0, 4097, 16)),
        LONG[:4096].reshape(-1, 16).mean(1),
        "SegmentLines",
    ),
    "means by key": (
        lambda: MEAN.by_key(LONG, np.arange(len(LONG)) % 64, 64),
        LONG.reshape(-1, 64).mean(0),
        "Key",
    ),
    "stencil": (lambda: BLUR(SQUARE), rolled(SQUARE), "Windows"),
}


@pytest.mark.usefixtures("without_compilers_for_gpus")
@pytest.mark.parametrize("name", CASES)
def test_results_are_right(name: str) -> None:
    call, want, layout = CASES[name]
    found: list[LaunchReview] = []
    with kspec.reviewing() as launches:
        got = call()
        found += launches
    np.testing.assert_array_equal(np.asarray(got, "f4"), np.asarray(want, "f4"))
    assert found and all(one.lost == 0 for one in found)
    assert any(layout in one.kernel for one in found), [one.kernel for one in found]


@pytest.mark.usefixtures("without_compilers_for_gpus")
@pytest.mark.parametrize(
    ("dtype", "shape", "count", "layout", "within"),
    [
        ("f4", (2000, 500), 50, "KeySorted", 0.15),  # some tiles are looked at
        ("f4", (300000,), 7, "KeyBins", 0.01),
        ("f4", (70000, 8), 90, "KeyRuns", 0.01),
        ("i4", (300000,), 20000, "KeyCells", 0.01),
        ("f4", (40000,), 9000, "KeySorted", 0.01),
    ],
)
def test_all_loads_by_key_are_counted(
    dtype: str, shape: tuple[int, ...], count: int, layout: str, within: float
) -> None:
    """Blocks take tiles, and on the host device the first block takes them all."""
    x = RANDOM.integers(0, 9, shape).astype(dtype)
    keys = RANDOM.integers(0, count, len(x))
    want = np.zeros((count, *shape[1:]), dtype)
    np.add.at(want, keys, x)
    launches: list[ReviewedLaunch] = []
    with recording(launches.append):
        np.testing.assert_array_equal(TOTAL.by_key(x, keys, count), want)
    launch = launches[-1]
    found = launch.recording
    assert layout in launch.kernel and found.sampled == found.blocks and not found.lost
    (sectors,) = (one.l2_loads for one in found.traffic if one.name == "x")
    assert 32 * sectors * found.scale == pytest.approx(x.nbytes, rel=within)


def test_schedules_are_those_of_the_gpu() -> None:
    (one,) = kspec.review(ADD, LONG, LONG).launches
    assert (one.grid, one.block) == ((256, 1, 1), (256, 1, 1))
    assert {line.sectors_per_request for line in one.lines} == {16.0}  # 16 bytes a thread
    (one,) = kspec.review(TOTAL, SQUARE, axis=1).launches
    assert (one.grid, one.block) == ((8, 1, 1), (256, 1, 1))  # a warp a row, four rows each


# Only a compiler knows the size of such an accumulator, and schedules for GPUs need it.
ADD_PAIRS = """
template <class T, int N> struct Sums { T s[N]; };
template <class S> __device__ S one(float x) {
  S a;
  for (auto& s : a.s) s = x;
  return a;
}
template <class S> __device__ S add(S a, const S& b) {
  for (int i = 0; i < sizeof(a.s) / sizeof(a.s[0]); ++i) a.s[i] += b.s[i];
  return a;
}
"""
TALL = RANDOM.integers(0, 9, (300, 37)).astype("f4")


@pytest.mark.usefixtures("without_compilers_for_gpus")
@pytest.mark.parametrize("fields", ["double, 2", "short, 3", "float, 17"])
def test_accumulators_of_a_type_of_the_user(fields: str) -> None:
    sums = kspec.ReductionKernel(
        "T x",
        "T y",
        "one<Acc>(x)",
        "add(a, b)",
        "y = a.s[1]",
        "one<Acc>(0)",
        "sums",
        reduce_type="Acc",
        preamble=f"{ADD_PAIRS}typedef Sums<{fields}> Acc;",
    )
    keys, bounds = KEYS[:300], np.array([0, 7, 7, 150, 299, 300])
    by_key = np.zeros((50, 37), "f4")
    np.add.at(by_key, keys, TALL)
    pieces = [TALL[a:b].sum(0) for a, b in pairwise(bounds)]
    with kspec.reviewing() as launches:
        np.testing.assert_array_equal(sums.by_key(TALL, keys, 50), by_key)
        np.testing.assert_array_equal(sums.by_key(TALL[:, 0], keys, 50), by_key[:, 0])
        np.testing.assert_array_equal(sums.segments(TALL, bounds), pieces)
        np.testing.assert_array_equal(sums.segments(TALL[:, 0], bounds), [p[0] for p in pieces])
        np.testing.assert_array_equal(sums.scan(TALL, axis=0), TALL.cumsum(0))
        np.testing.assert_array_equal(sums.scan(TALL, axis=1), TALL.cumsum(1))
        np.testing.assert_array_equal(sums(TALL, axis=1), TALL.sum(1))
    assert len(launches) >= 7


@pytest.mark.usefixtures("without_compilers_for_gpus")
def test_reviewed_calls_do_not_change_later_ones() -> None:
    kernel = kspec.ReductionKernel("T x", "T y", "x", "max(a, b)", "y = a", "-1", "largest")
    before = kernel(ODD, axis=0)
    kspec.review(kernel, ODD, axis=0)
    np.testing.assert_array_equal(kernel(ODD, axis=0), before)
    np.testing.assert_array_equal(before, ODD.max(0))


@pytest.mark.usefixtures("without_compilers_for_gpus")
def test_a_fused_function_that_keeps_rows() -> None:
    @kspec.fuse(device="host")
    def softmax(x: Any) -> Any:
        y = np.exp(x - x.max(axis=1, keepdims=True))
        return y / y.sum(axis=1, keepdims=True)

    with kspec.reviewing() as launches:
        got = softmax(SQUARE)
    weights = np.exp(SQUARE - SQUARE.max(1, keepdims=True))
    np.testing.assert_allclose(got, weights / weights.sum(1, keepdims=True), rtol=1e-5)
    assert launches


def test_fused_and_jitted_functions() -> None:
    fused = kspec.fuse(device="host")(lambda x, y: x * y + 1)
    (one,) = kspec.review(fused, LONG, np.float32(2)).launches
    assert {line.sectors_per_request for line in one.lines} == {16.0}

    @kspec.jit.rawkernel()
    def double(x: Any, y: Any, n: Any) -> None:
        i = kspec.jit.grid(1)
        if i < n:
            y[i] = 2 * x[i]

    out = np.zeros(1000, "f4")
    (one,) = kspec.review(double, (4,), (256,), (LONG[:1000], out, 1000)).launches
    np.testing.assert_array_equal(out, 2 * LONG[:1000])
    assert {line.sectors_per_request for line in one.lines} == {3.90625}
