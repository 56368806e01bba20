"""Defaults of a raw kernel's launch: expressions of its parameters.

>>> from kspec.model.raw.c_params import parse_c_params
>>> rules = LaunchRules(("ceil_div(n, block.x)",), ("256",), "", (("n", "x.size"),))
>>> parsed = rules.parse(parse_c_params("float* x, int n"))
>>> parsed.grid[0].python, parsed.defaults[1].python
('(-(-v1 // b0))', 'prod(s0)')

Defaults of parameters come first, then shapes of returned arrays, block, grid and shared memory;
each sees those before it.  Integers of the kernel's C++ template are parameters behind all others.
Specs have the same checked, with positions; `kspec.runtime.raw.launch_rules` evaluates them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from kspec.dataclass import dataclass
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
from kspec.model.raw.template import RawTemplate
from kspec.model.signature import CParam

# Number given to a parameter that a call leaves out: an expression, or itself.
Default = str | bool | int | float

# What the Python of an expression calls.
BUILTINS = {"len": len, "max": max, "min": min, "prod": math.prod}

# The least value of an expression, by its field.
LEAST = {"grid": 1, "block": 1, "shared_mem": 0, "returns": 0}

# What a spec may keep calls from choosing.
FIXABLE = ("grid", "block", "shared_mem")

_WORD = re.compile(r"[A-Za-z_]\w*")
_BLOCK_AXIS = re.compile(r"\bblock\s*\.\s*([xyz])\b")
_ORDER = "defaults, then returns, then block, then grid"


@dataclass(frozen=True)
class ParsedRules:
    """The expressions of `LaunchRules`, checked; `defaults` and `returns` by position."""

    grid: tuple[Expression, ...] = ()
    block: tuple[Expression, ...] = ()
    shared_mem: Expression | None = None
    defaults: Mapping[int, Expression] = field(default_factory=dict)
    returns: Mapping[int, tuple[Expression, ...]] = field(default_factory=dict)

    @property
    def listed(self) -> tuple[Expression, ...]:
        """All of them."""
        shapes = (one for shape in self.returns.values() for one in shape)
        rest = (self.shared_mem,) if self.shared_mem else ()
        return (*self.block, *self.grid, *self.defaults.values(), *shapes, *rest)


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
    returns : tuple of (str, tuple of str)
        Shapes of the arrays that a call leaves out and gets back.
    fixed : tuple of {"grid", "block", "shared_mem"}
        What a call cannot choose.
    template : tuple of str
        Names of the template parameters, if they are named.
    """

    grid: tuple[str, ...] = ()
    block: tuple[str, ...] = ()
    shared_mem: str = ""
    defaults: tuple[tuple[str, Default], ...] = ()
    returns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    fixed: tuple[str, ...] = ()
    template: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is said."""
        sizes = self.grid or self.block or self.shared_mem
        return bool(sizes or self.defaults or self.returns or self.template)

    @property
    def complete(self) -> bool:
        """Whether a call need not say grid and block."""
        return bool(self.grid and self.block)

    @property
    def returned(self) -> tuple[str, ...]:
        """Names of the arrays that a call may leave out, and gets back."""
        return tuple(name for name, _ in self.returns)

    def parse(self, params: Sequence[CParam]) -> ParsedRules:
        """Return the expressions; raise `ExpressionError` for the first that is wrong."""
        defaulted = {name for name, _ in self.defaults}
        params = (*params, *RawTemplate.of(self.template, params).numbers)
        scopes = {
            one: scope_of(one, params, defaulted, self.returned) for one in (*LEAST, "defaults")
        }
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
            {
                positions[name]: tuple(parse_expression(one, scopes["returns"]) for one in shape)
                for name, shape in self.returns
            },
        )


def fixed_by_default(
    grid: Sequence[str], block: Sequence[str], integers: Collection[str] = ()
) -> tuple[str, ...]:
    """Return the sizes that calls cannot choose by default: a block that the code expects.

    The code expects it if the grid does not follow each axis of the block, or if the block depends
    on an integer of the template (`integers`).

    >>> fixed_by_default(["ceil_div(n, block.x)"], ["256"])
    ()
    >>> fixed_by_default(["ceil_div(n, 16)", "ceil_div(m, block.y)"], ["16", "16"])
    ('block',)
    """
    followed = {axis for text in grid for axis in _BLOCK_AXIS.findall(text)}
    tied = any(word in integers for text in block for word in _WORD.findall(text))
    return ("block",) if block and (tied or not followed.issuperset("xyz"[: len(block)])) else ()


def scope_of(
    rule: str,
    params: Sequence[CParam],
    defaulted: Collection[str],
    returned: Collection[str] = (),
) -> ExpressionScope:
    """Return the names that an expression of `rule` may use.

    A parameter's Python name is made of its position: ``v2`` its value, ``s2`` its shape, ``i2``
    the size of an element in bytes; ``b0`` and ``g0`` are those of block and grid.

    Parameters
    ----------
    rule : {"defaults", "returns", "block", "grid", "shared_mem"}
        What the expression is for.
    params : sequence of CParam
        Declared parameters, and integers of the template.
    defaulted : collection of str
        Those that have a default.
    returned : collection of str
        Those that are allocated if a call leaves them out.
    """
    names = {param.name: _name(position, param) for position, param in enumerate(params)}
    if rule == "defaults":
        names |= dict.fromkeys(defaulted, RefusedName("has a default itself"))
        names |= dict.fromkeys(returned, RefusedName(f"is not known yet: first come {_ORDER}"))
    elif rule == "returns":
        names |= dict.fromkeys(returned, RefusedName("is returned itself"))
    sizes = {"block": "b", "grid": "g"}
    seen = {"grid": ("block",), "shared_mem": ("block", "grid")}.get(rule, ())
    for name, letter in sizes.items():
        if name in seen:
            axes = {axis: f"{letter}{number}" for number, axis in enumerate("xyz")}
            names[name] = Attributes(f"the {name}", axes)
        else:
            names[name] = RefusedName(f"is not known yet: first come {_ORDER}")
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
