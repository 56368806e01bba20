"""Golden cases: input files and the expected text together in one ``.case`` file.

::

    What this case is about.
    --- specs/bad.toml
    [elementwise.f]
    --- expected
    specs/bad.toml:1:14: missing key 'operation'

``pytest --update-golden`` writes what the code says now into the last section; review the diff.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"
_SECTION = re.compile(r"^--- (\S+)\n", re.MULTILINE)
_EXPECTED = "expected"


@dataclass(frozen=True)
class Case:
    """One ``.case`` file: `files` maps relative paths to text."""

    path: Path
    about: str
    files: dict[str, str]
    expected: str

    def write_files(self, folder: Path) -> None:
        for name, text in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def check(self, actual: str, update: bool) -> None:
        """Compare `actual` with the expected text, or make it the expected text."""
        actual = actual.rstrip("\n") + "\n"
        if update and actual != self.expected:
            sections = {**self.files, _EXPECTED: actual}
            text = "".join(f"--- {name}\n{body}" for name, body in sections.items())
            self.path.write_text(self.about + text, encoding="utf-8")
        else:
            assert actual == self.expected, f"{self.path.name} differs; see --update-golden"


def cases(folder: str) -> list[Path]:
    """Return the case files of ``tests/golden/<folder>``, sorted."""
    return sorted((GOLDEN / folder).glob("*.case"))


def read_case(path: Path) -> Case:
    about, *parts = _SECTION.split(path.read_text(encoding="utf-8"))
    files = dict(zip(parts[::2], parts[1::2], strict=True))
    return Case(path, about, files, files.pop(_EXPECTED, ""))
