r"""Problems of TOML files at their places: offsets and messages in, findings out.

>>> print(problem_at(Lines("a = 1\nb = 2"), "a.toml", 6, 1, "unknown key 'b'"))
a.toml:2:1: error: unknown key 'b'
    b = 2
    ^

`kspec.spec.loader` reports spec files with it, `kspec.build.settings` the table ``[tool.kspec]``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable

from kspec.diagnostics import Diagnostic
from kspec.errors import SpecError
from kspec.spec.document.positions import Lines

_TOML_POSITION = re.compile(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", re.DOTALL)
# Messages of tomllib, as patterns, to ones that say what to do.
_ADVICE = {
    r"Illegal character '\\n'": "the string is not closed in its line; end it with its quote, or "
    "write three quotes around several lines",
    r"Unterminated string": "the string is not closed; end it with its quote",
    r"Expected \"'''\"": "the string is not closed; end it with three quotes",
    r"Unescaped '\\' in a string": r"in double quotes, write \\ for a backslash; strings in single "
    "quotes take it as it is",
    r"Invalid value": "invalid value; strings need quotes",
    r"Unclosed array": "the list is not closed, or a comma is missing",
    r"Unclosed inline table": "the table is not closed, or a comma is missing",
    r"Cannot overwrite a value": "the key is written twice",
}
_LONGEST_LINE = 2000


class SpecFileError(SpecError):
    """Spec files, or settings, have problems: each is in `problems`, the message shows all."""

    def __init__(self, problems: Iterable[Diagnostic]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The problems."""
        return self.problems

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.problems,)


def problem_at(
    lines: Lines, name: str, offset: int, length: int, message: str, code: str = ""
) -> Diagnostic:
    """Return an error about a part of a file, called `name`."""
    row = lines.row(offset)
    source = lines.line(row)
    if len(source) > _LONGEST_LINE:
        source = ""  # a terminal would show carets somewhere else
    return Diagnostic("error", message, name, row, lines.column(offset), length, source, code=code)


def toml_problem(text: str, name: str, error: tomllib.TOMLDecodeError) -> Diagnostic:
    """Return the error for a text that is not TOML."""
    lines = Lines(text)
    match = _TOML_POSITION.fullmatch(str(error))
    offset = len(text.rstrip())
    if match and match[2]:
        offset = lines.offset(int(match[2]), int(match[3]))
    said = match[1] if match else str(error)
    advice = (words for pattern, words in _ADVICE.items() if re.fullmatch(pattern, said))
    message = next(advice, f"{said[:1].lower()}{said[1:]}")
    return problem_at(lines, name, offset, 1, f"not TOML: {message}")
