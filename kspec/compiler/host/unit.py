"""A source in, the translation unit of the host device out: before and after the preprocessor.

::

    unit = prepare_unit(source)           # .text and .headers are what the preprocessor reads
    host_unit(unit, preprocessed)         # .text is what the compiler reads, with its .entries

`kspec.compiler.host.compile` runs both.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

from kspec.compiler.host.loops.text import loops_name
from kspec.compiler.host.positions import Positions
from kspec.compiler.host.preprocess import prepare
from kspec.compiler.host.rewrite import Entry, rewrite
from kspec.cpp.call_sites import call_site
from kspec.cpp.directives import line_directive
from kspec.cpp.name_expressions import normal_form
from kspec.dataclass import dataclass
from kspec.files import ROOT, is_file
from kspec.model.stages import CudaSource, Header

INCLUDE_DIRECTORY = ROOT / "host" / "include"

# Standard headers that only define types and constants, and are not among the dialect's: they need
# no KSPEC_HOST_STD.
_LIGHT_HEADERS = frozenset(["float.h", "limits.h", "stddef.h"])
# Parts of the dialect by the macros that leave them out, and what sources write that need them:
# their names, or a header of the dialect that uses them.
_PARTS = {
    "KSPEC_HOST_NO_ATOMICS": re.compile(r"atomic|16\.h"),
    "KSPEC_HOST_NO_ROUNDING": re.compile(r"_r[nzud]\b|16\.h"),
    "KSPEC_HOST_NO_SIMD": re.compile("__(?:v|dp)"),
    "KSPEC_HOST_NO_TEXTURES": re.compile("(?:tex|surf)[123C]|cuda(?:Texture|Surface|Boundary)"),
    "KSPEC_HOST_NO_WARPS": re.compile(r"_sync\b|__syncwarp|__activemask|16\.h|cooperative_groups"),
}
_PASTED = re.compile(r"##|%:%:|\?\?=|\w\\\n\w")  # names that are put together
# Name expressions pass through the preprocessor too: the user's macros count in them.
_NAMED = re.compile(r"^KSPEC_HOST_NAMED\((\d+), (.*)\)[ \t]*$", re.M)


@dataclass(frozen=True)
class PreparedUnit:
    """The input of the preprocessor.

    Attributes
    ----------
    text : str
        The dialect, the user's macros, the source, and its name expressions.
    headers : tuple of Header
        What the source carries.
    needs_std : bool
        Whether a header from outside is included, which then comes before our dialect.
    """

    source: CudaSource
    text: str
    headers: tuple[Header, ...]
    needs_std: bool


@dataclass(frozen=True)
class HostUnit:
    """The input of the compiler.

    Attributes
    ----------
    text : str
        C++ without a macro of the user's.
    entries : tuple of Entry
        Kernels and variables that the image exports.
    refusals : str
        A log of code that cannot run on the host device; empty if all can.
    has_loops : bool
        Whether a kernel can run as loops too.
    """

    text: str
    entries: tuple[Entry, ...]
    refusals: str
    has_loops: bool = False


def prepare_unit(source: CudaSource, directives: Sequence[str]) -> PreparedUnit:
    """Return the translation unit of a source, with the directives that options stand for."""
    main, front = prepare(source.text), prepare("\n".join(directives))
    texts = {header.name: prepare(header.text) for header in source.headers}
    included = main.includes.union(*(text.includes for text in (front, *texts.values())))
    foreign = included - texts.keys() - _LIGHT_HEADERS
    as_nvcc = source.backend == "nvcc"
    needs_std = as_nvcc or any(not is_file(INCLUDE_DIRECTORY / name) for name in foreign)
    written = [front.text, main.text, *(one.text for one in texts.values())]
    written.append("\n".join(source.name_expressions))
    # The user's macros come after the dialect, which they must not rewrite (-DN=4).
    lines = [
        *(f"#define {macro} 1" for macro in ([] if needs_std else _left_out(written))),
        "#define KSPEC_HOST_REWRITE 1",
        f"#define KSPEC_HOST_NVCC {int(as_nvcc)}",
        '#include "kspec_host.h"',
        line_directive(1, "<options>"),
        front.text,
    ]
    lines += [line_directive(1, source.name), main.text]
    for index, expression in enumerate(source.name_expressions):
        lines.append(line_directive(1, f"<name expression {expression}>"))
        lines.append(f"KSPEC_HOST_NAMED({index}, {_plain(expression)})")
    return PreparedUnit(
        source,
        "\n".join(lines) + "\n",
        tuple(
            Header(name, f"{line_directive(1, name)}\n{one.text}") for name, one in texts.items()
        ),
        needs_std,
    )


def _left_out(written: Sequence[str]) -> list[str]:
    """Return the macros that leave out the parts of the dialect whose names are not written.

    Headers from outside may name any of them.
    """
    needed = frozenset().union(*map(_needed, written))
    return [macro for macro in _PARTS if macro not in needed]


@functools.lru_cache(maxsize=256)
def _needed(text: str) -> frozenset[str]:
    if _PASTED.search(text):
        return frozenset(_PARTS)
    return frozenset(macro for macro, names in _PARTS.items() if names.search(text))


def host_unit(
    unit: PreparedUnit, preprocessed: str, toolkits: Sequence[Path] = (), loops: bool = False
) -> HostUnit:
    """Return the input of the compiler, made of the output of the preprocessor.

    Parameters
    ----------
    unit : PreparedUnit
        What it was made of.
    preprocessed : str
        The text, with line markers.
    toolkits : sequence of Path
        Directories whose headers are compiled as they are, as those of the dialect.
    loops : bool
        Whether kernels are to run as loops over the threads of a block too, where that can be done.
    """
    expressions = unit.source.name_expressions
    known = [_plain(expression) for expression in expressions]
    positions = Positions(preprocessed, unit.source)
    places = tuple(f"{path}/" for path in (INCLUDE_DIRECTORY, *toolkits))

    def site_of(offset: int, number: int) -> str:
        path, _, column = positions.original(offset)
        return call_site(path, column, number)

    text = rewrite(preprocessed, len(known), known, places, site_of, loops)
    variables = {one.name: one.symbol for one in text.entries if "_global_" in one.symbol}
    named: list[Entry] = []

    def named_entry(match: re.Match[str]) -> str:
        index, name = int(match[1]), match[2]
        plain = normal_form(name)
        if plain in variables:
            named.append(Entry(expressions[index], variables[plain]))
            return ""
        if plain.partition("<")[0] in text.variable_templates:
            named.append(Entry(expressions[index], f"kspec_global_{index}"))
            return f"KSPEC_HOST_GLOBAL({index}, {name})"
        named.append(Entry(expressions[index], f"kspec_entry_{index}"))
        beside = f", {loops_name(plain)}" if plain.partition("<")[0] in text.looped else ""
        return f"KSPEC_HOST_KERNEL({index}, &{name}{beside})"

    body = _NAMED.sub(named_entry, text.text)
    refusals = []
    for one in text.refusals:
        path, line, column = positions.original(one.offset)
        refusals.append(f"{path}:{line}:{column}: error: {one.message}")
    return HostUnit(
        f'#include "kspec_host/rewritten.h"\n{body}',
        (*text.entries, *named),
        "\n".join(dict.fromkeys(refusals)),
        bool(text.looped),
    )


def _plain(expression: str) -> str:
    return expression.strip().lstrip("&")
