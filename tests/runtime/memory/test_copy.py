"""Copies between CUDA devices of arrays with any strides: the rows that the driver is told."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kspec.runtime.driver import memory as driver_memory
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.registry import NumPy
from kspec.runtime.memory import ArrayView
from kspec.runtime.memory.copy import copy_elements

VIEWS: list[Callable[[Any], Any]] = [
    lambda x: x,
    lambda x: x[::-1, :, ::2],
    lambda x: x[:, 1:4],
    lambda x: x.transpose(2, 0, 1),
    lambda x: x[2],
    lambda x: x[:, :, 3],
    lambda x: np.broadcast_to(x[:1], (3, 7, 8)),
    lambda x: x[1:1],
    lambda x: x[1, 2, 3:4],
]


class Driver:
    """The driver's copies, done on the host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.copies = 0
        monkeypatch.setattr(driver_memory, "copy_async", self.copy)
        monkeypatch.setattr(driver_memory, "copy_rows_async", self.copy_rows)
        monkeypatch.setattr(driver_streams, "wait_for_stream", lambda *_: None)

    def copy(self, _: int, to: int, source: int, nbytes: int, stream: int) -> None:
        self.copies += 1
        ctypes.memmove(to, source, nbytes)

    def copy_rows(
        self,
        _: int,
        to: tuple[int, int],
        source: tuple[int, int],
        width: int,
        rows: int,
        stream: int,
    ) -> None:
        assert width <= to[1] and width <= source[1]  # what CUDA requires
        self.copies += 1
        for row in range(rows):
            ctypes.memmove(to[0] + row * to[1], source[0] + row * source[1], width)


def on_cuda(array: Any, ordinal: int) -> ArrayView:
    return replace(NumPy().view(array), device=Device("cuda", ordinal))


@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("view", VIEWS)
def test_any_strides(
    view: Callable[[Any], Any], other: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Driver(monkeypatch)
    source = view(np.arange(6 * 7 * 8, dtype="int32").reshape(6, 7, 8))
    around = np.full([extent + 2 for extent in source.shape], -1, "int32")
    target = around[(slice(1, -1),) * source.ndim]
    copy_elements(on_cuda(target, 0), 0, on_cuda(source, other), 0)
    np.testing.assert_array_equal(target, source)
    assert (around == -1).sum() == around.size - source.size


def test_halos_are_few_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of C-ordered arrays along any axis: one copy, or one for each item of outer axes."""
    driver = Driver(monkeypatch)
    source, target = np.ones((4, 50, 60)), np.zeros((4, 54, 64))
    for part, copies in (
        ((slice(0, 2),), 1),
        ((slice(None), slice(48, 50)), 1),
        ((slice(None), slice(None), slice(0, 2)), 4),
    ):
        driver.copies = 0
        taken = source[part]
        place = target if len(part) == 3 else np.zeros((4, 54, 60))
        into = place[tuple(slice(0, extent) for extent in taken.shape)]
        copy_elements(on_cuda(into, 0), 0, on_cuda(taken, 1), 0)
        assert driver.copies == copies
        np.testing.assert_array_equal(into, taken)
