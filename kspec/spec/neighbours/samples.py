"""Samples of elementwise specs: their tables, the reads in the operation, and their faults.

>>> [read.leading + len(read.coordinates) for read in sample_reads("x", "z = x.slice(0).sample(y)")]
[2]
>>> with_sample_macros(("u",), "v = u.sample(0.5) + u")
'v = _sample_u(0.5) + u'

`kspec.model.neighbours.samples` has what callers need of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field, PlainValidator, WithJsonSchema

from kspec.cpp.brackets import group_end
from kspec.cpp.fragments import code_of
from kspec.cpp.tokens import tokens_of
from kspec.dataclass import dataclass
from kspec.errors import counted
from kspec.model.neighbours.samples import ORDERS, SAMPLE_BOUNDARIES, Sample
from kspec.model.neighbours.windows import Reach
from kspec.model.signature import Param, Signature
from kspec.model.stages import MAX_AXES
from kspec.spec.base import SpecModel
from kspec.spec.faults import Fault, FaultError
from kspec.spec.fields import NumberField, wrong_type
from kspec.spec.neighbours.windows import (
    WindowTable,
    boundary_field,
    choices,
    constant,
    is_string,
    items_of,
)

_LITERAL = re.compile(r"([+-]?)\s*((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fF]?")
_MEMBER = r"(?<![\w.>:])({names})\s*\.\s*sample(?=\s*\()"


def _order(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(value, "an order: 0, 1 or 3")
    if value not in ORDERS:
        raise FaultError([Fault((), f"unknown order {value}; expected 0, 1 or 3")])
    return value


class SampleTable(SpecModel):
    """Samples of an input: its values between the elements."""

    order: Annotated[int, PlainValidator(_order), WithJsonSchema({"enum": list(ORDERS)})] = Field(
        1, description="Order of the spline: 0 nearest, 1 linear, 3 cubic, of coefficients."
    )
    boundary: boundary_field(SAMPLE_BOUNDARIES) = Field(  # type: ignore[valid-type]
        (),
        description="What lies outside of a raw input: nearest, reflect, mirror, wrap or "
        "constant; of a list, calls choose.",
    )
    value: NumberField = Field(0, description="Elements outside where the boundary is constant.")


@dataclass(frozen=True)
class SampleRead:
    """A sample in a text: ``x.slice(n).sample(y, x)``.

    Attributes
    ----------
    start, end : int
        Its place, from the name to the closing bracket.
    leading : int
        Number of indices of `slice`.
    coordinates : tuple of (str, int)
        Text and place of each coordinate.
    """

    start: int
    end: int
    leading: int
    coordinates: tuple[tuple[str, int], ...]


def sample_reads(name: str, text: str) -> Iterator[SampleRead]:
    """Yield the samples of an input in a text."""
    tokens = code_of(text)
    words = [token.text for token in tokens]
    for place, token in enumerate(tokens):
        member = place > 0 and words[place - 1] in (".", "->", "::")
        if token.text != name or token.kind != "word" or member:
            continue
        after, leading = place + 1, 0
        if words[after : after + 3] == [".", "slice", "("]:
            end = group_end(tokens, after + 2)
            leading = sum(1 for _ in items_of(tokens[after + 3 : end - 1], text))
            after = end
        if words[after : after + 3] == [".", "sample", "("]:
            end = group_end(tokens, after + 2)
            coordinates = tuple(items_of(tokens[after + 3 : end - 1], text))
            yield SampleRead(token.start, tokens[end - 1].end, leading, coordinates)


def is_only_sampled(name: str, *texts: str) -> bool:
    """Return whether texts do nothing with an input but sample it.

    >>> is_only_sampled("x", "v = x.sample(y)"), is_only_sampled("x", "v = x.sample(y) + x[0]")
    (True, False)
    """
    words = [token.text for text in texts for token in code_of(text) if token.kind == "word"]
    return words.count(name) == sum(1 for text in texts for _ in sample_reads(name, text))


def with_sample_macros(names: Sequence[str], text: str, *, macros_only: bool = False) -> str:
    """Return a text that reads windowed inputs through a macro: ``_sample_u(y, x)``.

    There `u` alone is a number, so that it has no members. A preamble has variables of its own
    under these names: `macros_only` leaves all but its macros.
    """
    if not names:
        return text
    pattern = re.compile(_MEMBER.format(names="|".join(map(re.escape, names))))
    pieces, position = [], 0
    for kind, spelling, start, end in tokens_of(text, comments=True):
        opaque = kind in ("comment", "string", "char")
        directive = kind == "directive" and spelling.lstrip("# \t").startswith("define")
        if opaque or (kind == "directive" and not directive):
            pieces += [(text[position:start], False), (text[start:end], True)]
            position = end
        elif directive:
            replaced = pattern.sub(r"_sample_\1", text[start:end])
            pieces += [(text[position:start], False), (replaced, True)]
            position = end
    pieces.append((text[position:], False))
    return "".join(
        piece if done or macros_only else pattern.sub(r"_sample_\1", piece)
        for piece, done in pieces
    )


def declared_samples(
    tables: Mapping[str, SampleTable], windows: Mapping[str, WindowTable], *texts: str
) -> tuple[Sample, ...]:
    """Return the samples of raw inputs of a declaration; `texts` may read them."""
    return tuple(
        Sample(name, table.order, table.boundary, table.value, _dimensions(name, texts))
        for name, table in tables.items()
        if name not in windows
    )


def _dimensions(name: str, texts: Sequence[str]) -> int:
    reads = (read for text in texts for read in sample_reads(name, text))
    return next((read.leading + len(read.coordinates) for read in reads), 1)


def sample_faults(
    tables: Mapping[str, SampleTable],
    windows: Mapping[str, WindowTable],
    sizes: Mapping[str, tuple[int, ...]],
    inputs: Signature,
    operation: str,
    macros: Sequence[str],
) -> Iterator[Fault]:
    """Check samples against the inputs, the windows and the operation."""
    params = {param.name: param for param in inputs}
    for name, table in tables.items():
        problem = _param_problem(name, params, windows)
        reads = [read for text in (operation, *macros) for read in sample_reads(name, text)]
        if not problem and not reads:
            problem = f"the operation has no {name}.sample(...)"
        for read in sample_reads(name, operation):
            for text, start in read.coordinates:
                if is_string(text):
                    message = f"{name} is sampled at {text}, a string; coordinates are numbers"
                    yield Fault(("operation",), message, start, len(text))
        if problem:
            yield Fault(("samples", name), problem, at_key=True)
        elif name in windows:
            yield from _windowed_faults(name, table, windows[name], sizes, operation)
        else:
            if not table.boundary:
                yield Fault(("samples", name), "missing key 'boundary'")
            yield from _rank_faults(name, operation)
    for name in params:
        if name not in tables:
            for read in sample_reads(name, operation):
                message = f"{name} is sampled; declare it in `samples`"
                yield _fault_at(read, message)
                break


def _param_problem(
    name: str, params: Mapping[str, Param], windows: Mapping[str, WindowTable]
) -> str:
    param = params.get(name)
    if param is None:
        return f"{name!r} is not an input; inputs are {', '.join(params) or 'none'}"
    if param.non_const:
        return f"{name!r} is _non_const: it would be sampled after it was written"
    if not param.raw and name not in windows:
        return f"{name!r} is neither raw nor windowed; declare it raw, or give it a window"
    return ""


def _fault_at(read: SampleRead, message: str) -> Fault:
    return Fault(("operation",), message, read.start, read.end - read.start)


def _rank_faults(name: str, operation: str) -> Iterator[Fault]:
    """Check that all samples of a raw input take it for an array of the same dimensions."""
    first = 0
    for read in sample_reads(name, operation):
        count = read.leading + len(read.coordinates)
        if not 1 <= len(read.coordinates) <= MAX_AXES:
            found = counted(len(read.coordinates), "coordinate")
            message = f"{name} is sampled at {found}; samples have 1 to {MAX_AXES}"
            yield _fault_at(read, message)
        elif first and count != first:
            message = (
                f"{name} is sampled as an array of {counted(count, 'dimension')} here, and of "
                f"{first} before"
            )
            yield _fault_at(read, message)
        first = first or count


def _windowed_faults(
    name: str,
    table: SampleTable,
    window: WindowTable,
    sizes: Mapping[str, Sequence[int]],
    operation: str,
) -> Iterator[Fault]:
    for key in ("boundary", "value"):
        if key in table.model_fields_set:
            message = f"{name} is windowed, and samples have the {key} of its window; remove it"
            yield Fault(("samples", name, key), message, at_key=True)
    for read in sample_reads(name, operation):
        if read.leading:
            message = f"{name} is windowed: only raw inputs have slices"
            yield _fault_at(read, message)
        elif len(read.coordinates) != len(window.reach):
            found = counted(len(read.coordinates), "offset")
            axes = f"{len(window.reach)} {'axis' if len(window.reach) == 1 else 'axes'}"
            message = f"{name} is sampled at {found}; its window has {axes}"
            yield _fault_at(read, message)
        else:
            yield from _reach_faults(name, table.order, window.reach, sizes, read)


def _reach_faults(
    name: str, order: int, reach: Reach, sizes: Mapping[str, Sequence[int]], read: SampleRead
) -> Iterator[Fault]:
    """Check the elements that a sample at constant offsets combines."""
    rows = zip(read.coordinates, reach, strict=True)
    for axis, ((text, start), sides) in enumerate(rows):
        for row in choices(sizes):
            offset = _constant(text, row)
            before, after = (row[one] if isinstance(one, str) else one for one in sides)
            if offset is None:
                continue
            low, high = taps(offset, order)
            if -before <= low and high <= after:
                continue
            where = " for " + ", ".join(f"{key} = {one}" for key, one in row.items())
            elements = f"offset {low}" if low == high else f"offsets {low} to {high}"
            message = (
                f"the sample of {name} at {text} reads {elements}, outside its reach along axis "
                f"{axis}, which is [{-before}, {after}]{where if row else ''}"
            )
            yield Fault(("operation",), message, start, len(text))
            break


def taps(offset: float, order: int) -> tuple[int, int]:
    """Return the first and the last element that a sample combines.

    >>> taps(0.5, 1), taps(1, 1), taps(0.5, 3), taps(1, 3)
    ((0, 1), (1, 1), (-1, 2), (0, 2))
    """
    lower = int(offset // 1)
    rest = offset - lower
    if order == 0:
        lower += rest >= 0.5
        return lower, lower
    side = order // 2
    return lower - side, lower + side + (rest > 0)


def _constant(text: str, sizes: Mapping[str, int]) -> float | None:
    """Return the value of an offset, which may be a literal with a fraction."""
    literal = _LITERAL.fullmatch(text)
    if literal is None:
        return constant(text, sizes)
    value = float(literal[2])
    if abs(value) > 2**53:
        return None
    return -value if literal[1] == "-" else value
