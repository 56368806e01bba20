"""Whether statements and functions mean something: names are known, and types fit their uses.

>>> from kspec.ir.nodes import BuiltinCall, Let, Name
>>> check([Let("t0", BuiltinCall("sqrt", (Name("y", "float32"),), "float32"))], {"x": "float32"})
Traceback (most recent call last):
kspec.ir.check.IrError: t0: float32 = sqrt(y): there is no y
>>> from kspec.ir.control import Function, Jump
>>> check_function(Function("f", (), (Jump("break"),)))
Traceback (most recent call last):
kspec.ir.check.IrError: f: break: no loop is around it
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kspec.ir.builtins import BUILTINS
from kspec.ir.control import (
    Allocate,
    Assert,
    Declare,
    ExpressionStatement,
    For,
    Function,
    If,
    Jump,
    KernelStatement,
    Print,
    Reference,
    Return,
    Store,
    Table,
    While,
)
from kspec.ir.device import DEVICE
from kspec.ir.nodes import (
    Assign,
    BuiltinCall,
    Cast,
    Const,
    Element,
    Expression,
    Extent,
    FieldAccess,
    FunctionCall,
    Let,
    Name,
    Slice,
    Statement,
    Subarray,
)
from kspec.ir.types import ArrayType, BufferType, ObjectType, RecordView, Type, is_memory


class IrError(AssertionError):
    """Statements that no program may contain: a mistake of kspec, not of its user."""


def check(statements: Iterable[Statement], names: Mapping[str, Type]) -> None:
    """Check statements that may read and assign `names`, which have these types.

    Raises
    ------
    IrError
        For the first thing that is wrong.
    """
    _FunctionChecker("", dict(names)).block(statements, loops=0)


def check_function(
    function: Function, functions: Iterable[str] = (), tables: Iterable[Table] = ()
) -> None:
    """Check a function that may call `functions`, and read `tables`.

    Raises
    ------
    IrError
        For the first thing that is wrong.
    """
    known = {one.name: one.type for one in function.params}
    if len(known) < len(function.params):
        raise IrError(f"{function.name}: two parameters have one name")
    known |= {one.name: one.variable.type for one in tables}
    checker = _FunctionChecker(f"{function.name}: ", known, frozenset(functions), function.returns)
    checker.block(function.body, loops=0)


class _FunctionChecker:
    """Checks the statements of one function.

    Parameters
    ----------
    prefix : str
        Of messages.
    known : dict of str to Type
        Its parameters.
    functions : frozenset of str, optional
        Functions that it may call.
    returns : Type or None, optional
        Type of its result.
    """

    def __init__(
        self,
        prefix: str,
        known: dict[str, Type],
        functions: frozenset[str] = frozenset(),
        returns: Type | None = None,
    ) -> None:
        self._prefix = prefix
        self._known = known
        self._functions = functions
        self._returns = returns

    def block(self, body: Iterable[KernelStatement], loops: int) -> None:
        for one in body:
            self._statement(one, loops)

    def _wrong(self, one: object, what: str) -> IrError:
        return IrError(f"{self._prefix}{one}: {what}")

    def _add(self, one: object, name: str, type_: Type) -> None:
        if self._known.setdefault(name, type_) != type_:
            raise self._wrong(one, f"{name} is {self._known[name]} already")

    def _statement(self, one: KernelStatement, loops: int) -> None:
        if isinstance(one, Let):
            self._value(one, one.value)
            self._add(one, one.name, one.value.type)
        elif isinstance(one, Declare):
            if one.value is not None:
                self._typed(one, one.value, one.type)
            self._add(one, one.name, one.type)
        elif isinstance(one, Reference):
            self._value(one, one.target)
            self._add(one, one.name, one.target.type)
        elif isinstance(one, Allocate):
            self._add(one, one.name, one.type)
        elif isinstance(one, Assign | Store):
            self._value(one, one.target)
            self._typed(one, one.value, one.target.type)
        elif isinstance(one, If):
            self._typed(one, one.condition, "bool")
            self.block(one.body, loops)
            self.block(one.orelse, loops)
        elif isinstance(one, While):
            self._typed(one, one.condition, "bool")
            self.block(one.body, loops + 1)
        elif isinstance(one, For):
            for value in (one.start, one.stop, one.step):
                self._typed(one, value, one.counter.type)
            self._add(one, one.counter.name, one.counter.type)
            self.block(one.body, loops + 1)
        elif isinstance(one, Jump) and not loops:
            raise self._wrong(one, "no loop is around it")
        elif isinstance(one, Return):
            self._return(one)
        elif isinstance(one, Assert):
            self._typed(one, one.condition, "bool")
        elif isinstance(one, ExpressionStatement):
            self._value(one, one.value)
        elif isinstance(one, Print):
            for value in one.args:
                self._value(one, value)

    def _return(self, one: Return) -> None:
        wanted = self._returns
        if one.value is None:
            if wanted is not None:
                raise self._wrong(one, f"a {wanted} is to be returned")
        elif wanted is None:
            raise self._wrong(one, "nothing is to be returned")
        else:
            self._typed(one, one.value, wanted)

    def _typed(self, one: object, value: Expression, wanted: Type) -> None:
        self._value(one, value)
        if value.type != wanted:
            raise self._wrong(one, f"{value} is {value.type}, not {wanted}")

    def _value(self, one: object, value: Expression) -> None:
        if isinstance(value, Name):
            known = self._known.get(value.name, value.type)
            is_function = isinstance(value.type, ObjectType) and value.name in self._functions
            if value.name not in self._known and not is_function:
                raise self._wrong(one, f"there is no {value.name}")
            if known != value.type:
                raise self._wrong(one, f"{value.name} is {known}, not {value.type}")
        elif isinstance(value, Cast):
            self._value(one, value.operand)
        elif isinstance(value, BuiltinCall):
            row = BUILTINS.get(value.function) or DEVICE.get(value.function)
            if row is None or row.arity != len(value.args):
                raise self._wrong(one, f"there is no {value.function} of {len(value.args)}")
            self._values(one, value.args)
        elif isinstance(value, FunctionCall):
            ours = "::" in value.function or value.function.startswith("complex<")
            if not ours and value.function not in self._functions:
                raise self._wrong(one, f"there is no function {value.function}")
            self._values(one, value.args)
        elif isinstance(value, Element | Subarray):
            self._indexed(one, value)
        elif isinstance(value, Extent):
            self._value(one, value.array)
        elif isinstance(value, FieldAccess):
            self._value(one, value.record)
        else:
            assert isinstance(value, Const)

    def _values(self, one: object, values: Iterable[Expression]) -> None:
        for value in values:
            self._value(one, value)

    def _indexed(self, one: object, value: Element | Subarray) -> None:
        self._value(one, value.memory)
        type_ = value.memory.type
        if not is_memory(type_) and not isinstance(type_, RecordView):
            raise self._wrong(one, f"{value.memory} has no elements")
        for index in value.indices:
            ends = (index.start, index.stop, index.step) if isinstance(index, Slice) else (index,)
            self._values(one, [end for end in ends if end is not None])
        ndim = type_.ndim if isinstance(type_, ArrayType) else int(is_memory(type_))
        if isinstance(type_, BufferType) and type_.shape is not None:
            ndim = len(type_.shape)
        if isinstance(value, Element) and len(value.indices) != ndim:
            raise self._wrong(one, f"{value} has {len(value.indices)} indices for {type_}")
