"""Whether statements mean something: what is read is known, and types are where they are needed.

>>> from kspec.ir.nodes import BuiltinCall, Let, Name
>>> check([Let("t0", BuiltinCall("sqrt", (Name("y", "float32"),), "float32"))], {"x": "float32"})
Traceback (most recent call last):
kspec.ir.check.IrError: t0: float32 = sqrt(y): there is no y
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kspec.ir.builtins import BUILTINS
from kspec.ir.memory import FunctionCall
from kspec.ir.nodes import BuiltinCall, Cast, Const, Expression, Let, Name, Statement
from kspec.ir.types import Type
from kspec.model import dtypes


class IrError(AssertionError):
    """Statements that no program may contain: a mistake of kspec, not of its user."""


def check(statements: Iterable[Statement], names: Mapping[str, Type]) -> None:
    """Check statements that may read and assign `names`, which have these types.

    Raises
    ------
    IrError
        For the first thing that is wrong.
    """
    known: dict[str, Type] = dict(names)
    for statement in statements:
        _check_value(statement.value, known, statement)
        if isinstance(statement, Let):
            if statement.name in known:
                raise IrError(f"{statement}: there is a {statement.name} already")
            known[statement.name] = statement.value.type
            continue
        _check_value(statement.target, known, statement)
        if statement.target.type != statement.value.type:
            raise IrError(f"{statement}: {statement.value.type} given to {statement.target.type}")


def _check_value(value: Expression, known: Mapping[str, Type], where: Statement) -> None:
    if not dtypes.is_known(str(value.type)):
        raise IrError(f"{where}: {value.type} is not a dtype")
    if isinstance(value, Name):
        if value.name not in known:
            raise IrError(f"{where}: there is no {value.name}")
        if known[value.name] != value.type:
            raise IrError(f"{where}: {value.name} is {known[value.name]}, not {value.type}")
    elif isinstance(value, Cast):
        _check_value(value.operand, known, where)
    elif isinstance(value, BuiltinCall):
        builtin = BUILTINS.get(value.function)
        if builtin is None:
            raise IrError(f"{where}: there is no function {value.function}")
        if builtin.arity != len(value.args):
            raise IrError(f"{where}: {value.function} takes {builtin.arity} arguments")
        for argument in value.args:
            _check_value(argument, known, where)
    elif isinstance(value, FunctionCall):
        for argument in value.args:
            _check_value(argument, known, where)
    else:
        assert isinstance(value, Const)
