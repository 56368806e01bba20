"""Compile errors of a package in, the same errors at columns of its spec file out.

A compiler sees ``y = x * n`` where the spec file has ``operation = "y = x * n"``.  Builds read the
file as TOML (`kspec.build.package.source_map`).  The runtime looks for the text in its line, in
editable installs and tests, which have the file; of a line that has escapes the column is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kspec.diagnostics import Diagnostic
from kspec.errors import CompileError


def in_spec(error: CompileError, folder: Path, spec: str) -> CompileError:
    """Return an error with its messages at their columns in a spec file.

    Parameters
    ----------
    error : CompileError
        A kernel of a package does not compile.
    folder : Path
        Folder of the package, below that of its project.
    spec : str
        The spec file, relative to the project.  A wheel has none: the error stays as it is.
    """
    places = (parent / spec for parent in folder.parents)
    path = next((one for one in places if one.is_file()), None)
    if path is None:
        return error
    try:
        rows = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError):
        return error
    found = tuple(_moved(one, rows) if one.path == spec else one for one in error.found)
    shown = _shown(found) if error.log == _shown(error.found) else error.log
    return CompileError(shown, error.source, error.options, error.target, found)


def _shown(found: Sequence[Diagnostic]) -> str:
    return "\n".join(map(str, found))


def _moved(one: Diagnostic, rows: Sequence[str]) -> Diagnostic:
    """Return a finding at its column in the row of the file that it names."""
    row = rows[one.line - 1].rstrip("\r") if 0 < one.line <= len(rows) else ""
    text = one.source_line.strip()
    if not one.column or not text:
        return one
    if row.count(text) != 1:  # it has escapes, or the file has changed
        return replace(one, column=0)
    indent = one.source_line.index(text)
    return replace(one, source_line=row, column=row.index(text) + one.column - indent)
