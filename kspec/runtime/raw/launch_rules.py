"""Raw kernels that are called like functions: their specs say how they are launched.

A `RawFunction` fills in missing arguments by the expressions of `kspec.model.raw.launch_rules`.
They are compiled to one function, which for ``float* x, int n`` with ``grid = "ceil_div(n,
block.x)"``, ``block = "256"`` and ``defaults = { n = "x.size" }`` is::

    def configure(grid, block, args, shared_mem):
        try:
            (a0, a1, ) = args
            s0 = shape_of(a0)
            if a1 is None: a1 = prod(s0)
            v1 = a1 if type(a1) is int else number(1, a1)
            if block is None:
                b0 = 256
                ...

Whatever is out of the ordinary is worked out again step by step, which says what is wrong.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, LaunchError
from kspec.host.limits import MAX_BLOCK, MAX_GRID
from kspec.model import dtypes
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.expressions import Expression
from kspec.model.raw.launch_rules import BUILTINS, evaluate
from kspec.model.signature import CParam
from kspec.runtime.callcache.codegen import compile_call
from kspec.runtime.driver.device import HOST
from kspec.runtime.driver.launch import LaunchOptions, about, make_launch
from kspec.runtime.memory.array_view import numpy_dtype
from kspec.runtime.raw.declared import RawCallable
from kspec.runtime.raw.typed_args import declared_arguments, pack_declared
from kspec.runtime.raw.untyped_args import RawArgument

Sizes = tuple[int, ...]
# Grid, block, arguments and shared memory of a call, complete.
Configured = tuple[Sizes, Sizes, tuple[Any, ...], int]
Configure = Callable[[Sizes | None, Sizes | None, Sequence[Any], int | None], Configured]

_MOST = {"grid": MAX_GRID, "block": MAX_BLOCK}  # extents, by axis
_NAME = re.compile(r"\b[sivbg]\d+\b")


class RawFunction(RawCallable):
    """A raw kernel whose spec says how it is launched; what a call says goes first."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_configure"}

    @functools.cached_property
    def _configure(self) -> Configure:
        return make_configure(self.declaration)

    def __call__(
        self,
        grid: Sizes | None,
        block: Sizes | None,
        args: Sequence[Any],
        *,
        shared_mem: int | None = None,
        stream: Any = None,
        **options: Any,
    ) -> None:
        """Launch the kernel.

        Parameters and errors are those of `RawCallable`; grid, block, shared memory, and arguments
        with a default, follow from the spec where they are None.

        Raises
        ------
        LaunchError
            If an expression of the spec has no value that can be launched.
        """
        grid, block, args, shared_mem = self._configure(grid, block, args, shared_mem)
        if options:
            super().__call__(grid, block, args, shared_mem=shared_mem, stream=stream, **options)
        else:
            self._call_cache.last(self, grid, block, args, shared_mem, stream, None)


def make_configure(declaration: RawDeclaration) -> Configure:
    """Return the function that completes the calls of a kernel."""
    full = _Completion(declaration)
    names: dict[str, Any] = {
        **BUILTINS,
        "in_full": full,
        "index": operator.index,
        "itemsize_of": _itemsize_of,
        "number": full.number,
        "shape_of": _shape_of,
        **{f"d{position}": number for position, number in full.constants.items()},
    }
    exec(compile_call(render_configure(full)), names)
    configure: Configure = names["configure"]
    return configure


def render_configure(full: _Completion) -> str:
    """Return the text of a function that does the same as `full`, or leaves it to that."""
    rules, count = full.parsed, len(full.params)
    read = {"s": "shape_of", "i": "itemsize_of"}
    lines = [
        "if type(args) is not tuple: args = tuple(args)",
        f"({''.join(f'a{k}, ' for k in range(count))}) = args",
        *(f"{letter}{k} = {read[letter]}(a{k})" for letter, k in full.used if letter in read),
    ]
    numbers = {k: _render_number(k, full.params[k]) for letter, k in full.used if letter == "v"}
    defaults = {k: one.python for k, one in rules.defaults.items()}
    defaults |= {k: f"d{k}" for k in full.constants}
    # A default may depend on numbers that have none.
    lines += [text for k, text in numbers.items() if k not in defaults]
    lines += [f"if a{k} is None: a{k} = {text}" for k, text in defaults.items()]
    lines += [text for k, text in numbers.items() if k in defaults]
    lines += _render_extents("block", rules.block, full.used)
    lines += _render_extents("grid", rules.grid, full.used)
    if rules.shared_mem:
        lines += [
            f"shared = {rules.shared_mem.python} if shared_mem is None else shared_mem",
            "if shared < 0: raise ValueError",
        ]
    else:
        lines += ["shared = 0 if shared_mem is None else shared_mem"]
    values = "".join(f"v{k}, " if k in numbers else f"a{k}, " for k in range(count))
    return "\n".join(
        [
            "def configure(grid, block, args, shared_mem):",
            "    try:",
            *(f"        {line}" for line in lines),
            f"        return all_grid, all_block, ({values}), shared",
            "    except Exception:",
            "        return in_full(grid, block, args, shared_mem)",
        ]
    )


