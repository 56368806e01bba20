"""Operations that only select: GPUs compute two elements of 8 or 16 bits at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.model.stages import Specialization, Target, windowed
from kspec.pipeline import LazySource
from tests.compiling import compiled
from tests.devices import ArrayDevice
from tests.windows.reference import ALL, BOUNDARIES, neighbours

NARROW = ("uint8", "int8", "uint16", "int16")
VALUE = 3


def windowed_by(reach: list[Any], *names: str) -> dict[str, Any]:
    return {name: {"reach": reach, "boundary": ALL, "value": VALUE} for name in names}


# Columns are sorted, then the nine are known to have their median among three.
_SORTED = """
T a{k} = min(u(-1, {x}), u(0, {x})), b{k} = max(u(-1, {x}), u(0, {x}));
const T low{k} = min(a{k}, u(1, {x})), rest{k} = max(a{k}, u(1, {x}));
auto middle{k} = min(b{k}, rest{k}), high{k} = max(b{k}, rest{k});
"""
MEDIAN = kspec.ElementwiseKernel(
    "T u",
    "T v",
    "".join(_SORTED.format(k=k, x=k - 1) for k in range(3))
    + """
T low = max(max(low0, low1), low2), high = min(min(high0, high1), high2);
T middle = max(min(middle1, middle2), min(max(middle1, middle2), middle0));
v = max(min(low, high), min(max(low, high), middle));
""",
    "median_of_nine",
    windows=windowed_by([1, 1], "u"),
)
EROSION = kspec.ElementwiseKernel(
    "T u",
    "T low, T high",
    "low = min(min(u(-1), u), u(1)); high = max(max(u(-1), u), u(1))",
    "erosion_and_dilation",
    windows=windowed_by([1], "u"),
)
# A wide and skewed reach, and an input without a window.
SKEWED = kspec.ElementwiseKernel(
    "T u, T limit",
    "T v",
    "T most = max(u(-2, -3), max(u(0, 9), u(1, 2))); v = min(most, limit);",
    "skewed_selection",
    windows=windowed_by([[2, 1], [3, 9]], "u"),
)


def limited(u: Any, limit: Any, boundary: str) -> Any:
    near = neighbours(u, [(2, 1), (3, 9)], boundary, VALUE)
    return np.minimum(np.maximum(near[-2, -3], np.maximum(near[0, 9], near[1, 2])), limit)


def median(u: Any, boundary: str) -> Any:
    return np.median([*neighbours(u, [(1, 1)] * 2, boundary, VALUE).values()], axis=0)


def extremes(u: Any, boundary: str) -> Any:
    near = [*neighbours(u, [(1, 1)], boundary, VALUE).values()]
    return np.min(near, axis=0), np.max(near, axis=0)


# Kernels of one input, and what they compute.
SELECTIONS = ((MEDIAN, median), (EROSION, extremes))


def narrow(dtype: str, *shape: int) -> Any:
    """Return elements of the whole range of a dtype."""
    limits = np.iinfo(dtype)
    return np.random.default_rng(0).integers(limits.min, limits.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", [*NARROW, "float32", "int64"])
@pytest.mark.parametrize("shape", [(3, 20, 544), (33, 70), (5, 17), (1, 16)])
def test_every_boundary(shape: tuple[int, ...], dtype: str, device: ArrayDevice) -> None:
    u = narrow(dtype, *shape) if dtype in NARROW else narrow("int16", *shape).astype(dtype)
    known = BOUNDARIES if min(shape[-2:]) < 3 else ALL
    first = NARROW.index(dtype) if dtype in NARROW else 4
    for boundary in known if dtype == "uint8" else known[first % 3 :: 3]:
        v = device.numpy(MEDIAN(device.array(u), boundary=boundary))
        np.testing.assert_array_equal(v, median(u, boundary))
        pair = EROSION(device.array(u), boundary=boundary)
        for found, expected in zip(pair, extremes(u, boundary), strict=True):
            np.testing.assert_array_equal(device.numpy(found), expected)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_wide_reach_and_another_input(dtype: str, device: ArrayDevice) -> None:
    u, limit = narrow(dtype, 40, 1056), narrow(dtype, 80, 1056)[40:]
    for boundary in BOUNDARIES[NARROW.index(dtype) % 2 :: 2]:
        for other in (limit, limit[:1], limit[:, :1], limit[0, 0]):
            given = other if other.ndim == 0 else device.array(other)
            v = device.numpy(SKEWED(device.array(u), given, boundary=boundary))
            np.testing.assert_array_equal(v, limited(u, other, boundary))


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_scipy_agrees(boundary: str, device: ArrayDevice) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    mode = {"mode": "wrap" if boundary == "wrap" else boundary, "cval": VALUE}
    for shape in [(40, 544), (9, 33)]:
        u = narrow("uint8", *shape)
        v = device.numpy(MEDIAN(device.array(u), boundary=boundary))
        np.testing.assert_array_equal(v, ndimage.median_filter(u, 3, **mode))
        low, high = EROSION(device.array(u), boundary=boundary)
        np.testing.assert_array_equal(device.numpy(low), ndimage.grey_erosion(u, (1, 3), **mode))
        np.testing.assert_array_equal(device.numpy(high), ndimage.grey_dilation(u, (1, 3), **mode))


@pytest.mark.parametrize("arch", ["compute_75", "compute_80", "compute_90", "compute_100"])
@pytest.mark.parametrize("dtype", [*NARROW, "float16"])
def test_it_compiles_without_a_warning(dtype: str, arch: str) -> None:
    wanted = Specialization(MEDIAN.name, (("T", dtype),), windowed(2, 0, False), ())
    image = compiled(LazySource(MEDIAN.spec)(wanted), Target(arch))
    assert image.log == ""
