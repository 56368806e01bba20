"""The graph of a traced function: values that are computed from others, each once.

>>> graph = Graph()
>>> x = graph.argument(0, "float32", (Dim(3, (0, 0)), Dim(4, (0, 1))))
>>> total = graph.reduce("sum", x, (1,), "float32")
>>> print(graph.apply("sqrt", (total,), "float32"))
sqrt(sum(x0, axes 1)): float32 [3]

Values know the extents they had when they were traced; where an extent comes from an argument, it
says from which, so that kernels can be told another number next time.  Views are moved through
element-by-element functions to what these read: they cost nothing there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import field
from typing import TypeVar, cast

from kspec.dataclass import dataclass
from kspec.errors import FusionError, ShapeError
from kspec.fusion.view_ops import Index, ViewOp, compose, reshape_as_index
from kspec.model.shapes import broadcast_shapes


@dataclass(frozen=True)
class Dim:
    """An extent.

    Attributes
    ----------
    size : int
        What it is now.
    source : tuple of int or None
        Argument and axis that it is the extent of; None for 1 and for what was calculated.
    """

    size: int
    source: tuple[int, int] | None = None

    def __str__(self) -> str:
        return str(self.size)


Shape = tuple[Dim, ...]
_DEPTH = 16  # of functions in functions that are told
ONE = Dim(1)


@dataclass(frozen=True, eq=False)
class Node:
    """Something with a type and a shape.

    Attributes
    ----------
    dtype : str
        Type of its elements.
    shape : tuple of Dim
        Extents; empty for numbers.
    operands : tuple of Node
        The values it is computed from.
    """

    dtype: str
    shape: Shape
    operands: tuple[Node, ...] = field(default=(), kw_only=True)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The extents as numbers."""
        return tuple(dim.size for dim in self.shape)

    def describe(self, depth: int = _DEPTH) -> str:
        """Return its expression without its type; deeper operands are left out."""
        return _expression(self, depth)

    def __str__(self) -> str:
        extents = f" [{', '.join(map(str, self.shape))}]" if self.shape else ""
        return f"{self.describe()}: {self.dtype}{extents}"


@dataclass(frozen=True, eq=False)
class ArrayInput(Node):
    """An array that the function is called with."""

    position: int


@dataclass(frozen=True, eq=False)
class ScalarInput(Node):
    """A scalar that the function is called with: another one each time."""

    position: int


@dataclass(frozen=True, eq=False)
class Constant(Node):
    """A number that the function says."""

    value: bool | int | float | complex


@dataclass(frozen=True, eq=False)
class Count(Node):
    """Number of elements of some axes together."""

    dims: Shape


@dataclass(frozen=True, eq=False)
class Elementwise(Node):
    """A function of `kspec.ir.builtins`, or ``cast``, of elements that stand at the same place.

    Or one that ``definition`` has: C++ in front of the kernel.
    """

    function: str
    definition: str = ""
    of_numbers: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "of_numbers", all(map(is_number, self.operands)))


class _OfOneInput(Node):
    @property
    def input(self) -> Node:
        """The only operand."""
        return self.operands[0]


@dataclass(frozen=True, eq=False)
class Reduce(_OfOneInput):
    """Elements along axes made one; the axes are gone."""

    function: str
    axes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Scan(Reduce):
    """Elements along one axis combined with all before them; the shape stays."""


@dataclass(frozen=True, eq=False)
class Stored(_OfOneInput):
    """A value that has to be in memory: for a view that no function of elements can be moved to."""


@dataclass(frozen=True, eq=False)
class View(_OfOneInput):
    """Elements of a value in memory, at other places."""

    ops: tuple[ViewOp, ...]


@dataclass(frozen=True, eq=False)
class Concatenation(Node):
    """Values that stand beside each other in memory.

    Attributes
    ----------
    places : tuple of Index
        The elements that each operand becomes.
    """

    places: tuple[Index, ...]


@dataclass(frozen=True, eq=False)
class Whole(View):
    """An array in memory, any element of which may be read: by its number in C order."""


@dataclass(frozen=True, eq=False)
class ElementNumber(Node):
    """The number of an element in C order, of all elements that a kernel computes."""


Input = ArrayInput | ScalarInput
Scalar = ScalarInput | Constant | Count
ValueT = TypeVar("ValueT", bound=Node)


