r"""Places in a preprocessed text in, places in the user's text out.

::

    text = '# 3 "k.cu"\\nx = (2 * y) + zz;\n'        # of "x = TWICE(y) + zz;"
    Positions(text, source).original(text.index("zz"))
    # SourcePosition(path='k.cu', line=3, column=16)

A preprocessor keeps lines, but its columns are those of expanded macros.  The tokens of a line are
therefore matched with those that the user wrote; a token out of a macro stands where its name does.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from kspec.compiler.host.preprocess import LineMarker, line_markers
from kspec.compiler.messages import source_line
from kspec.cpp.call_sites import without_sites
from kspec.cpp.tokens import Token, tokens_of
from kspec.model.stages import CudaSource

_LOGGED = re.compile(r"^(\S[^:\n]*):(\d+):(\d+):", re.M)
_REACH = 400  # lines of a text that may come from one line of the user's
_COMPARED = 200_000  # pairs of tokens
_ARGUMENTS = 40  # lines that arguments of a macro may have where no other text follows


class SourcePosition(NamedTuple):
    """A position in the user's text; column 0 if that is not known."""

    path: str
    line: int
    column: int


class Positions:
    """The places of a preprocessed text in the source that it was made of.

    Parameters
    ----------
    text : str
        With the line markers of a preprocessor.
    source : CudaSource
        What the user wrote.
    """

    def __init__(self, text: str, source: CudaSource) -> None:
        self._text = text
        self._source = source
        self._matched: dict[tuple[int, int], _Matched] = {}

    @functools.cached_property
    def _markers(self) -> list[LineMarker]:
        return line_markers(self._text)

    @functools.cached_property
    def _starts(self) -> list[int]:
        return [marker.end for marker in self._markers]

    def line(self, offset: int) -> tuple[str, int]:
        """Return file and line of an offset in the text."""
        marker = self._markers[bisect_right(self._starts, offset) - 1]
        path = without_sites(marker.path)
        return path, marker.line + self._text.count("\n", marker.end, offset)

    def original(self, offset: int) -> SourcePosition:
        """Return the user's position of an offset in the text."""
        path, line = self.line(offset)
        pieces, until = self._pieces(path, line, offset)
        matched = self._matched.get(pieces[0])
        if matched is None:
            lines = [source_line(self._source, path, number) for number in range(line, until)]
            expanded = [token for piece in pieces for token in _code(self._text, *piece)]
            matched = self._matched[pieces[0]] = _Matched(expanded, "\n".join(lines))
        token = matched.counterpart(offset)
        if token is None:
            return SourcePosition(path, line, 0)
        before = matched.written[: token.start]
        return SourcePosition(path, line + before.count("\n"), token.start - before.rfind("\n"))

    def in_log(self, log: str) -> str:
        """Return a compiler's log with the places of the user's text."""

        def moved(match: re.Match[str]) -> str:
            path, line, column = match[1], int(match[2]), int(match[3])
            start = self._start_of(path, line)
            if start < 0:
                return match[0]
            shown = self._text[start : self._end_of(start)].encode()[: column - 1]
            place = self.original(start + len(shown.decode(errors="ignore")))
            if not place.column:
                return f"{place.path}:{place.line}:{column}:"
            written = source_line(self._source, place.path, place.line)[: place.column - 1]
            return f"{place.path}:{place.line}:{len(written.encode()) + 1}:"

        return without_sites(_LOGGED.sub(moved, log))

    def _start_of(self, path: str, line: int) -> int:
        """Return the start of a file's line in the text: of several the longest; or -1."""
        found = [-1]
        ends = [marker.start for marker in self._markers[1:]]
        for marker, end in zip(self._markers, [*ends, len(self._text)], strict=True):
            if marker.path != path or marker.line > line:
                continue
            start = marker.end
            for _ in range(line - marker.line):
                start = self._text.find("\n", start, end) + 1
                if not start:
                    break
            if start and start < end:
                found.append(start)
        return max(found, key=lambda start: self._end_of(start) - start if start >= 0 else -1)

    def _end_of(self, start: int) -> int:
        end = self._text.find("\n", start)
        return len(self._text) if end < 0 else end

    def _pieces(self, path: str, line: int, offset: int) -> tuple[list[tuple[int, int]], int]:
        """Return the text from one line of a file, and the next line that has text.

        Arguments of a macro on several lines are printed on the first of them.
        """
        start = self._text.rfind("\n", 0, offset) + 1
        pieces = [(start, self._end_of(start))]
        for begin, end in self._before(start):
            if self.line(begin) != (path, line):
                break
            pieces.insert(0, (begin, end))
        for begin, end in self._after(pieces[-1][1]):
            where, number = self.line(begin)
            if where != path:
                break
            if number != line:
                return pieces, max(number, line + 1)
            pieces.append((begin, end))
        return pieces, line + _ARGUMENTS

    def _before(self, start: int) -> Iterator[tuple[int, int]]:
        for _ in range(_REACH):
            end = start - 1
            if end < 0:
                return
            start = self._text.rfind("\n", 0, end) + 1
            if self._text[start:end].strip() and self._text[start] != "#":
                yield start, end

    def _after(self, end: int) -> Iterator[tuple[int, int]]:
        for _ in range(_REACH):
            start = end + 1
            if start >= len(self._text):
                return
            end = self._end_of(start)
            if self._text[start:end].strip() and self._text[start] != "#":
                yield start, end


def _code(text: str, start: int = 0, end: int | None = None) -> list[Token]:
    tokens = tokens_of(text, start=start, end=end)
    return [token for token in tokens if token.kind != "directive"]


class _Matched:
    """The tokens of an expanded line beside those that the user wrote."""

    def __init__(self, expanded: list[Token], written: str) -> None:
        self.written = written
        self._ends = [token.end for token in expanded]
        self._tokens = _code(written)
        self._blocks = _matching_blocks(
            [token.text for token in expanded], [token.text for token in self._tokens]
        )

    def counterpart(self, offset: int) -> Token | None:
        """Return the token that was written for the one at an offset, or the macro it is from."""
        if not self._ends or not self._tokens:
            return None
        index = min(bisect_right(self._ends, offset), len(self._ends) - 1)
        last = 0
        macro: Token | None = None
        unmatched: list[Token] = []
        for first, second, size in self._blocks:
            unmatched = self._tokens[last:second]
            if index < first:
                break
            macro = next((one for one in reversed(unmatched) if one.kind == "word"), macro)
            if index < first + size:
                return self._tokens[second + index - first]
            last = second + size
        return (
            unmatched[0] if unmatched else macro or self._tokens[min(last, len(self._tokens) - 1)]
        )


def _matching_blocks(first: list[str], second: list[str]) -> list[tuple[int, int, int]]:
    """Return the equal parts of two lists, as `SequenceMatcher` does; an empty one is last.

    Long lines are compared at their ends only: the time that it takes grows with the square.
    """
    before = _alike(first, second)
    after = _alike(first[before:][::-1], second[before:][::-1])
    ends = len(first) - after, len(second) - after
    blocks = [(0, 0, before)]
    middle = first[before : ends[0]], second[before : ends[1]]
    if len(middle[0]) * len(middle[1]) <= _COMPARED:
        found = SequenceMatcher(None, *middle, autojunk=False).get_matching_blocks()
        blocks += [(one.a + before, one.b + before, one.size) for one in found if one.size]
    return [*blocks, (*ends, after), (len(first), len(second), 0)]


def _alike(first: list[str], second: list[str]) -> int:
    """Return the number of equal items at the beginning of two lists."""
    pairs = zip(first, second, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))
