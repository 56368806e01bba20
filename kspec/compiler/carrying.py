r"""Texts and search directories in, the headers that the texts lead to out.

::

    collect(['#include "kspec/array.cuh"'], [package_include_dir()]).headers

A source carries every header that a compiler could find in these directories, so that the
directories themselves are not searched any more: what is not carried is not found, rather than
found without being in the key.  A macro in place of a name counts as all names that it is defined
as.  One that has other definitions becomes an ``#error``.

NVRTC looks a header given in memory up by the exact spelling of its ``#include`` and does not
try the includer's directory (measured, 13.0), so a header found beside its includer is renamed
to its path below the search directory, in the including text too.  So is one whose name leads out
of it (``../x.h``, ``/home/me/x.h``): compilers that read files get all headers in one folder.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from kspec.cpp.directives import Directive, HeaderName, definitions, header_names, named_by
from kspec.cpp.tokens import newlines
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.files import is_file
from kspec.limits import SOURCE_BYTES
from kspec.model.stages import Header

_ROOT, _UP = "_root", "_up"  # stand for "/" and ".." in names of headers
_UNKNOWN = "#error #{} is not supported: keys of the cache need the name of each header; write it"


@dataclass(frozen=True)
class Collected:
    """The headers of some texts.

    Attributes
    ----------
    headers : tuple of Header
        In the order of inclusion, each once.
    texts : tuple of str
        The given texts, with an ``#error`` in place of an include that names no header.
    looked_at : tuple of Path
        Every file that was looked for, there or not: a change of one may change the rest.
    read : mapping of Path to str
        The texts of those that are headers, as they were found.
    """

    headers: tuple[Header, ...]
    texts: tuple[str, ...]
    looked_at: tuple[Path, ...]
    read: Mapping[Path, str] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True)
class _Found:
    """A header on disk: the name it is carried under, its file and its search directory."""

    name: str
    path: Path
    root: Path


@dataclasses.dataclass
class _Search:
    """The directories, and what was looked for in them."""

    roots: Sequence[Path]
    looked_at: dict[Path, None] = dataclasses.field(default_factory=dict)
    # By the includer's name, the text of the header's and whether the next one is meant.
    known: dict[tuple[str, str, bool], _Found | None] = dataclasses.field(default_factory=dict)

    def resolve(self, text: str, is_next: bool, includer: _Found | None) -> _Found | None:
        """Find a header as a compiler does: beside the includer if quoted, then in the roots."""
        key = (includer.name if includer is not None else "", text, is_next)
        if key not in self.known:
            self.known[key] = self._find(text, is_next, includer)
        return self.known[key]

    def _find(self, text: str, is_next: bool, includer: _Found | None) -> _Found | None:
        name = text[1:-1].strip()
        if is_next and includer is not None:
            return self._behind(name, includer)
        if text[0] == '"' and includer is not None:
            path = includer.path.parent / name
            if self._is_file(path):
                return self._beside(path, includer.root)
        return self._first(name, self.roots)

    def _first(self, name: str, roots: Sequence[Path]) -> _Found | None:
        for root in roots:
            if self._is_file(root / name):
                return _Found(_contained(name), root / name, root)
        return None

    def _behind(self, name: str, includer: _Found) -> _Found | None:
        """Find what ``#include_next`` means; it needs a name of its own."""
        start = self.roots.index(includer.root) + 1
        found = self._first(name, self.roots[start:])
        if found is None:
            return None
        return _Found(f"_{self.roots.index(found.root)}/{found.name}", found.path, found.root)

    def _beside(self, path: Path, root: Path) -> _Found:
        """Name a header by its path below its root, unless that name means another file."""
        name = Path(os.path.relpath(path, root)).as_posix()
        first = self._first(name, self.roots)
        if first is not None and not first.path.samefile(path):
            return _Found(f"_{self.roots.index(root)}/{_contained(name)}", path, root)
        return _Found(_contained(name), path, root)

    def _is_file(self, path: Path) -> bool:
        self.looked_at[path] = None
        return is_file(path)


def leads_out(name: str) -> bool:
    """Return whether a header, by the name it is carried under, is outside its search directory."""
    return not {_ROOT, _UP}.isdisjoint(PurePosixPath(name).parts)


def _contained(name: str) -> str:
    """Return a header's name, or one that does not lead out of its search directory."""
    path = PurePosixPath(posixpath.normpath(name))
    if not path.is_absolute() and path.parts[:1] != ("..",):
        return name
    parts = path.relative_to(path.anchor).parts
    root = [_ROOT] if path.is_absolute() else []
    return "/".join([*root, *(_UP if part == ".." else part for part in parts)])


