"""Name expressions, compared by meaning: ``k< int >`` is ``k<int>``.

::

    normal_form("&ns::k<float const *, long unsigned>")  # 'ns::k<const float*,unsigned long>'
    find_symbol("k< int >", {"k<int>": "_Z1kIiEvPT_"})   # '_Z1kIiEvPT_'

Only spelling is compared here; names that a source defines (``using real = float;``) are for the
compiler to resolve.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from kspec.cpp.brackets import angle_end, split_at_commas
from kspec.cpp.names import integer_name
from kspec.cpp.tokens import spelled, tokens_of

# What to do about a kernel that its module does not have by name.
ADVICE = 'declare it extern "C", or name an instance of a template, as in "k<float>"'

_QUALIFIERS = ("const", "volatile")
_BEFORE_NAMES = ("<", ",", "(", "*", "&", "&&")
_BETWEEN_TYPES = frozenset(["<", ">", ",", "*", "&", "&&", "(", ")", "[", "]"])


def is_expression(name: str) -> bool:
    """Return whether a name needs the compiler to say what it is called in the code."""
    return not name.isidentifier()


def find_symbol(name: str, symbols: Mapping[str, str]) -> str | None:
    """Return the lowered name of a name expression, in any spelling, if it is among `symbols`."""
    found = symbols.get(name)
    if found is not None or not is_expression(name):
        return found
    wanted = normal_form(name)
    return next((low for known, low in symbols.items() if normal_form(known) == wanted), None)


def template_arguments(expression: str) -> tuple[str, ...]:
    """Return the template arguments of a name expression, as they are spelt.

    >>> template_arguments("ns::k< complex<float>, pair<int, int>, 3>"), template_arguments("k")
    (('complex<float>', 'pair<int, int>', '3'), ())
    """
    tokens = [*tokens_of(expression)]
    start = next((k for k, token in enumerate(tokens) if token.text == "<"), len(tokens))
    listed = tokens[start + 1 : (angle_end(tokens, start) or len(tokens) + 1) - 1]
    return tuple(map(spelled, split_at_commas(listed))) if listed else ()


def normal_form(expression: str) -> str:
    """Return one spelling for all that differ in spaces, and in the order of a type's words.

    >>> normal_form("k< unsigned, char const* >")
    'k<unsigned int,const char*>'
    """
    tokens = [token.text for token in tokens_of(expression)]
    while tokens and tokens[0] == "&":
        del tokens[0]
    text = ""
    run: list[str] = []  # words and template argument lists between two other marks
    for token in _without_leading_colons(tokens):
        if token in _BETWEEN_TYPES:
            text, run = text + _type(run) + token, []
        elif token == "::" or (run and run[-1].endswith("::")):
            run = [*run[:-1], run[-1] + token] if run else [token]
        else:
            run.append(token)
    return text + _type(run)


def _without_leading_colons(tokens: list[str]) -> list[str]:
    """Drop each ``::`` that only says that a name is a global one."""
    return [
        token
        for previous, token in itertools.pairwise(["<", *tokens])
        if token != "::" or previous not in _BEFORE_NAMES
    ]


def _type(words: list[str]) -> str:
    """Return the words of a type in one order."""
    qualifiers = sorted(word for word in words if word in _QUALIFIERS)
    others = [word for word in words if word not in _QUALIFIERS]
    if integer := integer_name(others):
        others = [integer]
    elif "double" in others:
        others.sort(reverse=True)
    return " ".join([*qualifiers, *others])
