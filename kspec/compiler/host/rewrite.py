"""Preprocessed CUDA text in, host C++ text out: the changes that macros cannot express.

>>> print(rewrite("void f() { __shared__ int s[4]; }").text)
void f() { typedef int kspec_type_s[4]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s) }

Lines stay what the line markers say, so positions in messages are those of the CUDA text.  The
macros it writes are those of ``kspec/host/include/kspec_host/rewritten.h``;
`kspec.compiler.host.compile` compiles the result.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kspec.compiler.host.loops.text import loops_name, loops_text
from kspec.compiler.host.preprocess import GUARD, REFUSAL, LineMarker, MarkedLines, user_spans
from kspec.compiler.host.preprocess import line_markers as markers_of
from kspec.compiler.host.shared_memory import SharedDeclaration, parse_shared
from kspec.cpp.brackets import call_start, end_at, group_end, outermost
from kspec.cpp.declarations import parse_declaration, split_attributes, without_template_head
from kspec.cpp.directives import escaped
from kspec.cpp.tokens import Token, newlines, spelled, tokens_of
from kspec.dataclass import dataclass

_NO_ASM = (
    f"inline PTX (asm) {REFUSAL}; {GUARD}, such as CUDA's own functions (__shfl_sync, __ldg, __fns)"
)
_REFUSED_WORDS = {
    "asm": _NO_ASM,
    "__asm__": _NO_ASM,
    "__asm": _NO_ASM,
    "__cluster_dims__": f"a thread block cluster {REFUSAL}; {GUARD}",
    "<<<": f"a kernel launch from device code (<<<...>>>) {REFUSAL}",
}
_INITIAL_VALUE = (
    "a __shared__ variable cannot have an initial value; assign it in one thread, "
    "then call __syncthreads()"
)
_DATA_MEMBER = "a data member cannot be __shared__; declare the variable outside of the class"
_VARIABLE_SPACES = frozenset(["__constant__", "__device__", "__managed__"])
_CLASS_KEYS = frozenset(["class", "struct", "union", "enum"])
_CONTROL = frozenset(["if", "for", "while", "switch", "constexpr"])
# Threads meet in calls of functions and methods with these names. A name too many costs nothing.
_COLLECTIVE = re.compile(
    r"__syncthreads\w*|__syncwarp|__activemask|__(?:shfl|any|all|ballot|match|reduce)_?\w*_sync"
    r"|__barrier_sync|sync|shfl\w*|ballot|any|all|match_any|match_all|reduce|coalesced_threads"
    r"|(?:in|ex)clusive_scan|(?:labeled|binary)_partition"
)


@dataclass(frozen=True)
class Entry:
    """An exported symbol the rewritten text defines.

    Attributes
    ----------
    name : str
        The kernel or variable as a host program names it.
    symbol : str
        The C symbol.
    """

    name: str
    symbol: str


@dataclass(frozen=True)
class Refusal:
    """Something that the host device does not run: a message, and its offset in the text."""

    offset: int
    message: str


@dataclass(frozen=True)
class HostText:
    """Host C++ text and what a compile has to know about it.

    Attributes
    ----------
    text : str
        The rewritten text.
    entries : tuple of Entry
        Plain kernels and global variables that were found.
    variable_templates : tuple of str
        Names of global variables that are templates: name expressions instantiate them.
    refusals : tuple of Refusal
        Why it cannot run, place by place.
    looped : frozenset of str
        Names of kernels that have a class of loops beside them (`kspec.compiler.host.loops`).
    """

    text: str
    entries: tuple[Entry, ...] = ()
    variable_templates: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    looped: frozenset[str] = frozenset()


def rewrite(
    text: str,
    first_number: int = 0,
    known: Iterable[str] = (),
    foreign: tuple[str, ...] = (),
    site_of: Callable[[int, int], str] | None = None,
    loops: bool = False,
) -> HostText:
    """Turn CUDA C++ into C++ for the host device's dialect headers.

    Shared memory becomes references into the block's memory, each plain ``__global__`` function
    and global variable gets an exported entry, and calls in which threads meet can be told apart
    by file and line.

    Parameters
    ----------
    text : str
        The output of a preprocessor, with its line markers.
    first_number : int
        Number of the first entry.
    known : iterable of str
        Kernels that get their entry elsewhere.
    foreign : tuple of str
        Folders, with a slash, of files whose text stays as it is; system headers do anyway.
    site_of : callable, optional
        Returns the name of a file for a call at an offset, the n-th of several on one line.
    loops : bool
        Whether kernels are to run as loops too, where that can be done.
    """
    return _Rewriter(text, first_number, frozenset(known), foreign, site_of, loops).run()


class _Call(NamedTuple):
    """A call in which threads meet: where the expression begins, and the function's name."""

    start: int
    name: int


