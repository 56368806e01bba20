"""Versions of the format of spec files: a text in an older one in, the same kernels in today's out.

``schema = 1`` above the tables of a spec file says which version it is written in; without that it
is the first.  A field that is added leaves the number as it is; one that gets another name is a row
of `CHANGES` and raises it.

>>> str(Renamed(2, "raw", "body", "code"))
"'body' is called 'code' since schema 2"

`kspec.spec.loader` reads today's version only, and points old names at `kspec upgrade`, which
writes what `upgraded` returns.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from kspec.dataclass import dataclass
from kspec.spec.document.edit import set_value
from kspec.spec.document.positions import Lines, scan_positions
from kspec.spec.faults import Fault

KEY = "schema"
FIRST = 1


@dataclass(frozen=True)
class Renamed:
    """A field of one kind of kernel that is called otherwise since a version."""

    since: int
    kind: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.old!r} is called {self.new!r} since schema {self.since}"


# In the order of the versions.  None so far: all specs that have been released are of the first.
CHANGES: tuple[Renamed, ...] = ()


def current() -> int:
    """Return today's version."""
    return max((one.since for one in CHANGES), default=FIRST)


def version_fault(value: object) -> Fault | None:
    """Return the fault of a version that this kspec does not read; None for others."""
    now = current()
    if not isinstance(value, int) or isinstance(value, bool) or value < FIRST:
        return Fault((KEY,), f"must be a number from {FIRST} to {now}")
    if value > now:
        return Fault(
            (KEY,), f"schema {value} is of a newer kspec, this one reads {now}; upgrade it"
        )
    return None


def explained(
    version: int, kind: str, fields: Collection[str], faults: Iterable[Fault]
) -> Iterator[Fault]:
    """Yield the faults of a kernel, in which old names of fields are said to be such.

    Parameters
    ----------
    version : int
        Of the file.
    kind : str
        Of the kernel.
    fields : collection of str
        Names of its fields, as they are in the file.
    faults : iterable of Fault
        What today's model says.
    """
    found = {old: _today(version, kind, old) for old in fields}
    changes = {(old,): change for old, change in found.items() if change is not None}
    instead = {(change.new,) for change in changes.values() if change.new not in fields}
    for fault in faults:
        if fault.location in changes:
            message = f"{changes[fault.location]}; run `kspec upgrade`"
            yield replace(fault, message=message)
        elif fault.location not in instead:  # it is there, by its old name
            yield fault


def _today(version: int, kind: str, old: str) -> Renamed | None:
    """Return today's name of a field, through all versions since that of its file."""
    found = None
    for change in CHANGES:
        name = found.new if found else old
        if change.since > version and (change.kind, change.old) == (kind, name):
            found = Renamed(change.since, kind, old, change.new)
    return found


def upgraded(text: str) -> tuple[str, list[str]]:
    """Return a spec file in today's version, and a line about each change.

    Parameters
    ----------
    text : str
        Valid TOML.  Its comments, order and layout are kept.
    """
    document = tomllib.loads(text)
    before, now = document.get(KEY, FIRST), current()
    if not isinstance(before, int) or before >= now:
        return text, []
    said: list[str] = []
    for change in CHANGES:
        if change.since > before:
            text = _rename(text, change, said)
    return (_numbered(text, KEY in document, now), said) if said else (text, said)


def _rename(text: str, change: Renamed, said: list[str]) -> str:
    lines = Lines(text)
    places = [
        span
        for path, span in scan_positions(text).items()
        if len(path) == 3 and path[0] == change.kind and path[2] == change.old
    ]
    said += [f"line {lines.row(span.key_start)}: {change}" for span in places]
    for span in sorted(places, key=lambda span: -span.key_start):
        text = text[: span.key_start] + change.new + text[span.key_end :]
    return text


def _numbered(text: str, is_there: bool, number: int) -> str:
    """Return a text with its version: above the first key, below the comments at the top."""
    if is_there:
        return set_value(text, (), KEY, str(number))
    first = min(span.key_start for span in scan_positions(text).values())
    start = text.rfind("\n", 0, first) + 1
    return f"{text[:start]}{KEY} = {number}\n{text[start:]}"
