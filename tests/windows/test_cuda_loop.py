"""The loops of GPUs over windows, run on the CPU: their tiles, their tests, and their edges.

The headers take the branch for CUDA where ``KSPEC_HOST`` is not defined, and the schedule is a
GPU's. Its blocks then run on the host device.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.stages import CudaSource
from kspec.pipeline import FieldsSource, LazySource
from kspec.runtime.schedules import window_schedule
from tests.windows.reference import BOUNDARIES, correlate, neighbours
from tests.windows.sums import REACHES, SHIFTS, boundary_of, sum_in_numpy, sum_of_layers
from tests.windows.test_adjoint import LINE, STAR
from tests.windows.test_layers import SHAPES as LAYERS
from tests.windows.test_layers import is_long_enough
from tests.windows.test_selection import NARROW, SELECTIONS, SKEWED, limited, narrow
from tests.windows.test_windows import LAPLACIAN, WIDE, integers, wide, windowed
from tests.windows.test_windows import STAR as STAR_WEIGHTS

ALL = [*BOUNDARIES, "valid"]


@pytest.fixture(autouse=True)
def cuda_loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Compile and schedule as for a GPU that has pairs, for kernels that are made in the test."""
    texts: list[str] = []
    render, choose = LazySource.__call__, window_schedule.choose_windows

    def without_host(self: LazySource, wanted: Any) -> CudaSource:
        source = render(self, wanted)
        texts.append(source.text)
        macros = "#undef KSPEC_HOST\n#define KSPEC_PAIRS true\n"
        return replace(source, text=macros + source.text)

    def on_a_gpu(*args: Any, on_host: bool, **keywords: Any) -> Any:
        assert on_host
        return choose(*args, on_host=False, **keywords)

    monkeypatch.setattr(LazySource, "__call__", without_host)
    monkeypatch.setattr(FieldsSource, "recipe", "")  # no notes of other sources
    monkeypatch.setattr(window_schedule, "choose_windows", on_a_gpu)
    yield texts
    assert texts


def anew(kernel: Any) -> Any:
    """Return a kernel of the same spec that has not been compiled yet."""
    return functools.partial(kspec.ElementwiseKernel.from_spec(kernel.spec), sanitize="none")


SUM_OF_NINE = windowed(
    "T v",
    "v = u(-1, -1) + 2 * u(-1, 0) + 3 * u(-1, 1) + 4 * u(0, -1) + 5 * u + 6 * u(0, 1)"
    " + 7 * u(1, -1) + 8 * u(1, 0) + 9 * u(1, 1)",
    "sum_of_nine",
    [1, 1],
)
SHAPES = [
    [(1,), (255,), (256,), (3, 600), (2, 4096), (4099,)],
    [(1, 1), (5, 70), (33, 32), (32, 31), (2, 9, 100), (40, 3), (70, 1024), (70, 1023)],
    [(1, 2, 3), (9, 8, 33), (2, 5, 17, 40), (9, 40, 512), (9, 40, 510)],
    [(3, 4, 5, 6), (2, 5, 1, 9, 34), (5, 8, 20, 512)],
]


@pytest.mark.parametrize("number", range(4))
def test_every_boundary(number: int) -> None:
    kernel = anew(WIDE[number])
    for shape in SHAPES[number]:
        u = integers(*shape)
        for boundary in BOUNDARIES:
            np.testing.assert_array_equal(kernel(u, boundary=boundary), wide(number, u, boundary))


@pytest.mark.parametrize("number", range(4))
def test_valid(number: int) -> None:
    kernel = anew(WIDE[number])
    for shape in SHAPES[number]:
        u = np.pad(integers(*shape), [(0, 0)] * (len(shape) - number - 1) + [(2, 3)] * (number + 1))
        np.testing.assert_array_equal(kernel(u, boundary="valid"), wide(number, u, "valid"))


