"""Rows of `kspec.build.tools.doctor` as text of 80 columns, or as JSON; needs no library.

>>> print(as_text((Row("GPU", "driver", "missing", "no libcuda", "no GPU", "install it"),)))
GPU
  driver          missing   no libcuda
                            without it: no GPU
                            fix: install it
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kspec.build.settings import CONFIGURATION, find_project
from kspec.build.tools.doctor import OK, Row, Verdict, examine, judge
from kspec.errors import SpecError
from kspec.files import read_regular, resolved

FORMATS = ("text", "json")
_WIDTH = 80
_INDENT = 28


def diagnose(folder: Path | None, form: str) -> int:
    """Print what is there; return the exit status: 3 if what is to be done here cannot be.

    Parameters
    ----------
    folder : Path, optional
        Folder of the project; by default that around the current folder, if there is one.
    form : str
        One of `FORMATS`.

    Raises
    ------
    SpecError
        For another format.
    """
    if form not in FORMATS:
        raise SpecError(f"--format {form}: expected one of {', '.join(FORMATS)}")
    rows = examine(_project(folder))
    verdict = judge(rows)
    print(as_json(rows, verdict) if form == "json" else f"{as_text(rows)}\n\n{summary(verdict)}")
    return 0 if verdict.ready else 3


def as_text(rows: Sequence[Row]) -> str:
    """Return the rows below the names of their sections."""
    lines: list[str] = []
    for section in dict.fromkeys(row.section for row in rows):
        lines.append(section)
        for row in rows:
            if row.section == section:
                lines += _lines(row)
    return "\n".join(lines)


def summary(verdict: Verdict) -> str:
    """Return the verdict, a line for each way to use kspec."""
    kinds = {
        "kernels run on a GPU": verdict.cuda,
        "kernels run on the host device": verdict.host,
        "kspec build": verdict.build,
    }
    lines = [f"{kind:30}  {'works' if works else 'does not work'}" for kind, works in kinds.items()]
    return "\n".join(lines)


def as_json(rows: Sequence[Row], verdict: Verdict) -> str:
    """Return the rows and the verdict as a JSON object."""
    works = {"cuda": verdict.cuda, "host": verdict.host, "build": verdict.build}
    table = {"ready": verdict.ready, "works": works, "rows": [asdict(row) for row in rows]}
    return json.dumps(table, indent=2)


def _project(folder: Path | None) -> Path | None:
    if folder is not None:
        return resolved(folder)
    try:
        found = find_project(Path.cwd())
    except SpecError:
        return None
    # Any Python project has that file; ours say so in it.
    try:
        text = read_regular(found / CONFIGURATION).decode("utf-8", "replace")
    except OSError:
        return None
    return found if "[tool.kspec" in text else None


def _lines(row: Row) -> list[str]:
    lines = _wrapped(f"  {row.name:15} {row.state:9} ", row.found)
    if row.state != OK:
        lines += _wrapped(" " * _INDENT, f"without it: {row.without}" if row.without else "")
        lines += _wrapped(" " * _INDENT, f"fix: {row.fix}" if row.fix else "")
    return lines


def _wrapped(start: str, text: str) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"{start:{_INDENT}}",
        subsequent_indent=" " * _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