@dataclasses.dataclass
class _Scope:
    """An open brace: what it belongs to, and how to go on where it closes."""

    kind: str  # "namespace", "linkage", "class", "block", "initializer"
    name: str = ""
    kernel: str = ""
    head: list[Token] = dataclasses.field(default_factory=list)  # of any kernel, a template too
    opening: Token | None = None
    statement: list[Token] = dataclasses.field(default_factory=list)  # what it is part of
    depth: int = 0


class _Loops(NamedTuple):
    """A kernel that may run as loops: its head, its body, and where it ends."""

    head: list[Token]
    body: list[Token]
    end: int


class _Rewriter:
    """One pass over the tokens, collecting edits."""

    def __init__(
        self,
        text: str,
        first_number: int,
        known: frozenset[str],
        foreign: tuple[str, ...],
        site_of: Callable[[int, int], str] | None,
        loops: bool,
    ) -> None:
        self.text = text
        self.loops = loops
        self.loops_of: dict[str, _Loops | None] = {}  # None: there are none, or several kernels
        self.entry_of: dict[str, int] = {}  # the edits of entries
        self.outer_words: set[str] = set()  # outside of functions
        self.number = first_number
        self.shared_number = 0
        self.dynamic_names: set[str] = set()
        self.known = known
        self.foreign = foreign
        self.site_of = site_of
        self.edits: list[tuple[int, int, str]] = []
        self.entries: list[Entry] = []
        self.variable_templates: list[str] = []
        self.refusals: list[Refusal] = []
        self.scopes: list[_Scope] = []
        self.statement: list[Token] = []
        self.depth = 0  # of parentheses in the statement
        self.collective: list[_Call] = []

    def run(self) -> HostText:
        markers = markers_of(self.text)
        self.read(markers, self.go_on(markers))
        self.tell_calls_apart(markers)
        looped = self.add_loops(markers)
        return HostText(
            self.edited(),
            tuple(self.entries),
            tuple(self.variable_templates),
            tuple(self.refusals),
            looped,
        )

    def read(self, markers: list[LineMarker], begin: int) -> None:
        for start, end in user_spans(markers, len(self.text), self.foreign):
            for token in tokens_of(self.text, start=max(start, begin), end=end):
                self.take(token)

    def go_on(self, markers: list[LineMarker]) -> int:
        """Take over what was found in the same headers before; return where they end."""
        end = next((one.start for one in reversed(markers) if "2" in one.flags), 0)
        front = _front(self.text[:end], self.foreign, self.loops)
        if front is None:
            return 0
        self.edits, self.collective = [*front.edits], [*front.collective]
        self.outer_words, self.loops_of = {*front.outer_words}, {**front.loops_of}
        self.dynamic_names, self.shared_number = {*front.dynamic_names}, front.shared_number
        self.variable_templates = [*front.variable_templates]
        self.refusals = [*front.refusals]
        return end

    def take(self, token: Token) -> None:
        text = token.text
        if token.kind == "directive":
            return
        if text == "{":
            self.open_brace(token)
        elif text == "}":
            self.close_brace(token)
        elif text == ";" and not self.depth:
            self.end_statement(token)
        else:
            if token.kind == "word":
                self.word(token)
            elif text == "(" or text == "[":
                self.open_parenthesis(text)
            elif (text == ")" or text == "]") and self.depth:
                self.depth -= 1
            elif text == "<<<":
                self.refusals.append(Refusal(token.start, _REFUSED_WORDS[text]))
            self.statement.append(token)

    def edited(self) -> str:
        pieces, position = [], 0
        for start, end, replacement in sorted(self.edits):
            if start < position:  # inside of a span that is replaced as a whole
                continue
            pieces += [self.text[position:start], replacement]
            position = end
        return "".join([*pieces, self.text[position:]])

    def one_line(self, start: int, end: int) -> Token:
        """Return the code of a place as a token: part of a statement that is read as a whole."""
        tokens = tokens_of(self.text, start=start, end=end)
        code = spelled([token for token in tokens if token.kind != "directive"])
        return Token("code", code, start, end)

    def insert(self, position: int, text: str) -> None:
        self.edits.append((position, position, text))

    # ------------------------------------------------------------- words and calls

    def word(self, token: Token) -> None:
        if token.text in _REFUSED_WORDS:
            self.refusals.append(Refusal(token.start, _REFUSED_WORDS[token.text]))
        elif token.text == "__noinline__" and not self.in_attribute():
            self.edits.append((token.start, token.end, "__attribute__((noinline))"))

    def in_attribute(self) -> bool:
        """Return whether the statement ends inside of ``__attribute__((...``."""
        words = [token.text for token in self.statement]
        if "__attribute__" not in words:
            return False
        start = len(words) - 1 - words[::-1].index("__attribute__")
        return words[start:].count("(") > words[start:].count(")")

    def open_parenthesis(self, text: str) -> None:
        self.depth += 1
        if text == "(" and self.statement and _COLLECTIVE.fullmatch(self.statement[-1].text):
            start = self.statement[call_start(self.statement)].start
            self.collective.append(_Call(start, self.statement[-1].start))

    def tell_calls_apart(self, markers: list[LineMarker]) -> None:
        """Give several calls on one line files of their own; a call's place is file and line."""
        if self.site_of is None or len(self.collective) < 2:
            return
        lines: dict[tuple[str, int], list[_Call]] = {}
        starts = [marker.end for marker in markers]
        at = line = 0
        for call in self.collective:  # in order, so that each line end is counted once
            marker = markers[bisect_right(starts, call.name) - 1]
            if marker.end >= at:
                at, line = marker.end, marker.line
            line += self.text.count("\n", at, call.name)
            at = call.name
            lines.setdefault((marker.path, line), []).append(call)
        for (path, line), calls in lines.items():
            if len(calls) < 2:
                continue
            for number, call in enumerate(calls, 1):
                name = escaped(self.site_of(call.name, number))
                self.insert(call.start, f'\n# {line} "{name}"\n')
            ends = {self.text.find("\n", call.name) + 1 or len(self.text) for call in calls}
            for end in ends:
                self.insert(end, f'# {line + 1} "{escaped(path)}"\n')

    # ------------------------------------------------------------- statements

    def in_function(self) -> bool:
        return any(scope.kind == "block" for scope in self.scopes)

    def at_namespace(self) -> bool:
        return all(scope.kind in ("namespace", "linkage") for scope in self.scopes)

    def open_brace(self, token: Token) -> None:
        scope = self.scope_of_brace()
        scope.opening = token
        scope.depth = self.depth
        if self.at_namespace():
            words = {part.text for part in self.statement}
            self.outer_words |= words
            if "__global__" in words and scope.kind == "block":
                scope.head = self.statement
        if self.depth or scope.kind in ("initializer", "class"):
            scope.statement = self.statement
        self.scopes.append(scope)
        self.statement, self.depth = [], 0

    def scope_of_brace(self) -> _Scope:
        if self.depth:
            return _Scope("initializer")  # or the body of a lambda
        tokens = outermost(without_template_head(split_attributes(self.statement)[1]))
        words = [token.text for token in tokens]
        assigned = words.index("=") if "=" in words else 0
        if words[-1:] in (["return"], [","]) or (assigned and words[assigned - 1] != "operator"):
            return _Scope("initializer")
        keys = [index for index, word in enumerate(words) if word in _CLASS_KEYS]
        if keys and "(" not in words[keys[0] :]:
            return _Scope("class")
        if "__shared__" in words:
            return _Scope("initializer")
        if self.in_function():
            return _Scope("block")
        if "namespace" in words:
            return _Scope("namespace", "".join(words[words.index("namespace") + 1 :]))
        if words in (["extern", '"C"'], ["extern", '"C++"']):
            return _Scope("linkage", words[1])
        if "(" in words or "operator" in words:
            return _Scope("block", kernel=self.kernel_name())
        return _Scope("initializer" if words else "block")

    def close_brace(self, token: Token) -> None:
        self.statement, self.depth = [], 0
        if not self.scopes:
            return
        scope = self.scopes.pop()
        if scope.statement and scope.opening:
            body = self.one_line(scope.opening.end, token.start)
            self.statement = [*scope.statement, scope.opening, body, token]
            self.depth = scope.depth
        elif self.at_namespace():
            if scope.head and self.loops:
                self.read_loops(scope, token)
            if scope.kernel:
                self.add_entry("KERNEL", "entry", scope.kernel, f"&{scope.kernel}", token.end)

    def end_statement(self, token: Token) -> None:
        words = {part.text for part in self.statement}
        if self.at_namespace():
            self.outer_words |= words
        if "__shared__" in words:
            self.shared(token)
        elif not _VARIABLE_SPACES.isdisjoint(words) and self.at_namespace():
            names = _variable_names(self.statement)
            if self.statement[0].text == "template":
                self.variable_templates += map(self.qualified, names)
            else:
                macro = "CONSTANT" if "__constant__" in words else "GLOBAL"
                for name in names:
                    self.add_entry(macro, "global", name, name, token.end)
        self.statement = []

    # ------------------------------------------------------------- entries

    def kernel_name(self) -> str:
        """Return the name of the plain kernel whose body is about to open, or nothing.

        Only C linkage makes a name that a lookup finds, as on a GPU: others need a name expression.
        """
        words = {token.text for token in self.statement}
        if "__global__" not in words or "template" in words or not self.at_namespace():
            return ""
        if '"C"' not in words and all(scope.name != '"C"' for scope in self.scopes):
            return ""
        declaration = parse_declaration(self.statement)
        if declaration is None or not declaration.declarators[0].is_function:
            return ""
        return declaration.declarators[0].name

    def qualified(self, name: str) -> str:
        """Return a name with the namespaces that it is declared in."""
        namespaces = [scope.name for scope in self.scopes if scope.name[:1] not in ("", '"')]
        return "::".join([*namespaces, name])

    def add_entry(self, macro: str, prefix: str, name: str, argument: str, position: int) -> None:
        qualified = self.qualified(name)
        if macro == "KERNEL" and qualified in self.known:
            return
        if macro == "KERNEL":
            self.entry_of[qualified] = len(self.edits)
        self.insert(position, f" KSPEC_HOST_{macro}({self.number}, {argument})")
        # C linkage has no namespaces.
        found_by = name if macro == "KERNEL" else qualified
        self.entries.append(Entry(found_by, f"kspec_{prefix}_{self.number}"))
        self.number += 1

    # ------------------------------------------------------------- loops

    def read_loops(self, scope: _Scope, closing: Token) -> None:
        """Keep a kernel whose body has ended; of several with one name none runs as loops."""
        declaration = parse_declaration(without_template_head(scope.head))
        if declaration is None or scope.opening is None:
            return
        name = self.qualified(declaration.declarators[0].name)
        body = [*tokens_of(self.text, start=scope.opening.end, end=closing.start)]
        known = name in self.loops_of
        self.loops_of[name] = None if known else _Loops(scope.head, body, closing.end)

    def add_loops(self, markers: list[LineMarker]) -> frozenset[str]:
        """Write the classes of loops behind their kernels; return the names of those kernels."""
        lines = MarkedLines(self.text, markers)
        looped = set()
        for name, kernel in self.loops_of.items():
            found = kernel and loops_text(kernel.head, kernel.body, lines.marker)
            if not kernel or not found or not self.outer_words.isdisjoint(found.functions):
                continue
            looped.add(name)
            entry = self.entry_of.get(name)
            text = ""
            if entry is not None:
                beside = loops_name(name.rpartition("::")[2])
                text = self.edits[entry][2].replace(")", f", {beside})")
                self.edits[entry] = (kernel.end, kernel.end, "")
            self.insert(kernel.end, f"\n{found.text}\n{lines.marker(kernel.end)}\n{text}")
        return frozenset(looped)

    # ------------------------------------------------------------- shared memory

    def shared(self, semicolon: Token) -> None:
        """Rewrite one __shared__ declaration; templates of variables stay thread_local."""
        tokens = self.statement[_shared_start(self.statement) :]
        declaration = parse_shared(tokens)
        if declaration is None:
            return
        start, end = tokens[0].start, semicolon.end
        if declaration.has_value:
            self.refusals.append(Refusal(start, _INITIAL_VALUE))
        elif self.scopes and self.scopes[-1].kind == "class":
            self.refusals.append(Refusal(start, _DATA_MEMBER))
        elif tokens[0].text != "template":
            text = self.shared_text(declaration)
            self.edits.append((start, end, text + _line_ends(self.text[start:end])))

    def shared_text(self, declaration: SharedDeclaration) -> str:
        if self.in_function():
            return declaration.in_function()
        names = {self.qualified(one.name) for one in declaration.declaration.declarators}
        if declaration.extern and names <= self.dynamic_names:
            return ""
        self.dynamic_names |= names
        first = self.shared_number
        self.shared_number += len(names)
        return declaration.at_file_scope(first)


