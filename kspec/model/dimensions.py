"""Core dimensions: axes that a parameter declares, such as ``T A[n, n]``, as NumPy's gufuncs have.

They are the last axes of an argument, and the kernel sees them as a small array for each element of
the loop over the other axes.

>>> dimension("n + m  -1").text, dimension("n + m - 1").value({"n": 3, "m": 4})
('n + m - 1', 6)
>>> dimension("n * (n + 1) // 2").cpp
'kspec::floor_div((n * (n + 1)), 2)'

`kspec.spec.parser` reads them, `bind_core` gives the sizes of a call their values.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import ShapeError
from kspec.model.signature import Param, Signature

MAX_CORE = 4  # core dimensions of a parameter
MAX_COUNT = 2**31 - 1  # elements along them
# Threads that have an item together, by the words of a spec.
GROUPS = {"thread": 1, "warp": 32, "block": 128}
Extents = tuple[Any, ...]
# Operators in C++, and what they do.
_OPERATORS: Mapping[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("({} + {})", operator.add),
    ast.Sub: ("({} - {})", operator.sub),
    ast.Mult: ("({} * {})", operator.mul),
    ast.FloorDiv: ("kspec::floor_div({}, {})", operator.floordiv),
}


class DimensionError(ValueError):
    """A text is not a dimension; the message says why."""


@dataclass(frozen=True)
class Dimension:
    """One core dimension: a name, a number, or an expression of both.

    Attributes
    ----------
    text : str
        As Python writes it.
    cpp : str
        The same in C++.
    names : tuple of str
        Sizes that it depends on.
    tree : ast.expr
        What Python makes of the text.
    """

    text: str
    cpp: str
    names: tuple[str, ...]
    tree: ast.expr = field(repr=False, compare=False)

    @property
    def is_name(self) -> bool:
        """Whether it is a size alone."""
        return self.names == (self.text,)

    @property
    def is_plain(self) -> bool:
        """Whether it is a size or a number alone, which an argument can decide or must have."""
        return self.is_name or self.text.isdecimal()

    def value(self, sizes: Mapping[str, Any]) -> Any:
        """Return its value, given those of the sizes."""
        return _value(self.tree, sizes)


@functools.cache
def dimension(text: str) -> Dimension:
    """Return the dimension in a text.

    Raises
    ------
    DimensionError
        If it is neither a name nor a number nor an expression with ``+ - * //``.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        cpp = _cpp(tree)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise DimensionError(
            f"{text.strip()!r} is not a dimension; write a name, a number, or an expression of "
            "them with + - * //"
        ) from None
    names = tuple(dict.fromkeys(one.id for one in ast.walk(tree) if isinstance(one, ast.Name)))
    return Dimension(ast.unparse(tree), cpp, names, tree)


def _cpp(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return str(node.value)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        text, _ = _OPERATORS[type(node.op)]
        return text.format(_cpp(node.left), _cpp(node.right))
    raise ValueError(ast.unparse(node))


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Name):
        return sizes[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    assert isinstance(node, ast.BinOp)
    _, apply = _OPERATORS[type(node.op)]
    return apply(_value(node.left, sizes), _value(node.right, sizes))


def core_names(params: Iterable[Param]) -> tuple[str, ...]:
    """Return the sizes in the core dimensions of some parameters, in order of appearance.

    >>> core_names([Param("T", "c", core=("n + m - 1",)), Param("T", "a", core=("m", "3"))])
    ('n', 'm')
    """
    found = (name for param in params for one in param.core for name in dimension(one).names)
    return tuple(dict.fromkeys(found))


def core_signature(inputs: Signature, outputs: Signature) -> str:
    """Return the core dimensions as a gufunc's signature.

    >>> inputs, outputs = Param("T", "A", core=("n", "n")), Param("T", "y")
    >>> core_signature(Signature((inputs,)), Signature((outputs,)))
    '(n,n)->()'
    """
    sides = (",".join(f"({','.join(param.core)})" for param in side) for side in (inputs, outputs))
    return "->".join(sides)


def split_core(where: str, param: Param, shape: Sequence[Any]) -> tuple[Extents, Extents]:
    """Return the shape of an argument before its core dimensions, and that of these.

    Raises
    ------
    ShapeError
        If it has too few axes, or too many elements; the message begins with `where`.
    """
    count = len(param.core)
    if len(shape) < count:
        raise ShapeError(
            f"{where}: argument {param.name} does not have enough dimensions (has {len(shape)}, "
            f"{param} requires {count})"
        )
    split = len(shape) - count
    core = tuple(shape[split:])
    _check_count(where, param, core)
    return tuple(shape[:split]), core


def bind_core(
    where: str,
    arguments: Iterable[tuple[Param, Sequence[Any] | None]],
    given: Mapping[str, Any],
    signature: str,
) -> dict[str, Any]:
    """Return the values of sizes in a call: those that are given, and those of its arguments.

    Parameters
    ----------
    where : str
        Name of the kernel, for messages.
    arguments : iterable of (Param, sequence of int or None)
        Parameters with the shapes of their arguments; None for numbers.
    given : mapping of str to int
        Sizes that the call says by name.
    signature : str
        For messages, as `core_signature` returns it.

    Raises
    ------
    ShapeError
        If an argument has too few axes, or extents that differ from others.
    """
    sizes = dict(given)
    for param, shape in arguments:
        if not param.core:
            continue
        if shape is None:
            raise ShapeError(
                f"{where}: argument {param.name} does not have enough dimensions (has 0, {param} "
                f"requires {len(param.core)})"
            )
        _, core = split_core(where, param, shape)
        for axis, (text, extent) in enumerate(zip(param.core, core, strict=True)):
            one = dimension(text)
            wanted = sizes.setdefault(text, extent) if one.is_name else one.value(sizes)
            if extent != wanted:
                raise ShapeError(
                    f"{where}: argument {param.name} has a mismatch in its core dimension {axis}, "
                    f"with signature {signature} (size {extent} is different from {wanted})"
                )
    return sizes


def core_shape(where: str, param: Param, sizes: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the extents of a parameter's core dimensions.

    Raises
    ------
    ShapeError
        If one of them is negative or divides by zero, or they have too many elements.
    """
    shape = []
    for text in param.core:
        one = dimension(text)
        listed = ", ".join(f"{name} = {sizes[name]}" for name in one.names)
        try:
            extent = one.value(sizes)
        except ZeroDivisionError:
            raise ShapeError(f"{where}: {param} divides by zero in {text} for {listed}") from None
        if isinstance(extent, int) and extent < 0:
            raise ShapeError(f"{where}: {param} has {text} = {extent} elements for {listed}")
        shape.append(extent)
    _check_count(where, param, shape)
    return tuple(shape)


def _check_count(where: str, param: Param, core: Sequence[Any]) -> None:
    """Raise `ShapeError` if an item has more elements than C++ integers can count."""
    if not all(isinstance(extent, int) for extent in core):
        return
    count = max(math.prod(core), *core, 0)
    if count > MAX_COUNT:
        raise ShapeError(
            f"{where}: argument {param.name} has {count} elements along its core dimensions; "
            f"kernels take {MAX_COUNT}"
        )
