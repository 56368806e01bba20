r"""Findings of compilers in, the same findings at their place in the spec out.

A compiler sees ``y = x * n`` where the spec file has ``operation = "y = x * n"``, and two lines
where it has ``\n`` in a string.  `#line` directives say which row is meant; this finds the column,
shows the file's own line, and names the kernel whose table it is in.

::

    map_to_specs([Diagnostic("error", "", "specs/a.toml", 7, 9, source_line="y = x * n")], ...)
    # column 22, source_line 'operation = "y = x * n"', kernel "square"

The runtime has no spec files; there findings stay as the compiler made them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from kspec.diagnostics import Diagnostic
from kspec.spec.document.positions import ContentLine, Lines, content_lines, scan_positions
from kspec.spec.models import MODELS

# How a compiler got into the user's text by way of kspec's headers says nothing to the user.
_INTERNAL = re.compile(r'instantiation of "[^(<]*\bkspec::|detected during:$')
_ENTRY = re.compile(r'instantiation of "void (\w+)\(')
_QUOTED = re.compile(r"'([^']+)'")
_INSTANTIATED = re.compile(r"at line (\d+) of (\S+?\.toml)")


def map_to_specs(
    found: Iterable[Diagnostic], project: Path, specs: str, outside: bool = True
) -> tuple[Diagnostic, ...]:
    """Return findings at their places in a project, each once.

    Parameters
    ----------
    found : iterable of Diagnostic
        As `kspec.compiler.messages` makes them.
    project : Path
        Folder of the project; paths of findings are relative to it.
    specs : str
        Folder of the spec files in it; headers beside them are included by their name.
    outside : bool
        Whether to keep findings about text that is not the project's: kspec's own headers.
    """
    reader = _Files(project, specs)
    mapped = [reader.map(one) for one in found]
    kept = [one for one in mapped if outside or reader.is_own(one.path)]
    # One mistake is found again for every architecture, and in every schedule of a reduction.
    once: dict[tuple[object, ...], Diagnostic] = {}
    for one in kept:
        once.setdefault((one.severity, one.path, one.line, one.column, one.message), one)
    return tuple(once.values())


class _Spec:
    """One spec file: its text, and where its keys and values are."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.spans = scan_positions(text)

    def kernel_at(self, row: int) -> str:
        """Return the kernel whose table holds a row."""
        name = ""
        for path, span in self.spans.items():
            if len(path) == 2 and path[0] in MODELS and self.lines.row(span.key_start) <= row:
                name = str(path[1])
        return name

    def header_of(self, kernel: str) -> int:
        """Return the offset of a kernel's name in its table's header; -1 without one."""
        found = (self.spans[kind, kernel] for kind in MODELS if (kind, kernel) in self.spans)
        return next((span.key_start for span in found), -1)

    def content_at(self, row: int, text: str) -> ContentLine | None:
        """Return the line of a string value that begins in a row and reads like this."""
        wanted = text.strip()
        for span in self.spans.values():
            if span.value_start < 0 or not self.lines.row(span.value_start) <= row:
                continue
            if self.lines.row(span.value_end) < row:
                continue
            for line in content_lines(self.text, span):
                if self.lines.row(line.offsets[0]) == row and line.text.strip() == wanted:
                    return line
        return None


