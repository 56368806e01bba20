"""Statements in, out comes which of their variables they may change.

>>> changes({"s"}, "y = s * x;"), changes({"s"}, "y = s; s += 0.5;"), changes({"s"}, "next(s);")
(False, True, True)

`kspec.spec.models` asks, for that decides how a kernel is scheduled on a GPU: whether the elements
of one thread would see each other.  Like `kspec.cpp.fragments` this reads tokens, not C++: where
macros or the text leave a doubt, the answer is the one that costs time and no correctness.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from kspec.cpp.brackets import CLOSING, OPENING, angle_end, group_end
from kspec.cpp.expansion import Expansion
from kspec.cpp.fragments import code_of, identifiers
from kspec.cpp.names import KEYWORDS
from kspec.cpp.tokens import Token, tokens_of

_NO_MACROS = Expansion()
_LITERALS = frozenset(["string", "char"])

# What shows a kernel the threads it runs in.
_THREADS = re.compile(
    r"(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|cooperative_groups|__shared__|barrier"
    r"|__(?:sync|shfl|ballot|any|all|activemask|match|reduce)\w*)"
)

# Functions that take their arguments by value.
BY_VALUE = re.compile(
    r"""
    (?:f?(?:abs|min|max|mod|dim|ma)|a?(?:sin|cos|tan)h?(?:pi)?|atan2|exp(?:2|10|m1)?
    |log(?:2|10|1p|b)?|r?sqrt|r?cbrt|pow|hypot|floor|ceil|trunc|round|rint|l?lrint|nearbyint
    |erfc?(?:inv|x)?|[lt]gamma|norm(?:cdf(?:inv)?)?|copysign|nextafter|remainder|ldexp
    |is(?:nan|inf|finite)|signbit|[jy][01n]|cyl_bessel_i[01])[fl]?
    |__(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|fdividef|ldg|popc|clz|brev|ffs)(?:ll)?
    |sizeof|alignof|decltype|static_cast|if|while|for|switch|return
    """,
    re.VERBOSE,
)

_ASSIGNING = frozenset(["++", "--", "=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<="])
_MEMBER = frozenset([".", "->"])
# What may precede a name that is declared.
_DECLARING = frozenset([">", "]", ")", "*", "&", "&&", ",", "["])
_POINTERS = frozenset(["*", "&", "&&"])
_QUALIFIERS = frozenset(["const", "__restrict__"])
_CONSTANT = frozenset(["const", "constexpr"])
# Words whose operands are not evaluated, or not read.
_UNEVALUATED = frozenset(
    ["decltype", "sizeof", "alignof", "noexcept", "typeid", "typeof", "__typeof__", "void", "asm"]
)
# What may leave out an operand.
_CONDITIONAL = frozenset(["?", "&&", "||", "and", "or"])


class _Code:
    """The tokens of statements, without literals; out of its range there is an empty text."""

    def __init__(self, tokens: Iterable[Token]) -> None:
        self.tokens = [one for one in tokens if one.kind not in _LITERALS]

    @classmethod
    def of(cls, fragment: str) -> _Code:
        """Return the code of a fragment."""
        return cls(code_of(fragment))

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, place: int) -> str:
        return self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def is_word(self, place: int) -> bool:
        """Return whether there is a word in a place."""
        return 0 <= place < len(self.tokens) and self.tokens[place].kind == "word"

    @property
    def words(self) -> Iterator[tuple[int, str]]:
        """The words, with their places."""
        return ((k, one.text) for k, one in enumerate(self.tokens) if one.kind == "word")

    def assigns(self, place: int) -> bool:
        """Return whether an assignment stands in a place."""
        return self[place] in _ASSIGNING or (self[place] == ">" and self[place + 1] == ">=")

    @property
    def statements(self) -> Iterator[_Code]:
        """The parts that end with semicolons and braces."""
        start = 0
        for place in range(len(self)):
            if self[place] in (";", "{", "}"):
                yield _Code(self.tokens[start : place + 1])
                start = place + 1
        yield _Code(self.tokens[start:])


def declared_names(fragment: str) -> frozenset[str]:
    """Return the variables that statements may declare, constants left out.

    >>> sorted(declared_names("T s = 0, t(1); const T c = s + t;"))
    ['s', 't']
    """
    return frozenset(
        word
        for code in _Code.of(fragment).statements
        if not _is_constant(code)
        for place, word in code.words
        if (code.is_word(place - 1) or code[place - 1] in _DECLARING)
        and not (word in KEYWORDS or BY_VALUE.fullmatch(word))
    )


def _is_constant(code: _Code) -> bool:
    """Return whether a statement declares constants only.

    A lambda may change what it refers to, and of several declarators some may be pointers.
    """
    if code[0] not in _CONSTANT:
        return False
    value = next((k for k in range(len(code)) if code[k] in ("=", "(", "{", *_POINTERS)), -1)
    if value < 0 or code[value] in _POINTERS or (code[value] == "=" and code[value + 1] == "["):
        return False
    return not any(code[k] == "," and code[k + 1] in _POINTERS for k in range(value, len(code)))


def declared_addresses(fragment: str) -> frozenset[str]:
    """Return the words of statements that may declare arrays or pointers.

    >>> sorted(declared_addresses("T s[2], t = 0, *p = s;"))
    ['p', 's']
    """
    return frozenset(
        word
        for code in _Code.of(fragment).statements
        for place, word in code.words
        if word not in _QUALIFIERS
        and (
            code[place + 1] == "["
            or (code[place - 1] == "auto" and code[place + 1] == "=" and code[place + 2] == "&")
            or _is_pointer(code, place)
        )
    )


def _is_pointer(code: _Code, place: int) -> bool:
    """Return whether a word is declared as a pointer; a ``*`` in an expression multiplies."""
    while code[place - 1] in _QUALIFIERS:
        place -= 1
    start = place
    while code[start - 1] == "*":
        start -= 1
    if start == place:
        return False
    if code[start - 1] == ",":
        return True
    end = 0  # of the type that the statement begins with
    while code.is_word(end) or code[end] == "::":
        end += 1
    if end and code[end] == "<":
        end = angle_end(code.tokens, end) or end
    return 0 < end == start


def changes(
    names: Iterable[str],
    fragment: str,
    expansion: Expansion = _NO_MACROS,
    addresses: frozenset[str] = frozenset(),
) -> bool:
    """Return whether statements may change one of some variables.

    For `addresses`, which are arrays or pointers, only reads of elements count as harmless: other
    uses may write through them.

    >>> changes({"s"}, "y = s * x;"), changes({"s"}, "y = s; s += 0.5;"), changes({"s"}, "next(s);")
    (False, True, True)
    """
    wanted = frozenset(names)
    if not wanted:
        return False
    code = _Code.of(fragment)
    words = {word for _, word in code.words}
    hidden = expansion.hidden(words)
    directive = any(one.kind == "directive" or one.text[0] == "#" for one in tokens_of(fragment))
    if hidden is None or not hidden.isdisjoint(wanted) or directive:
        return True
    if wanted.isdisjoint(words):
        return False
    macros = _Code.of(expansion.text(words))
    if any(macros.assigns(place) or macros[place] == "&" for place in range(len(macros))):
        return True
    return any(
        _is_changed(code, place)
        or _is_given(code, place, expansion)
        or (word in addresses and code[place + 1] != "[" and code[place - 1] != "*")
        for place, word in code.words
        if word in wanted
    ) or any(_refers(wanted, statement) for statement in code.statements)


def leaves(name: str, fragment: str, expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether statements cannot change a variable, directly or through a reference.

    >>> leaves("y", "double t = y;"), leaves("y", "Reference r = y;")
    (True, False)
    """
    return not changes({name}, fragment, expansion) and not any(
        word == name and _may_bind(code, k, expansion)
        for code in _Code.of(fragment).statements
        for k, word in code.words
    )


