"""The identifiers in a piece of CUDA C++, without comments, literals and member names.

>>> identifiers("y[i] = x.size() * 2.0f;  // not n")
('y', 'i', 'x')

In goes a user's fragment, out come its words: enough to see what a fragment refers to.
It is a scan of `kspec.cpp`'s tokens, not a parser: callers must be right when a word is found in
vain.
`kspec.spec.models` derives a declaration's `ordered` and `scalars` from it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence

from kspec.cpp.brackets import CLOSING, OPENING
from kspec.cpp.directives import macro_definitions
from kspec.cpp.tokens import Token, tokens_of

_CLOSES = {")": "(", "]": "[", "}": "{"}
_CONDITION = re.compile(r"[ \t]*(?:#|%:)[ \t]*(?:if|el)")
_MEMBER = frozenset([".", "->"])
# Operators after which an operand has to come; the last character of their spelling.
_OPERATORS = frozenset("+-*/%&|^=<!~?:,")


@functools.lru_cache(maxsize=128)  # of a fragment many questions are asked
def _code(text: str) -> tuple[Token, ...]:
    """Return the tokens of a text, comments and those of directives included."""
    found: list[Token] = []
    for token in tokens_of(text, comments=True):
        if token.kind == "directive":
            sign = re.search(r"#|%:", token.text)
            start = token.start + (sign.end() if sign else 0)
            found += tokens_of(text, True, start, token.end)
        else:
            found.append(token)
    return tuple(found)


def code_of(text: str) -> list[Token]:
    """Return the tokens of a text and of its directives, without comments."""
    return [token for token in _code(text) if token.kind != "comment"]


@functools.lru_cache(maxsize=128)
def _words(fragment: str) -> Mapping[str, int]:
    """Return the identifiers of a fragment, member names left out, and where they first occur."""
    found: dict[str, int] = {}
    before = ""
    for kind, text, start, _ in code_of(fragment):
        if kind == "word" and before not in _MEMBER:
            found.setdefault(text, start)
        before = text
    return found


def identifiers(*fragments: str) -> tuple[str, ...]:
    """Return the distinct identifiers of `fragments` in order, member names left out."""
    return tuple(dict.fromkeys(word for one in fragments for word in _words(one)))


def offset_of(word: str, fragment: str) -> int:
    """Return the first offset of `word` as an identifier of `fragment`, or -1."""
    return _words(fragment).get(word, -1)


def mentions(words: set[str], *fragments: str) -> bool:
    """Return whether any of `words` occurs as an identifier of `fragments`."""
    return any(not words.isdisjoint(_words(one)) for one in fragments)


def without_phrases(text: str, phrases: Sequence[Sequence[str]]) -> list[str]:
    """Return the tokens of a text that belong to none of some phrases.

    >>> without_phrases("n / x.size() + x", [("x", ".", "size", "(", ")")])
    ['n', '/', '+', 'x']
    """
    code = [token.text for token in code_of(text)]
    rest: list[str] = []
    place = 0
    while place < len(code):
        found = (one for one in phrases if code[place : place + len(one)] == [*one])
        phrase = next(found, ())
        rest += [] if phrase else [code[place]]
        place += len(phrase) or 1
    return rest


def macros(preamble: str) -> str:
    """Return only the ``#define`` lines: what of a preamble can expand inside a kernel.

    A definition that goes on in another line is joined.
    """
    return "\n".join(f"#define {name}{body}" for name, body in macro_definitions(preamble))


def template_parameters(text: str) -> tuple[str, ...]:
    """Return the words that ``typename`` or ``class`` introduces in `text`."""
    code = [one for one in code_of(text) if one.text != "..."]
    pairs = itertools.pairwise(code)
    found = (b.text for a, b in pairs if a.text in ("typename", "class") and b.kind == "word")
    return tuple(dict.fromkeys(found))


def unbalanced(text: str) -> tuple[int, str] | None:
    """Return the place and kind of unmatched brackets, quotes or comments; None if all match.

    Preprocessor lines are left out; text with conditions is not judged, for its lines need not
    all be there.

    >>> unbalanced("y = (x[0);")
    (8, "')' closes '['")
    """
    opened: list[Token] = []
    found = [*tokens_of(text, comments=True)]
    if any(token.kind == "directive" and _CONDITION.match(token.text) for token in found):
        return None
    for token in found:
        sign, offset = token.text, token.start
        if token.kind == "comment" and sign.startswith("/*") and "*/" not in sign[2:]:
            return offset, "the comment is never closed"
        if token.kind != "mark":
            continue
        if sign in ('"', "'"):
            return offset, f"the quote {sign} is never closed"
        if sign in OPENING:
            opened.append(token)
        elif sign in CLOSING:
            if not opened:
                return offset, f"{sign!r} closes nothing"
            before = opened.pop().text
            if before != _CLOSES[sign]:
                return offset, f"{sign!r} closes {before!r}"
    return (opened[-1].start, f"{opened[-1].text!r} is never closed") if opened else None


def end_of_expression(text: str) -> int:
    """Return the offset of the first ``;`` outside of brackets, or -1."""
    depth = 0
    for token in _code(text):
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if token.text == ";" and not depth:
            return token.start
    return -1


def dangling_operator(text: str) -> int:
    """Return the offset of an operator at the end that wants another operand, or -1.

    >>> dangling_operator("x * // y"), dangling_operator("x++")
    (2, -1)
    """
    last = next(reversed(code_of(text)), None)
    if last is None or last.kind != "mark" or last.text in ("++", "--"):
        return -1
    return last.start if last.text[-1] in _OPERATORS else -1


def has_subscripts(fragment: str) -> bool:
    """Return whether a fragment indexes something, or declares an array; a lambda does neither.

    >>> has_subscripts("f(x)[0]"), has_subscripts("y = [=] { return x; }")
    (True, False)
    """
    return any(
        token.text == "[" and (before.kind == "word" or before.text in _CLOSES)
        for before, token in itertools.pairwise(code_of(fragment))
    )


def takes_address(name: str, fragment: str) -> bool:
    """Return whether a fragment may take the address of `name`; ``x & name`` looks alike.

    >>> takes_address("y", "atomicAdd(&y, x)"), takes_address("y", "y = x && y")
    (True, False)
    """
    before = ""
    for token in code_of(fragment):
        if token.text == name and before == "&":
            return True
        if token.text != "(":  # of &(name)
            before = token.text
    return False
