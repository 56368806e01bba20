"""CUDA text in, host C++ text out: what macros can not express, done by a lexical pass.

>>> print(rewrite("void f() { __shared__ int s[4]; }").text)
void f() { typedef int kspec_type_s[ 4 ]; KSPEC_HOST_SHARED(kspec_type_s, s, kspec_tag_s) }

Line numbers do not change, so positions in messages stay those of the CUDA text.  The macros it
writes are those of ``kspec/host/include``; `kspec.compiler.host` compiles the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from kspec.compiler.lexer import (
    Token,
    attribute_start,
    name_index,
    newlines,
    split_at_commas,
    tokens_of,
    without_attributes,
)
from kspec.compiler.shared_memory import parse_shared

# Marks our own messages in a compiler's log.
REFUSAL = "can not run on the host device"

_GUARD = "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative"
_NO_ASM = f"inline PTX (asm) {REFUSAL}; {_GUARD}"
_NO_LAUNCH = f"a kernel launch from device code (<<<...>>>) {REFUSAL}"
_NO_CLUSTER = f"a thread block cluster {REFUSAL}; {_GUARD}"
_NO_LIBRARY = f"{{}} device code {REFUSAL}; {_GUARD}"

_INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
_CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
_ASM_IN_MACRO = re.compile(r"\b(?:asm|__asm__|__asm)\b(?=\s*(?:volatile\b|__volatile__\b)?\s*\()")
# By the first part of the header's name.
_REFUSED_LIBRARIES = {
    "cub": "cub",
    "thrust": "thrust",
    "mma.h": "tensor core (mma.h)",
    "curand_kernel.h": "cuRAND",
    "cuda_pipeline.h": "asynchronous copy",
}
# By the whole name. Threads here wait in the scheduler, not by spinning as libcu++ does.
_REFUSED_HEADERS = {
    "cooperative_groups/memcpy_async.h": "asynchronous copy",
    "cuda/barrier": "asynchronous barrier",
    "cuda/pipeline": "asynchronous copy",
    "cuda/ptx": "PTX",
    "cuda/std/barrier": "libcu++ barrier",
    "cuda/std/latch": "libcu++ latch",
    "cuda/std/semaphore": "libcu++ semaphore",
}
_VARIABLE_SPACES = ("__constant__", "__device__", "__managed__")


@dataclass(frozen=True)
class Entry:
    """An exported symbol the rewritten text defines.

    Attributes
    ----------
    name : str
        The kernel or variable as a host program names it.
    symbol : str
        The C symbol; absent from the object when the preprocessor dropped the definition.
    """

    name: str
    symbol: str


@dataclass(frozen=True)
class HostText:
    """Host C++ text and what a compile has to know about it.

    Attributes
    ----------
    text : str
        The rewritten text, with the lines of the original.
    entries : tuple of Entry
        Plain kernels and global variables that were found.
    includes : tuple of str
        Names of the included headers, whether or not the preprocessor gets there.
    variable_templates : tuple of str
        Names of global variables that are templates: name expressions instantiate them.
    """

    text: str
    entries: tuple[Entry, ...] = ()
    includes: tuple[str, ...] = ()
    variable_templates: tuple[str, ...] = ()


def rewrite(text: str, first_number: int = 0, known: Iterable[str] = ()) -> HostText:
    """Turn CUDA C++ into C++ for the host device's dialect headers.

    Shared memory becomes references into the block's memory, each plain ``__global__`` function
    and global variable gets an exported entry, and what can not run on a CPU becomes a compile
    error at its place (in regions that the preprocessor keeps only).

    Parameters
    ----------
    text : str
        CUDA C++.
    first_number : int
        Number of the first entry; sources and headers of one image must not share numbers.
    known : iterable of str
        Kernels that get their entry elsewhere.
    """
    return _Rewriter(text, first_number, frozenset(known)).run()


def refused_text(message: str) -> str:
    """Return text that is a compile error with `message` wherever the compiler reads it."""
    return f' _Pragma("GCC error \\"{message}\\"") '


@dataclass
class _Scope:
    """An open brace: what it belongs to, and what to do where it closes."""

    kind: str  # "namespace", "linkage", "class", "block", "initializer"
    name: str = ""
    kernel: str = ""
    statement: list[Token] = field(default_factory=list)  # of an initializer: what it is part of


class _Rewriter:
    """One pass over the tokens, collecting edits."""

    def __init__(self, text: str, first_number: int, known: frozenset[str]) -> None:
        self.text = text
        self.number = first_number
        self.known = known
        self.edits: list[tuple[int, int, str]] = []
        self.entries: list[Entry] = []
        self.includes: list[str] = []
        self.variable_templates: list[str] = []
        self.scopes: list[_Scope] = []
        self.statement: list[Token] = []
        self.branches: list[tuple[list[_Scope], list[Token]]] = []

    def run(self) -> HostText:
        for token in tokens_of(self.text):
            if token.kind == "directive":
                self.directive(token)
            elif token.text == "{":
                self.open_brace()
            elif token.text == "}":
                self.close_brace(token)
            elif token.text == ";":
                self.end_statement(token)
            else:
                self.refuse(token)
                self.statement.append(token)
        return HostText(
            self.edited(),
            tuple(self.entries),
            tuple(self.includes),
            tuple(self.variable_templates),
        )

    def edited(self) -> str:
        pieces, position = [], 0
        for start, end, replacement in sorted(self.edits):
            pieces += [self.text[position:start], replacement]
            position = end
        return "".join([*pieces, self.text[position:]])

    def insert(self, position: int, text: str) -> None:
        self.edits.append((position, position, text))

    # ------------------------------------------------------------- preprocessor

    def directive(self, token: Token) -> None:
        include = _INCLUDE.match(token.text)
        conditional = _CONDITIONAL.match(token.text)
        if include:
            self.include(token, include.group(1))
        elif conditional:
            self.conditional(conditional.group(1))
        else:
            for match in _ASM_IN_MACRO.finditer(token.text):
                self.insert(token.start + match.start(), refused_text(_NO_ASM))
            for match in re.finditer(r"\b__noinline__\b", token.text):
                start = token.start + match.start()
                self.edits.append((start, token.start + match.end(), "__attribute__((noinline))"))

    def include(self, token: Token, name: str) -> None:
        self.includes.append(name)
        library = _REFUSED_HEADERS.get(name) or _REFUSED_LIBRARIES.get(name.split("/")[0])
        if library:
            error = f"#error {_NO_LIBRARY.format(library)}"
            self.edits.append((token.start, token.end, error + newlines(token.text)))

    def conditional(self, word: str) -> None:
        """Let every branch of an #if start from the same open braces."""
        if word.startswith("if"):
            self.branches.append((list(self.scopes), list(self.statement)))
        elif self.branches and word == "endif":
            self.branches.pop()
        elif self.branches:
            scopes, statement = self.branches[-1]
            self.scopes, self.statement = list(scopes), list(statement)

    # ------------------------------------------------------------- statements

    def in_function(self) -> bool:
        return any(scope.kind == "block" for scope in self.scopes)

    def at_namespace(self) -> bool:
        return all(scope.kind in ("namespace", "linkage") for scope in self.scopes)

    def refuse(self, token: Token) -> None:
        if token.text in ("asm", "__asm__", "__asm"):
            self.insert(token.start, refused_text(_NO_ASM))
        elif token.text == "__cluster_dims__":
            self.insert(token.start, refused_text(_NO_CLUSTER))
        elif token.text == "<<<":
            self.insert(token.start, refused_text(_NO_LAUNCH))
        elif token.text == "__noinline__":
            self.edits.append((token.start, token.end, "__attribute__((noinline))"))

    def open_brace(self) -> None:
        statement, words = self.statement, [token.text for token in self.statement]
        if words and words[-1] in ("=", "]", "return", ",", "("):
            self.scopes.append(_Scope("initializer", statement=statement))
        elif self.in_function():
            self.scopes.append(_Scope("block"))
        elif "namespace" in words:
            name = "".join(words[words.index("namespace") + 1 :])
            self.scopes.append(_Scope("namespace", name))
        elif words == ["extern", '"C"'] or words == ["extern", '"C++"']:
            self.scopes.append(_Scope("linkage", words[1]))
        elif "(" not in words and {"class", "struct", "union", "enum"} & set(words):
            self.scopes.append(_Scope("class"))
        else:
            self.scopes.append(_Scope("block", kernel=self.kernel_name()))
        self.statement = []

    def close_brace(self, token: Token) -> None:
        self.statement = []
        if not self.scopes:
            return
        scope = self.scopes.pop()
        if scope.kind == "initializer":
            self.statement = [*scope.statement, token]
        elif scope.kernel and self.at_namespace():
            self.add_entry("KERNEL", "entry", scope.kernel, f"&{scope.kernel}", token.end)

    def end_statement(self, token: Token) -> None:
        words = [part.text for part in self.statement]
        if "__shared__" in words:
            self.shared(token)
        elif self.at_namespace() and set(_VARIABLE_SPACES) & set(words):
            if words[0] == "template":
                names = _variable_names(_without_template_head(self.statement))
                self.variable_templates += map(self.qualified, names)
            else:
                for name in _variable_names(self.statement):
                    self.add_entry("GLOBAL", "global", name, name, token.end)
        self.statement = []

    # ------------------------------------------------------------- entries

    def kernel_name(self) -> str:
        """Return the name of the plain kernel whose body is about to open, or nothing.

        Only C linkage makes a name that a lookup finds, as on a GPU: others need a name expression.
        """
        words = [token.text for token in without_attributes(self.statement)]
        if "__global__" not in words or "template" in words or not self.at_namespace():
            return ""
        c_linkage = '"C"' in words or any(scope.name == '"C"' for scope in self.scopes)
        if "(" not in words or not c_linkage:
            return ""
        name = words[words.index("(") - 1]
        return name if name.isidentifier() else ""

    def qualified(self, name: str) -> str:
        """Return a name with the namespaces that it is declared in."""
        namespaces = [scope.name for scope in self.scopes if scope.name[:1] not in ("", '"')]
        return "::".join([*namespaces, name])

    def add_entry(self, macro: str, prefix: str, name: str, argument: str, position: int) -> None:
        qualified = self.qualified(name)
        if macro == "KERNEL" and qualified in self.known:
            return
        self.insert(position, f" KSPEC_HOST_{macro}({self.number}, {argument})")
        self.entries.append(Entry(qualified, f"kspec_{prefix}_{self.number}"))
        self.number += 1

    # ------------------------------------------------------------- shared memory

    def shared(self, semicolon: Token) -> None:
        """Rewrite one __shared__ declaration; what is too clever for us stays thread_local."""
        tokens = self.statement[_declaration_start(self.statement) :]
        declaration = parse_shared(tokens)
        if declaration is None or not (declaration.extern or self.in_function()):
            return
        if declaration.extern and not self.in_function():
            text = declaration.at_file_scope()
        else:
            text = declaration.in_function()
        old = self.text[tokens[0].start : semicolon.end]
        self.edits = [edit for edit in self.edits if edit[0] < tokens[0].start]
        self.edits.append((tokens[0].start, semicolon.end, text + newlines(old)))


