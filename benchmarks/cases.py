"""What is measured: one row per kernel, layout and dtype.

``elementwise_cases`` and ``reduction_cases`` hold the rows.  A case says how its operands look
for a number of elements, so that one table serves a GPU (2^28), the host and tests.  Cases that
are `held_out` played no part when schedules were chosen; they show whether the rules carry over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from benchmarks.kernels import Text
from benchmarks.operands import Operand, Operands, Shape
from benchmarks.references import Axis

_OF_ROWS = ("segments", "by_key")  # forms whose last input says where the rows of the first go


@dataclass(frozen=True)
class Case:
    """One measurement.

    Attributes
    ----------
    name : str
        What is special about it.
    text : Text
        The kernel.
    inputs : callable
        Operands of about so many elements: ``inputs(n)``.
    outputs : callable or None
        Likewise; None: C-ordered, of the shape that follows from the inputs.
    axis : tuple of int or None
        Reduced axes; None: all.
    target : float or None
        Fraction that has to be reached, of the copy or of what `of` names.
    of : str
        What the target is a fraction of: ``"copy"``, ``"CuPy"``, or the bandwidth of a case of
        that name, which comes earlier in the table.
    held_out : bool
        Whether the case is in none of the tables that schedules were tuned on.
    scale : float
        Elements, in units of the run's.
    latency : bool
        Whether the time itself, in microseconds, is of interest.
    section : str
        Group it is listed in; default: the kind of its kernel.
    times : mapping of str to float or None
        How many times as fast as each of these peers it has to be; None: it is reported.
    cub : str
        Function of `benchmarks/cub.cu` that computes the same; "": CUB has none.
    """

    name: str
    text: Text
    inputs: Operands
    outputs: Operands | None = None
    axis: Axis | None = None
    target: float | None = None
    of: str = "copy"
    held_out: bool = False
    scale: float = 1.0
    latency: bool = False
    section: str = ""
    times: Mapping[str, float | None] = field(default_factory=dict)
    cub: str = ""

    @property
    def group(self) -> str:
        """``"elementwise"``, ``"reduction"`` or another section."""
        return self.section or self.text.kind

    @property
    def label(self) -> str:
        """The name with its group, which patterns are matched with."""
        return f"{self.group}/{self.name}"

    def bind(self, n: int) -> BoundCase:
        """Return the case for about n elements."""
        n = max(1, int(n * self.scale))
        inputs = tuple(self.inputs(n))
        dtypes = self.text.output_dtypes(inputs[0].dtype)
        if self.outputs is not None:
            outputs = tuple(self.outputs(n))
        else:
            shapes = _output_shapes(self, inputs)
            outputs = tuple(Operand(dtype, shapes) for dtype in dtypes)
        return BoundCase(self, inputs, outputs)


@dataclass(frozen=True)
class BoundCase:
    """A case of a certain size.

    Attributes
    ----------
    case : Case
        The row of the table.
    inputs, outputs : tuple of Operand
        What they look like.
    """

    case: Case
    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]

    @property
    def nbytes(self) -> int:
        """Each input read once, each output written once."""
        return sum(operand.nbytes for operand in (*self.inputs, *self.outputs))

    @property
    def elements(self) -> int:
        """Elements the operation is done for: the broadcast size of the inputs."""
        if self.case.text.form in _OF_ROWS:  # bounds or keys are among them
            return math.prod(self.inputs[0].view_shape)
        return math.prod(self.loop)

    @property
    def loop(self) -> Shape:
        """The shape that the inputs broadcast to, without core dimensions."""
        core = self.case.text.core or (0,) * len(self.inputs)
        shapes = (
            one.view_shape[: len(one.view_shape) - count]
            for one, count in zip(self.inputs, core, strict=True)
        )
        return np.broadcast_shapes(*shapes)

    @property
    def rows(self) -> int:
        """Segments, or rows along the last axis."""
        if self.case.text.form == "segments":
            return self.outputs[0].count
        return math.prod(self.inputs[0].view_shape[:-1])

    @property
    def axes(self) -> Axis:
        """The reduced axes, all of them spelled out."""
        if self.case.text.form in _OF_ROWS:
            return (0,)
        ndim = len(self.loop)
        return tuple(range(ndim)) if self.case.axis is None else self.case.axis

    def keywords(self) -> dict[str, Any]:
        """Return the keywords of the call: the axes of reductions, the axis of scans."""
        if self.case.text.form == "by_key":
            return {"n": self.outputs[0].shape[0], **self.case.text.keywords}
        if self.case.text.kind == "elementwise" or self.case.text.form == "segments":
            return {}
        if self.case.text.form in ("scan", "window"):
            return {"axis": self.axes[0], **self.case.text.keywords}
        return {"axis": self.case.axis}


def broadcast_shape(operands: Sequence[Operand]) -> Shape:
    """Return the shape that operands broadcast to."""
    return np.broadcast_shapes(*(operand.view_shape for operand in operands))


def _output_shapes(case: Case, inputs: Sequence[Operand]) -> Shape:
    shape = broadcast_shape(inputs)
    if case.text.kind == "elementwise" or case.text.form == "scan":
        return shape
    reduced = range(len(shape)) if case.axis is None else case.axis
    return tuple(extent for axis, extent in enumerate(shape) if axis not in reduced)


def select(cases: Sequence[Case], pattern: str | None) -> list[Case]:
    """Return the cases whose label contains the pattern, or matches it as shells do."""
    return [case for case in cases if is_selected(case.label, pattern)]


def is_selected(label: str, pattern: str | None) -> bool:
    """Whether a label contains the pattern, or matches it as shells do; None matches all."""
    if pattern is None:
        return True
    pattern, label = pattern.lower(), label.lower()
    return pattern in label or fnmatchcase(label, pattern)
