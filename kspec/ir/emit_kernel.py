"""Functions in, CUDA C++ out: the text of a kernel, with the lines of the user's file.

>>> from kspec.ir.control import Function, Store
>>> from kspec.ir.nodes import Element
>>> from kspec.ir.nodes import Const, Name
>>> from kspec.ir.types import ArrayType
>>> x = Name("x", ArrayType("float32", 1, contiguous=True))
>>> body = (Store(Element(x, (Const(0, "int32"),), "float32"), Const(1.0, "float32")),)
>>> print(emit_function(Function("first", (x,), body)))
extern "C" __global__ void first(kspec::View<float, 1, true, int> x) {
  x.data[0] = 1.0f;
}
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Iterator

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
    SourceLine,
    Store,
    Table,
    While,
)
from kspec.ir.emit import emit_expression, emit_initializer, emit_place, emit_statement
from kspec.ir.nodes import Assign, Const, Expression, Let
from kspec.ir.types import ctype
from kspec.model import dtypes


def emit_function(function: Function, path: str = "") -> str:
    """Return the text of a function; `path` is that of the user's file."""
    params = ", ".join(f"{ctype(one.type)} {one.name}" for one in function.params)
    returns = "void" if function.returns is None else ctype(function.returns)
    start = 'extern "C" __global__' if function.kernel else "static __device__ inline"
    start = 'extern "C" __device__' if function.exported else start
    body = _Lines(path).block(function.body)
    return "\n".join([f"{start} {returns} {function.name}({params}) {{", *body, "}"])


def emit_table(table: Table) -> str:
    """Return the text of a table.

    Bytes are constants whatever the class of the elements is, and whatever its constructors are.
    """
    size, count = len(table.data), math.prod(table.type.shape or ())
    lines = textwrap.wrap(", ".join(map(str, table.data)), 96, break_long_words=False)
    return "\n".join(
        [
            f"static __constant__ union {{ unsigned char bytes[{size}]; "
            f"{dtypes.lookup(table.type.dtype).ctype} values[{count}]; }} {table.name} = {{{{",
            *(f"  {line}" for line in lines),
            "}};",
        ]
    )


def c_string(text: str) -> str:
    """Return a string literal of C++."""
    return json.dumps(text)


class _Lines:
    """The lines of one function.

    Parameters
    ----------
    path : str
        Of the user's file; empty: its lines are not mentioned.
    """

    def __init__(self, path: str) -> None:
        self._path = path

    def block(self, body: Iterable[KernelStatement]) -> list[str]:
        return [
            line if line.startswith("#") else f"  {line}"
            for one in body
            for line in self._statement(one)
        ]

    def _statement(self, one: KernelStatement) -> Iterator[str]:
        if isinstance(one, SourceLine):
            if self._path:
                yield f"#line {one.line} {c_string(self._path)}"
        elif isinstance(one, Let | Assign):
            yield emit_statement(one)
        elif isinstance(one, Declare):
            value = "" if one.value is None else f" = {emit_initializer(one.value)}"
            yield f"{ctype(one.type)} {one.name}{value};"
        elif isinstance(one, Reference):
            yield f"{ctype(one.target.type)}& {one.name} = {emit_place(one.target)};"
        elif isinstance(one, Allocate):
            yield _reserve(one)
        elif isinstance(one, Store):
            yield f"{emit_place(one.target)} = {emit_initializer(one.value)};"
        elif isinstance(one, If):
            yield from self._if(one)
        elif isinstance(one, While):
            yield f"while ({emit_initializer(one.condition)}) {{"
            yield from self.block(one.body)
            yield "}"
        elif isinstance(one, For):
            yield from self._for(one)
        else:
            yield _simple(one)

    def _if(self, one: If) -> Iterator[str]:
        yield f"if ({emit_initializer(one.condition)}) {{"
        yield from self.block(one.body)
        if one.orelse:
            yield "} else {"
            yield from self.block(one.orelse)
        yield "}"

    def _for(self, one: For) -> Iterator[str]:
        name, type_ = one.counter.name, ctype(one.counter.type)
        start, stop, step = (emit_expression(x) for x in (one.start, one.stop, one.step))
        head = f"{type_} {name} = {start}"
        if not isinstance(one.stop, Const):
            head += f", {name}_stop = {stop}"
            stop = f"{name}_stop"
        if isinstance(one.step, Const):
            up = one.step.value.real > 0
            condition = f"{name} {'<' if up else '>'} {stop}"
        else:
            head += f", {name}_step = {step}"
            step = f"{name}_step"
            condition = f"{name} < {stop}"
            if dtypes.lookup(str(one.counter.type)).kind == "i":
                condition = f"{step} > 0 ? {condition} : {name} > {stop}"
        if one.unroll is not None:
            yield f"#pragma unroll{f'({one.unroll})' if one.unroll else ''}"
        yield f"for ({head}; {condition}; {name} += {step}) {{"
        yield from self.block(one.body)
        yield "}"


def _simple(one: KernelStatement) -> str:
    """Return a statement of one line."""
    if isinstance(one, Jump):
        return f"{one.word};"
    if isinstance(one, Return):
        return "return;" if one.value is None else f"return {emit_initializer(one.value)};"
    if isinstance(one, ExpressionStatement):
        return f"{emit_initializer(one.value)};"
    if isinstance(one, Print):
        return f"printf({', '.join([c_string(one.format), *map(_printed, one.args)])});"
    assert isinstance(one, Assert)
    return f"assert({emit_expression(one.condition)} && {c_string(one.message)});"


def _printed(value: Expression) -> str:
    """Return an argument of printf, which takes C's own types."""
    text, row = emit_expression(value), dtypes.lookup(str(value.type))
    if row.kind == "b":
        return f'{text} ? "True" : "False"'
    return f"(double){text}" if row.kind == "f" else text


def _reserve(one: Allocate) -> str:
    element = dtypes.lookup(one.type.dtype).ctype
    align = f" __align__({one.alignment})" if one.alignment else ""
    if one.type.shape is None:
        # One name and type for all of a kernel's dynamic shared memory.
        raw = "kspec_dynamic_shared"
        return (
            f"extern __shared__ __align__(16) unsigned char {raw}[]; "
            f"{element}* {one.name} = reinterpret_cast<{element}*>({raw});"
        )
    space = "__shared__ " if one.space == "shared" else ""
    return f"{space}{element}{align} {one.name}[{max(1, math.prod(one.type.shape))}];"