def _declaration_start(statement: list[Token]) -> int:
    """Return where a __shared__ declaration begins: labels may precede it in its statement."""
    specifiers = ("extern", "static", "volatile", "__shared__")
    first = next(i for i, token in enumerate(statement) if token.text in specifiers)
    while (start := attribute_start(statement, first)) < first:
        first = start
    return first


def _without_template_head(statement: list[Token]) -> list[Token]:
    """Return a template's statement without ``template <...>``."""
    depth = 0
    for index, token in enumerate(statement):
        depth += {"<": 1, ">": -1}.get(token.text, 0)
        if index and depth == 0:
            return statement[index + 1 :]
    return []


def _variable_names(statement: list[Token]) -> list[str]:
    """Return the variables a namespace-scope statement defines (not functions, not templates)."""
    tokens = without_attributes(statement)
    words = [token.text for token in tokens]
    if words[:2] == ["extern", '"C"'] and "=" in words:  # without a value it defines nothing
        tokens, words = tokens[2:], words[2:]
    if {"template", "extern", "typedef", "using", "friend"} & set(words[:2]):
        return []
    head = words[: words.index("=")] if "=" in words else words
    if "(" in head or "operator" in head:
        return []
    names = []
    for part in split_at_commas(tokens):
        index = name_index(part)
        if index >= 0:
            names.append(part[index].text)
    return names
