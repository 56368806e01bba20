"""Places of calls in which threads meet, as modules name them in, as people read them out.

>>> readable("waits at k.cu[@12.1]:7"), position("k.cu[@12.1]:7")
('waits at k.cu:7:12', 'k.cu:7')

Such calls are told apart by file and line. If several are on one line,
`kspec.compiler.host.positions` gives each a file of its own: ``k.cu[@12.1]`` is the first of them
and stands in column 12.
"""

from __future__ import annotations

import re

_SITE = re.compile(r"\[@(\d+)\.(\d+)\]:(\d+)")


def readable(message: str) -> str:
    """Return a message with line and column of calls that share their line with others."""
    calls = {match.groups() for match in _SITE.finditer(message)}
    places = [(column, line) for column, _, line in calls]

    def shown(match: re.Match[str]) -> str:
        column, number, line = match.groups()
        place = f":{line}:{column}" if column != "0" else f":{line}"
        # Two calls of one macro stand in one column.
        return f"{place} (call {number})" if places.count((column, line)) > 1 else place

    return _SITE.sub(shown, message)


def position(place: str) -> str:
    """Return ``file:line`` of a place."""
    return _SITE.sub(r":\3", place)
