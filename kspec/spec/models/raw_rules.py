"""Checks of a raw kernel's template, launch and returned arrays: plain values in, faults out.

>>> from kspec.model.raw.c_params import parse_c_params
>>> params = parse_c_params("T* x, int n")
>>> template = RawTemplate.of(("T", "TILE"), params)
>>> [fault.message for fault in instances_fit(template, ("f<float, double>",))]
["'double' is not an integer, and TILE is not a type placeholder of the parameters"]

`kspec.spec.models.raw` runs them; `kspec.spec.rules` has the checks of all kinds of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kspec.cpp.name_expressions import template_arguments
from kspec.cpp.names import name_problem
from kspec.errors import counted
from kspec.model import dtypes
from kspec.model.raw.expressions import (
    ExpressionError,
    ExpressionScope,
    parse_expression,
    shape_parts,
)
from kspec.model.raw.launch_rules import FIXABLE, Default, constant_problem, scope_of
from kspec.model.raw.template import RawTemplate, integer_of
from kspec.model.signature import CParam
from kspec.spec.faults import Fault

# The shape of a returned array: one text, or an expression for each axis.
ShapeText = str | tuple[str, ...]


def template_fits(names: Sequence[str], params: Sequence[CParam] | None) -> Iterator[Fault]:
    """Check the names of a template's parameters."""
    if not names:
        return
    if params is None:
        message = "'template' needs declared parameters: params = ['T* x', 'int n']"
        yield Fault(("template",), message, at_key=True)
        return
    declared = {param.name: param for param in params}
    for index, name in enumerate(names):
        where = ("template", index)
        problem = name_problem(name)
        if problem:
            yield Fault(where, problem, offset=0, length=len(name))
        elif name in names[:index]:
            yield Fault(where, f"two template parameters are called {name!r}", 0, len(name))
        elif name in declared:
            message = (
                f"{name!r} is a parameter too ({declared[name]}); choose another name for the "
                "template parameter"
            )
            yield Fault(where, message, offset=0, length=len(name))
    letters = RawTemplate.of((), params).names
    missing = [letter for letter in letters if letter not in names]
    if missing:
        message = (
            f"'template' lacks {', '.join(missing)}, the type of a parameter; it lists all "
            "parameters of the C++ template in their order"
        )
        yield Fault(("template",), message)


def instances_fit(template: RawTemplate, expressions: Sequence[str]) -> Iterator[Fault]:
    """Check that the arguments of a call can choose a name expression."""
    if not template.names:
        return
    for index, expression in enumerate(expressions):
        if not expression.strip():
            continue
        where, found = ("name_expressions", index), template_arguments(expression)
        if len(found) != len(template.names):
            yield Fault(where, _wrong_count(template, expression, len(found)), 0, len(expression))
            continue
        for name, text in zip(template.names, found, strict=True):
            if name not in template.letters and integer_of(text) is None:
                message = (
                    f"{text!r} is not an integer, and {name} is not a type placeholder of the "
                    "parameters"
                )
                yield Fault(where, message, max(0, expression.find(text)), len(text))


def _wrong_count(template: RawTemplate, expression: str, found: int) -> str:
    examples = ["float" if name in template.letters else "16" for name in template.names]
    instance = f"{expression.partition('<')[0]}<{', '.join(examples)}>"
    if not template.values:
        return (
            f"{expression!r} does not fit the type placeholders of the parameters "
            f"({', '.join(template.names)}); a name expression has one type for each: {instance!r}"
            f"{_advice_on_values(template, expression)}"
        )
    return (
        f"{expression!r} has {counted(found, 'template argument')}, but 'template' has "
        f"{len(template.names)} names ({', '.join(template.names)}); write {instance!r}"
    )


def _advice_on_values(template: RawTemplate, expression: str) -> str:
    """Return the way to have integers in a template, if an expression has some."""
    values = [text for text in template_arguments(expression) if integer_of(text) is not None]
    if not values:
        return ""
    names = [*template.names, *(f"N{number}" for number, _ in enumerate(values, 1))]
    listed = ", ".join(f'"{name}"' for name in names).replace("N1", "TILE")
    return (
        f"; list its integers by the names of the C++ template too: template = [{listed}], or give "
        f"them defaults there, as in 'int TILE = {values[0]}'"
    )


def launch_rules_fit(
    params: tuple[CParam, ...] | None,
    texts: Mapping[str, str | tuple[str, ...] | None],
    defaults: Mapping[str, Default],
    returns: Mapping[str, ShapeText] | None = None,
    template: RawTemplate = RawTemplate(),  # noqa: B008  # frozen
) -> Iterator[Fault]:
    """Check the expressions of a raw kernel's grid, block, shared memory and parameters.

    In `texts`, absent fields are None, and those whose values were refused are missing.
    """
    returns = returns or {}
    given = {field: text for field, text in texts.items() if text is not None}
    if params is None:
        tables = {"defaults": defaults, "returns": returns}
        for field in (*given, *(field for field, table in tables.items() if table)):
            message = f"{field!r} needs declared parameters: params = ['float* x', 'int n']"
            yield Fault((field,), message, at_key=True)
        return
    for field, other in (("grid", "block"), ("block", "grid")):
        if field in given and texts.get(other, "") is None:
            message = f"{field!r} needs {other!r} too: a call has both or neither"
            yield Fault((field,), message, at_key=True)
    seen = (*params, *template.numbers)
    returned = [param.name for param in params if param.pointer and param.name in returns]
    for field, text in given.items():
        scope = scope_of(field, seen, defaults, returned)
        if isinstance(text, str):
            yield from _expression_faults((field,), field, text, scope)
            continue
        for index, one in enumerate(text):
            yield from _expression_faults((field, index), field, one, scope)
    scope = scope_of("returns", seen, defaults, returned)
    for name, shape in returns.items():
        yield from _shape_faults(("returns", name), shape, scope)
    yield from _default_faults(params, template, defaults, returned)


