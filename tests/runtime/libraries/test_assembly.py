"""Arrays from parts of others: any strides, from the host to a GPU and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.runtime.libraries.assembly import Part, assemble
from tests.devices import HOST, ArrayDevice
from tests.devices import every_device as device

__all__ = ["device"]

WHOLE = np.arange(6 * 7 * 8, dtype="int32").reshape(6, 7, 8)
VIEWS = [
    lambda x: x,
    lambda x: x[::-1, :, ::2],
    lambda x: x[:, 1:4],
    lambda x: x.transpose(2, 0, 1),
    lambda x: x[2],
    lambda x: x[:, :, 3],
]


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("from_host", [False, True])
def test_parts_along_an_axis(view: Any, axis: int, from_host: bool, device: ArrayDevice) -> None:
    """The borrowed part and the one at home may have any strides, on the host or a GPU."""
    home = view(device.array(WHOLE))
    other = view((HOST if from_host else device).array(WHOLE + 1000))
    plain = view(WHOLE)
    taken = [(0, extent) for extent in plain.shape]
    taken[axis] = (1, 3)
    place = [0] * plain.ndim
    place[axis] = 2
    shape = list(plain.shape)
    shape[axis] += 2
    parts = [Part(other, (0,) * plain.ndim, tuple(taken)), Part(home, tuple(place))]
    got = device.numpy(assemble("x", tuple(shape), parts, home=1))
    borrowed = plain[tuple(slice(*one) for one in taken)] + 1000
    np.testing.assert_array_equal(got, np.concatenate([borrowed, plain], axis))


def test_parts_on_the_host_of_arrays_on_a_device(device: ArrayDevice) -> None:
    parts = [Part(WHOLE[:2], (0, 0, 0)), Part(device.array(WHOLE)[:, ::-1][2:], (2, 0, 0))]
    got = assemble("x", (6, 7, 8), parts, home=0)
    assert isinstance(got, np.ndarray)
    expected = np.concatenate([WHOLE[:2], WHOLE[2:, ::-1]])
    np.testing.assert_array_equal(got, expected)


def test_no_elements(device: ArrayDevice) -> None:
    empty = device.array(np.ones((0, 4)))
    got = assemble(
        "x", (2, 4), [Part(empty, (0, 0)), Part(device.array(np.ones((2, 4))), (0, 0))], 1
    )
    assert device.numpy(got).tolist() == [[1] * 4] * 2


def test_other_dtypes(device: ArrayDevice) -> None:
    parts = [Part(device.array(np.ones(2)), (0,)), Part(device.array(np.ones(2, "f4")), (2,))]
    with pytest.raises(kspec.ArgumentTypeError, match="add: x is float64 here, and float32 in the"):
        assemble("add: x", (4,), parts, home=0)
