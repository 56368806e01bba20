"""Faults of core dimensions: their names, and the indices at which the operation has elements.

>>> from kspec.spec.parser import parse_signature
>>> faults = index_faults(parse_signature("T q[4]"), {}, "operation", "y = q(4);")
>>> [fault.message for fault in faults]
['index 4 of q is outside of its core dimension 0, which has 4 elements']

`kspec.model.dimensions` has what callers need of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from kspec.errors import counted
from kspec.model.dimensions import core_names, dimension
from kspec.model.signature import Param, Signature
from kspec.spec.faults import Fault
from kspec.spec.neighbours.windows import choices, constant, indexed, reads_of, size_fault

Sizes = Mapping[str, Sequence[int]]
_UNDEFINED = -math.inf  # extent of a dimension that divides by zero


def dimension_faults(
    inputs: Signature, outputs: Signature, sizes: Sizes, taken: Mapping[str, str]
) -> Iterator[Fault]:
    """Check the core dimensions of parameters.

    Parameters
    ----------
    inputs, outputs : Signature
        The parameters.
    sizes : mapping of str to sequence of int
        Those that the spec lists.
    taken : mapping of str to str
        Names that sizes cannot have, and what else has them.
    """
    decided = {one for param in inputs for one in param.core if dimension(one).is_name}
    for field, signature in (("inputs", inputs), ("outputs", outputs)):
        for param in signature:
            if field == "inputs":
                yield from _undecided(param)
            for name in core_names([param]):
                fault = size_fault(name, taken, field, word=name)
                if fault:
                    yield fault
                elif name not in decided and name not in sizes:
                    message = f"{name!r} is not a size: no input has it as a core dimension"
                    yield Fault((field,), f"{message}, and `sizes` does not list it", word=name)
    yield from _extent_faults(outputs, sizes)


def _undecided(param: Param) -> Iterator[Fault]:
    for text in param.core:
        if not dimension(text).is_plain:
            message = (
                f"core dimension {text!r} of input {param.name} is an expression; the extent of an "
                "input is a name or a number"
            )
            yield Fault(("inputs",), message, word=dimension(text).names[0])


def _extent_faults(outputs: Signature, sizes: Sizes) -> Iterator[Fault]:
    """Check that outputs have extents for all sizes that the spec lists."""
    for param in outputs:
        for text in param.core:
            one = dimension(text)
            for row in choices(sizes):
                if not row.keys() >= set(one.names) or (extent := _extent(text, row)) >= 0:
                    continue
                listed = ", ".join(f"{name} = {row[name]}" for name in one.names)
                message = f"core dimension {text!r} of {param.name} has {extent} elements"
                if extent == _UNDEFINED:
                    message = f"core dimension {text!r} of {param.name} divides by zero"
                message += f" for {listed}, which `sizes` lists"
                yield Fault(("outputs",), message, word=param.name)
                break


def _extent(text: str, row: Mapping[str, int]) -> float:
    try:
        return int(dimension(text).value(row))
    except ZeroDivisionError:
        return _UNDEFINED


def index_faults(params: Signature, sizes: Sizes, field: str, text: str) -> Iterator[Fault]:
    """Check the indices at which the text of a field has elements of core dimensions."""
    for param in params:
        if param.core:
            indices = ", ".join("ijkl"[: len(param.core)])
            message = f"elements of {param.name} are in round brackets: {param.name}({indices})"
            for start, length in indexed(param.name, text):
                yield Fault((field,), message, start, length)
            yield from _element_faults(param, sizes, field, text)


def _element_faults(param: Param, sizes: Sizes, field: str, text: str) -> Iterator[Fault]:
    name, where = param.name, (field,)
    listed_sizes = {size: values for size, values in sizes.items() if values}
    for read in reads_of(name, text):
        if len(read.offsets) != len(param.core):
            found = counted(len(read.offsets), "index").replace("indexs", "indices")
            has = counted(len(param.core), "core dimension")
            message = f"{name} has {has}, and here {found}"
            yield Fault(where, message, read.start, read.end - read.start)
            continue
        for axis, (index, start) in enumerate(read.offsets):
            one = dimension(param.core[axis])
            for row in choices(listed_sizes):
                value = constant(index, row)
                if value is None or not row.keys() >= set(one.names):
                    continue
                extent = _extent(param.core[axis], row)
                if extent < 0 or 0 <= value < extent:  # `dimension_faults` has the former
                    continue
                listed = ", ".join(
                    f"{key} = {row[key]}" for key in row if key in index or key in one.names
                )
                message = (
                    f"index {value} of {name} is outside of its core dimension {axis}, which has "
                    f"{counted(int(extent), 'element')}{' for ' if listed else ''}{listed}"
                )
                yield Fault(where, message, start, len(index))
                break


def example_faults(
    params: Signature, shapes: Mapping[str, Sequence[int]], given: Mapping[str, int]
) -> Iterator[Fault]:
    """Check that the shapes of an example have the core dimensions of the parameters.

    Parameters
    ----------
    params : Signature
        Inputs, then outputs.
    shapes : mapping of str to sequence of int
        Of the example.
    given : mapping of str to int
        Sizes that its call says by name.
    """
    sizes = dict(given)
    for param in params:
        shape, count = shapes.get(param.name), len(param.core)
        if shape is None or not count:
            continue
        where = ("example", "shapes", param.name)
        if len(shape) < count:
            needs = f"{param} needs at least {counted(count, 'dimension')}"
            yield Fault(where, f"{needs}, not {len(shape)}")
            continue
        for axis, (text, extent) in enumerate(zip(param.core, shape[-count:], strict=True)):
            one = dimension(text)
            if one.is_name:
                sizes.setdefault(text, extent)
            known = sizes.keys() >= set(one.names)
            if known and extent != (wanted := _extent(text, sizes)):
                equal = text if text.isdecimal() else f"{text} = {wanted}"
                message = f"core dimension {axis} of {param} has {extent} elements, not {equal}"
                yield Fault(where, message)
