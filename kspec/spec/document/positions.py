"""Positions of keys and values in a TOML document: text in, spans out.

`tomllib` keeps no positions, so this scans the text a second time; it relies on `tomllib`
having accepted it and checks nothing.

>>> spans = scan_positions('''[raw.f]
... code = "x"
... ''')
>>> spans["raw", "f", "code"].value_start
15

`kspec.spec.loader` turns spans into lines, columns and carets.
"""

from __future__ import annotations

import bisect
import itertools
import re

from kspec.dataclass import dataclass

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_PLAIN = re.compile(r"[^,\]}\n#]*")
_QUOTES = ('"""', "'''", '"', "'")
_ESCAPE = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|x[0-9A-Fa-f]{2}|.)", re.DOTALL)
_CONTINUATION = re.compile(r"\\[ \t]*\n\s*")
_ESCAPED = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b"}


@dataclass(frozen=True)
class Span:
    """Offsets of a key and its value; the value of a ``[table]`` header is empty."""

    key_start: int
    key_end: int
    value_start: int = -1
    value_end: int = -1


def document_text(data: bytes) -> str:
    r"""Return the text of a file, as offsets count its characters: with ``\n`` only.

    `tomllib` sees newlines in this form too.  Some editors begin with a byte-order mark.

    Raises
    ------
    UnicodeDecodeError
        If it is not UTF-8.
    """
    return data.decode("utf-8-sig").replace("\r\n", "\n")


def scan_positions(text: str) -> dict[Path, Span]:
    r"""Return the span of every key and array element of a valid TOML `text` (``\n`` only)."""
    scanner = _Scanner(text)
    scanner.document()
    return scanner.spans


class Lines:
    r"""The lines of a text: offsets in, rows and columns out, all from 1.

    >>> lines = Lines("a\nbc")
    >>> lines.row(2), lines.column(3), lines.line(2)
    (2, 2, 'bc')
    """

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._starts = [0, *itertools.accumulate(len(line) + 1 for line in self._lines)]

    def row(self, offset: int) -> int:
        """Return the row of an offset."""
        return min(bisect.bisect_right(self._starts, offset), len(self._lines))

    def column(self, offset: int) -> int:
        """Return the column of an offset."""
        return offset - self._starts[self.row(offset) - 1] + 1

    def offset(self, row: int, column: int) -> int:
        """Return the offset of a place."""
        return self._starts[row - 1] + column - 1

    def line(self, row: int) -> str:
        """Return the text of a row; empty if there is none."""
        return self._lines[row - 1] if 0 < row <= len(self._lines) else ""


def content_offsets(text: str, span: Span) -> list[int]:
    """Return the offset in `text` of every character of a string value, and of its end.

    Empty if the value is not a string.
    """
    quote = _quote_at(text, span.value_start)
    if span.value_start < 0 or not quote:
        return []
    position, end = span.value_start + len(quote), span.value_end - len(quote)
    if len(quote) == 3 and text.startswith("\n", position):
        position += 1
    offsets: list[int] = []
    while position < end:
        continuation = _CONTINUATION.match(text, position) if quote == '"""' else None
        if continuation:
            position = min(continuation.end(), end)
            continue
        offsets.append(position)
        escape = _ESCAPE.match(text, position) if quote[0] == '"' else None
        position = escape.end() if escape else position + 1
    return [*offsets, end]


@dataclass(frozen=True)
class ContentLine:
    """One line of a string value: its text, and the offsets of its characters and its end."""

    text: str
    offsets: tuple[int, ...]


def content_lines(text: str, span: Span) -> list[ContentLine]:
    """Return the lines of a string value; nothing if the value is not a string."""
    offsets = content_offsets(text, span)
    quote = _quote_at(text, span.value_start)[:1]
    lines: list[ContentLine] = []
    start, body = 0, ""
    for number, offset in enumerate(offsets):
        last = number == len(offsets) - 1
        escape = _ESCAPE.match(text, offset) if quote == '"' and not last else None
        character = "" if last else _unescape(escape[0], quote) if escape else text[offset]
        if last or character == "\n":
            lines.append(ContentLine(body, tuple(offsets[start : number + 1])))
            start, body = number + 1, ""
        else:
            body += character
    return lines


