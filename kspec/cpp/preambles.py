"""The names that kernels use, and the place of a preamble: text in, plain answers out.

>>> sorted(preamble_names("static const int rows = 3; __device__ int sq(int n);"))
['__device__', 'const', 'int', 'rows', 'sq', 'static']
>>> needs_global_scope("template <> struct std::is_signed<float16> : std::true_type {};")
True

A scan for words, not a parser: a name may be reported that is not declared, but none is missed that
stands outside of all brackets.  `kspec.spec.models` asks whether a name is the user's own and what
is an array, `kspec.render.context` where the preamble of a spec file's kernel goes.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence

from kspec.cpp.brackets import group_end, outermost, split_at_commas
from kspec.cpp.declarations import ATTRIBUTES, parse_declaration
from kspec.cpp.directives import macro_definitions
from kspec.cpp.fragments import code_of
from kspec.cpp.kernel_heads import kernel_names
from kspec.cpp.tokens import Token, tokens_of

_LEAVING = frozenset({"return", "goto", "case"})
_CONTROL = frozenset({"for", "if", "while", "switch"})
_BEFORE_BLOCKS = frozenset({";", "{", "}", ")", "else", "do"})  # other braces are of values
# The tokens behind a name that a text declares.
_DECLARED = frozenset({"(", "[", "=", ";", "{"})
# The tokens behind the name that a template head declares.
_ENDS = frozenset({"<", ";", "{", "("})
# Namespaces that headers have.
_OF_HEADERS = frozenset({"std", "cuda", "thrust", "kspec", "cupy"})


def preamble_names(text: str) -> frozenset[str]:
    """Return the words of a preamble outside of all brackets, and its macros."""
    words = (token.text for token in outermost([*tokens_of(text)]) if token.kind == "word")
    return frozenset(words).union(name for name, _ in macro_definitions(text))


@functools.lru_cache(maxsize=128)  # a text may have many kernels
def shared_names(text: str) -> frozenset[str]:
    r"""Return the names that a source declares for others: outside of all brackets, no kernels.

    >>> sorted(shared_names("#define N 4\n__device__ int count[N]; __global__ void k(int* x) {}"))
    ['N', 'count']
    """
    pairs = itertools.pairwise([*outermost([*tokens_of(text)])])
    words = ((one.text, following.text) for one, following in pairs if one.kind == "word")
    declared = {word for word, following in words if following in _DECLARED}
    declared.update(name for name, _ in macro_definitions(text))
    return frozenset(declared.difference(ATTRIBUTES, kernel_names(text)))


def declares_variable(name: str, statements: str) -> bool:
    """Return whether statements declare a variable of some name.

    >>> declares_variable("n", "int n = 3;"), declares_variable("n", "int k = 2 * n;")
    (True, False)
    """
    found = map(parse_declaration, _statements([*tokens_of(statements)]))
    return any(
        one.name == name and one.tokens[0].text != "("  # that of a call
        for each in found
        if each and each.type not in _LEAVING and each.type.count("<") == each.type.count(">")
        for one in each.declarators
    )


def _statements(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield statements up to their semicolons, those in blocks and in conditions as well."""
    start = 0
    for place, token in enumerate(tokens):
        before = tokens[place - 1].text if place else ";"
        ends = token.text in (";", "}") or (token.text == "{" and before in _BEFORE_BLOCKS)
        if ends:
            yield tokens[start:place]
        if ends or (token.text == "(" and before in _CONTROL):
            start = place + 1
    yield tokens[start:]


def is_used_as_array(name: str, text: str) -> bool:
    """Return whether a text indexes something, or reads a member of it.

    >>> is_used_as_array("x", "y = (x)[0]"), is_used_as_array("x", "y = 2 * x")
    (True, False)
    """
    code = [token.text for token in code_of(text) if token.text != ")"]
    return any(a == name and b in ("[", ".", "->") for a, b in itertools.pairwise(code))


def indexed_axes(name: str, text: str) -> int | None:
    """Return the number of axes of an array, if a text indexes it by one index for each.

    None where it never does, in several ways, or in parts of a text that may be left out for
    arrays of other axes.

    >>> indexed_axes("x", "y = x[{r, f(c, 2)}]"), indexed_axes("x", "y = x[{i}] + x[{i, j}]")
    (2, None)
    """
    code = code_of(text)
    words = [token.text for token in code]
    if "constexpr" in words:
        return None
    found = {
        len(split_at_commas(code[k + 3 : group_end(code, k + 2) - 1]))
        for k in range(len(code) - 2)
        if words[k : k + 3] == [name, "[", "{"]
    }
    return found.pop() if len(found) == 1 and found != {1} else None


def needs_global_scope(preamble: str) -> bool:
    """Return whether C++ allows a preamble in the global namespace only.

    That has the specialization of another namespace's template, and more of one that headers have.
    """
    code = [token.text for token in code_of(preamble)]
    if any(a == "namespace" and b in _OF_HEADERS for a, b in itertools.pairwise(code)):
        return True
    heads = (code[k + 3 :] for k in range(len(code)) if code[k : k + 3] == ["template", "<", ">"])
    return any("::" in itertools.takewhile(lambda x: x not in _ENDS, head) for head in heads)