class Graph:
    """Makes values; equal ones are the same object.

    Attributes
    ----------
    shaped : bool
        Whether what was traced depends on extents as numbers, not only on which are equal.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, Node] = {}
        self._views: dict[tuple[Node, ViewOp], Node] = {}
        # Functions of elements that stand anywhere in an array; of `ElementNumber`, if true.
        self._taken: dict[Node, bool] = {}
        self.shaped = False

    def argument(self, position: int, dtype: str, shape: Shape) -> ArrayInput:
        """Return the array of a position."""
        return self._once(("argument", position), lambda: ArrayInput(dtype, shape, position))

    def number(self, position: int, dtype: str) -> ScalarInput:
        """Return the scalar of a position."""
        return self._once(("number", position), lambda: ScalarInput(dtype, (), position))

    def constant(self, value: bool | int | float | complex, dtype: str) -> Constant:
        """Return a number."""
        key = "constant", repr(value), dtype
        return self._once(key, lambda: Constant(dtype, (), value))

    def count(self, dims: Iterable[Dim], dtype: str = "int64") -> Node:
        """Return the number of elements of axes, which the next call may change."""
        dims = tuple(dim for dim in dims if dim.size != 1 or dim.source is not None)
        if all(dim.source is None for dim in dims):
            return self.constant(math.prod(dim.size for dim in dims), dtype)
        return self._once(("count", dims, dtype), lambda: Count(dtype, (), dims))

    def apply(
        self, function: str, inputs: Sequence[Node], dtype: str, definition: str = ""
    ) -> Node:
        """Return a function of elements; the inputs broadcast."""
        inputs = tuple(inputs)
        if function == "cast" and inputs[0].dtype == dtype:
            return inputs[0]
        shape = broadcast([one.shape for one in inputs])
        numbered = [one for one in inputs if self._taken.get(one)]
        if any(one.sizes != sizes_of(shape) for one in numbered):
            inputs = tuple(self.materialize(one) if one in numbered else one for one in inputs)
        key = "apply", function, tuple(map(id, inputs)), dtype
        made = self._once(
            key, lambda: Elementwise(dtype, shape, function, definition, operands=inputs)
        )
        if any(one in self._taken or isinstance(one, Whole) for one in inputs):
            self._taken[made] = any(self._taken.get(one) for one in inputs)
        return made

    def element_number(self, shape: Shape) -> Node:
        """Return the number of each element of an array of some shape, in C order."""
        number = self._once(("number", shape), lambda: ElementNumber("int64", shape))
        self._taken[number] = True
        return number

    def element(self, array: Node, number: Node) -> Node:
        """Return the elements of an array that have some numbers in C order, none too large."""
        return self.apply("element", (self._whole(array), number), array.dtype)

    def _whole(self, array: Node) -> Node:
        array = self.materialize(array)
        key = "whole", id(array)
        return self._once(key, lambda: Whole(array.dtype, (), (), operands=(array,)))

    def join(self, values: Sequence[Node], places: Sequence[Index], shape: Shape) -> Node:
        """Return values of one dtype beside each other, each at a place of an array."""
        operands = tuple(values)
        key = "joined", tuple(map(id, operands)), tuple(map(str, places)), shape
        dtype = operands[0].dtype
        return self._once(
            key, lambda: Concatenation(dtype, shape, tuple(places), operands=operands)
        )

    def cast(self, value: Node, dtype: str) -> Node:
        """Return a value in another type."""
        return self.apply("cast", (value,), dtype)

    def rounded(self, value: Node, dtype: str) -> Node:
        """Return a value in another type, as which it is seen even where more is known of it."""
        return self.apply("rounded", (value,), dtype)

    def made_of(self, value: Node, operands: Sequence[Node], dtype: str) -> Node:
        """Return a value that is computed like another, of other operands of the same shapes."""
        match value:
            case Elementwise(function=function, definition=definition):
                return self.apply(function, operands, dtype, definition)
            case Scan(function=function, axes=axes):
                return self.scan(function, operands[0], axes[0], dtype)
            case Reduce(function=function, axes=axes):
                return self.reduce(function, operands[0], axes, dtype)
            case Stored():
                return self.materialize(operands[0])
            case Concatenation(places=places, shape=shape):
                return self.join(operands, places, shape)
            case Whole():
                return self._whole(operands[0])
            case View(ops=ops, shape=shape):
                return self._view_of(operands[0], ops, shape)
        return value

    def reduce(self, function: str, value: Node, axes: tuple[int, ...], dtype: str) -> Node:
        """Return a reduction over axes."""
        value = self.materialize(value) if value in self._taken else value
        shape = tuple(dim for axis, dim in enumerate(value.shape) if axis not in axes)
        key = "reduce", function, id(value), axes, dtype
        return self._once(key, lambda: Reduce(dtype, shape, function, axes, operands=(value,)))

    def scan(self, function: str, value: Node, axis: int, dtype: str) -> Node:
        """Return elements combined with all before them along an axis."""
        value = self.materialize(value) if value in self._taken else value
        key = "scan", function, id(value), axis, dtype
        return self._once(
            key, lambda: Scan(dtype, value.shape, function, (axis,), operands=(value,))
        )

    def index(self, value: Node, index: Index) -> Node:
        """Return elements by a basic index with one entry for each axis."""
        if is_number(value):
            return self.broadcast(value, (ONE,) * len(index))
        return self._moved(value, ViewOp("index", index))

    def permute(self, value: Node, order: tuple[int, ...]) -> Node:
        """Return a value with its axes in another order."""
        return self._moved(value, ViewOp("permute", order))

    def reshape(self, value: Node, sizes: tuple[int, ...]) -> Node:
        """Return a value with other extents, its elements in C order."""
        self.shaped = True  # even if these are the extents by chance
        if sizes == value.sizes:
            return value
        if is_number(value):
            return self.broadcast(value, tuple(map(Dim, sizes)))
        index = reshape_as_index(value.sizes, sizes)
        if index is not None:
            return self.index(value, index)
        return self._changed(self.materialize(value), ViewOp("reshape", sizes), ())

    def broadcast(self, value: Node, shape: Shape) -> Node:
        """Return a value that has a shape; it must fit."""
        if [dim.size for dim in broadcast([value.shape, shape])] != [dim.size for dim in shape]:
            raise ShapeError(
                f"an array of shape {value.sizes} cannot be broadcast to "
                f"{tuple(dim.size for dim in shape)}"
            )
        sizes = tuple(dim.size for dim in shape)
        if is_number(value) and shape:
            return self.apply("filled", (value, self.any_array(sizes)), value.dtype)
        return self._moved(value, ViewOp("broadcast", sizes))

    def materialize(self, value: Node) -> Node:
        """Return a value that is in memory."""
        if not isinstance(value, Elementwise | ElementNumber):
            return value
        return self._once(
            ("stored", id(value)), lambda: Stored(value.dtype, value.shape, operands=(value,))
        )

    def any_array(self, sizes: tuple[int, ...]) -> Node:
        """Return an array of some extents, whatever its elements are."""
        self.shaped = True
        arguments = [one for one in self._known.values() if isinstance(one, ArrayInput)]
        for one in arguments:
            if one.sizes == sizes:
                return one
        for one in arguments:
            if 0 not in one.sizes:
                element = self.index(one, (0,) * len(one.shape))
                return self._moved(element, ViewOp("broadcast", sizes))
        raise FusionError(
            f"a number cannot get the shape {sizes}, because no argument has elements"
        )

    def _moved(self, value: Node, op: ViewOp) -> Node:
        """Return a view, which of a function of elements is that function of views.

        What is used several times is moved once, and nothing is too deep: there is no recursion.
        """
        moved = self._views
        pending = [(value, op)]
        while pending:
            one, change = pending[-1]
            needs = [] if self._taken.get(one) else _moved_with(one, change)
            missing = [need for need in needs if need not in moved]
            if missing:
                pending += missing
                continue
            pending.pop()
            if (one, change) not in moved:
                inputs = [moved[need] for need in needs]
                moved[one, change] = self._changed(one, change, inputs)
        return moved[value, op]

    def _changed(self, value: Node, op: ViewOp, inputs: Sequence[Node]) -> Node:
        """Return a view of an elementwise function, given views of its inputs."""
        if _is_still(value, op):
            return value
        if self._taken.get(value):  # which is only there where it is computed
            value = self.materialize(value)
        if isinstance(value, Elementwise):
            return self.made_of(value, inputs, value.dtype)
        if op.kind == "permute":
            value = self._expanded(value, len(op.detail))
        return self._view(value, op, tuple(self._shape(value.shape, op)))

    def _shape(self, shape: Shape, op: ViewOp) -> Iterable[Dim]:
        if op.kind == "index":
            return self._indexed(shape, op.detail)
        numbers = cast(tuple[int, ...], op.detail)
        if op.kind == "permute":
            return (shape[axis] for axis in numbers)
        self.shaped = True
        return map(Dim, numbers)

    def _expanded(self, value: Node, ndim: int) -> Node:
        """Return a value with axes of extent 1 in front, if it has any axis."""
        missing = ndim - len(value.shape)
        if not missing or not value.shape:
            return value
        return self.index(value, (None,) * missing + (slice(None),) * len(value.shape))

    def _view(self, value: Node, op: ViewOp, shape: Shape) -> Node:
        source = value
        ops: tuple[ViewOp, ...] = (op,)
        if isinstance(value, View):
            source, ops = value.input, compose(value.ops, op)
            if not ops:
                return source
        return self._view_of(source, ops, shape)

    def _view_of(self, source: Node, ops: tuple[ViewOp, ...], shape: Shape) -> Node:
        key = "view", id(source), ops
        return self._once(key, lambda: View(source.dtype, shape, ops, operands=(source,)))

    def _indexed(self, shape: Shape, index: Index) -> Iterable[Dim]:
        dims = iter(shape)
        for entry in index:
            if entry is None:
                yield ONE
                continue
            dim = next(dims)
            if isinstance(entry, slice):
                whole = entry.start is None and entry.stop is None and entry.step in (None, 1, -1)
                self.shaped |= not whole
                yield dim if whole else Dim(len(range(*entry.indices(dim.size))))

    def _once(self, key: Hashable, make: Callable[[], ValueT]) -> ValueT:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]


def broadcast(shapes: Iterable[Shape]) -> Shape:
    """Return the shape that arrays have together.

    Raises
    ------
    ShapeError
        If they do not fit.
    """
    shapes = list(shapes)
    sizes = broadcast_shapes([tuple(dim.size for dim in shape) for shape in shapes])
    return tuple(
        next(
            shape[axis]
            for shape in shapes
            if len(shape) >= -axis and shape[axis].size == sizes[axis]
        )
        for axis in range(-len(sizes), 0)
    )


def _is_still(value: Node, op: ViewOp) -> bool:
    """Return whether a view of a value is the value itself."""
    if isinstance(value, Whole):
        return True
    if op.kind == "index":
        return all(entry == slice(None) for entry in op.detail)
    if op.kind == "permute":
        return not value.shape or op.detail == tuple(range(len(op.detail)))
    return op.detail == value.sizes or (op.kind == "broadcast" and is_number(value))


def _moved_with(value: Node, op: ViewOp) -> list[tuple[Node, ViewOp]]:
    """Return the views of its inputs from which a view of an elementwise function is computed."""
    if not isinstance(value, Elementwise) or _is_still(value, op):
        return []
    if op.kind != "index":
        return [(one, op) for one in value.operands]
    index = op.detail
    return [(one, ViewOp("index", _index_of(one, value, index))) for one in value.operands]


def _index_of(value: Node, whole: Node, index: Index) -> Index:
    """Return the index of a function's input that gives what an index of its result needs."""
    missing = len(whole.shape) - len(value.shape)
    if not value.shape:  # nothing of it is chosen; where all are so, one has to get the new axes
        return () if whole.shape or is_number(value) else index
    found: list[int | slice | None] = []
    axis = -1
    for entry in index:
        if entry is None:
            if axis >= missing or not missing:  # in front of its axes, broadcasting puts them in
                found.append(None)
            continue
        axis += 1
        if axis < missing:
            continue
        held = value.shape[axis - missing].size == 1 and whole.shape[axis].size != 1
        if held:
            found.append(0 if isinstance(entry, int) else slice(None))
        else:
            found.append(entry)
    return tuple(found)