def surely_reads(name: str, tokens: Sequence[Token], expansion: Expansion = _NO_MACROS) -> bool:
    """Return whether an expression reads a variable whenever it is evaluated, and only reads it.

    True only where that is plain to see.

    >>> [surely_reads("y", [*tokens_of(text)]) for text in ("t = y + x", "f(y)", "x && y", "y = x")]
    [True, False, False, False]
    """
    code = _Code(tokens)
    words = {word for _, word in code.words}
    signs = {one.text for one in code.tokens}
    if not (words.isdisjoint(_UNEVALUATED) and signs.isdisjoint(_CONDITIONAL)):
        return False
    if any(code[k] == "[" and not _may_be_indexed(code, k - 1) for k in range(len(code))):
        return False  # a lambda
    places = [k for k, word in code.words if word == name and code[k - 1] not in _MEMBER]
    doubtful = any(
        code.is_word(k - 1)  # what is declared
        or _is_changed(code, k)
        or _is_given(code, k, expansion)
        or _may_bind(code, k, expansion)
        for k in places
    )
    return bool(places) and not doubtful and not _refers({name}, code)


def _may_be_indexed(code: _Code, place: int) -> bool:
    return code.is_word(place) or code[place] in (")", "]")


def _may_bind(code: _Code, place: int, expansion: Expansion) -> bool:
    """Return whether a word is the value of something that a class may make refer to it.

    It is a copy where the words in front of ``=`` are types and variables that are known.
    """
    if code[place - 1] != "=" or code[place + 1] not in ("", ";"):
        return False
    start = next(k for k in range(len(code)) if code[k] == "=")
    return any(word not in expansion.variables for k, word in code.words if k < start - 1)


