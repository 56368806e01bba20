"""Values of a program of rows: which are of elements and which of rows, and when each is computed.

`kspec.fusion.rows` writes the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence

from kspec.fusion.graph import ArrayInput, Elementwise, Node, Reduce, Scalar, View, is_number
from kspec.fusion.partition import Output, arguments_of, reachable
from kspec.fusion.view_ops import ViewOp
from kspec.model import dtypes

WHOLE, PER_ROW, PER_COLUMN = "whole", "per row", "per column"


class RowValues:
    """Values that are computed of the same rows.

    Parameters
    ----------
    outputs : sequence of Output
        What is left in memory.
    domain : Node
        Something with the shape of all rows.
    count : int
        How many axes at the end make a row.

    Attributes
    ----------
    values : list of Node
        All values, operands first.
    stages : dict of Node to int
        Reductions that must have ended before each.
    needed : dict of Node to set of int
        Loops over the elements of a row in which each is needed.
    last : int
        The last loop.
    """

    def __init__(self, outputs: Sequence[Output], domain: Node, count: int) -> None:
        self.outputs = outputs
        self.domain = domain
        self.count = count
        self.values = reachable(one.value for one in outputs)
        self.stages: dict[Node, int] = {}
        self.needed: dict[Node, set[int]] = {}
        self.last = 0
        self._kinds: dict[Node, str | None] = {}

    def is_possible(self) -> bool:
        """Return whether everything is about the same rows, and some element waits for a row."""
        kinds = [self.kind(one) for one in self.values]
        arrays = [one for one in self.values if isinstance(one, ArrayInput | View)]
        if None in kinds or not all(map(_is_real, self.values)):
            return False
        if any(_is_given(one.value) for one in self.outputs):
            return False
        if any(self.kind(one.value) == PER_COLUMN for one in self.outputs):
            return False
        if not all(map(self._is_read_first, self.values)):
            return False
        if not any(self.kind(one) == WHOLE for one in arrays if self.is_memory(one)):
            return False
        self._find_loops()
        return self.last > 0

    def kind(self, value: Node) -> str | None:
        """Return whether a value is of elements of rows or of rows; None if it is neither."""
        if value not in self._kinds:
            self._kinds[value] = self._find_kind(value)
        return self._kinds[value]

    def _find_kind(self, value: Node) -> str | None:
        if is_number(value) or isinstance(value, Reduce):
            return PER_ROW
        if isinstance(value, View) and isinstance(value.input, Reduce):
            return PER_ROW
        rows, row = self.domain.sizes[: -self.count], self.domain.sizes[-self.count :]
        ones = (1,) * self.count
        sizes = value.sizes
        kind: str | None = None
        if sizes == rows + row:
            kind = WHOLE
        elif sizes == rows + ones:
            kind = PER_ROW
        elif not value.shape:
            kind = None
        elif sizes[-self.count :] == row and all(one == 1 for one in sizes[: -self.count]):
            kind = PER_COLUMN
        return self._kind_of_function(value, kind) if isinstance(value, Elementwise) else kind

    def _kind_of_function(self, value: Elementwise, by_shape: str | None) -> str | None:
        rows = self.domain.sizes[: -self.count]
        framed = rows + (1,) * self.count
        inputs = [one for one in value.operands if not is_number(one)]
        kinds = {self.kind(one) for one in inputs}
        if None in kinds:
            return None
        if kinds == {PER_ROW}:  # with or without the axes of extent 1
            return PER_ROW if value.sizes in (rows, framed) else None
        # A number of a row that has lost its axes would meet elements of other rows.
        met = [one.sizes for one in inputs if self.kind(one) == PER_ROW]
        if by_shape == WHOLE:
            return WHOLE if all(one == framed or set(one) <= {1} for one in met) else None
        return PER_COLUMN if by_shape == PER_COLUMN and not met else None

    def _is_read_first(self, value: Node) -> bool:
        """Return whether what a row reads of an array that is written to is what it writes."""
        if not self.is_memory(value):
            return True
        written = {one.target: one.value for one in self.outputs if one.target is not None}
        found = arguments_of(value) & written.keys()
        return not found or (
            isinstance(value, ArrayInput)
            and self.kind(value) != PER_COLUMN
            and self.kind(value) == self.kind(written[value.position])
        )

    def is_memory(self, value: Node) -> bool:
        """Return whether a value is an array in memory, or a view of one."""
        return isinstance(value, ArrayInput) or (
            isinstance(value, View) and isinstance(value.input, ArrayInput)
        )

    def is_element(self, value: Node) -> bool:
        """Return whether a value has one for each element of a row."""
        return self.kind(value) in (WHOLE, PER_COLUMN)

    def _find_loops(self) -> None:
        """Find in which loop over the elements of a row each value is computed."""
        stages: dict[Node, int] = {}
        for value in self.values:
            stage = max((stages[one] for one in value.operands), default=0)
            stages[value] = stage + isinstance(value, Reduce)
        self.stages = stages
        whole = [one.value for one in self.outputs if self.is_element(one.value)]
        reductions = [one for one in self.values if isinstance(one, Reduce)]
        self.last = max(stages[one] for one in (*whole, *(one.input for one in reductions)))
        needed: dict[Node, set[int]] = {one: set() for one in self.values}
        for one in whole:
            needed[one].add(self.last)
        for one in reductions:
            needed[one.input].add(stages[one.input])
        for value in reversed(self.values):
            if self.is_element(value) and isinstance(value, Elementwise) and needed[value]:
                loops = needed[value] if self.is_converted(value) else {min(needed[value])}
                for one in value.operands:
                    if self.is_element(one):
                        needed[one] |= loops
        self.needed = needed

    def is_converted(self, value: Node) -> bool:
        """Return whether a value is one in memory, of another type.

        It is converted wherever it is needed: kept instead, it would take more registers.
        """
        return (
            isinstance(value, Elementwise)
            and value.function == "cast"
            and self.is_memory(value.operands[0])
        )


def is_known_view(value: Node) -> bool:
    """Return whether a value is not a view, or one that a row program has.

    These are views of arguments, and those of reductions that put the axes of a row back in.
    """
    if not isinstance(value, View):
        return True
    source = value.input
    if not isinstance(source, Reduce):
        return isinstance(source, ArrayInput)
    frame = (slice(None),) * len(source.shape) + (None,) * len(source.axes)
    return value.ops == (ViewOp("index", frame),)


def _is_given(value: Node) -> bool:
    """Return whether there is nothing to compute."""
    of_reduction = isinstance(value, View) and isinstance(value.input, Reduce)
    return isinstance(value, ArrayInput | View | Scalar) and not of_reduction


def _is_real(value: Node) -> bool:
    return dtypes.lookup(value.dtype).kind in "biuf"
