"""CUDA text in, host C++ text out: what macros can not express, done by a lexical pass.

>>> rewrite("__global__ void f() { __shared__ int s[4]; }").text
'__global__ void f() { typedef int kspec_type_s[4];KSPEC_HOST_SHARED(...) } KSPEC_HOST_KERNEL(...)'

Line numbers do not change, so positions in messages stay those of the CUDA text.  The macros it
writes are those of ``kspec/host/include``; `kspec.compiler.host` compiles the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

# Marks our own messages in a compiler's log.
REFUSAL = "can not run on the host device"

_GUARD = "guard it with '#ifndef KSPEC_HOST' and give a C++ alternative"
_NO_ASM = f"inline PTX (asm) {REFUSAL}; {_GUARD}"
_NO_LAUNCH = f"a kernel launch from device code (<<<...>>>) {REFUSAL}"
_NO_LIBRARY = f"{{}} device code {REFUSAL}; {_GUARD}"

_TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<string>(?:u8|[uUL])?(?:R"(?P<raw>[^()\\\s]{0,16})\(.*?\)(?P=raw)"|"(?:\\.|[^"\\\n])*"))
      | (?P<char>'(?:\\.|[^'\\\n])+')
      | (?P<directive>^[ \t]*\#(?:\\\n|/\*.*?\*/|(?!//)[^\n])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<number>\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)
      | (?P<mark><<<|::|->|[^\s\w])""",
    re.S | re.X | re.M,
)
_INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
_CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|elif|else|endif)\b")
_ASM_IN_MACRO = re.compile(r"\b(?:asm|__asm__|__asm)\b(?=\s*(?:volatile\b|__volatile__\b)?\s*\()")
_REFUSED_LIBRARIES = ("cub", "thrust")
_ATTRIBUTES = ("__align__", "alignas", "__attribute__", "__launch_bounds__", "__cluster_dims__")
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
    """

    text: str
    entries: tuple[Entry, ...] = ()
    includes: tuple[str, ...] = ()


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


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


@dataclass
class _Scope:
    """An open brace: what it belongs to, and what to do where it closes."""

    kind: str  # "namespace", "linkage", "class", "block", "initializer"
    name: str = ""
    kernel: str = ""
    statement: list[_Token] = field(default_factory=list)  # of an initializer: what it is part of


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "raw":  # the group inside "string" closes last
            yield _Token("string", match.group(), match.start(), match.end())
        elif match.lastgroup != "comment":
            yield _Token(match.lastgroup or "", match.group(), match.start(), match.end())


class _Rewriter:
    """One pass over the tokens, collecting edits."""

    def __init__(self, text: str, first_number: int, known: frozenset[str]) -> None:
        self.text = text
        self.number = first_number
        self.known = known
        self.edits: list[tuple[int, int, str]] = []
        self.entries: list[Entry] = []
        self.includes: list[str] = []
        self.scopes: list[_Scope] = []
        self.statement: list[_Token] = []
        self.branches: list[tuple[list[_Scope], list[_Token]]] = []

    def run(self) -> HostText:
        for token in _tokens(self.text):
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
        return HostText(self.edited(), tuple(self.entries), tuple(self.includes))

    def edited(self) -> str:
        pieces, position = [], 0
        for start, end, replacement in sorted(self.edits):
            pieces += [self.text[position:start], replacement]
            position = end
        return "".join([*pieces, self.text[position:]])

    def insert(self, position: int, text: str) -> None:
        self.edits.append((position, position, text))

    # ------------------------------------------------------------- preprocessor

    def directive(self, token: _Token) -> None:
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

    def include(self, token: _Token, name: str) -> None:
        self.includes.append(name)
        library = name.split("/")[0]
        if library in _REFUSED_LIBRARIES:
            error = f"#error {_NO_LIBRARY.format(library)}"
            self.edits.append((token.start, token.end, error + _newlines(token.text)))

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

    def refuse(self, token: _Token) -> None:
        if token.text in ("asm", "__asm__", "__asm"):
            self.insert(token.start, refused_text(_NO_ASM))
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

    def close_brace(self, token: _Token) -> None:
        self.statement = []
        if not self.scopes:
            return
        scope = self.scopes.pop()
        if scope.kind == "initializer":
            self.statement = [*scope.statement, token]
        elif scope.kernel and self.at_namespace():
            self.add_entry("KERNEL", "entry", scope.kernel, f"&{scope.kernel}", token.end)

    def end_statement(self, token: _Token) -> None:
        words = [part.text for part in self.statement]
        if "__shared__" in words:
            self.shared(token)
        elif self.at_namespace() and set(_VARIABLE_SPACES) & set(words):
            for name in _variable_names(self.statement):
                self.add_entry("GLOBAL", "global", name, name, token.end)
        self.statement = []

    # ------------------------------------------------------------- entries

    def kernel_name(self) -> str:
        """Return the name of the plain kernel whose body is about to open, or nothing."""
        words = [token.text for token in _without_attributes(self.statement)]
        if "__global__" not in words or "template" in words or not self.at_namespace():
            return ""
        if "(" not in words:
            return ""
        name = words[words.index("(") - 1]
        return name if name.isidentifier() else ""

    def add_entry(self, macro: str, prefix: str, name: str, argument: str, position: int) -> None:
        namespaces = [scope.name for scope in self.scopes if scope.name[:1] not in ("", '"')]
        qualified = "::".join([*namespaces, name])
        if qualified in self.known:
            return
        self.insert(position, f" KSPEC_HOST_{macro}({self.number}, {argument})")
        self.entries.append(Entry(qualified, f"kspec_{prefix}_{self.number}"))
        self.number += 1

    # ------------------------------------------------------------- shared memory

    def shared(self, semicolon: _Token) -> None:
        """Rewrite one __shared__ declaration; what is too clever for us stays thread_local."""
        tokens = self.statement
        # Labels and control words may precede the declaration in its statement.
        first = next(
            (i for i, t in enumerate(tokens) if t.text in ("extern", "static", "volatile")),
            len(tokens),
        )
        first = min(first, next(i for i, t in enumerate(tokens) if t.text == "__shared__"))
        while first and tokens[first - 1].text in (")", *_ATTRIBUTES):
            start = _attribute_start(tokens, first)
            if start == first:
                break
            first = start
        tokens = tokens[first:]
        declaration = _parse_shared(tokens)
        if declaration is None or not (declaration.extern or self.in_function()):
            return
        if declaration.extern and not self.in_function():
            text = declaration.at_file_scope()
        else:
            text = declaration.in_function()
        old = self.text[tokens[0].start : semicolon.end]
        self.edits = [edit for edit in self.edits if edit[0] < tokens[0].start]
        self.edits.append((tokens[0].start, semicolon.end, text + _newlines(old)))


def _newlines(text: str) -> str:
    return "\n" * text.count("\n")


def _group_end(tokens: list[_Token], start: int) -> int:
    """Return the index after the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index + 1
    return len(tokens)