def reads_threads(*fragments: str) -> bool:
    """Return whether text may see which thread it runs in, or works together with others."""
    return any(_THREADS.fullmatch(word) for word in identifiers(*fragments))


def _is_changed(code: _Code, place: int) -> bool:
    """Return whether a variable, or a part of it, is assigned to, called, or referred to."""
    after, before = place + 1, place - 1
    while code[after] in (")", "[") or (code[after] in _MEMBER and code.is_word(after + 1)):
        if code[after] == "[":
            after = group_end(code.tokens, after)
        else:
            after += 1 if code[after] == ")" else 2
    while code[before] in ("(", "*"):
        before -= 1
    return code.assigns(after) or code[after] == "(" or code[before] in ("++", "--", "&")


def _is_given(code: _Code, place: int, expansion: Expansion) -> bool:
    """Return whether a word is an argument of a call that may take it by reference.

    Types do not, and placeholders are among the variables of the `expansion`, which are not called.
    """
    if code[place - 1] not in ("(", ",", "?", ":", "::", "{"):
        return False
    if code[place + 1] not in (",", ")", ":", "::", "?", "}"):
        return False
    depth = 0
    for opened in range(place - 1, -1, -1):
        depth += (code[opened] in CLOSING) - (code[opened] in OPENING)
        if depth < 0:
            depth, caller = 0, code[opened - 1]
            if code.is_word(opened - 1):
                known = BY_VALUE.fullmatch(caller) and caller not in expansion.declared
                if not (known or (caller in expansion.variables and caller != "asm")):
                    return True
            elif caller[-1:] in (">", ")", "]"):  # of a template, or of the result of a call
                return True
    return False


def _refers(names: Collection[str], code: _Code) -> bool:
    """Return whether a statement declares a reference or pointer that may be a variable's."""
    if all(word not in names or code[place - 1] in _MEMBER for place, word in code.words):
        return False
    chosen = next((k for k in range(len(code)) if code[k] == "?"), len(code))
    for k in range(len(code)):
        reference = code[k] == "&" or (code[k] == "&&" and code[k - 1] == "auto")
        if reference and (code.is_word(k + 1) or code[k + 1] == "["):
            end = group_end(code.tokens, k + 1)
            if code[end][:1] in ("=", "(", "{") or code[end] == ":":
                return True
            if code[end] == ")" and code[end + 1] == "[":
                return True
        if code[k][-1:] == "*" and code.is_word(k + 1) and code[k + 2] == "=":
            return True
        if (code[k], code[k + 1], code[k + 2]) == ("decltype", "(", "auto"):
            return True
        if k > chosen and code[k] == ")" and code.assigns(k + 1):
            return True
    return False
