"""Completion of a raw call by the launch rules of its spec, step by step.

This is what the compiled function of `kspec.runtime.raw.launch_rules` leaves out: a message for all
that is wrong.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from kspec.errors import ArgumentTypeError, LaunchError, ShapeError, counted
from kspec.host import MAX_BLOCK, MAX_GRID
from kspec.model import dtypes
from kspec.model.declaration import RawDeclaration
from kspec.model.raw.expressions import Expression
from kspec.model.raw.launch_rules import evaluate
from kspec.runtime.driver.device import HOST
from kspec.runtime.driver.launch import LaunchOptions
from kspec.runtime.memory import numpy_dtype
from kspec.runtime.raw.outputs import NewOutputs
from kspec.runtime.raw.sizes import about, make_launch, three
from kspec.runtime.raw.typed_args import declared_arguments, pack_declared
from kspec.runtime.raw.untyped_args import RawArgument

Sizes = tuple[int, ...]
# Grid, block, arguments, shared memory and template of a call, complete.
Configured = tuple[Sizes, Sizes, tuple[Any, ...], int, tuple[int, ...]]
MOST = {"grid": MAX_GRID, "block": MAX_BLOCK}  # extents, by axis
_NAME = re.compile(r"\b[sivbg]\d+\b")


class Completion:
    """Completes a call step by step.

    Attributes
    ----------
    params : tuple of CParam
        Declared parameters.
    parsed : ParsedRules
        The expressions.
    constants : mapping of int to number
        Parameters whose default is not an expression, by position.
    implied : set of int
        Those among them that are integers of the template with one value.
    template : tuple of int
        Positions of the integers of the template, behind the arguments.
    fixed : tuple of str
        What a call cannot choose.
    outputs : NewOutputs
        Makes the arrays that are returned.
    used : tuple of (str, int)
        Letters and numbers of the names that the expressions have, sorted.
    kernel : str
        Its name, for messages.
    """

    def __init__(self, declaration: RawDeclaration) -> None:
        own = declaration.params or ()
        self.params = (*own, *declaration.template.numbers)
        self.template = tuple(range(len(own), len(self.params)))
        self.known = declaration.values
        self.fixed = declaration.rules.fixed
        self.parsed = declaration.rules.parse(own)
        positions = {param.name: position for position, param in enumerate(self.params)}
        implied = declaration.implied
        constants = {
            name: default
            for name, default in (*implied.items(), *declaration.rules.defaults)
            if not isinstance(default, str)
        }
        self.constants = {positions[name]: default for name, default in constants.items()}
        self.implied = {positions[name] for name in implied}
        self.outputs = NewOutputs(
            declaration.name, own, dict(declaration.structs), self.parsed.returns
        )
        found = {name for one in self.parsed.listed for name in _NAME.findall(one.python)}
        numbers = {(name[0], int(name[1:])) for name in found}
        self.used = tuple(sorted(numbers | {("v", position) for position in self.template}))
        self.kernel = declaration.name

    def __call__(
        self,
        grid: Sizes | None,
        block: Sizes | None,
        args: Sequence[Any],
        shared_mem: int | None,
        template: Sequence[Any] = (),
    ) -> Configured:
        """Return a call with everything that it leaves out.

        Raises
        ------
        ArgumentTypeError
            If an argument does not fit its parameter.
        LaunchError
            If an expression has no value, or one that cannot be launched, or what is fixed has
            another value in the call.
        OverflowError, ValueError
            If a number does not fit its parameter.
        ShapeError
            If an array that is returned was given with another shape.
        """
        with about(self.kernel):
            # What is given must be right.
            make_launch(grid or (1,), block or (1,), LaunchOptions(shared_mem=shared_mem or 0))
        own = self.params[: len(self.params) - len(self.template)]
        args = tuple(args)
        operands = [*declared_arguments(self.kernel, own, args), *self._template_of(template)]
        names = _Names(self, operands)
        values = [one.value for one in operands]
        for position, value in enumerate(values):
            if position in self.template:
                values[position] = names.number(position)
            elif value is None and (position in self.constants or position in self.parsed.defaults):
                values[position] = names.value(position)
        for position, shape in self.parsed.returns.items():
            values[position] = self._output(position, names.shape(position, shape), values, names)
        block = names.sizes("block", block, self.parsed.block)
        grid = names.sizes("grid", grid, self.parsed.grid)
        rule = self.parsed.shared_mem
        if shared_mem is None or "shared_mem" in self.fixed:
            known = names.evaluate("shared_mem", rule, 0) if rule else 0
            if shared_mem not in (None, known):
                raise self.fixed_error("shared_mem", str(known), str(shared_mem))
            shared_mem = known
        count = len(own)
        return grid, block, tuple(values[:count]), shared_mem, tuple(values[count:])

    def _template_of(self, given: Sequence[Any]) -> list[RawArgument]:
        """Return the integers of the template as arguments; missing ones are None."""
        names = [self.params[position].name for position in self.template]
        if len(given) > len(names):
            raise ArgumentTypeError(
                f"{self.kernel}: template has {counted(len(names), 'integer')} "
                f"({', '.join(names)}), not {len(given)}"
            )
        values = [*given, *[None] * (len(names) - len(given))]
        pairs = zip(self.template, values, names, strict=True)
        return [RawArgument(self.kernel, position, value, name) for position, value, name in pairs]

    def _output(self, position: int, shape: Sizes, values: Sequence[Any], names: _Names) -> Any:
        """Return the array of an output: a new one if it was not given."""
        name, operand = self.params[position].name, names.operands[position]
        if operand.value is None:
            array = self.outputs.make(position, shape, values)
            names.operands[position] = RawArgument(self.kernel, position, array, name, pointer=True)
        elif operand.view is not None and tuple(operand.view.shape) != shape:
            raise ShapeError(
                f"{operand.where} has shape {tuple(operand.view.shape)}, but the kernel returns an "
                f"array of shape {shape}; pass one of that shape, or leave it out"
            )
        return names.operands[position].value

    def fixed_error(self, what: str, known: str, given: str) -> LaunchError:
        """Return the error of a call that chooses what the spec fixes."""
        return LaunchError(
            f"{self.kernel}: {what}={given}, but the spec fixes it, here to {known}; leave it out"
        )

    def number(self, position: int, value: Any) -> Any:
        """Return an argument as the number that the kernel sees."""
        if isinstance(value, np.integer):
            return value.item()
        operand = RawArgument(self.kernel, position, value, self.params[position].name)
        return self.converted(position, operand)

    def converted(self, position: int, operand: RawArgument) -> Any:
        """Return the result of `number`; raise the errors of a call."""
        param = self.params[position]
        if position in self.template:
            try:
                return operator.index(operand.value)
            except TypeError:
                raise ArgumentTypeError(
                    f"{self.kernel}: template parameter {param.name} must be an integer, not "
                    f"{type(operand.value).__name__}"
                ) from None
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

    def __init__(self, full: Completion, operands: list[RawArgument]) -> None:
        super().__init__()
        self._full = full
        self.operands = operands

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

    def shape(self, position: int, rules: Sequence[Expression]) -> Sizes:
        """Return the shape of an output."""
        name = self._full.params[position].name
        several = len(rules) > 1
        labels = [f"returns.{name}{f'[{k}]' if several else ''}" for k in range(len(rules))]
        pairs = zip(labels, rules, strict=True)
        return tuple(self.evaluate(label, rule, 0) for label, rule in pairs)

    def number(self, position: int) -> int:
        """Return an integer of the template."""
        full, param = self._full, self._full.params[position]
        value = self.value(position) if self._is_known(position) else None
        if value is None:
            listed = " or ".join(map(str, full.known[param.name]))
            raise ArgumentTypeError(
                f"{full.kernel}: no value for template parameter {param.name}; give it by name: "
                f"{param.name} = {listed}"
            )
        return int(value)

    def _is_known(self, position: int) -> bool:
        full = self._full
        given = self.operands[position].value is not None
        return given or position in full.constants or position in full.parsed.defaults

    def sizes(self, kind: str, given: Sizes | None, rules: Sequence[Expression]) -> Any:
        """Return grid or block, which a call cannot choose if it is fixed."""
        if given is None or kind not in self._full.fixed:
            return self.extents(kind, given, rules)
        known = self.extents(kind, None, rules)
        if three(kind, given) != three(kind, known):
            raise self._full.fixed_error(kind, str(known), str(tuple(given)))
        return known

    def extents(self, kind: str, given: Sizes | None, rules: Sequence[Expression]) -> Any:
        """Return grid or block, and keep its extents for the expressions that follow."""
        sizes = given
        if given is None and rules:
            labels = [kind] if len(rules) == 1 else [f"{kind}.{axis}" for axis in "xyz"]
            rows = zip(labels, rules, MOST[kind], strict=False)
            sizes = tuple(self.evaluate(label, rule, 1, most) for label, rule, most in rows)
        for axis, extent in enumerate((*(sizes or ()), 1, 1, 1)[:3]):
            self[f"{kind[0]}{axis}"] = operator.index(extent)
        return sizes

    def value(self, position: int) -> Any:
        """Return the number that a parameter is, or has by default."""
        if self.operands[position].value is not None:
            return self._full.converted(position, self.operands[position])
        if position in self._full.constants:
            return self._full.constants[position]
        rule = self._full.parsed.defaults.get(position)
        if rule is None:  # a number that is None: let it be refused
            return self._full.converted(position, self.operands[position])
        return self.evaluate(self._full.params[position].name, rule)

    def shown(self, python: str) -> object:
        """Return the value of something that an expression depends on."""
        return evaluate(Expression(python, python), self)

    def _find(self, letter: str, position: int, label: str, rule: Expression) -> Any:
        if letter == "v":
            return self.value(position)
        operand, param = self.operands[position], self._full.params[position]
        if operand.view is None:
            found = "None" if operand.value is None else type(operand.value).__name__
            raise ArgumentTypeError(
                f"{self._full.kernel}: argument {param.name} is declared {param} and {label} = "
                f"{rule.text.strip()}, so it must be an array, not {found}"
            )
        view = operand.view
        return view.shape if letter == "s" else dtypes.lookup(view.dtype).itemsize


def shape_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an array of any library."""
    shape = array.shape
    if not isinstance(shape, tuple):
        raise TypeError  # the full computation knows where else to look
    return shape


def itemsize_of(array: Any) -> int:
    """Return the bytes of an element, likewise."""
    size: int = array.dtype.itemsize
    return size