def collect(
    texts: Sequence[str],
    roots: Sequence[Path],
    known: frozenset[str] = frozenset(),
    macros: tuple[tuple[str, str], ...] = (),
) -> Collected:
    """Return every header that texts include, at any depth, and that is found.

    Parameters
    ----------
    texts : sequence of str
        CUDA C++.
    roots : sequence of Path
        Directories to look in.
    known : frozenset of str
        Names of headers that are carried already.
    macros : tuple of (str, str)
        Definitions that the compiler is given.
    """
    return _Collector(roots, known, macros).collect(texts)


class _Collector:
    """The headers that were found so far."""

    def __init__(
        self, roots: Sequence[Path], known: frozenset[str], macros: tuple[tuple[str, str], ...]
    ) -> None:
        self._search = _Search(tuple(roots))
        self._known = known
        self._macros = [*macros]
        self._headers: dict[str, tuple[_Found, str]] = {}
        # Macros in place of names, and texts whose definitions were not looked at.
        self._unsettled: dict[tuple[str, bool, _Found | None], None] = {}
        self._unread: list[str] = []

    def collect(self, texts: Sequence[str]) -> Collected:
        for text in texts:
            self._visit(text, None)
        while self._unsettled and self._unread:
            self._settle()
        headers = tuple(
            Header(name, self._respelled(text, found))
            for name, (found, text) in self._headers.items()
        )
        given = tuple(self._respelled(text, None) for text in texts)
        read = {found.path: text for found, text in self._headers.values()}
        return Collected(headers, given, tuple(self._search.looked_at), read)

    def _visit(self, text: str, includer: _Found | None) -> None:
        self._unread.append(text)
        for one in header_names(text):
            if one.is_literal:
                self._carry(self._search.resolve(one.text, one.is_next, includer))
            else:
                self._unsettled[one.text, one.is_next, includer] = None

    def _carry(self, found: _Found | None) -> None:
        if found is None or found.name in self._known or found.name in self._headers:
            return
        text = read_header(found.path)
        self._headers[found.name] = found, text
        self._visit(text, found)

    def _settle(self) -> None:
        """Carry what macros name; headers that come by that may have more of them."""
        self._macros += [one for text in self._unread for one in definitions(text)]
        self._unread.clear()
        for macro, is_next, includer in tuple(self._unsettled):
            for name in named_by(macro, self._macros) or ():
                found = self._search.resolve(name, is_next, includer)
                if found is not None:
                    # The macro's text is left alone: the header goes by the name in it.
                    self._carry(_Found(name[1:-1].strip(), found.path, found.root))

    def _respelled(self, text: str, includer: _Found | None) -> str:
        """Spell each header's name in a text as it is carried."""
        pieces, position = [], 0
        for _, names in itertools.groupby(header_names(text), lambda one: one.directive.start):
            line, new = self._line(text, [*names], includer)
            pieces += [text[position : line.start], new]
            position = line.end
        return "".join([*pieces, text[position:]])

    def _line(
        self, text: str, names: Sequence[HeaderName], includer: _Found | None
    ) -> tuple[Directive, str]:
        """Return a directive, and what it becomes."""
        line = names[0].directive
        if any(not one.is_literal and named_by(one.text, self._macros) is None for one in names):
            error = _UNKNOWN.format(f"{line.word} {line.operand}")
            return line, error + newlines(text[line.start : line.end])
        changes = [change for one in names for change in self._changes(one, includer)]
        return line, line.replaced(text, changes)

    def _changes(self, one: HeaderName, includer: _Found | None) -> Iterator[tuple[str, str]]:
        found = self._search.resolve(one.text, one.is_next, includer) if one.is_literal else None
        if found is None:
            return
        if one.is_next and includer is not None:
            yield "include_next", "include"
        spelled = f"{one.text[0]}{found.name}{one.text[-1]}"
        if found.name != one.name:
            yield one.text, spelled


def read_header(path: Path) -> str:
    """Return a header's text.

    Raises
    ------
    SpecError
        If it is larger than any header, or cannot be read.
    """
    try:
        if path.stat().st_size > SOURCE_BYTES:
            raise SpecError(f"the header {path.name} has more than {SOURCE_BYTES} bytes")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SpecError(f"the header {path} cannot be read: {error.strerror}") from error