def sizes_of(shape: Shape) -> tuple[int, ...]:
    """Return extents as numbers."""
    return tuple(dim.size for dim in shape)


def is_number(value: Node) -> bool:
    """Return whether a value is computed from numbers alone."""
    return isinstance(value, Scalar) or (isinstance(value, Elementwise) and value.of_numbers)


def _expression(node: Node, depth: int) -> str:
    """Return the expression of a node, and those of its operands down to a depth."""
    if isinstance(node, View):
        return _expression(node.input, depth) + "".join(map(str, node.ops))
    listed = ", ".join(_expression(one, depth - 1) for one in node.operands) if depth else "..."
    match node:
        case ArrayInput(position=position):
            return f"x{position}"
        case ScalarInput(position=position):
            return f"s{position}"
        case Constant(value=value):
            return repr(value)
        case Count(dims=dims):
            return f"count({', '.join(map(str, dims))})"
        case Elementwise(function=function, definition=definition):
            if definition:
                function = function.partition("::")[0].rpartition("_")[0]
            return f"{node.dtype if function in ('cast', 'rounded') else function}({listed})"
        case ElementNumber():
            return "i"
        case Concatenation():
            return f"joined({listed})"
        case Reduce(function=function, axes=axes):
            return f"{function}({listed}, axes {' '.join(map(str, axes))})"
    return f"stored({listed})"
