"""C++ text in, the heads of its kernels out: names, template parameters, parameters.

>>> text = "template <class T> __global__ void __launch_bounds__(256) fill(T* x, int n) {}"
>>> kernel_names(text), parameter_texts(text, "fill<float>")
(('fill',), [('float* x', 'int n')])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kspec.cpp.brackets import angle_end, group_end, split_at_commas
from kspec.cpp.declarations import ATTRIBUTES
from kspec.cpp.name_expressions import template_arguments
from kspec.cpp.tokens import Token, spelled, tokens_of


class KernelText(NamedTuple):
    """A function that is declared as ``__global__``.

    Attributes
    ----------
    name : str
        Its name, without namespaces.
    template, parameters : list of list of Token
        Its template parameters, and its parameters.
    """

    name: str
    template: list[list[Token]]
    parameters: list[list[Token]]


def kernel_heads(text: str) -> Iterator[KernelText]:
    """Yield the kernels that a text declares, in their order."""
    tokens = [*tokens_of(text)]
    for start, token in enumerate(tokens):
        at = start + 1 if token.text == "__global__" else len(tokens)
        while at + 1 < len(tokens) and tokens[at].text not in ("{", ";"):
            if tokens[at].kind == "word" and tokens[at + 1].text == "(":
                end = group_end(tokens, at + 1)
                if tokens[at].text not in ATTRIBUTES:
                    listed = split_at_commas(tokens[at + 2 : end - 1])
                    yield KernelText(tokens[at].text, _template(tokens[:start]), listed)
                    break
                at = end
            else:
                at += 1


def _template(tokens: Sequence[Token]) -> list[list[Token]]:
    """Return the template parameters of the declaration whose first tokens come last."""
    start = len(tokens)
    while start and tokens[start - 1].kind != "directive" and tokens[start - 1].text not in ";{}":
        start -= 1
    head = tokens[start:]
    if [token.text for token in head[:2]] != ["template", "<"]:
        return []
    return split_at_commas(head[2 : angle_end(head, 1) - 1])


def kernel_names(text: str) -> tuple[str, ...]:
    """Return the names of the functions that a text declares as ``__global__``, in their order."""
    return tuple(dict.fromkeys(head.name for head in kernel_heads(text)))


def parameter_texts(text: str, expression: str) -> list[tuple[str, ...]]:
    """Return the parameters of each kernel that a name expression may stand for.

    Template parameters are replaced by the arguments of the expression.
    """
    name = [token.text for token in tokens_of(expression.partition("<")[0])][-1:]
    arguments = template_arguments(expression)
    found = []
    for head in kernel_heads(text):
        if [head.name] == name:
            bound = dict(zip(map(_name, head.template), arguments, strict=False))
            found.append(tuple(_bound(one, bound) for one in head.parameters if one))
    return found


def _name(parameter: Sequence[Token]) -> str:
    """Return the name of a template parameter, which a default value may follow."""
    texts = [token.text for token in parameter]
    before = texts[: texts.index("=")] if "=" in texts else texts
    return before[-1] if before else ""


def _bound(tokens: Sequence[Token], bound: dict[str, str]) -> str:
    texts = [token._replace(text=bound.get(token.text, token.text)) for token in tokens]
    return spelled(texts)
