"""Random operands: shapes that broadcast, layouts of every kind, memory on any device.

A `Layout` says where the elements of an operand are in a buffer; `Memory` puts the buffer on a
device.  Elements of the buffer that no view shows tell whether a kernel writes beside its output.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

import kspec
from kspec.runtime.memory import numpy_dtype
from tests.devices import ArrayDevice

Shape = tuple[int, ...]

_LONG = (0, 1, 2, 3, 127, 128, 129, 1000, 20011)
_SHORT = (1, 2, 3, 2, 3, 4, 5, 1, 0)


@st.composite
def shapes(draw: Any, max_dims: int = 6) -> Shape:
    """Draw a shape, 0-d and empty ones included."""
    ndim = draw(st.sampled_from([2, 1, 3, *range(4, max_dims + 1), 0]))
    if ndim == 1:
        return (draw(st.sampled_from(_LONG)),)
    return tuple(draw(st.lists(st.sampled_from(_SHORT), min_size=ndim, max_size=ndim)))


@st.composite
def parts(draw: Any, full: Shape) -> Shape:
    """Draw a shape that broadcasts to `full`."""
    dropped = draw(st.integers(0, 2 * len(full)))
    dropped = dropped if dropped <= len(full) else 0
    ones = draw(st.integers(0, 2 ** len(full) - 1)) & draw(st.integers(0, 2 ** len(full) - 1))
    whole = tuple(1 if ones >> axis & 1 else extent for axis, extent in enumerate(full))
    return whole[dropped:]


@dataclass(frozen=True)
class Layout:
    """A view of a buffer; strides and start count elements."""

    shape: Shape
    strides: tuple[int, ...]
    start: int
    total: int


@st.composite
def layouts(draw: Any, shape: Shape, written: bool) -> Layout:
    """Draw a layout; the elements of one that is `written` do not overlap."""
    kinds = ["ordered", "permuted", "stepped"] + ([] if written else ["tangled"])
    kind = draw(st.sampled_from(kinds))
    axes = range(len(shape))
    if kind == "tangled":
        # Zero strides, sliding windows, steps back: any small number for each axis.
        size = len(shape)
        strides = draw(st.lists(st.integers(-3, 3), min_size=size, max_size=size))
    else:
        order = axes if kind == "ordered" else draw(st.permutations(axes))
        steps = [1] * len(shape)
        if kind == "stepped":
            choices = st.sampled_from([1, -1, 2, -3])
            steps = draw(st.lists(choices, min_size=len(shape), max_size=len(shape)))
        strides = [0] * len(shape)
        distance = 1
        for axis in reversed(order):
            strides[axis] = distance * steps[axis]
            distance *= max(1, shape[axis]) * abs(steps[axis])
    reach = [max(0, extent - 1) * step for extent, step in zip(shape, strides, strict=True)]
    # Any first element: vector loads must not assume more than the alignment of one.
    before = draw(st.integers(0, 3)) - sum(step for step in reach if step < 0)
    behind = sum(step for step in reach if step > 0) + 3
    return Layout(shape, tuple(strides), before, before + behind)


class Memory:
    """An operand's buffer, in NumPy and on a device, and the views of it."""

    def __init__(self, layout: Layout, buffer: npt.NDArray[Any], place: ArrayDevice) -> None:
        self.buffer = buffer
        self._layout = layout
        self._place = place
        self._own = place.array(buffer)

    @property
    def view(self) -> npt.NDArray[Any]:
        """NumPy's view of the buffer."""
        return self._numpy_view(self.buffer)

    @property
    def array(self) -> Any:
        """The same view on the device."""
        if self._place.library == "numpy":
            return self._numpy_view(self._own)
        itemsize, layout = self.buffer.itemsize, self._layout
        return kspec.DeviceArray(
            self._own._memory,
            self._own.ptr + layout.start * itemsize,
            layout.shape,
            tuple(step * itemsize for step in layout.strides),
            self._own.dtype,
            self._own.device,
        )

    def check(self) -> None:
        """Compare all of the device's buffer with NumPy's, bit by bit."""
        assert self._place.numpy(self._own).tobytes() == self.buffer.tobytes()

    def _numpy_view(self, buffer: npt.NDArray[Any]) -> npt.NDArray[Any]:
        size = buffer.itemsize
        strides = tuple(step * size for step in self._layout.strides)
        # Through bytes: NumPy's protocols do not have every dtype of ml_dtypes.
        raw, start = buffer.view(np.uint8), self._layout.start * size
        view: npt.NDArray[Any] = np.ndarray(self._layout.shape, buffer.dtype, raw, start, strides)
        return view


def elements(dtype: str, count: int, random: np.random.Generator, floats: str) -> Any:
    """Return random elements: whole numbers up to 100; floats may be `normal` or `any` ones."""
    kind = numpy_dtype(dtype)
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if floats != "whole" and dtype.startswith(("float", "bfloat")):
        values = random.normal(size=count)
        if floats == "any":
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 6e-8, 1e30])
            chosen = random.integers(0, 40, count)
            rare = chosen < len(special)
            values[rare] = special[chosen[rare]]
        with np.errstate(over="ignore"):
            return values.astype(kind)
    low = 0 if dtype.startswith("uint") else -100
    values = random.integers(low, 101, count)
    if dtype.startswith("complex"):
        values = values + 1j * random.integers(low, 101, count)
    return values.astype(kind)


def scalar(value: Any, python: bool) -> Any:
    """Return an element as a scalar of NumPy's, or Python's own kind."""
    if not python:
        return value
    return value.item() if isinstance(value, np.number | np.bool_) else float(value)


def reference_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes that `axis` names, sorted and not negative."""
    if axis is None:
        return tuple(range(ndim))
    listed = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(int(one) % ndim for one in listed))


@st.composite
def axis_forms(draw: Any, ndim: int) -> Any:
    """Draw what `axis=` may be."""
    if ndim == 0:
        return draw(st.sampled_from([None, ()]))
    subsets = [c for k in range(ndim + 1) for c in itertools.permutations(range(ndim), min(k, 2))]
    form = draw(st.sampled_from(["none", "integer", "numpy", "tuple", "list", "many"]))
    if form == "none":
        return None
    if form == "integer":
        return draw(st.integers(-ndim, ndim - 1))
    if form == "numpy":
        return np.int64(draw(st.integers(-ndim, ndim - 1)))
    if form == "many":
        kept = draw(st.integers(0, 2**ndim - 1))
        return tuple(axis for axis in range(ndim) if not kept >> axis & 1)
    chosen = [axis - ndim * draw(st.booleans()) for axis in draw(st.sampled_from(subsets))]
    return tuple(chosen) if form == "tuple" else chosen