@functools.lru_cache(maxsize=32)
def _front(text: str, foreign: tuple[str, ...], loops: bool) -> _Rewriter | None:
    """Return a rewriter that has read headers: sources have them in common.

    There is none if they end inside of something, or have entries: the numbers of these depend on
    the source.
    """
    reader = _Rewriter(text, 0, frozenset(), foreign, None, loops)
    reader.read(markers_of(text), 0)
    return None if reader.scopes or reader.statement or reader.entries else reader


def _shared_start(statement: list[Token]) -> int:
    """Return the start of a __shared__ declaration: labels and conditions may precede it."""
    start = index = 0
    while statement[index].text != "__shared__":
        text = statement[index].text
        following = statement[index + 1].text
        index = end_at(statement, index)
        if text in _CONTROL and following == "(":
            start = index = group_end(statement, index)
        elif text in (":", "else", "do"):
            start = index
    return start


def _line_ends(text: str) -> str:
    """Return the line ends and line markers of a text, to keep where it is replaced."""
    marker = text.rfind("\n# ")
    if marker < 0:
        return newlines(text)
    end = text.index("\n", marker + 1)
    return text[marker:end] + newlines(text[end:])


def _variable_names(statement: list[Token]) -> list[str]:
    """Return the variables that a namespace-scope statement defines; functions are not."""
    declaration = parse_declaration(without_template_head(statement))
    if declaration is None or {"typedef", "friend"} & declaration.specifiers:
        return []
    found = [one for one in declaration.declarators if not one.is_function]
    if "extern" in declaration.specifiers:  # without a value it defines nothing
        found = [one for one in found if one.has_value]
    return [one.name for one in found]
