"""Windows of elementwise specs: their tables, the offsets in the operation, and their faults.

>>> [(one.offset, one.length) for one in offset_faults("u", ((1, 1),), {}, "y = u(2) - u(-1)")]
[(6, 1)]

`kspec.model.neighbours.windows` has what callers need of them.
"""

from __future__ import annotations

import functools
import itertools
import keyword
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema

from kspec.cpp.brackets import group_end
from kspec.cpp.expansion import Expansion
from kspec.cpp.fragments import code_of, identifiers
from kspec.cpp.names import name_problem
from kspec.cpp.tokens import Token
from kspec.dataclass import dataclass
from kspec.errors import counted
from kspec.limits import BINDINGS
from kspec.model.neighbours.windows import (
    BOUNDARIES,
    CONSTANT,
    MAX_SIZE,
    VALID,
    Reach,
    Window,
)
from kspec.model.raw.expressions import ExpressionError, ExpressionScope, Number, parse_expression
from kspec.model.raw.launch_rules import evaluate
from kspec.model.shapes import integer
from kspec.model.signature import Param, Signature
from kspec.model.stages import MAX_AXES
from kspec.spec.base import SpecModel
from kspec.spec.faults import Fault, FaultError, gathered
from kspec.spec.fields import NumberField, wrong_type
from kspec.spec.neighbours.loops import CountedLoop, counted_loops, is_within

# A number that C++ would round toward zero.
_FRACTION = re.compile(r"[-+]?\s*(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?[fF]?")
_EXTENT = {"type": ["integer", "string"]}


def _reach(value: object) -> Reach:
    if not isinstance(value, list | tuple):
        raise wrong_type(value, "a list with an integer, or [before, after], for each axis")
    if not 1 <= len(value) <= MAX_AXES:
        raise FaultError([Fault((), f"a window has 1 to {MAX_AXES} axes, not {len(value)}")])
    return tuple(gathered(_sides, ((item, index) for index, item in enumerate(value))))


def _sides(item: object, index: int) -> tuple[int | str, int | str]:
    if not isinstance(item, list | tuple):
        both = _extent(item, index)
        return both, both
    if len(item) != 2:
        message = f"needs two numbers, [before, after], not {len(item)}"
        raise FaultError([Fault((index,), message)])
    before, after = gathered(_extent, ((one, index, side) for side, one in enumerate(item)))
    return before, after


def _extent(item: object, *where: int) -> int | str:
    if isinstance(item, str):
        return item
    if integer(item) is None:
        raise wrong_type(item, "an integer, or the name of a size", *where)
    return _count(item, *where)


def _boundaries(value: object, known: Sequence[str]) -> tuple[str, ...]:
    items = (value,) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise wrong_type(value, "a boundary, or a list of boundaries that calls choose from")
    if not items:
        raise FaultError([Fault((), "lists no boundary; the first one is the default")])
    places = [()] if isinstance(value, str) else [(index,) for index in range(len(items))]
    rows = ((item, known, *where) for item, where in zip(items, places, strict=True))
    return tuple(dict.fromkeys(gathered(_boundary, rows)))


def _boundary(item: object, known: Sequence[str], *where: int) -> str:
    if not isinstance(item, str):
        raise wrong_type(item, "a boundary", *where)
    if item not in known:
        listed = ", ".join(map(repr, known))
        raise FaultError([Fault(where, f"unknown boundary {item!r}; expected one of {listed}")])
    return item


def _sizes(value: object) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a table of sizes, such as { R = [1, 2] }")
    rows = ((item, str(name)) for name, item in value.items())
    return dict(zip(map(str, value), gathered(_values, rows), strict=True))


def _values(item: object, name: str) -> tuple[int, ...]:
    items = [item] if isinstance(item, bool) or integer(item) is not None else item
    if not isinstance(items, list | tuple):
        raise wrong_type(item, "a list of integers", name)
    if len(items) > BINDINGS:
        raise FaultError([Fault((name,), f"at most {BINDINGS} values can be listed")])
    rows = ((one, name, index) for index, one in enumerate(items))
    single = [(item, name)]
    return tuple(dict.fromkeys(gathered(_count, rows if items is item else single)))


def _count(item: object, *where: str | int) -> int:
    value = integer(item)
    if value is None:
        raise wrong_type(item, "an integer", *where)
    if not 0 <= value <= MAX_SIZE:
        raise FaultError([Fault(where, f"must be in [0, {MAX_SIZE}], not {value}")])
    return value


SizesField = Annotated[
    dict[str, tuple[int, ...]],
    PlainValidator(_sizes),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}}
    ),
]
_ReachField = Annotated[
    Reach,
    PlainValidator(_reach),
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_AXES,
            "items": {
                "anyOf": [
                    _EXTENT,
                    {"type": "array", "items": _EXTENT, "minItems": 2, "maxItems": 2},
                ]
            },
        }
    ),
]


