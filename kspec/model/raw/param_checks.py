"""Assertions that compare declared C parameters with the kernels' own, at compile time.

>>> from kspec.model.raw.c_params import parse_c_params
>>> params = parse_c_params("const float* x, int n")
>>> for line in param_checks("k", ["k"], params, ParamLines("a.toml", (3, 4))):
...     print(line.partition(', "')[0])
#line 3 "a.toml"
static_assert(kspec::parameter_count<decltype(&k)>() == 2
#line 3 "a.toml"
static_assert(kspec::is_number<kspec::ParameterAt<decltype(&k), 0>, 1>('f', 4)
#line 4 "a.toml"
static_assert(kspec::is_number<kspec::ParameterAt<decltype(&k), 1>, 0>('i', 4)

The lines follow the source in which the kernels are defined, and say where the parameters are
declared, so that a compiler reports a difference there.  ``kspec/params.cuh`` has the functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kspec.cpp.directives import escaped, line_directive
from kspec.cpp.name_expressions import is_expression
from kspec.cpp.tokens import tokens_of
from kspec.dataclass import dataclass
from kspec.errors import counted
from kspec.model import dtypes
from kspec.model.raw.c_params import HANDLES
from kspec.model.raw.template import RawTemplate
from kspec.model.signature import CParam

HEADER = "kspec/params.cuh"


@dataclass(frozen=True)
class ParamLines:
    """Places of declared parameters.

    Attributes
    ----------
    path : str
        File for ``#line``.
    lines : tuple of int
        The line of each parameter, or of all of them.
    whole : int
        The line of the list; 0: that of the first parameter.
    """

    path: str
    lines: tuple[int, ...] = (1,)
    whole: int = 0

    def directive(self, number: int = -1) -> str:
        """Return the ``#line`` for a parameter, or for the list."""
        line = self.lines[min(max(number, 0), len(self.lines) - 1)]
        return line_directive(self.whole if self.whole and number < 0 else line, self.path)


def param_checks(
    name: str,
    expressions: Sequence[str],
    params: Sequence[CParam],
    place: ParamLines,
    text: str = "",
    template: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines that check the parameters of a kernel's instances.

    Parameters
    ----------
    name : str
        What messages call the kernel.
    expressions : sequence of str
        Its name expressions, or its name.
    params : sequence of CParam
        What is declared.
    place : Place
        Where.
    text : str
        A source in whose namespaces plain names are looked up too, as ``extern "C"`` kernels
        may be there.
    template : sequence of str
        Names of the template parameters, if they are named.
    """
    parameters = RawTemplate.of(template, params)
    scopes = [] if any(map(is_expression, expressions)) else _namespaces(text)
    if scopes:
        yield place.directive()
        for scope in scopes:  # known even if the preprocessor leaves them out
            words = scope.split("::")
            yield f"{' '.join(f'namespace {word} {{' for word in words)} {'}' * len(words)}"
        yield f"namespace kspec_params_of_{name} {{"
        yield from (f"using namespace ::{scope};" for scope in scopes)
    for expression in expressions:
        kernel = f"decltype(&{expression.strip().lstrip('&').strip()})"
        bound = parameters.types_of(expression)
        yield place.directive()
        count = counted(len(params), "parameter")
        message = (
            f"{name}: params: {count} declared, but {expression} takes another number; "
            "declare those of the CUDA text"
        )
        yield _assertion(f"kspec::parameter_count<{kernel}>() == {len(params)}", message)
        for number, param in enumerate(params):
            yield place.directive(number)
            yield _assertion(
                _condition(f"kspec::ParameterAt<{kernel}, {number}>", param, bound),
                f"{name}: params: '{param}' does not fit parameter {number + 1} of {expression}, "
                "which has another type; declare the type of the CUDA text",
            )
    if scopes:
        yield "}"


def _condition(parameter: str, param: CParam, bound: dict[str, str]) -> str:
    """Return the C++ that is true if a parameter is what is declared."""
    ctype = param.type.rstrip("*")
    pointers = len(param.type) - len(ctype) + param.pointer
    ctype = bound.get(ctype, ctype)
    row = dtypes.from_ctype(ctype)
    if row is not None:
        return f"kspec::is_number<{parameter}, {pointers}>('{row.kind}', {row.itemsize})"
    if ctype in HANDLES:
        return f"kspec::is_number<{parameter}, {pointers}>('u', 8)"
    if ctype == "void":
        return f"kspec::is_pointer<{parameter}, {pointers}>()"
    return f"kspec::is_type<{parameter}, {pointers}, {ctype}>()"


def _assertion(condition: str, message: str) -> str:
    return f'static_assert({condition}, "{escaped(message)}");'


def _namespaces(text: str) -> list[str]:
    """Return the qualified names of a source's namespaces, as far as its text shows."""
    found: dict[str, None] = {}
    inside: list[str] = []
    name: list[str] | None = None  # of a namespace, up to its brace
    for token in tokens_of(text):
        if token.text == "{":
            inside.append("".join(name or ()))
            if name:
                found["::".join(filter(None, inside))] = None
        elif token.text == "}" and inside:
            inside.pop()
        elif name is not None and (token.kind == "word" or token.text == "::"):
            name += [token.text] if token.text != "inline" else []
            continue
        name = [] if token.text == "namespace" else None
    return list(found)
