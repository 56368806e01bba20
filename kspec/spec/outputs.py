"""Outputs that a text never assigns, and those that begin with old values: faults and names out.

>>> from kspec.spec.parser import parse_signature
>>> y = parse_signature("T y")
>>> [fault.message for fault in never_assigned("post_map", "sqrt(a)", y, Expansion())]
["output y is never assigned; write 'y = sqrt(a)'"]
>>> updated("y += x", y, Expansion())
('y',)

Raw outputs are arrays, of which a kernel may set some elements only: they are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from kspec.cpp.assignment import assigns_first, never_assigns, reads_first
from kspec.cpp.expansion import Expansion
from kspec.cpp.fragments import code_of, offset_of
from kspec.cpp.preambles import declares_variable
from kspec.model.signature import Signature
from kspec.spec.faults import Fault

_SHOWN = 60  # characters of an expression in a message


def never_assigned(
    field: str, text: str, outputs: Signature, expansion: Expansion
) -> Iterator[Fault]:
    """Yield a fault for each output that a text surely never assigns.

    One without code leaves all outputs as they are, which may be meant.
    """
    for name in (one.name for one in outputs if not one.raw and code_of(text)):
        if not never_assigns(name, text, expansion):
            continue
        if declares_variable(name, text):
            message = (
                f"output {name} is never assigned: this declares another variable of its name; "
                f"leave out the type, as in '{name} = ...'"
            )
        elif offset_of(name, text) >= 0:
            message = (
                f"output {name} is read, but never assigned; assign it, as in '{name} = ...', or "
                "declare it as an input"
            )
        elif len(outputs) == 1 and _is_expression(text):
            value = text.strip().removeprefix("return").lstrip()
            message = f"output {name} is never assigned; write '{name} = {value}'"
        else:
            message = (
                f"output {name} is never assigned; assign it, as in '{name} = ...', or leave it "
                "out of the outputs"
            )
        place = max(offset_of(name, text), len(text) - len(text.lstrip()))
        yield Fault((field,), message, place)


def _is_expression(text: str) -> bool:
    """Return whether a text is one short line without statements."""
    line = text.strip()
    signs = {token.text for token in code_of(line)}
    return 0 < len(line) <= _SHOWN and "\n" not in line and signs.isdisjoint({"=", ";"})


def may_read(text: str, outputs: Signature, expansion: Expansion) -> bool:
    """Return whether a text may read old values of outputs: it does not plainly set them first."""
    return any(
        not (param.raw or param.core or assigns_first(param.name, text, expansion))
        for param in outputs
    )


def updated(text: str, outputs: Signature, expansion: Expansion) -> tuple[str, ...]:
    """Return the outputs that surely begin with their old values: calls must give them."""
    return tuple(
        param.name
        for param in outputs
        if not param.raw and (reads_first(param.name, text, expansion) or not code_of(text))
    )