def _quote_at(text: str, position: int) -> str:
    return next((quote for quote in _QUOTES if text.startswith(quote, position)), "")


class _Scanner:
    """Walks the text once; every method leaves `position` behind the text it has read."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.spans: dict[Path, Span] = {}
        self.array_lengths: dict[Path, int] = {}

    def document(self) -> None:
        table: Path = ()
        while self._skip(_BLANK) < len(self.text):
            if self.text[self.position] == "[":
                table = self._header()
            else:
                self._pair(table)

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.position)
        self.position = match.end() if match else self.position
        return self.position

    def _header(self) -> Path:
        brackets = 2 if self.text.startswith("[[", self.position) else 1
        self.position += brackets
        path = self._keys((), table_array=brackets == 2)
        self._skip(_SPACE)
        self.position += brackets
        return path

    def _keys(self, prefix: Path, table_array: bool = False) -> Path:
        """Read a dotted key below `prefix`; return the path it means."""
        while True:
            self._skip(_SPACE)
            start = self.position
            prefix = (*prefix, self._key())
            self.spans.setdefault(prefix, Span(start, self.position))
            self._skip(_SPACE)
            if not self.text.startswith(".", self.position):
                break
            self.position += 1
            if prefix in self.array_lengths:  # [[x]] earlier: this continues its last element
                prefix = (*prefix, self.array_lengths[prefix] - 1)
        if table_array:
            index = self.array_lengths.get(prefix, 0)
            self.array_lengths[prefix] = index + 1
            prefix = (*prefix, index)
            self.spans[prefix] = Span(start, self.position)
        return prefix

    def _key(self) -> str:
        quote = _quote_at(self.text, self.position)[:1]
        start = self.position
        if not quote:
            return self.text[start : self._skip(_BARE)]
        self._string(quote)
        return _unescape(self.text[start + 1 : self.position - 1], quote)

    def _pair(self, table: Path) -> None:
        path = self._keys(table)
        key = self.spans[path]
        self._skip(_SPACE)
        self.position += 1  # the equals sign
        self._skip(_SPACE)
        start = self.position
        self._value(path)
        self.spans[path] = Span(key.key_start, key.key_end, start, self.position)

    def _value(self, path: Path) -> None:
        quote = _quote_at(self.text, self.position)
        if quote:
            self._string(quote)
        elif self.text[self.position] == "[":
            self._array(path)
        elif self.text[self.position] == "{":
            self._inline_table(path)
        else:
            self._skip(_PLAIN)
            self.position = len(self.text[: self.position].rstrip())

    def _string(self, quote: str) -> None:
        self.position += len(quote)
        while not self.text.startswith(quote, self.position):
            escaped = quote[0] == '"' and self.text[self.position] == "\\"
            self.position += 2 if escaped else 1
        self.position += len(quote)
        # Up to two quotes may stand right before the three that end a multi-line string.
        while len(quote) == 3 and self.text.startswith(quote[0], self.position):
            self.position += 1

    def _array(self, path: Path) -> None:
        self.position += 1
        index = 0
        while self.text[self._skip(_BLANK)] != "]":
            start = self.position
            self._value((*path, index))
            self.spans[(*path, index)] = Span(start, start, start, self.position)
            index += 1
            if self.text[self._skip(_BLANK)] == ",":
                self.position += 1
        self.position += 1

    def _inline_table(self, path: Path) -> None:
        self.position += 1
        while self.text[self._skip(_BLANK)] != "}":
            self._pair(path)
            if self.text[self._skip(_BLANK)] == ",":
                self.position += 1
        self.position += 1


def _unescape(raw: str, quote: str) -> str:
    if quote == "'":
        return raw

    def character(match: re.Match[str]) -> str:
        body = match.group()[1:]
        return chr(int(body[1:], 16)) if len(body) > 1 else _ESCAPED.get(body, body)

    return _ESCAPE.sub(character, raw)
