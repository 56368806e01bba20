"""Defaults of a raw kernel's launch: expressions of its parameters.

>>> from kspec.model.raw.c_params import parse_c_params
>>> rules = LaunchRules(("ceil_div(n, block.x)",), ("256",), "", (("n", "x.size"),))
>>> parsed = rules.parse(parse_c_params("float* x, int n"))
>>> parsed.grid[0].python, parsed.defaults[1].python
('(-(-v1 // b0))', 'prod(s0)')

Defaults of parameters come first, then block, grid and shared memory; each sees those before it.
Specs have the same checked, with positions; `kspec.runtime.raw.launch_rules` evaluates them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kspec.model import dtypes
from kspec.model.raw.expressions import (
    Attributes,
    Expression,
    ExpressionScope,
    Number,
    Problem,
    RefusedName,
    parse_expression,
)
from kspec.model.signature import CParam

# Number given to a parameter that a call leaves out: an expression, or itself.
Default = str | bool | int | float

# What the Python of an expression calls.
BUILTINS = {"len": len, "max": max, "min": min, "prod": math.prod}

# The least value of an expression, by its field.
LEAST = {"grid": 1, "block": 1, "shared_mem": 0}


@dataclass(frozen=True)
class ParsedRules:
    """The expressions of `LaunchRules`, checked; `defaults` by the parameter's position."""

    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    shared_mem: Expression | None = None
    defaults: Mapping[int, Expression] = field(default_factory=dict)


@dataclass(frozen=True)
class LaunchRules:
    """The expressions as they are written; empty where the caller has to say.

    Attributes
    ----------
    grid, block : tuple of str
        One for each axis.
    shared_mem : str
        Dynamic shared memory in bytes.
    defaults : tuple of (str, number or str)
        What parameters are that a call leaves out.
    """

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared_mem: str = ""
    defaults: tuple[tuple[str, Default], ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is said."""
        return bool(self.grid or self.block or self.shared_mem or self.defaults)

    @property
    def complete(self) -> bool:
        """Whether a call need not say grid and block."""
        return bool(self.grid and self.block)

    def parse(self, params: Sequence[CParam]) -> ParsedRules:
        """Return the expressions; raise `ExpressionError` for the first that is wrong."""
        defaulted = {name for name, _ in self.defaults}
        scopes = {one: scope_of(one, params, defaulted) for one in (*LEAST, "defaults")}
        positions = {param.name: position for position, param in enumerate(params)}
        return ParsedRules(
            tuple(parse_expression(text, scopes["grid"]) for text in self.grid),
            tuple(parse_expression(text, scopes["block"]) for text in self.block),
            parse_expression(self.shared_mem, scopes["shared_mem"]) if self.shared_mem else None,
            {
                positions[name]: parse_expression(default, scopes["defaults"])
                for name, default in self.defaults
                if isinstance(default, str)
            },
        )


def scope_of(rule: str, params: Sequence[CParam], defaulted: Collection[str]) -> ExpressionScope:
    """Return the names that an expression of `rule` may use.

    A parameter's Python name is made of its position: ``v2`` its value, ``s2`` its shape, ``i2``
    the size of an element in bytes; ``b0`` and ``g0`` are those of block and grid.

    Parameters
    ----------
    rule : {"defaults", "block", "grid", "shared_mem"}
        What the expression is for.
    params : sequence of CParam
        Declared parameters.
    defaulted : collection of str
        Those that have a default.
    """
    names = {param.name: _name(position, param) for position, param in enumerate(params)}
    if rule == "defaults":
        names |= dict.fromkeys(defaulted, RefusedName("has a default itself"))
    sizes = {"block": "b", "grid": "g"}
    seen = {"grid": ("block",), "shared_mem": ("block", "grid")}.get(rule, ())
    for name, letter in sizes.items():
        if name in seen:
            axes = {axis: f"{letter}{number}" for number, axis in enumerate("xyz")}
            names[name] = Attributes(f"the {name}", axes)
        else:
            names[name] = RefusedName(
                "is not known yet: first come defaults, then block, then grid"
            )
    return ExpressionScope(names)


def _name(position: int, param: CParam) -> Number | Attributes | RefusedName:
    if param.pointer:
        numbers = {
            "size": f"prod(s{position})",
            "ndim": f"len(s{position})",
            "itemsize": f"i{position}",
        }
        return Attributes("an array", numbers, {"shape": f"s{position}"})
    row = dtypes.from_ctype(param.type)
    if row is not None and row.kind in "iub":
        return Number(f"v{position}", condition=row.kind == "b")
    return RefusedName(f"is declared {param}, not an integer")


def constant_problem(rule: str, expression: Expression) -> Iterator[Problem]:
    """Yield problems with the value of a constant expression."""
    if expression.values:
        return
    start = len(expression.text) - len(expression.text.lstrip())
    length = len(expression.text.strip())
    try:
        value = evaluate(expression, {})
    except ZeroDivisionError:
        yield Problem("divides by zero", start, length)
        return
    least = LEAST.get(rule)
    if least is not None and value < least:
        yield Problem(f"must be {least} or more, not {value}", start, length)


def evaluate(expression: Expression, names: Mapping[str, object]) -> int:
    """Return the value of an expression, given those of its Python names."""
    value: int = eval(expression.python, {"__builtins__": BUILTINS, **names})
    return value
