"""A function traced for arguments of some types and shapes: what it computes, as kernels.

>>> # traced = trace(function, (ArrayType("float32", (3,)), "float"), ("x", "s"))

`trace` calls the function with stand-ins; what comes out has no arrays in it, so it serves every
call whose arguments agree in types and in which extents are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kspec.fusion.graph import Dim, Shape, Value, is_number
from kspec.fusion.lower import Kernel, lower
from kspec.fusion.partition import Output, Partition, partition
from kspec.fusion.rows import RowProgram, row_program, wants_rows
from kspec.fusion.tracer import Traced, Tracer


@dataclass(frozen=True)
class ArrayType:
    """What matters of an array.

    Attributes
    ----------
    dtype : str
        Of its elements.
    sizes : tuple of int
        Its extents.
    """

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Known:
    """An argument that is left at its default, which is known before the arrays are.

    Attributes
    ----------
    value : object
        The default.
    """

    value: Any


# An array, the type of a scalar, a default, or None for None.
ArgumentType = ArrayType | str | Known | None


@dataclass(frozen=True, eq=False)
class Program:
    """A traced function.

    Attributes
    ----------
    kernels : tuple of Kernel
        In the order in which they run.
    parts : Partition
        What each computes.
    outputs : sequence of Output
        What the function gives back.
    returned : Value, tuple of (Value or None), or None
        What the function returns.
    record : callable or None
        What makes the named tuple of a tuple that it returns.
    shaped : bool
        Whether it is for these extents only.
    written : tuple of int
        Arguments that are written to.
    rows : RowProgram or None
        One kernel in place of all of them, for arrays that it fits.
    """

    kernels: tuple[Kernel, ...]
    parts: Partition
    outputs: Sequence[Output]
    returned: Value | tuple[Value | None, ...] | None
    record: Callable[[tuple[Any, ...]], Any] | None
    shaped: bool
    written: tuple[int, ...]
    rows: RowProgram | None


def trace(
    function: Callable[..., Any],
    arguments: Sequence[ArgumentType],
    names: Sequence[str],
    kernel_name: str,
    same: Sequence[int] = (),
    options: tuple[str, ...] = (),
) -> Program:
    """Return what a function computes.

    Parameters
    ----------
    function : callable
        It is called once.
    arguments : sequence of ArrayType, str, Known or None
        What it is called with.
    names : sequence of str
        What it calls its arguments, for messages and in kernels.
    kernel_name : str
        Name of the kernels.
    same : sequence of int, optional
        For each argument the first one that is the same object; default: all differ.
    options : tuple of str, optional
        Compiler options of the kernels.

    Raises
    ------
    FusionError
        If it does what can not be fused.
    ValueError
        If it returns something else than arrays.
    """
    tracer = Tracer()
    stand_ins: list[Any] = []
    for position, one in enumerate(arguments):
        if same and same[position] != position:
            stand_ins.append(stand_ins[same[position]])
        elif one is None:
            stand_ins.append(None)
        elif isinstance(one, Known):
            stand_ins.append(one.value)
        elif isinstance(one, str):
            stand_ins.append(tracer.number(position, one))
        else:
            stand_ins.append(tracer.argument(position, one.dtype, _dims(position, one.sizes)))
    result = function(*stand_ins)
    returned = _returned(result)
    values = returned if isinstance(returned, tuple) else (returned,)
    outputs = [Output(one) for one in dict.fromkeys(values) if one is not None]
    outputs += [Output(one.value, position) for position, one in tracer.written.items()]
    parts = partition(tracer.graph, outputs)
    kernels = lower(parts, kernel_name, names, options)
    rows = None
    if wants_rows(outputs, len(kernels)):
        rows = row_program(tracer.graph, outputs, kernel_name, names, options)
    written, shaped = tuple(tracer.written), tracer.graph.shaped
    record = getattr(type(result), "_make", None) if isinstance(returned, tuple) else None
    return Program(kernels, parts, outputs, returned, record, shaped, written, rows)


def _dims(position: int, sizes: Sequence[int]) -> Shape:
    return tuple(
        Dim(size, None if size == 1 else (position, axis)) for axis, size in enumerate(sizes)
    )


def _returned(result: Any) -> Value | tuple[Value | None, ...] | None:
    if result is None or isinstance(result, Traced):
        return None if result is None else _array(result)
    if not isinstance(result, tuple):
        raise ValueError(
            f"a fused function returns an array, a tuple of arrays or None, not a {_kind(result)}"
        )
    return tuple(None if one is None else _array(one) for one in result)


def _kind(one: Any) -> str:
    """Return what something is that was not computed of the arguments."""
    name = type(one).__name__
    if hasattr(one, "shape"):
        return f"concrete {name} (np.zeros_like and its kin make one of an argument)"
    return name


def _array(one: Any) -> Value:
    if not isinstance(one, Traced):
        raise ValueError(
            f"a fused function returns arrays, and a {_kind(one)} is none: return it from outside"
        )
    if is_number(one.value):
        raise ValueError("a fused function returns arrays, and a scalar is none")
    return one.value