def test_strides_and_given_outputs() -> None:
    kernel = anew(LAPLACIAN)
    u = integers(3, 40, 70)
    for view in (u[:, ::-1, ::-1], u.transpose(0, 2, 1), u[:, ::2], np.broadcast_to(u[0], u.shape)):
        for boundary in ALL:
            expected = correlate(view, STAR_WEIGHTS, boundary)
            given = np.empty(expected.shape[::-1]).T
            assert kernel(view, given, boundary=boundary) is given
            np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("shift", [0, 2])
@pytest.mark.parametrize("number", range(len(ALL)))
def test_pairs(number: int, shift: int) -> None:
    """Two elements of a pack at once, at both ends of rows and between."""
    boundary, dtype = ALL[number], NARROW[(number + shift) % len(NARROW)]
    for kernel, expected in SELECTIONS:
        for shape in [(9, 1056), (2, 40, 544), (5, 32), (3, 16), (12, 70)]:
            u = narrow(dtype, *shape)
            found = anew(kernel)(u, boundary=boundary)
            np.testing.assert_array_equal(found, expected(u, boundary))
    u, limit = narrow(dtype, 12, 1056), narrow(dtype, 24, 1056)[12:]
    for other in (limit, limit[0, 0])[boundary == "valid" :]:
        found = anew(SKEWED)(u, other, boundary=boundary)
        np.testing.assert_array_equal(found, limited(u, other, boundary))


@pytest.mark.parametrize(
    ("dtype", "boundary"), [*(("uint8", one) for one in ALL), ("float32", "wrap")]
)
def test_sums_of_bytes(boundary: str, dtype: str) -> None:
    """Threads have more rows of bytes, but code for two of them at once."""
    kernel, weights = anew(SUM_OF_NINE), np.arange(1, 10).reshape(3, 3)
    for shape in [(9, 1056), (2, 40, 544), (5, 32), (12, 70), (19, 2064)]:
        u = np.random.default_rng(0).integers(0, 5, shape).astype(dtype)
        np.testing.assert_array_equal(kernel(u, boundary=boundary), correlate(u, weights, boundary))


@pytest.mark.parametrize("boundary", ALL)
def test_long_rows_of_weights(boundary: str) -> None:
    """Rows that share nothing are a block's whole width."""
    reach, weights = [[0, 0], [9, 8]], np.arange(1, 19)
    terms = " + ".join(f"{weight} * u(0, {k - 9})" for k, weight in enumerate(weights))
    kernel = anew(windowed("T v", f"v = {terms}", "row_of_18", reach))
    for shape in [(9, 1056), (2, 21, 544), (5, 32), (12, 70)]:
        u = integers(*shape, dtype="float32")
        near = neighbours(u, [(0, 0), (9, 8)], boundary)
        expected = sum(weight * near[0, k - 9] for k, weight in enumerate(weights))
        np.testing.assert_array_equal(kernel(u, boundary=boundary), expected)


@pytest.mark.parametrize(
    ("dtype", "boundary"), [("float32", "nearest"), ("int16", "constant"), ("uint8", "valid")]
)
def test_many_neighbours(dtype: str, boundary: str) -> None:
    """Where arithmetic takes longer than the memory: more rows of a thread."""
    weights = np.arange(49).reshape(7, 7) % 5
    terms = " + ".join(f"{w} * u({y - 3}, {x - 3})" for (y, x), w in np.ndenumerate(weights))
    kernel = anew(windowed("T v", f"v = {terms}", "box_of_49", [3, 3]))
    for shape in [(70, 1024), (2, 33, 64), (9, 544), (12, 70)]:
        u = np.random.default_rng(0).integers(0, 9, shape).astype(dtype)
        expected = correlate(u, weights.astype(dtype), boundary)
        np.testing.assert_array_equal(kernel(u, boundary=boundary), expected)