def _render_number(position: int, param: CParam) -> str:
    kind = "bool" if param.type == "bool" else "int"
    value = f"a{position}"
    return f"v{position} = {value} if type({value}) is {kind} else number({position}, {value})"


def _render_extents(
    name: str, rules: Sequence[Expression], used: Sequence[tuple[str, int]]
) -> list[str]:
    """Return the lines that set ``all_<name>``, and the extents that other expressions see."""
    letter = name[0]
    seen = [axis for one, axis in used if one == letter]
    unpack = f"{letter}0, {letter}1, {letter}2 = map(index, (*{name}, 1, 1)[:3])"
    given = [f"all_{name} = {name}", *([unpack] if seen else [])]
    if not rules:
        return given
    extents = [f"{letter}{axis}" for axis in range(len(rules))]
    limits = zip(extents, _MOST[name], strict=False)
    fits = [f"0 < {extent} <= {most}" for extent, most in limits]
    return [
        f"if {name} is None:",
        *(f"    {extent} = {one.python}" for extent, one in zip(extents, rules, strict=True)),
        *(f"    {letter}{axis} = 1" for axis in seen if axis >= len(rules)),
        f"    if not ({' and '.join(fits)}): raise ValueError",
        f"    all_{name} = ({', '.join(extents)},)",
        "else:",
        *(f"    {line}" for line in given),
    ]


class _Completion:
    """Completes a call step by step.

    Attributes
    ----------
    params : tuple of CParam
        Declared parameters.
    parsed : ParsedRules
        The expressions.
    constants : mapping of int to number
        Parameters whose default is not an expression, by position.
    used : tuple of (str, int)
        Letters and numbers of the names that the expressions have, sorted.
    kernel : str
        Its name, for messages.
    """

    def __init__(self, declaration: RawDeclaration) -> None:
        self.params = declaration.params or ()
        self.parsed = declaration.rules.parse(self.params)
        positions = {param.name: position for position, param in enumerate(self.params)}
        self.constants = {
            positions[name]: default
            for name, default in declaration.rules.defaults
            if not isinstance(default, str)
        }
        rules = (*self.parsed.block, *self.parsed.grid, *self.parsed.defaults.values())
        rules += (self.parsed.shared_mem,) if self.parsed.shared_mem else ()
        found = {name for one in rules for name in _NAME.findall(one.python)}
        self.used = tuple(sorted((name[0], int(name[1:])) for name in found))
        self.kernel = declaration.name

    def __call__(
        self,
        grid: Sizes | None,
        block: Sizes | None,
        args: Sequence[Any],
        shared_mem: int | None,
    ) -> Configured:
        """Return a call with everything that it leaves out.

        Raises
        ------
        ArgumentTypeError
            If an argument does not fit its parameter.
        LaunchError
            If an expression has no value, or one that cannot be launched.
        OverflowError, ValueError
            If a number does not fit its parameter.
        """
        with about(self.kernel):
            # What is given must be right.
            make_launch(grid or (1,), block or (1,), LaunchOptions(shared_mem=shared_mem or 0))
        operands = declared_arguments(self.kernel, self.params, args)
        names = _Names(self, operands)
        values = list(args)
        for position, value in enumerate(args):
            if value is None and (position in self.constants or position in self.parsed.defaults):
                values[position] = names.value(position)
        block = names.extents("block", block, self.parsed.block)
        grid = names.extents("grid", grid, self.parsed.grid)
        if shared_mem is None:
            rule = self.parsed.shared_mem
            shared_mem = names.evaluate("shared_mem", rule, 0) if rule else 0
        return grid, block, tuple(values), shared_mem

    def number(self, position: int, value: Any) -> Any:
        """Return an argument as the number that the kernel sees."""
        if isinstance(value, np.integer):
            return value.item()
        operand = RawArgument(self.kernel, position, value, self.params[position].name)
        return self.converted(position, operand)

    def converted(self, position: int, operand: RawArgument) -> Any:
        """Return the result of `number`; raise the errors of a call."""
        param = self.params[position]
        row = dtypes.from_ctype(param.type)
        assert row is not None
        data = pack_declared(param, operand, {}, HOST)  # a number
        return np.frombuffer(data, numpy_dtype(row.name)).item()

    def error(
        self, label: str, rule: Expression, problem: str, names: _Names, wanted: str = ""
    ) -> LaunchError:
        """Return an error about an expression: the kernel, the rule and what it depends on."""
        values = ", ".join(f"{written} = {names.shown(python)}" for written, python in rule.values)
        return LaunchError(
            f"{self.kernel}: {label} = {rule.text.strip()} {problem}"
            + (f" with {values}" if values else "")
            + wanted
        )


