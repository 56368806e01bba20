"""Docstrings of generated packages and modules, and of the dtypes in them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kspec.build.package.docs.lines import Lines, safe, wrapped
from kspec.model import dtypes
from kspec.spec.loader import SpecFile
from kspec.spec.struct_tables import Struct


def package_doc(files: Sequence[tuple[str, SpecFile]]) -> tuple[str, ...]:
    """Return the docstring of a package: its modules and their kernels."""
    lines: Lines = ["Kernels that kspec generated.", ""]
    for stem, spec_file in sorted(files):
        lines += wrapped(f"`{stem}`: {_first_line(spec_file.doc) or 'kernels'}")
        for spec in spec_file.specs:
            summary = _first_line(spec.doc)
            text = f"``{stem}.{spec.name}``: {summary}" if summary else f"``{stem}.{spec.name}``"
            lines += wrapped(text, first="* ", rest="  ")
        lines.append("")
    return safe(lines)


def module_doc(spec_file: SpecFile) -> tuple[str, ...]:
    """Return the docstring of a module."""
    text = textwrap.dedent(spec_file.doc).strip() or f"Kernels of {spec_file.path}."
    return safe([*text.splitlines(), "", f"Declared in {spec_file.path}."])


def struct_doc(struct: Struct, spec_file: SpecFile) -> str:
    """Return the sentence below the dtype of a struct."""
    row = dtypes.lookup(struct.dtype)
    layout = f"{row.itemsize} bytes, aligned to {row.alignment}"
    return f"``{struct.name}``, {layout}; declared in {spec_file.path}, line {struct.line}."


def _first_line(doc: str) -> str:
    return doc.strip().split("\n", 1)[0].strip()
