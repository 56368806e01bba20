r"""One finding about a user's text: what, how bad, and where, with the line itself.

>>> print(Diagnostic("error", "unknown name 'm'", "specs/a.toml", 3, 8, source_line="grid = m"))
specs/a.toml:3:8: error: unknown name 'm'
    grid = m
           ^

Errors carry them (`kspec.errors.KspecError.diagnostics`), builds return them, and
`kspec.build.cli.diagnostics` prints them: as here, in colour, as JSON or for GitHub.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from kspec.dataclass import dataclass

SEVERITIES = ("error", "warning", "note")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Attributes
    ----------
    severity : str
        ``"error"``, ``"warning"`` or ``"note"``.
    message : str
        What is wrong and what to write instead.
    path : str
        Relative to the project; empty if the finding is about no file.
    line, column : int
        From 1; 0 where they are not known.
    length : int
        Number of characters that are meant.
    source_line : str
        The line itself.
    kernel : str
        Name of the kernel it is about.
    code : str
        Stable word or number of the rule, such as the compiler's ``"177-D"``.
    details : tuple of str
        What else belongs to it, such as the instantiations that led there.
    hint : str
        What would help.
    """

    severity: str
    message: str
    path: str = ""
    line: int = 0
    column: int = 0
    length: int = 1
    source_line: str = ""
    kernel: str = ""
    code: str = ""
    details: tuple[str, ...] = ()
    hint: str = ""

    @property
    def place(self) -> str:
        """Its place, ``specs/a.toml:3:8``, as far as it is known."""
        numbers = [self.line, self.column] if self.line and self.column else [self.line]
        return ":".join([self.path, *(str(number) for number in numbers if number)])

    def marked(self) -> tuple[str, ...]:
        """Return the line and carets under what is meant; nothing if the line is not known."""
        if not self.source_line.strip():
            return ()
        column = self.column or len(self.source_line) - len(self.source_line.lstrip()) + 1
        length = self.length if self.column else len(self.source_line.strip())
        before = re.sub(r"[^\t]", " ", self.source_line[: column - 1])
        room = max(1, len(self.source_line) - column + 1)
        return self.source_line, before + "^" * max(1, min(length, room))

    def __str__(self) -> str:
        head = f"{self.place}: {self.severity}: " if self.path else f"{self.severity}: "
        about = f" [{self.kernel}]" if self.kernel else ""
        hint = [f"hint: {self.hint}"] if self.hint else []
        below = [*self.marked(), *self.details, *hint]
        return "\n".join([f"{head}{self.message}{about}", *(f"    {line}" for line in below)])

    def at_word(self) -> Diagnostic:
        """Return the same finding, as long as the word at its column."""
        word = _WORD.match(self.source_line, max(0, self.column - 1)) if self.column else None
        return replace(self, length=len(word[0]) if word else 1)


def by_place(found: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return findings in the order of their files and lines; those without a file come last."""
    return tuple(sorted(found, key=lambda one: (not one.path, one.path, one.line, one.column)))


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Return a message for an unknown key that suggests the nearest one."""
    import difflib

    options = sorted(allowed)
    near = difflib.get_close_matches(key, options, 1)
    if near:
        return f"unknown key {key!r}; did you mean {near[0]!r}?"
    return f"unknown key {key!r}" + (f"; expected one of {', '.join(options)}" if options else "")