class _Files:
    """Reads the files that findings are about, each once."""

    def __init__(self, project: Path, specs: str) -> None:
        self._project = project
        self._specs = specs
        self._spec = functools.cache(self._read_spec)

    def is_own(self, path: str) -> bool:
        return bool(path) and (self._project / path).is_file()

    def map(self, one: Diagnostic) -> Diagnostic:
        """Return a finding where it is in the project, as far as it is there."""
        beside = f"{self._specs}/{one.path}"
        if one.path and not self.is_own(one.path) and self.is_own(beside):
            one = replace(one, path=beside)
        if not one.path:
            return one
        mapped = one if self.is_own(one.path) else self._of_generated(one)
        told = tuple(line for line in mapped.details if not _INTERNAL.search(line))
        mapped = replace(mapped, details=told)
        return self._in_spec(mapped) if one.path.endswith(".toml") else mapped

    def _read_spec(self, path: str) -> _Spec | None:
        try:
            text = (self._project / path).read_bytes().decode("utf-8").replace("\r\n", "\n")
            return _Spec(text)
        except (OSError, UnicodeDecodeError, IndexError):  # gone or changed since it was read
            return None

    def _in_spec(self, one: Diagnostic) -> Diagnostic:
        spec = self._spec(one.path)
        if spec is None:
            return one
        kernel = one.kernel or spec.kernel_at(one.line)
        content = spec.content_at(one.line, one.source_line) if one.source_line else None
        if one.kernel and not one.source_line:
            offset = spec.header_of(one.kernel)
            if offset >= 0 and spec.lines.row(offset) == one.line:
                return _at_name(one, spec, offset)
        if content is None or not one.column:
            shown = spec.lines.line(one.line)
            column = shown.find(one.source_line.strip()) + 1 if one.source_line.strip() else 0
            if not column:
                column, length = _quoted(one.message, shown)
                one = replace(one, length=length) if column else one
            return replace(one, kernel=kernel, source_line=shown, column=column)
        start = min(self._moved(one, content), len(content.offsets) - 1)
        end = min(start + one.length, len(content.offsets) - 1)
        offset = content.offsets[start]
        row = spec.lines.row(offset)
        length = max(1, content.offsets[end] - offset)
        column = spec.lines.column(offset)
        return replace(
            one,
            line=row,
            column=column,
            length=length,
            source_line=spec.lines.line(row),
            kernel=kernel,
        )

    @staticmethod
    def _moved(one: Diagnostic, content: ContentLine) -> int:
        """Return the index in a line of the spec of a column in that line as it was compiled."""
        indent = len(one.source_line) - len(one.source_line.lstrip())
        return one.column - 1 - indent + len(content.text) - len(content.text.lstrip())

    def _of_generated(self, one: Diagnostic) -> Diagnostic:
        """Point at the spec that led to a finding in generated text, or in a header of kspec."""
        origin = f"in {one.place}: {one.source_line.strip()}".rstrip(": ")
        kernel = one.kernel
        for detail in one.details:
            led = _INSTANTIATED.search(detail)
            if led and self.is_own(led[2]):
                return self._at(one, led[2], int(led[1]), origin)
            entry = _ENTRY.search(detail)
            kernel = entry[1] if entry else kernel
        for path in sorted(path.name for path in (self._project / self._specs).glob("*.toml")):
            spec = self._spec(f"{self._specs}/{path}")
            offset = spec.header_of(kernel) if spec else -1
            if spec and offset >= 0:
                found = replace(one, kernel=kernel)
                found = self._at(found, f"{self._specs}/{path}", spec.lines.row(offset), origin)
                return _at_name(found, spec, offset)
        return one

    def _at(self, one: Diagnostic, path: str, row: int, origin: str) -> Diagnostic:
        spec = self._spec(path)
        return replace(
            one,
            path=path,
            line=row,
            column=0,
            length=1,
            source_line=spec.lines.line(row) if spec else "",
            kernel=one.kernel or (spec.kernel_at(row) if spec else ""),
            details=(origin, *one.details),
        )


def _quoted(message: str, line: str) -> tuple[int, int]:
    """Return column and length of the text that a message quotes from a line; else zeros."""
    for text in _QUOTED.findall(message):
        found = re.search(rf"(?<!\w){re.escape(text)}(?!\w)", line)
        if found:
            return found.start() + 1, len(text)
    return 0, 0


def _at_name(one: Diagnostic, spec: _Spec, offset: int) -> Diagnostic:
    """Return a finding that points at a kernel's name, which is at `offset`."""
    row, column = spec.lines.row(offset), spec.lines.column(offset)
    return replace(
        one, line=row, column=column, length=len(one.kernel), source_line=spec.lines.line(row)
    )
