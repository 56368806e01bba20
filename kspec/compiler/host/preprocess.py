r"""The steps around the preprocessor: its input is prepared, and its output divided by origin.

::

    prepare('#include <cub/cub.cuh>').text      # '#error cub device code cannot run on ...'
    user_spans('# 1 "/usr/include/math.h" 1 3\n...', foreign)    # what to rewrite of it

`kspec.compiler.host.compile` runs the preprocessor in between, `kspec.compiler.host.rewrite` comes
after it.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right

from kspec.cpp.directives import INCLUDES, escaped, header_names, unescaped
from kspec.cpp.tokens import newlines, tokens_of
from kspec.dataclass import dataclass

# Marks our own messages in a compiler's log.
REFUSAL = "cannot run on the host device"
GUARD = "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative"
_NO_LIBRARY = f"{{}} device code {REFUSAL}; {GUARD}{{}}"
_COPY = ("asynchronous copy", ", such as a loop that copies and __syncthreads()")
_BARRIER = ", such as __syncthreads() or cooperative_groups"
# By the first part of the header's name, with an alternative.
_REFUSED_LIBRARIES = {
    "cub": ("cub", ", such as reduce and inclusive_scan of cooperative_groups/reduce.h and scan.h"),
    "thrust": ("thrust", ", such as a loop of one thread"),
    "mma.h": ("tensor core (mma.h)", ", such as a loop over the products of the tile"),
    "curand_kernel.h": (
        "cuRAND",
        ", such as a hash of the thread's number (Philox), or pass an array of random numbers",
    ),
    "cuda_pipeline.h": _COPY,
}
_CARRIED = frozenset({"thrust/complex.h"})  # kspec has its own, for every device
# By the whole name. Threads here wait in the scheduler, not by spinning as libcu++ does.
_REFUSED_HEADERS = {
    "cooperative_groups/memcpy_async.h": _COPY,
    "cuda/barrier": ("asynchronous barrier", _BARRIER),
    "cuda/pipeline": _COPY,
    "cuda/ptx": ("PTX", ""),
    "cuda/std/barrier": ("libcu++ barrier", _BARRIER),
    "cuda/std/latch": ("libcu++ latch", _BARRIER),
    "cuda/std/semaphore": ("libcu++ semaphore", ", such as atomicAdd()"),
}
# Sources for several compilers define these away where __CUDACC__ is not; they are keywords here.
_REDEFINED = re.compile(
    r"[ \t]*(?:#|%:)[ \t]*(?:define|undef)[ \t]+__(?:global|device|host|shared|constant|managed"
    r"|launch_bounds|align|forceinline|noinline|grid_constant|cluster_dims|maxnreg)__(?!\w)"
)
# What a CUDA compiler defines, for the user's text alone: headers of the toolkit would take it for
# inline PTX. Names of one length keep columns. The architecture has but a value, so that
# `#ifdef __CUDA_ARCH__`, which mostly guards inline PTX, has its alternative.
_OF_COMPILER = re.compile(
    r"\b__CUDACC(?:__|_VER_M(?:AJ|IN)OR__)(?!\w)"
    r"|(?P<asked>\bdefined\s*\(?\s*|\b(?:ifn?def|define|undef)[ \t]+)?\b__CUDA_ARCH__(?!\w)"
)
_OF_DIALECT = {
    "__CUDACC__": "KSPEC_CUDA",
    "__CUDACC_VER_MAJOR__": "KSPEC_CUDA_VER_MAJOR",
    "__CUDACC_VER_MINOR__": "KSPEC_CUDA_VER_MINOR",
    "__CUDA_ARCH__": "KSPEC_CUDARCH",
}
_LINE_MARKER = re.compile(r'^# (\d+) "((?:[^"\\\n]|\\.)*)"((?: \d)*)[ \t]*$', re.M)


@dataclass(frozen=True)
class PreparedText:
    """CUDA text that the preprocessor may read.

    Attributes
    ----------
    text : str
        With an ``#error`` in place of each header that is refused, on the lines of the original.
    includes : frozenset of str
        Names of the included headers, whether or not the preprocessor gets there.
    """

    text: str
    includes: frozenset[str]


@functools.lru_cache(maxsize=256)
def prepare(text: str) -> PreparedText:
    """Refuse what cannot be included, keep CUDA's keywords what they are, name its compiler."""
    includes = frozenset(name.name for name in header_names(text) if name.is_literal)
    if any(map(_refused, includes)) or re.search(r"(?:define|undef)[ \t]+__\w+__|__CUDA", text):
        text = _edited(text)
    return PreparedText(text, includes)


def _edited(text: str) -> str:
    edits = [
        (name.directive.start, name.directive.end, f"#error {_NO_LIBRARY.format(*library)}")
        for name in header_names(text)
        if name.is_literal and name.directive.word in INCLUDES and (library := _refused(name.name))
    ]
    for token in tokens_of(text):
        if token.kind == "directive" and _REDEFINED.match(token.text):
            edits.append((token.start, token.end, ""))
        elif "__CUDA" in token.text and token.kind in ("directive", "word"):
            edits += [
                (token.start + match.start(), token.start + match.end(), _OF_DIALECT[match[0]])
                for match in _OF_COMPILER.finditer(token.text)
                if not match["asked"]
            ]
    pieces, position = [], 0
    for start, end, new in sorted(edits):
        pieces += [text[position:start], new, newlines(text[start:end])]
        position = end
    return "".join([*pieces, text[position:]])


def _refused(name: str) -> tuple[str, str] | None:
    """Return the subject of a header that device code cannot use here, and an alternative."""
    if name in _CARRIED:
        return None
    return _REFUSED_HEADERS.get(name) or _REFUSED_LIBRARIES.get(name.split("/")[0])


@dataclass(frozen=True)
class LineMarker:
    """A line ``# 12 "k.cu"`` of a preprocessor: the line after it is the 12th of that file."""

    start: int
    end: int
    line: int
    path: str
    flags: str


def line_markers(text: str) -> list[LineMarker]:
    """Return the line markers of a preprocessed text; one as to the beginning comes first."""
    found = [
        LineMarker(match.start(), match.end() + 1, int(match[1]), unescaped(match[2]), match[3])
        for match in _LINE_MARKER.finditer(text)
    ]
    return [LineMarker(0, 0, 1, "", ""), *found]


class MarkedLines:
    """The places, in their files, of offsets in a preprocessed text."""

    def __init__(self, text: str, markers: list[LineMarker]) -> None:
        self._text = text
        self._markers = markers
        self._starts = [marker.end for marker in markers]

    def marker(self, offset: int) -> str:
        """Return the line marker that an offset would need if it were moved."""
        marker = self._markers[bisect_right(self._starts, offset) - 1]
        line = marker.line + self._text.count("\n", marker.end, offset)
        return f'# {line} "{escaped(marker.path)}"'


def user_spans(
    markers: list[LineMarker], end: int, foreign: tuple[str, ...]
) -> list[tuple[int, int]]:
    """Return the spans of a preprocessed text that are the user's own: not of foreign headers."""
    spans: list[tuple[int, int]] = []
    mine, start = [True], 0
    for marker in markers:
        before = mine[-1]
        if "1" in marker.flags:
            mine.append("3" not in marker.flags and not marker.path.startswith(foreign))
        elif "2" in marker.flags and len(mine) > 1:
            mine.pop()
        if before and not mine[-1]:
            spans.append((start, marker.start))
        elif mine[-1] and not before:
            start = marker.start
    return [*spans, (start, end)] if mine[-1] else spans
