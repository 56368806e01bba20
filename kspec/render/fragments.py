"""The user's text and where it stands, for ``#line``.

>>> FragmentOrigin("sq", None).fragment("operation", "y = x * x")
Fragment(text='y = x * x', path='<sq.operation>', line=1)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from kspec.cpp.directives import line_directive
from kspec.cpp.fragments import identifiers
from kspec.dataclass import dataclass
from kspec.render.dependent import with_dependent_words

if TYPE_CHECKING:
    from kspec.spec.loader import SpecFile


@dataclass(frozen=True)
class Fragment:
    """The user's text and where it stands; false when empty."""

    text: str
    path: str
    line: int = 1

    def __bool__(self) -> bool:
        return bool(self.text.strip())

    def mentions(self, name: str) -> bool:
        """Whether `name` occurs as an identifier."""
        return name in identifiers(self.text)


@dataclass(frozen=True)
class FragmentOrigin:
    """Positions of the fragments of one kernel.

    Attributes
    ----------
    path : str
        File for ``#line``, relative to the project; without one, the kernel's name.
    lines : mapping of str to int or None
        First line of each field's text; None: the fields are Python arguments.
    rows : mapping of str to tuple of int
        The line of each line of a field's text, where they do not count up from the first.
    """

    path: str
    lines: Mapping[str, int] | None
    rows: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def in_file(cls, spec_file: SpecFile, kernel: str) -> FragmentOrigin:
        """Return the positions of the fields of one kernel of a spec file."""
        lines = {key: line for (name, key), line in spec_file.lines.items() if name == kernel}
        rows = {key: lines for (name, key), lines in spec_file.rows.items() if name == kernel}
        return cls(spec_file.path, lines, rows)

    def fragment(self, field: str, text: str) -> Fragment:
        """Return the field's text with its position: ``specs/a.toml``, or ``<sq.operation>``."""
        if field not in ("preamble", "code"):
            text = with_dependent_words(text)
        if self.lines is None:
            return Fragment(text, f"<{self.path}.{field}>")
        text = _with_rows(text, self.rows.get(field, ()), self.path)
        return Fragment(text, self.path, self.lines.get(field, 1))


def _with_rows(text: str, rows: Sequence[int], path: str) -> str:
    """Return a text that says where each of its lines stands, if that is not one after another."""
    lines = text.split("\n")
    if len(lines) != len(rows) or 'R"' in text:  # a directive would be part of a raw string
        return text
    told: list[str] = []
    for number, line in enumerate(lines):
        continued = number > 0 and lines[number - 1].endswith("\\")
        if number and rows[number] != rows[number - 1] + 1 and not continued:
            told.append(line_directive(rows[number], path))
        told.append(line)
    return "\n".join(told)
