"""State of a function while it is compiled: its variables, its problems, the program around it.

`ProgramBuilder` is one kernel with the functions it calls, `Scope` one of these functions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from kspec.cpp import names
from kspec.diagnostics import Diagnostic
from kspec.errors import JIT_ERRORS, JitError
from kspec.ir.builtins import BUILTINS
from kspec.ir.control import Function, KernelStatement, Table
from kspec.ir.device import DEVICE
from kspec.ir.nodes import (
    BuiltinCall,
    Element,
    Expression,
    FieldAccess,
    FunctionCall,
    Name,
    Subarray,
)
from kspec.ir.types import Type
from kspec.jit.capture import Captured
from kspec.jit.values import Known, Value, dereferenced

_PLAIN = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*_?")
_FUNCTION = re.compile(r"(?<![.:\w])[A-Za-z_]\w*(?=\()")
_C_LIBRARY = """
    abort abs atof atoi calloc div exit fabs free labs main malloc memcmp memcpy memmove memset
    printf puts qsort rand read signal sleep srand strlen system time write
""".split()  # noqa: SIM905  (a list of words reads better)
_CALLED = frozenset(
    word
    for row in (*BUILTINS.values(), *DEVICE.values())
    for text in (row.text, row.plain)
    for word in _FUNCTION.findall(text)
)
_NAMESPACES = {"cooperative_groups", "cuda", "linux", "nv", "nvcuda", "std", "thrust"}
_TAKEN = names.KEYWORDS | names.TAKEN | _CALLED | _NAMESPACES | {*_C_LIBRARY, "assert"}


def cpp_name(name: str) -> str:
    """Return the C++ name of a variable: different names stay different.

    >>> cpp_name("x"), cpp_name("int"), cpp_name("v_int"), cpp_name("größe")
    ('x', 'v_int', 'v_v_5fint', 'v_gr_f6_dfe')
    """
    taken = name in _TAKEN or name.startswith(("v_", "kspec", "unix"))
    if _PLAIN.fullmatch(name) and not taken and not (name.isupper() and len(name) > 1):
        return name
    if name in _TAKEN and name.isalnum() and name.isascii():
        return f"v_{name}"
    coded = "".join(one if one.isascii() and one.isalnum() else f"_{ord(one):x}" for one in name)
    return f"v_{coded}" if not name.isalnum() or not name.isascii() else f"v_{name}"


Language = tuple[Callable[["Scope", ast.expr], Value], Callable[..., Value]]


class Stop(Exception):
    """A statement has a problem, which is recorded; the next one is looked at."""


@dataclass
class ProgramBuilder:
    """A kernel and the functions that it calls, for certain types of arguments.

    Attributes
    ----------
    mode : str
        Typing rules.
    language : tuple of callable
        The functions of `kspec.jit.syntax`, which is above this module: one that evaluates an
        expression, and one that calls a device function.
    functions : list of Function
        Those that are called, in an order that C++ takes.
    made : dict
        Name and result type of functions, by the function and the types of its arguments.
    captured : list of Captured
        The Python functions of it.
    run : list of callable
        Functions that were called while compiling.
    paths : dict of str to str
        The files of functions, by their names in C++.
    problems : list of (type, Diagnostic)
        The problems, and the classes that Python would raise.
    tables : dict
        Constant memory, by dtype, shape and bytes.
    headers : set of str
        Headers that its text includes, beside those of types.
    cooperative : bool
        Whether all blocks must be resident.
    """

    mode: str
    language: Language
    functions: list[Function] = field(default_factory=list)
    made: dict[Any, Any] = field(default_factory=dict)
    captured: list[Captured] = field(default_factory=list)
    run: list[Any] = field(default_factory=list)
    paths: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[type[Exception], Diagnostic]] = field(default_factory=list)
    tables: dict[Any, Table] = field(default_factory=dict)
    headers: set[str] = field(default_factory=set)
    cooperative: bool = False

    def check(self) -> None:
        """Raise what is wrong, all of it."""
        if not self.problems:
            return
        found = tuple(dict.fromkeys(one for _, one in self.problems))
        raise error_for(self.problems[0][0])("\n".join(map(str, found)), found)


def error_for(kind: type[Exception]) -> type[JitError]:
    """Return the class of ours that also is a built-in one."""
    for one in kind.__mro__:
        if one in JIT_ERRORS:
            return JIT_ERRORS[one]
    return JIT_ERRORS[ValueError]


@dataclass
class Scope:
    """One function.

    Attributes
    ----------
    program : ProgramBuilder
        The program that contains it.
    captured : Captured
        Its source.
    variables : dict
        Values of its local names: None for those whose assignment has a problem.
    local : frozenset of str
        Names that it assigns.
    out : list
        Statements so far.
    depth : int
        How many branches and loops are around them.
    loops : int
        How many of these are loops.
    hoisted : list
        Declarations at the top of the function.
    returned : list
        Types of its return values.
    kernel : bool
        Whether it is launched.
    written : dict of str to AST
        Variables through which memory is written to, and where.
    roots : dict
        The names whose memory a name stands for.
    numbers : dict
        How many names of C++ have been made of a word.
    reserved : set of str
        Names of shared and local memory.
    own : set of str
        Names of local memory, which ends with the function.
    copies : set of str
        Names of records that are copies, which end with it too.
    escaping : list of (AST, frozenset of str)
        Results that lie in memory, and the names of that memory.
    """

    program: ProgramBuilder
    captured: Captured
    variables: dict[str, Value | None] = field(default_factory=dict)
    local: frozenset[str] = frozenset()
    out: list[KernelStatement] = field(default_factory=list)
    depth: int = 0
    loops: int = 0
    hoisted: list[KernelStatement] = field(default_factory=list)
    returned: list[Type | None] = field(default_factory=list)
    kernel: bool = True
    written: dict[str, ast.AST] = field(default_factory=dict)
    roots: dict[str, set[str]] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    copies: set[str] = field(default_factory=set)
    escaping: list[tuple[ast.AST, frozenset[str]]] = field(default_factory=list)

    @property
    def mode(self) -> str:
        """Typing rules."""
        return self.program.mode

    def evaluate(self, node: ast.expr) -> Value:
        """Return the value of an expression of this function."""
        return self.program.language[0](self, node)

    def call_device(
        self, node: ast.AST, python: Any, args: Sequence[Value], keywords: Mapping[str, Value]
    ) -> Value:
        """Return the call of a device function from this one."""
        return self.program.language[1](self, node, python, args, keywords)

    def fresh_name(self, word: str) -> str:
        """Return a name for C++ that nothing else has."""
        number = self.numbers.get(word, 0)
        self.numbers[word] = number + 1
        return f"kspec_{word}_{number}"

    def problem(self, node: ast.AST, kind: type[Exception], message: str) -> Stop:
        """Record what is wrong at a place; to be raised."""
        line = getattr(node, "lineno", self.captured.node.lineno)
        column = getattr(node, "col_offset", 0)
        text = self.captured.lines[line - 1] if line <= len(self.captured.lines) else ""
        column = len(text.encode()[:column].decode(errors="ignore"))
        end = getattr(node, "end_col_offset", 0) or 0
        same = getattr(node, "end_lineno", line) == line
        length = len(text.encode()[:end].decode(errors="ignore")) - column if same else len(text)
        self.program.problems.append(
            (
                kind,
                Diagnostic(
                    "error",
                    message,
                    self.captured.path,
                    line,
                    column + 1,
                    max(1, length),
                    text,
                    self.captured.name,
                    kind.__name__,
                ),
            )
        )
        return Stop()

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Turn what Python raises about an operand into a problem at a place."""
        try:
            yield
        except (Stop, JitError):
            raise
        except Exception as error:
            raise self.problem(node, type(error), str(error)) from None

    def read(self, node: ast.Name) -> Value:
        """Return the value of a name."""
        if node.id in self.variables:
            value = self.variables[node.id]
            if value is None:
                raise Stop
            return dereferenced(value)
        if node.id not in self.local:
            try:
                return Known(self.captured.lookup(node.id), node.id)
            except KeyError:
                pass
        raise self.problem(node, NameError, f"Unbound name: {node.id}")

    @property
    def written_names(self) -> frozenset[str]:
        """Names of everything that is written to, by whatever name."""
        return self.memory_of(self.written)

    def alias(self, name: str, value: Expression) -> None:
        """Note whose memory a name stands for, if that of a value."""
        if not isinstance(value.type, str):
            self.roots.setdefault(name, set()).update(root_names(value))

    def mark_written(self, node: ast.AST, memory: Expression) -> None:
        """Note that elements of an array are written to."""
        for name in root_names(memory):
            self.written.setdefault(name, node)

    def memory_of(self, given: Iterable[str]) -> frozenset[str]:
        """Return names, and those whose memory they may stand for."""
        found: set[str] = set()
        rest = list(given)
        while rest:
            name = rest.pop()
            if name not in found:
                found.add(name)
                rest += self.roots.get(name, ())
        return frozenset(found)


def root_names(memory: Expression) -> set[str]:
    """Return the names of the variables whose memory an expression may stand for."""
    match memory:
        case Name(name=name):
            return {name}
        case Element(memory=inner) | Subarray(memory=inner) | FieldAccess(record=inner):
            return root_names(inner)
        case BuiltinCall(function="address", args=args):
            return root_names(args[0])
        case BuiltinCall(args=args) | FunctionCall(args=args):
            return set().union(*(root_names(one) for one in args if not isinstance(one.type, str)))
    return set()