def returns_fit(
    params: Sequence[CParam], returns: Mapping[str, ShapeText], structs: Mapping[str, str]
) -> Iterator[Fault]:
    """Check that returned arrays can be allocated.

    `structs` are those of the spec file, with their dtypes.
    """
    known = {param.name: param for param in params}
    decided = {param.type for param in params if param.pointer and param.name not in returns}
    for name in returns:
        where, param = ("returns", name), known.get(name)
        message = ""
        if param is None:
            have = ", ".join(one.name for one in params if one.is_written) or "none"
            message = f"{name!r} is not a parameter of this kernel (it writes to: {have})"
        elif not param.pointer:
            message = f"{name!r} is declared {param}; only arrays can be returned: {param.type}*"
        elif param.const:
            message = f"{name!r} is declared {param}, which the kernel only reads; drop the const"
        elif param.nullable:
            message = f"{name!r} is never null, as it is returned; drop '= nullptr'"
        elif param.is_placeholder and param.type not in decided:
            message = (
                f"no array that a call gives has the type {param.type} of {name!r}; declare a "
                "type such as float*, or leave it out of 'returns'"
            )
        elif not param.is_placeholder and not (
            dtypes.from_ctype(param.type) or param.type in structs
        ):
            message = f"{name!r} is declared {param}, whose elements have no dtype"
        if message:
            yield Fault(where, message, at_key=True)


def fixed_fits(fixed: Sequence[str], given: Mapping[str, object]) -> Iterator[Fault]:
    """Check what a call cannot choose; `given` are the fields with expressions, or None."""
    for index, name in enumerate(fixed):
        where = ("fixed", index)
        if name not in FIXABLE:
            listed = ", ".join(map(repr, FIXABLE))
            message = f"{name!r} cannot be fixed; there are {listed}"
            yield Fault(where, message, offset=0, length=len(name))
        elif given.get(name, "") is None:
            message = f"{name!r} has no expression that could be fixed; write {name} = '256'"
            yield Fault(where, message, offset=0, length=len(name))


def values_fit(
    known: Mapping[str, Sequence[int]], given: Mapping[str, object], *where: str
) -> Iterator[Fault]:
    """Check template values, of a default or an example, against those of name expressions."""
    for name, value in given.items():
        if isinstance(value, int) and known.get(name) and value not in known[name]:
            listed = ", ".join(map(str, known[name]))
            message = f"no name expression has {name} = {value}; there are {listed}"
            yield Fault((*where, name), message)


def _shape_faults(
    where: tuple[str | int, ...], shape: ShapeText, scope: ExpressionScope
) -> Iterator[Fault]:
    if isinstance(shape, str):
        for offset, text in shape_parts(shape):
            yield from _expression_faults(where, "returns", text, scope, offset)
        return
    for index, text in enumerate(shape):
        yield from _expression_faults((*where, index), "returns", text, scope)


def _default_faults(
    params: Sequence[CParam],
    template: RawTemplate,
    defaults: Mapping[str, Default],
    returned: Sequence[str],
) -> Iterator[Fault]:
    seen = (*params, *template.numbers)
    scope = scope_of("defaults", seen, defaults, returned)
    known = {param.name: param for param in seen}
    for name, default in defaults.items():
        where, param = ("defaults", name), known.get(name)
        if param is None:
            have = ", ".join(known) or "none"
            message = f"{name!r} is not a parameter of this kernel (it has: {have})"
            yield Fault(where, message, at_key=True)
            continue
        if name in template.values and not isinstance(default, str | int):
            message = f"{name!r} is an integer of the template, so its default is an integer"
            yield Fault(where, message)
            continue
        row = dtypes.from_ctype(param.type)
        if param.pointer or (row is None and not param.is_placeholder):
            message = f"{name!r} is declared {param}; only numbers have defaults"
            yield Fault(where, message, at_key=True)
        elif isinstance(default, str):
            yield from _expression_faults(where, "defaults", default, scope)
        elif isinstance(default, float) and row is not None and row.kind in "iub":
            yield Fault(where, f"{name!r} is declared {param}, so its default is an integer")
        elif row is not None and row.kind in "iu" and not _fits(int(default), row):
            yield Fault(where, f"{name!r} is declared {param}, which cannot hold {default}")


def _fits(number: int, row: dtypes.DType) -> bool:
    bits = 8 * row.itemsize
    least = -(1 << (bits - 1)) if row.kind == "i" else 0
    return least <= number < least + (1 << bits)


def _expression_faults(
    location: tuple[str | int, ...], rule: str, text: str, scope: ExpressionScope, offset: int = 0
) -> Iterator[Fault]:
    try:
        problems = tuple(constant_problem(rule, parse_expression(text, scope)))
    except ExpressionError as error:
        problems = error.problems
    for one in problems:
        yield Fault(location, one.message, offset + one.offset, one.length)