class _Names(dict[str, Any]):
    """Values of the names in expressions for one call, computed when they are needed."""

    def __init__(self, full: _Completion, operands: Sequence[RawArgument]) -> None:
        super().__init__()
        self._full = full
        self._operands = operands

    def evaluate(
        self, label: str, rule: Expression, least: int | None = None, most: int | None = None
    ) -> int:
        """Return the value of an expression, called `label` in messages, between two limits."""
        for name in _NAME.findall(rule.python):
            if name not in self:
                self[name] = self._find(name[0], int(name[1:]), label, rule)
        try:
            value = evaluate(rule, self)
        except ZeroDivisionError:
            raise self._full.error(label, rule, "divides by zero", self) from None
        except IndexError:
            raise self._full.error(label, rule, "has no such axis", self) from None
        wanted = ""
        if least is not None and value < least:
            wanted = f"; it must be {least} or more"
        elif most is not None and value > most:
            wanted = f"; it must be {most} or less"
        if wanted:
            raise self._full.error(label, rule, f"is {value}", self, wanted)
        return value

    def extents(self, kind: str, given: Sizes | None, rules: Sequence[Expression]) -> Any:
        """Return grid or block, and keep its extents for the expressions that follow."""
        sizes = given
        if given is None and rules:
            labels = [kind] if len(rules) == 1 else [f"{kind}.{axis}" for axis in "xyz"]
            rows = zip(labels, rules, _MOST[kind], strict=False)
            sizes = tuple(self.evaluate(label, rule, 1, most) for label, rule, most in rows)
        for axis, extent in enumerate((*(sizes or ()), 1, 1, 1)[:3]):
            self[f"{kind[0]}{axis}"] = operator.index(extent)
        return sizes

    def value(self, position: int) -> Any:
        """Return the number that a parameter is, or has by default."""
        if self._operands[position].value is not None:
            return self._full.converted(position, self._operands[position])
        if position in self._full.constants:
            return self._full.constants[position]
        rule = self._full.parsed.defaults.get(position)
        if rule is None:  # a number that is None: let it be refused
            return self._full.converted(position, self._operands[position])
        return self.evaluate(self._full.params[position].name, rule)

    def shown(self, python: str) -> object:
        """Return the value of something that an expression depends on."""
        return evaluate(Expression(python, python), self)

    def _find(self, letter: str, position: int, label: str, rule: Expression) -> Any:
        if letter == "v":
            return self.value(position)
        operand, param = self._operands[position], self._full.params[position]
        if operand.view is None:
            found = "None" if operand.value is None else type(operand.value).__name__
            raise ArgumentTypeError(
                f"{self._full.kernel}: argument {param.name} is declared {param} and {label} = "
                f"{rule.text.strip()}, so it must be an array, not {found}"
            )
        view = operand.view
        return view.shape if letter == "s" else dtypes.lookup(view.dtype).itemsize


def _shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an array of any library."""
    shape = array.shape
    if not isinstance(shape, tuple):
        raise TypeError  # the full computation knows where else to look
    return shape


def _itemsize_of(array: Any) -> int:
    """Return the bytes of an element, likewise."""
    size: int = array.dtype.itemsize
    return size