def boundary_field(known: Sequence[str]) -> Any:
    """Return the type of a field that has a boundary, or a list of those that calls may choose."""
    one = {"enum": list(known)}
    schema = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]}
    validator = PlainValidator(functools.partial(_boundaries, known=known))
    return Annotated[tuple[str, ...], validator, WithJsonSchema(schema)]


class WindowTable(SpecModel):
    """The neighbours of an element that the operation reads of one input."""

    reach: _ReachField = Field(
        description="Elements before and after along each of the last axes, or one number for "
        "both; a name is a size."
    )
    boundary: boundary_field(BOUNDARIES) = Field(  # type: ignore[valid-type]
        description="What lies outside: nearest, reflect, mirror, wrap, constant or valid; of a "
        "list, calls choose."
    )
    value: NumberField = Field(0, description="Elements outside where the boundary is constant.")


@dataclass(frozen=True)
class Adjoint:
    """Part of a forward kernel that its adjoint needs.

    Attributes
    ----------
    param : Param
        The input whose gradient it is.
    window : Window
        Its window.
    outputs : Signature
        The outputs, which the operation assigns.
    """

    param: Param
    window: Window
    outputs: Signature


@dataclass(frozen=True)
class WindowRead:
    """A read of a window in a text: ``u(-1, k)``.

    Attributes
    ----------
    start, end : int
        Its place, from the name to the closing bracket.
    offsets : tuple of (str, int)
        Text and place of each offset.
    """

    start: int
    end: int
    offsets: tuple[tuple[str, int], ...]


def reads_of(name: str, text: str) -> Iterator[WindowRead]:
    """Yield the reads of a window in a text."""
    for tokens in _bracketed(name, text, "("):
        offsets = tuple(items_of(tokens[2:-1], text))
        yield WindowRead(tokens[0].start, tokens[-1].end, offsets)


