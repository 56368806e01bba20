"""Statements and functions of kernels: variables that change, branches, loops, effects.

>>> from kspec.ir.nodes import Assign, BuiltinCall, Const, Name
>>> i = Name("i", "int32")
>>> three = Const(3, "int32")
>>> print(While(BuiltinCall("less", (i, three), "bool"), (Assign(i, three),)))
while less(i, 3):
    i = 3
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kspec.dataclass import dataclass
from kspec.ir.nodes import Assign, Element, Expression, FieldAccess, Let, Name
from kspec.ir.types import BufferType, ObjectType, Type


@dataclass(frozen=True)
class SourceLine:
    """The statements that follow are made of this line of the user's file.

    Attributes
    ----------
    line : int
        From 1.
    """

    line: int

    def __str__(self) -> str:
        return f"# line {self.line}"


@dataclass(frozen=True)
class Declare:
    """A variable that changes.

    Attributes
    ----------
    name : str
        An identifier of C++.
    type : Type
        Its type.
    value : Expression or None
        What it is at first; None: nothing yet.
    """

    name: str
    type: Type
    value: Expression | None = None

    def __str__(self) -> str:
        value = "" if self.value is None else f" = {self.value}"
        return f"var {self.name}: {self.type}{value}"


@dataclass(frozen=True)
class Reference:
    """A name for something in memory, whose place is computed once.

    Attributes
    ----------
    name : str
        An identifier of C++.
    target : Element or FieldAccess
        What it stands for.
    """

    name: str
    target: Element | FieldAccess

    def __str__(self) -> str:
        return f"ref {self.name}: {self.target.type} = {self.target}"


@dataclass(frozen=True)
class Allocate:
    """Memory of a block or of a thread.

    Attributes
    ----------
    name : str
        An identifier of C++.
    type : BufferType
        Elements; without a shape the launch says how many there are.
    space : {"shared", "local"}
        Whose memory it is.
    alignment : int
        In bytes; 0: as the dtype needs it.
    """

    name: str
    type: BufferType
    space: str
    alignment: int = 0

    def __str__(self) -> str:
        align = f" align {self.alignment}" if self.alignment else ""
        return f"{self.space} {self.name}: {self.type}{align}"


@dataclass(frozen=True)
class Store:
    """A value stored in memory: in an element, or in a field.

    Attributes
    ----------
    target : Element or FieldAccess
        Where.
    value : Expression
        Of the target's type.
    """

    target: Element | FieldAccess
    value: Expression

    def __str__(self) -> str:
        return f"{self.target} = {self.value}"


@dataclass(frozen=True)
class If:
    """One of two blocks.

    Attributes
    ----------
    condition : Expression
        A bool.
    body, orelse : tuple of KernelStatement
        What is done if it is true, and if not.
    """

    condition: Expression
    body: tuple[KernelStatement, ...]
    orelse: tuple[KernelStatement, ...] = ()

    def __str__(self) -> str:
        orelse = f"\nelse:\n{_indented(self.orelse)}" if self.orelse else ""
        return f"if {self.condition}:\n{_indented(self.body)}{orelse}"


@dataclass(frozen=True)
class While:
    """A block, again and again.

    Attributes
    ----------
    condition : Expression
        A bool.
    body : tuple of KernelStatement
        What is done while it is true.
    """

    condition: Expression
    body: tuple[KernelStatement, ...]

    def __str__(self) -> str:
        return f"while {self.condition}:\n{_indented(self.body)}"


@dataclass(frozen=True)
class For:
    """A block for each number of a range.

    Attributes
    ----------
    counter : Name
        Counts; it belongs to the loop.
    start, stop, step : Expression
        The range, of the counter's type; a step that is not constant may have any sign.
    body : tuple of KernelStatement
        What is done.
    unroll : int or None
        1: not; more: by so many; 0: completely; None: as the compiler thinks.
    """

    counter: Name
    start: Expression
    stop: Expression
    step: Expression
    body: tuple[KernelStatement, ...]
    unroll: int | None = None

    def __str__(self) -> str:
        unroll = "" if self.unroll is None else f" unroll {self.unroll or 'all'}"
        numbers = f"{self.start}, {self.stop}, {self.step}"
        head = f"for {self.counter}: {self.counter.type} in range({numbers}){unroll}:"
        return f"{head}\n{_indented(self.body)}"


@dataclass(frozen=True)
class Jump:
    """``break`` or ``continue``.

    Attributes
    ----------
    word : {"break", "continue"}
        Which.
    """

    word: str

    def __str__(self) -> str:
        return self.word


@dataclass(frozen=True)
class Return:
    """The end of the function.

    Attributes
    ----------
    value : Expression or None
        What it returns.
    """

    value: Expression | None = None

    def __str__(self) -> str:
        return "return" if self.value is None else f"return {self.value}"


@dataclass(frozen=True)
class ExpressionStatement:
    """An expression for its effect.

    Attributes
    ----------
    value : Expression
        The expression.
    """

    value: Expression

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True)
class Print:
    """``printf``.

    Attributes
    ----------
    format : str
        As C has it.
    args : tuple of Expression
        What it prints.
    """

    format: str
    args: tuple[Expression, ...] = ()

    def __str__(self) -> str:
        return f"printf({', '.join([repr(self.format), *map(str, self.args)])})"


@dataclass(frozen=True)
class Assert:
    """A condition that stops the kernel if it does not hold.

    Attributes
    ----------
    condition : Expression
        A bool.
    message : str
        What is shown then.
    """

    condition: Expression
    message: str

    def __str__(self) -> str:
        return f"assert {self.condition}, {self.message!r}"


KernelStatement = (
    Let
    | Assign
    | SourceLine
    | Declare
    | Reference
    | Allocate
    | Store
    | If
    | While
    | For
    | Jump
    | Return
    | ExpressionStatement
    | Print
    | Assert
)


@dataclass(frozen=True)
class Table:
    """Constant memory of a program.

    Attributes
    ----------
    name : str
        An identifier of C++.
    type : BufferType
        Its elements.
    data : bytes
        The same in C order.
    """

    name: str
    type: BufferType
    data: bytes

    @property
    def variable(self) -> Name:
        """The name of all of it."""
        return Name(self.name, ObjectType("table"))

    @property
    def memory(self) -> FieldAccess:
        """The elements, as functions index them."""
        return FieldAccess(self.variable, "values", self.type)

    def __str__(self) -> str:
        return f"constant {self.name}: {self.type}"


@dataclass(frozen=True)
class Function:
    """A kernel, or a function that kernels call.

    Attributes
    ----------
    name : str
        An identifier of C++.
    params : tuple of Name
        Its parameters.
    body : tuple of KernelStatement
        What it does.
    returns : Type or None
        Type of its result.
    kernel : bool
        Whether it is launched.
    exported : bool
        Whether other programs are linked with it, if it is not.
    """

    name: str
    params: tuple[Name, ...]
    body: tuple[KernelStatement, ...]
    returns: Type | None = None
    kernel: bool = True
    exported: bool = False

    def __str__(self) -> str:
        params = ", ".join(f"{one.name}: {one.type}" for one in self.params)
        arrow = "" if self.returns is None else f" -> {self.returns}"
        word = "kernel" if self.kernel else "device"
        return f"{word} {self.name}({params}){arrow}:\n{_indented(self.body)}"


def _indented(body: Sequence[KernelStatement]) -> str:
    lines = [str(one) for one in body if not isinstance(one, SourceLine)]
    return textwrap.indent("\n".join(lines or ["pass"]), "    ")