def _attribute_start(tokens: list[_Token], end: int) -> int:
    """Return where the attribute that ends before `end` begins, or `end`."""
    depth = 0
    for index in range(end - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(tokens[index].text, 0)
        if depth == 0:
            return index - 1 if index and tokens[index - 1].text in _ATTRIBUTES else end
    return end


def _without_attributes(tokens: list[_Token]) -> list[_Token]:
    kept: list[_Token] = []
    index = 0
    while index < len(tokens):
        if tokens[index].text in _ATTRIBUTES:
            index = _group_end(tokens, index + 1)
        else:
            kept.append(tokens[index])
            index += 1
    return kept


def _split(tokens: list[_Token]) -> list[list[_Token]]:
    """Split at the commas outside all brackets."""
    parts: list[list[_Token]] = [[]]
    depth = 0
    for token in tokens:
        depth += {"(": 1, "[": 1, "{": 1, "<": 1, ")": -1, "]": -1, "}": -1, ">": -1}.get(
            token.text, 0
        )
        if token.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _name_index(tokens: list[_Token]) -> int:
    """Return the index of the declared name: the last word before the dimensions, or -1."""
    depth, found = 0, -1
    for index, token in enumerate(tokens):
        if depth == 0 and token.text in ("[", "="):
            break
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(token.text, 0)
        if depth == 0 and token.kind == "word":
            found = index
    return found


def _variable_names(statement: list[_Token]) -> list[str]:
    """Return the variables a namespace-scope statement defines (not functions, not templates)."""
    tokens = _without_attributes(statement)
    words = [token.text for token in tokens]
    if {"template", "extern", "typedef", "using", "friend"} & set(words[:2]):
        return []
    head = words[: words.index("=")] if "=" in words else words
    if "(" in head or "operator" in head:
        return []
    names = []
    for part in _split(tokens):
        index = _name_index(part)
        if index >= 0:
            names.append(part[index].text)
    return names


@dataclass(frozen=True)
class _Shared:
    """A parsed __shared__ declaration."""

    extern: bool
    base: str  # specifiers and type, attributes included
    variables: tuple[tuple[str, str, str], ...]  # stars, name, dimensions

    def in_function(self) -> str:
        macro = "KSPEC_HOST_DYNAMIC_SHARED" if self.extern else "KSPEC_HOST_SHARED"
        pieces = []
        for stars, name, dimensions in self.variables:
            alias = f"kspec_type_{name}"
            tag = "" if self.extern else f", kspec_tag_{name}"
            pieces.append(f"typedef {self.base} {stars}{alias}{dimensions};")
            pieces.append(f"{macro}({alias}, {name}{tag})")
        return " ".join(pieces)

    def at_file_scope(self) -> str:
        pieces = []
        for stars, name, _ in self.variables:
            alias = f"kspec_type_{name}"
            pieces.append(f"typedef {self.base} {stars}{alias};")
            pieces.append(f"KSPEC_HOST_FILE_DYNAMIC_SHARED({alias}, {name})")
        return " ".join(pieces)


def _parse_shared(tokens: list[_Token]) -> _Shared | None:
    """Parse the tokens of a __shared__ declaration, or return None for forms we leave alone."""
    extern = any(token.text == "extern" for token in tokens)
    attributes = _attribute_texts(tokens)
    tokens = [
        token
        for token in _without_attributes(tokens)
        if token.text not in ("extern", "static", "__shared__")
    ]
    if any(token.text in ("=", "{", "(") for token in tokens):
        return None
    parts = _split(tokens)
    position = _name_index(parts[0])
    if position < 1:
        return None
    type_end = position
    while type_end and parts[0][type_end - 1].text in ("*", "&"):
        type_end -= 1
    base = " ".join([*attributes, *(token.text for token in parts[0][:type_end])])
    variables = []
    for part in [parts[0][type_end:], *parts[1:]]:
        index = _name_index(part)
        if index < 0:
            return None
        stars = "".join(token.text for token in part[:index])
        dimensions = "".join(f"{token.text} " for token in part[index + 1 :]).rstrip()
        variables.append((stars, part[index].text, dimensions))
    return _Shared(extern, base, tuple(variables))


def _attribute_texts(tokens: list[_Token]) -> list[str]:
    """Return the alignment attributes of a declaration, spelled so that a typedef takes them."""
    found = []
    for index, token in enumerate(tokens):
        if token.text in ("__align__", "alignas"):
            inner = " ".join(t.text for t in tokens[index + 2 : _group_end(tokens, index + 1) - 1])
            found.append(f"__attribute__((aligned({inner})))")
        elif token.text == "__attribute__":
            group = tokens[index : _group_end(tokens, index + 1)]
            found.append(" ".join(t.text for t in group))
    return found
