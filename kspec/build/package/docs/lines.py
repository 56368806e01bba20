"""Pieces of docstrings: text in, lines out.

>>> heading("Raises")
['Raises', '------']
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.errors import counted
from kspec.model.signature import Param
from kspec.spec.loader import SpecFile
from kspec.spec.models import Spec

_WIDTH = 92
Lines = list[str]


@dataclass(frozen=True)
class SpecLocation:
    """Place of a declaration, ``specs/norms.toml``, line 4, and the targets of its kernel."""

    path: str
    line: int
    archs: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec_file: SpecFile, spec: Spec, archs: tuple[str, ...] = ()) -> SpecLocation:
        """Return the place of a spec in its file."""
        return cls(spec_file.path, spec_file.lines[spec.name, "name"], archs)

    @property
    def compiled_for(self) -> str:
        """The architectures, as the end of a sentence."""
        return f", for {', '.join(self.archs)}" if self.archs else ""

    def __str__(self) -> str:
        return f"{self.path}, line {self.line}"


def wrapped(text: str, first: str = "", rest: str = "") -> Lines:
    """Return a text in lines of a docstring; `first` and `rest` are before its lines."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def indented(text: str) -> Lines:
    """Return the description of a parameter."""
    return wrapped(text, "    ", "    ")


def safe(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the lines as they stand in a docstring: escaped, without blank ends."""
    text = "\n".join(line.rstrip() for line in lines).strip("\n")
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return tuple(text.splitlines())


def heading(title: str) -> Lines:
    """Return the heading of a section."""
    return [title, "-" * len(title)]


def summary(spec: Spec) -> Lines:
    """Return the text of a spec, or what its kernel is."""
    text = textwrap.dedent(spec.doc).strip()
    return text.splitlines() if text else [f"Run the {spec.kind} kernel ``{spec.name}``."]


def listed(words: Sequence[str]) -> str:
    """Return words as a sentence has them: ``16, 32 or 64``."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def tuple_text(texts: Sequence[str]) -> str:
    """Return expressions as the tuple that they make.

    >>> tuple_text(["ceil_div(n, 256)"])
    '(ceil_div(n, 256),)'
    """
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def array_text(param: Param) -> str:
    """Return the type of an array in words, with its axes where they are declared.

    >>> array_text(Param("T", "A", core=("n", "n"))), array_text(Param("T", "w", raw=True, ndim=2))
    ('array of T, shape (..., n, n)', 'array of T with 2 dimensions')
    """
    text = f"array of {param.type}"
    if param.core:
        return f"{text}, shape (..., {', '.join(param.core)})"
    if param.ndim is not None:
        return f"{text} with {counted(param.ndim, 'dimension')}"
    return text


def scalar_text(param: Param) -> str:
    """Return the type of a number in words."""
    return "scalar" if param.is_placeholder else f"scalar ({param.type})"


def axis_lines() -> Lines:
    """Return the keyword arguments of all reductions."""
    lines = ["axis : int or sequence of int, optional"]
    lines += indented("Axes to reduce; all of them by default, none for ``()``.")
    return [*lines, "keepdims : bool, default False", "    Keep reduced axes with extent 1."]


def stream_lines() -> Lines:
    """Return the keyword argument of all functions."""
    text = "Where to queue the kernel; the current stream of the first array's library by default."
    return ["stream : stream, optional", *indented(text)]


def return_lines(params: Sequence[Param], words: Sequence[str], always_tuple: bool) -> Lines:
    """Return the section about the arrays that a function returns."""
    if not params:
        return []
    lines = heading("Returns")
    if len(params) > 1 or always_tuple:
        lines.append("tuple of arrays")
        for word, param in zip(words, params, strict=True):
            lines += indented(f"`{word}`, an {array_text(param)}.")
    else:
        lines += [array_text(params[0]), *indented(f"`{words[0]}`.")]
    return [*lines, *indented("Arrays are of the library of the first array argument."), ""]