def test_the_index_and_windows_of_fewer_axes() -> None:
    declared = kspec.ElementwiseKernel(
        "T u, T c, T h",
        "T v, int64 k",
        "v = c(-1) * u(1, 0) + h; k = i",
        "fewer_axes",
        windows={
            "u": {"reach": [1, 1], "boundary": "wrap"},
            "c": {"reach": [1], "boundary": "mirror"},
        },
    )
    u, c, h = integers(2, 21, 40), integers(2, 21, 40, seed=1), integers(21, 1, seed=2)
    v, k = anew(declared)(u, c, h)
    expected = neighbours(c, [(1, 1)], "mirror")[-1,] * np.roll(u, -1, 1) + h
    np.testing.assert_array_equal(v, expected)
    np.testing.assert_array_equal(k, np.arange(u.size).reshape(u.shape))


@pytest.mark.parametrize("boundary", ALL)
def test_adjoint(boundary: str) -> None:
    for kernel, shape in ((LINE, (3, 300)), (STAR, (9, 40))):
        grad = integers(*shape)
        inputs = (grad,) if kernel is LINE else (np.full(shape, 2.0), grad)
        on_cuda = anew(kernel.backward.kernel)(*inputs, boundary=boundary)
        u = integers(*on_cuda.shape, seed=2)
        # <g, A u> = <A* g, u>
        forward = anew(kernel)
        zeros = np.zeros_like(u)
        rest = inputs[:-1]
        linear = forward(u, *rest, boundary=boundary) - forward(zeros, *rest, boundary=boundary)
        np.testing.assert_allclose(np.vdot(grad, linear), np.vdot(on_cuda, u), rtol=1e-12)


def sampled(array: Any, axes: int, offsets: Any, order: int, boundary: str, value: float) -> Any:
    """Return SciPy's samples along the last axes, one batch element at a time."""
    ndimage = pytest.importorskip("scipy.ndimage")
    mode = {"wrap": "grid-wrap", "constant": "grid-constant"}.get(boundary, boundary)
    result = np.empty(array.shape)
    for batch in np.ndindex(array.shape[:-axes]):
        places = np.indices(array.shape[-axes:]) + [one[batch] for one in offsets]
        result[batch] = ndimage.map_coordinates(
            array[batch], places, order=order, mode=mode, cval=value, prefilter=False
        )
    return result


@pytest.mark.parametrize("order", [0, 1, 3])
def test_samples(order: int) -> None:
    """Coordinates start at the element itself, however many elements a thread takes."""
    declared = kspec.ElementwiseKernel(
        "T u, T c, T d",
        "T v",
        "v = u.sample(d, -d) + 10 * c.sample(d) + 100 * u(1, 0)",
        f"samples_{order}",
        windows={
            "u": {"reach": [3, 3], "boundary": [*BOUNDARIES], "value": 2},
            "c": {"reach": [3], "boundary": [*BOUNDARIES], "value": 3},
        },
        samples={"u": {"order": order}, "c": {"order": order}},
    )
    kernel = anew(declared)
    for shape in [(33, 70), (2, 9, 40), (1, 5)]:
        u, c = integers(*shape), integers(*shape, seed=1)
        d = np.random.default_rng(2).integers(-8, 8, shape) / 4
        for boundary in BOUNDARIES[order // 2 :: 2]:
            expected = 100 * neighbours(u, [(1, 1)] * 2, boundary, 2)[1, 0]
            expected = expected + sampled(u, 2, [d, -d], order, boundary, 2)
            expected = expected + 10 * sampled(c, 1, [d], order, boundary, 3)
            np.testing.assert_allclose(kernel(u, c, d, boundary=boundary), expected, atol=1e-11)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("number", range(len(REACHES)))
def test_sums_of_layers(cuda_loop: list[str], number: int, shift: int) -> None:
    """Parts of tiles too: layers and rows behind the last ones store nothing."""
    reach, boundary = REACHES[number], boundary_of(number, shift)
    kernel = anew(sum_of_layers(reach))
    for shape in LAYERS[len(reach)]:
        if not is_long_enough(shape, reach, boundary):
            continue
        u = integers(*shape, dtype="float32")
        np.testing.assert_array_equal(
            kernel(u, boundary=boundary), sum_in_numpy(u, reach, boundary)
        )
    assert "kspec::layered(" in cuda_loop[0]
