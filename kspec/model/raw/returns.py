"""Arrays that a raw kernel returns, without a call: shapes and dtypes from the spec alone.

>>> from kspec.model.raw.c_params import parse_c_params
>>> from kspec.model.raw.launch_rules import LaunchRules
>>> rules = LaunchRules(returns=(("y", ("x.shape[0]", "n")),))
>>> kernel = RawDeclaration("f", ("f",), parse_c_params("float* x, float* y, int n"), "", rules)
>>> infer_returns(kernel, {"x": Abstract((5, 2), "float32"), "n": 3})
(((5, 3), 'float32'),)

Extents may be symbolic, as `torch.compile` has them. `kspec.runtime.raw.launch_rules` does the same
for a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kspec.errors import ShapeError, UnboundPlaceholderError
from kspec.model import dtypes
from kspec.model.declaration import RawDeclaration
from kspec.model.infer import Abstract
from kspec.model.raw.expressions import Expression
from kspec.model.raw.launch_rules import evaluate


def infer_returns(
    declaration: RawDeclaration, given: Mapping[str, Abstract | Any]
) -> tuple[tuple[tuple[Any, ...], str], ...]:
    """Return the shape and dtype of each array that a call returns, in the order of the spec.

    Parameters
    ----------
    declaration : RawDeclaration
        The kernel.
    given : mapping of str to Abstract or number
        Arrays, numbers and integers of the template by name; None and missing ones are left out.

    Raises
    ------
    ShapeError
        If an array has fewer axes than the shapes need.
    UnboundPlaceholderError
        If no array decides a dtype.
    """
    params = (*(declaration.params or ()), *declaration.template.numbers)
    rules = declaration.rules.parse(declaration.params or ())
    given = {name: one for name, one in given.items() if one is not None}
    names: dict[str, Any] = {}
    bound: dict[str, str] = {}
    for position, param in enumerate(params):
        one = given.get(param.name)
        if isinstance(one, Abstract):
            dtype = one.dtype or ""
            names[f"s{position}"] = tuple(one.shape or ())
            names[f"i{position}"] = dtypes.lookup(dtype).itemsize
            if param.is_placeholder:
                bound.setdefault(param.type, dtype)
        elif one is not None:
            names[f"v{position}"] = one
    constants = {**declaration.implied, **dict(declaration.rules.defaults)}
    for position, param in enumerate(params):
        default = constants.get(param.name)
        if default is not None and not isinstance(default, str):
            names.setdefault(f"v{position}", default)
    defaults = {
        f"v{position}": _value(declaration, params[position].name, one, names)
        for position, one in rules.defaults.items()
        if f"v{position}" not in names
    }
    names |= defaults
    found = []
    for position, shape in rules.returns.items():
        name = f"returns.{params[position].name}"
        extents = tuple(_value(declaration, name, one, names) for one in shape)
        found.append((extents, _dtype(declaration, position, bound)))
    return tuple(found)


def _value(declaration: RawDeclaration, label: str, rule: Expression, names: dict[str, Any]) -> Any:
    try:
        return evaluate(rule, names)
    except IndexError:
        shown = ", ".join(
            f"{written} = {evaluate(Expression(python, python), names)}"
            for written, python in rule.values
        )
        raise ShapeError(
            f"{declaration.name}: {label} = {rule.text.strip()} has no such axis with {shown}"
        ) from None


def _dtype(declaration: RawDeclaration, position: int, bound: Mapping[str, str]) -> str:
    assert declaration.params is not None
    param = declaration.params[position]
    row = dtypes.from_ctype(param.type)
    if row is not None:
        return row.name
    found = bound.get(param.type) or dict(declaration.structs).get(param.type)
    if found is None:
        raise UnboundPlaceholderError(
            f"{declaration.name}: no array decides the type {param.type} of {param.name}"
        )
    return found
