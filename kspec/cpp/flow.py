"""Statements in, out comes which of their variables they may change.

>>> changes({"s"}, "y = s * x;"), changes({"s"}, "y = s; s += 0.5;"), changes({"s"}, "next(s);")
(False, True, True)

`kspec.spec.models` asks, for that decides how a kernel is scheduled on a GPU: whether the elements
of one thread would see each other.  Like `kspec.cpp.fragments` this reads tokens, not C++: where
macros or the text leave a doubt, the answer is the one that costs time and no correctness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain

from kspec.cpp.expansion import Expansion
from kspec.cpp.fragments import identifiers, mentions, tokens
from kspec.cpp.names import KEYWORDS

_NO_MACROS = Expansion()
_WORD = re.compile(r"\b[A-Za-z_]\w*")

# What shows a kernel the threads it runs in.
_THREADS = re.compile(
    r"(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|cooperative_groups|__shared__|barrier"
    r"|__(?:sync|shfl|ballot|any|all|activemask|match|reduce)\w*)"
)

# Functions that take their arguments by value.
_BY_VALUE = re.compile(
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

_ASSIGNS = r"(?:\+\+|--|(?:[-+*/%&|^]|<<|>>)?=(?!=))"
# What may follow a variable that a statement changes: its part, then the change or a call of it.
_CHANGED_BEFORE = re.compile(rf"(?:\s*(?:\)|(?:\.|->)\s*\w+|\[[^][]*\]))*\s*(?:{_ASSIGNS}|\()")
_CHANGED_AFTER = re.compile(r"(?:\+\+|--|(?<!&)&)[\s(*]*\Z")
_CHANGING_MACRO = re.compile(r"\+\+|--|(?<![=!<>])=(?!=)|(?<!&)&(?!&)")
# Other names for a variable: references, pointers to members that are arrays, results of ``?:``.
_REFERS = re.compile(
    rf"""(?:(?<!&)&|\bauto\s*&&)\s*(?:\w+|\[[^][]*\])\s*(?:[=({{]|:(?!:)|\)\s*\[)
    |\*\s*\w+\s*=(?!=)|\bdecltype\s*\(\s*auto\b|\?[^;]*\)\s*{_ASSIGNS}""",
    re.VERBOSE,
)
# What declares an array or a pointer; a ``*`` in an expression multiplies.
_ADDRESS = re.compile(
    r"""\b([A-Za-z_]\w*)\s*\[ | \bauto\s+(\w+)\s*=\s*&
    | (?:^|[;{}])\s*[\w:][\w:\s]*(?:<[^;]*>)?\s*\*[*\s]*(?:(?:const|__restrict__)\s+)*(\w+)
    | ,\s*\*[*\s]*(\w+)""",
    re.VERBOSE,
)
# What may precede a name that is declared, and the whole of a declaration that fixes its value.
_DECLARES = re.compile(r"[\w>\])*&,[]\s*\Z")
# A lambda may change what it refers to, and of several declarators some may be pointers.
_CONSTANT = re.compile(
    r"\s*(?:const|constexpr)\b[^=;({*&]*(?:=(?!\s*\[)|[({])(?!.*,\s*[*&])", re.DOTALL
)


def declared_names(fragment: str) -> frozenset[str]:
    """Return the variables that statements may declare, constants left out.

    >>> sorted(declared_names("T s = 0, t(1); const T c = s + t;"))
    ['s', 't']
    """
    found: set[str] = set()
    for statement in re.split(r"(?<=[;{}])", tokens(fragment)):
        if _CONSTANT.match(statement):
            continue
        for match in _WORD.finditer(statement):
            known = match[0] in KEYWORDS or _BY_VALUE.fullmatch(match[0])
            if not known and _DECLARES.search(statement, 0, match.start()):
                found.add(match[0])
    return frozenset(found)


def declared_addresses(fragment: str) -> frozenset[str]:
    """Return the words of statements that may declare arrays or pointers.

    >>> sorted(declared_addresses("T s[2], t = 0, *p = s;"))
    ['p', 's']
    """
    return frozenset(filter(None, chain(*_ADDRESS.findall(tokens(fragment)))))


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
    code = tokens(fragment)
    words = set(_WORD.findall(code))
    if not wanted:
        return False
    hidden = expansion.hidden(words)
    if hidden is None or not hidden.isdisjoint(wanted) or "#" in code or "%:" in code:
        return True
    if wanted.isdisjoint(words):
        return False
    if _CHANGING_MACRO.search(expansion.text(words)):
        return True
    return any(
        _CHANGED_BEFORE.match(code, match.end())
        or _CHANGED_AFTER.search(code, 0, match.start())
        or _is_given(code, match.start(), match.end(), expansion.variables)
        or (match[0] in addresses and not _is_element(code, match.start(), match.end()))
        for match in _WORD.finditer(code)
        if match[0] in wanted
    ) or _refers(wanted, code)


def reads_threads(*fragments: str) -> bool:
    """Return whether text may see which thread it runs in, or works together with others."""
    return any(_THREADS.fullmatch(word) for word in identifiers(*fragments))


def _is_given(code: str, start: int, end: int, casts: frozenset[str]) -> bool:
    """Return whether a word is an argument of a call that may take it by reference.

    Types do not: `casts` are the placeholders among other words that are not called.
    """
    before, after = code[:start].rstrip(), code[end:].lstrip()
    if before[-1:] not in ("(", ",", "?", ":", "{") or after[:1] not in (",", ")", ":", "?", "}"):
        return False
    depth = 0
    for offset in range(start - 1, -1, -1):
        depth += (code[offset] in ")]}") - (code[offset] in "([{")
        if depth < 0 and code[offset] in "([{":
            depth = 0
            caller = re.search(r"(\w+)\s*\Z", code[:offset])
            if caller is None and re.search(r"[>\])]\s*\Z", code[:offset]):
                return True  # of a template, or of the result of another call
            if caller and not (_BY_VALUE.fullmatch(caller[1]) or caller[1] in casts - {"asm"}):
                return True
    return False


def _is_element(code: str, start: int, end: int) -> bool:
    """Return whether an element of an array is meant, not its address."""
    return code[end:].lstrip()[:1] == "[" or code[:start].rstrip()[-1:] == "*"


def _refers(names: frozenset[str], code: str) -> bool:
    """Return whether a reference or pointer is declared that may be one of the variables."""
    return any(
        _REFERS.search(statement) and mentions(set(names), statement)
        for statement in re.split(r"(?<=[;{}])", code)
    )
