"""Places of calls in which threads wait for each other: named for a compiler, read for people.

>>> call_site("k.cu", 12, 1)
'k.cu[@12.1]'
>>> readable("waits at k.cu[@12.1]:7"), position("k.cu[@12.1]:7")
('waits at k.cu:7:12', 'k.cu:7')

Such calls are told apart by file and line. If several are on one line, each gets a file of its own:
``k.cu[@12.1]`` is the first of them and stands in column 12.  `kspec.compiler.host.rewrite` writes
the names, `kspec.host.faults` reads them.
"""

from __future__ import annotations

import re

# Where the line tables of images say that sources and the dialect were, on every machine.
SOURCE_ROOT = "/kspec-source"
DIALECT_ROOT = "/kspec-dialect"
HOST_UNIT = "kspec_unit.cpp"  # what is compiled: around the user's text, all of it is kspec's
_FILE = re.compile(r"\[@\d+\.\d+\]")
_SITE = re.compile(r"\[@(\d+)\.(\d+)\]:(\d+)")


def call_site(path: str, column: int, number: int) -> str:
    """Return the name of a file in which a compiler is to see one of several calls on a line."""
    return f"{path}[@{column}.{number}]"


def without_sites(text: str) -> str:
    """Return a text with the files that calls are in."""
    return _FILE.sub("", text)


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
