r"""Located edits of a TOML text: one value changes, all else stays as its author wrote it.

>>> text = 'types = { T = ["int8"] }  # why\n'
>>> append_values(text, ("types", "T"), ['"int16"'])
'types = { T = ["int8", "int16"] }  # why\n'
>>> set_value(text, (), "layouts", '["Flat, 3"]')
'types = { T = ["int8"] }  # why\nlayouts = ["Flat, 3"]\n'

The positions are those of `kspec.spec.document.positions`; texts are valid TOML with ``\n`` only,
and remain so.  `kspec.build.tools.trace` writes with these what a program has asked for.  tomlkit
0.15 does most of it, but leaves out a comma where it appends to an array that ends with a comment.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from kspec.spec.document.positions import Path, Span, scan_positions

_COMMENT = re.compile(r"[ \t]*#[^\n]*")
_AFTER_VALUE = re.compile(r"[ \t]*(,?)([ \t]*#[^\n]*)?")


def set_value(text: str, table: Path, key: str, value: str) -> str:
    """Return `text` with ``key = value`` in a table, in the place and style of the present text.

    Parameters
    ----------
    text : str
        A TOML document.
    table : tuple
        Path of an existing table; empty: the document.
    key : str
        Its key, new or not.
    value : str
        The value as TOML.
    """
    spans = scan_positions(text)
    span = spans.get((*table, key))
    if span is not None and span.value_start >= 0:
        return _replaced(text, span.value_start, span.value_end, value)
    own = spans.get(table)
    there = [
        one
        for path, one in spans.items()
        if len(path) == len(table) + 1 and path[: len(table)] == table and one.value_start >= 0
    ]
    if own is not None and own.value_start >= 0:  # an inline table
        end = max((one.value_end for one in there), default=own.value_start + 1)
        return _replaced(text, end, end, f"{', ' if there else ' '}{key} = {value}")
    if not there:
        assert own is not None, f"{table} is not a table"
        end = _end_of_line(text, own.key_end)
        return _replaced(text, end, end, f"\n{key} = {value}")
    last = max(there, key=lambda one: one.value_end)
    end = _end_of_line(text, last.value_end)
    start = text.rfind("\n", 0, last.key_start) + 1
    before = text[start : last.key_start]  # indentation, or the dotted key of the table
    # A column of equals signs is kept straight.
    columns = {text.index("=", one.key_end) - one.key_start for one in there}
    lengths = {one.key_end - one.key_start for one in there}
    width = columns.pop() - 1 if len(columns) == 1 and len(lengths) > 1 else 0
    return _replaced(text, end, end, f"\n{before}{key:<{width}} = {value}")


def append_values(text: str, path: Path, values: Sequence[str]) -> str:
    """Return `text` with more elements at the end of an array.

    Each gets a line of its own if the last element has one; its comment stays beside it.
    """
    for value in values:
        text = _append(text, path, value)
    return text


def remove_values(text: str, path: Path, indices: Collection[int]) -> str:
    """Return `text` without some elements of an array, and without the comments beside them."""
    for index in sorted(indices, reverse=True):
        text = _remove(text, path, index)
    return text


def comments_of(text: str, path: Path) -> list[str]:
    """Return the comments inside an array or inline table whose strings have no ``#``."""
    span = scan_positions(text)[path]
    return [one.strip() for one in _COMMENT.findall(text[span.value_start : span.value_end])]


def _append(text: str, path: Path, value: str) -> str:
    spans = scan_positions(text)
    array, elements = spans[path], _elements(spans, path)
    if not elements:
        inside = array.value_start + 1
        return _replaced(text, inside, inside, value)
    last = elements[-1]
    start = text.rfind("\n", 0, last.value_start) + 1
    indent = text[start : last.value_start]
    match = _AFTER_VALUE.match(text, last.value_end)
    assert match is not None
    if not indent.strip() and start > array.value_start:
        # The new line comes behind the comment of the last element, which needs its comma.
        line = f"\n{indent}{value}{match[1]}"
        text = _replaced(text, match.end(), match.end(), line)
        return text if match[1] else _replaced(text, last.value_end, last.value_end, ",")
    return _replaced(text, last.value_end, last.value_end, f", {value}")


def _remove(text: str, path: Path, index: int) -> str:
    spans = scan_positions(text)
    elements = _elements(spans, path)
    gone = elements[index]
    start = text.rfind("\n", 0, gone.value_start) + 1
    match = _AFTER_VALUE.match(text, gone.value_end)
    assert match is not None
    end = match.end()
    if not text[start : gone.value_start].strip() and text.startswith("\n", end):
        return _replaced(text, start, end + 1, "")  # a line of its own
    if index + 1 < len(elements):
        return _replaced(text, gone.value_start, elements[index + 1].value_start, "")
    begin = elements[index - 1].value_end if index else gone.value_start
    return _replaced(text, begin, gone.value_end, "")


def _elements(spans: dict[Path, Span], path: Path) -> list[Span]:
    found: list[Span] = []
    while (*path, len(found)) in spans:
        found.append(spans[(*path, len(found))])
    return found


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _replaced(text: str, start: int, end: int, new: str) -> str:
    return f"{text[:start]}{new}{text[end:]}"
