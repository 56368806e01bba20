"""Sums that a GPU's threads add layer by layer: every reach, boundary and type, and the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from tests.devices import ArrayDevice
from tests.windows.reference import ALL, integers
from tests.windows.sums import (
    REACHES,
    SHIFTS,
    boundary_of,
    offsets,
    sum_in_numpy,
    sum_of_layers,
)

# Less than a tile, a tile and parts of others, along each axis; rows are made of packs.
SHAPES = {
    2: [(7, 16), (3, 8, 512), (9, 272), (65, 528), (100, 16)],
    3: [(5, 4, 16), (2, 7, 9, 272), (13, 10, 160), (6, 6, 144)],
}
DTYPES = ["float32", "float64", "float16", "int32", "uint8", "complex64"]


def is_long_enough(shape: tuple[int, ...], reach: Any, boundary: str) -> bool:
    """Whether an array has as many elements as "valid" results need."""
    ends = zip(reversed(shape), reversed(reach), strict=False)
    return boundary != "valid" or all(extent >= sum(sides) for extent, sides in ends)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("number", range(len(REACHES)))
def test_every_boundary(device: ArrayDevice, number: int, shift: int) -> None:
    reach, boundary = REACHES[number], boundary_of(number, shift)
    kernel = sum_of_layers(reach)
    for shape in SHAPES[len(reach)]:
        if not is_long_enough(shape, reach, boundary):
            continue
        u = integers(*shape, dtype="float32")
        got = kernel(device.array(u), boundary=boundary)
        np.testing.assert_array_equal(device.numpy(got), sum_in_numpy(u, reach, boundary))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reach", [REACHES[1], REACHES[5]], ids=str)
def test_every_type(device: ArrayDevice, reach: Any, dtype: str) -> None:
    kernel = sum_of_layers(reach, ".0f" if dtype == "complex64" else "")
    for shape in SHAPES[len(reach)]:
        u = integers(*shape, dtype="int64").astype("int8").astype(dtype)
        wide = u.astype("complex128" if dtype == "complex64" else "float64")
        expected = sum_in_numpy(wide, reach, "nearest")
        if dtype in ("uint8", "int32"):
            expected = sum_in_numpy(u.astype("int64"), reach, "nearest")
        got = kernel(device.array(u))
        np.testing.assert_array_equal(device.numpy(got), expected.astype(dtype))


def assert_bits_do_not_depend_on_the_place(
    device: ArrayDevice, kernel: kspec.ElementwiseKernel, reach: Any, dtype: str
) -> None:
    """In a tile or at its edges, in rows of packs or not, alone or in a larger array."""
    shape = (41, 528) if len(reach) == 2 else (15, 11, 272)
    u = np.random.default_rng(3).random(shape).astype(dtype)
    whole = device.numpy(kernel(device.array(u), boundary="wrap"))
    inside = tuple(
        slice(before, extent - after) for (before, after), extent in zip(reach, shape, strict=True)
    )
    valid = device.numpy(kernel(device.array(u), boundary="valid"))
    assert valid.tobytes() == whole[inside].tobytes()
    for cut in (8, 5):
        part = np.ascontiguousarray(u[..., cut:])
        found = device.numpy(kernel(device.array(part), boundary="valid"))
        assert found.tobytes() == valid[..., cut:].tobytes()


@pytest.mark.parametrize(
    ("reach", "dtype"),
    [*((one, "float32") for one in REACHES), (REACHES[1], "float64"), (REACHES[5], "float64")],
    ids=str,
)
def test_the_same_bits(place: ArrayDevice, reach: Any, dtype: str) -> None:
    kernel = sum_of_layers(reach, "/ 7.3f" if dtype == "float32" else "/ 7.3")
    assert_bits_do_not_depend_on_the_place(place, kernel, reach, dtype)


@pytest.mark.parametrize("reach", [((1, 1), (1, 1)), REACHES[0], REACHES[4]], ids=str)
def test_products_that_neighbours_have_in_common(device: ArrayDevice, reach: Any) -> None:
    terms = (f"0.137f * u({', '.join(map(str, one))})" for one in offsets(reach))
    kernel = kspec.ElementwiseKernel(
        "T u",
        "T v",
        "v = " + " + ".join(terms),
        "mean",
        windows={"u": {"reach": [*map(list, reach)], "boundary": ALL}},
    )
    assert_bits_do_not_depend_on_the_place(device, kernel, reach, "float32")


def test_views(device: ArrayDevice) -> None:
    """Rows with gaps, rows that go backwards, and an output of other strides."""
    reach = REACHES[1]
    kernel = sum_of_layers(reach)
    u = integers(60, 560, dtype="float32")
    array = device.array(u)
    for view in (np.s_[4:-4, 16:-16], np.s_[::2], np.s_[::-1], np.s_[:, ::-1], np.s_[:, ::2]):
        expected = sum_in_numpy(u[view], reach, "mirror")
        got = kernel(array[view], boundary="mirror")
        np.testing.assert_array_equal(device.numpy(got), expected)
        out = device.array(np.zeros((2 * expected.shape[0], expected.shape[1]), "float32"))
        kernel(array[view], out[::2], boundary="mirror")
        np.testing.assert_array_equal(device.numpy(out)[::2], expected)
        assert not device.numpy(out)[1::2].any()


def test_a_sum_of_types_that_widen(device: ArrayDevice) -> None:
    """The sum becomes wider on its way: no layer may narrow it."""
    kernel = kspec.ElementwiseKernel(
        "float32 u",
        "float64 v",
        "v = u(-1, -1) + u(-1, 0) + u(-1, 1) + u(-1, 2) + u(0, -1) + (double)u(0, 0) + u(0, 1)"
        " + u(0, 2) + u(1, -1) + u(1, 0) + u(1, 1) + u(1, 2)",
        "widening",
        windows={"u": {"reach": [1, [1, 2]], "boundary": "nearest"}},
    )
    assert kernel.spec.terms
    u = np.random.default_rng(1).random((20, 64)).astype("float32")
    near = {
        (a, b): np.pad(u, ((1, 1), (1, 2)), "edge")[1 + a : 21 + a, 1 + b : 65 + b]
        for a in (-1, 0, 1)
        for b in (-1, 0, 1, 2)
    }
    narrow = near[-1, -1] + near[-1, 0] + near[-1, 1] + near[-1, 2] + near[0, -1]
    expected = narrow.astype("float64")
    for one in [(0, 0), (0, 1), (0, 2), (1, -1), (1, 0), (1, 1), (1, 2)]:
        expected = expected + near[one]
    np.testing.assert_array_equal(device.numpy(kernel(device.array(u))), expected)