def indexed(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and length where an argument has an index in square brackets, as a raw one."""
    for tokens in _bracketed(name, text, "["):
        yield tokens[0].start, tokens[-1].end - tokens[0].start


def _bracketed(name: str, text: str, opening: str) -> Iterator[Sequence[Token]]:
    """Yield a name with the brackets behind it, unless it names a member."""
    tokens = code_of(text)
    for place, token in enumerate(tokens[:-1]):
        member = place > 0 and tokens[place - 1].text in (".", "->", "::")
        if token.text != name or token.kind != "word" or member:
            continue
        if tokens[place + 1].text == opening:
            yield tokens[place : group_end(tokens, place + 1)]


def is_alone(name: str, text: str) -> bool:
    """Return whether a text mentions a windowed input without offsets."""
    words = [token.text for token in code_of(text)]
    return any(
        word == name and words[k + 1 : k + 2] != ["("] and words[k + 1 : k + 3] != [".", "sample"]
        for k, word in enumerate(words)
    )


def items_of(tokens: Sequence[Token], text: str) -> Iterator[tuple[str, int]]:
    """Yield the items between commas: a ``<`` in an offset is less-than."""
    depth, first = 0, 0
    for index, token in enumerate([*tokens, None]):
        if token is None or (token.text == "," and not depth):
            if index > first:
                yield text[tokens[first].start : tokens[index - 1].end], tokens[first].start
            first = index + 1
        else:
            depth += (token.text in "([{") - (token.text in ")]}")


def constant(text: str, sizes: Mapping[str, int]) -> int | None:
    """Return the value of an offset; None if it is not constant."""
    scope = ExpressionScope({name: Number(str(value)) for name, value in sizes.items()})
    try:
        value = evaluate(parse_expression(text, scope), {})
    except (ExpressionError, ArithmeticError):
        return None
    return value if type(value) is int else None


def is_string(text: str) -> bool:
    """Return whether an offset is a string, which headers would complain about."""
    return all(token.kind == "string" for token in code_of(text))


def choices(sizes: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Yield the combinations of sizes that are precompiled."""
    for row in itertools.product(*sizes.values()):
        yield dict(zip(sizes, row, strict=True))


def offset_faults(
    name: str, reach: Reach, sizes: Mapping[str, Sequence[int]], text: str
) -> Iterator[Fault]:
    """Yield the faults of the constant offsets of a window in the operation."""
    for read in reads_of(name, text):
        if len(read.offsets) != len(reach):
            axes = f"{len(reach)} {'axis' if len(reach) == 1 else 'axes'}"
            found = counted(len(read.offsets), "offset")
            message = f"{name} is read at {found}; its window has {axes}"
            yield Fault(("operation",), message, read.start, read.end - read.start)
            continue
        for axis, ((offset, start), sides) in enumerate(zip(read.offsets, reach, strict=True)):
            if _FRACTION.fullmatch(offset):
                message = f"offset {offset} of {name} is not an integer; read between elements "
                message += "by `samples`"
                yield Fault(("operation",), message, start, len(offset))
                continue
            if is_string(offset):
                message = f"offset {offset} of {name} is a string; offsets are integers"
                yield Fault(("operation",), message, start, len(offset))
                continue
            for row in choices(sizes):
                value = constant(offset, row)
                before, after = (row[one] if isinstance(one, str) else one for one in sides)
                if value is None or -before <= value <= after:
                    continue
                named = {*identifiers(offset), *sides}
                where = ", ".join(f"{key} = {one}" for key, one in row.items() if key in named)
                message = (
                    f"offset {value} of {name} is outside its reach along axis {axis}, which is "
                    f"[{-before}, {after}]{' for ' if where else ''}{where}"
                )
                yield Fault(("operation",), message, start, len(offset))
                break


def needs_check(
    name: str, reach: Reach, sizes: Collection[str], text: str, loops: Sequence[CountedLoop] = ()
) -> bool:
    """Return whether some offset of a window may be outside its reach, for some sizes.

    Calls give sizes that are not precompiled, and macros are not checked when the spec is read.
    """
    for read in reads_of(name, text):
        around = [loop for loop in loops if loop.holds(read.start)]
        for (offset, _), sides in zip(read.offsets, reach, strict=False):
            value = constant(offset, {})
            plain = offset if value is None else str(value)
            if not is_within(plain, sides, sizes, around):
                return True
    return False


def declared_windows(
    tables: Mapping[str, WindowTable],
    sizes: Collection[str],
    operation: str,
    macros: Sequence[str],
    expansion: Expansion,
    layered: bool,
) -> tuple[Window, ...]:
    """Return the windows of a declaration, whose macros may read them too."""
    loops = counted_loops(operation, tables, expansion) if tables else []
    return tuple(
        Window(
            name,
            table.reach,
            table.boundary,
            table.value,
            needs_check(name, table.reach, sizes, operation, loops)
            or any(needs_check(name, table.reach, sizes, text) for text in macros),
            layered,
        )
        for name, table in tables.items()
    )


def size_fault(name: str, taken: Mapping[str, str], *where: str, **place: Any) -> Fault | None:
    """Return the fault of the name of a size, if any.

    Parameters
    ----------
    name : str
        The name.
    taken : mapping of str to str
        Names that sizes cannot have, and what else has them.
    *where, **place
        As of `Fault`: where the size is.
    """
    problem = name_problem(name)
    if not problem and (name in taken or keyword.iskeyword(name)):
        problem = f"it is {taken[name]}" if name in taken else "it is a Python keyword"
    return Fault(where, f"Invalid size {name!r}: {problem}", **place) if problem else None


def window_faults(
    tables: Mapping[str, WindowTable],
    sizes: Mapping[str, tuple[int, ...]],
    inputs: Signature,
    operation: str,
    sampled: Collection[str],
) -> Iterator[Fault]:
    """Check windows against the inputs, the sizes and the operation; `sampled` are those inputs."""
    params = {param.name: param for param in inputs}
    for name, table in tables.items():
        problem = _param_problem(name, params)
        if problem:
            yield Fault(("windows", name), problem, at_key=True)
            continue
        unknown = [one for sides in table.reach for one in sides if isinstance(one, str)]
        unknown = [one for one in dict.fromkeys(unknown) if one not in sizes]
        for one in unknown:
            listed = f"; sizes are {', '.join(sizes)}" if sizes else "; declare it in `sizes`"
            yield Fault(("windows", name, "reach"), f"{one!r} is not a size{listed}", word=one)
        if not unknown:
            yield from offset_faults(name, table.reach, sizes, operation)
        for start, length in indexed(name, operation):
            message = f"{name} has a window and no index; read neighbours at offsets: {name}(-1)"
            yield Fault(("operation",), message, start, length)
        # A sample of integers has the value where it is nowhere.
        if table.value and CONSTANT not in table.boundary and name not in sampled:
            message = "is for boundary 'constant', which is not listed"
            yield Fault(("windows", name, "value"), message)
    with_valid = [VALID in table.boundary for table in tables.values()]
    if any(with_valid) and not all(with_valid):
        yield Fault(
            ("windows",), "boundary 'valid' changes the shape: either all windows have it or none"
        )


def _param_problem(name: str, params: Mapping[str, Param]) -> str:
    param = params.get(name)
    if param is None:
        return f"{name!r} is not an input; inputs are {', '.join(params) or 'none'}"
    if param.raw:
        return f"{name!r} is raw, so the operation indexes it; declare it without raw"
    if param.non_const:
        return f"{name!r} is _non_const: neighbours would be read after they were written"
    return ""
