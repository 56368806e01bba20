"""A Python function in, what a kernel is made of out: its syntax tree, and what its names mean.

>>> import math
>>> def half(x): return x / math.tau
>>> capture(half).lookup("math") is math                                   # doctest: +SKIP
True

The source comes from `linecache`, as tracebacks have it, so that notebooks and lambdas work.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any

import numpy as np

from kspec.errors import JitRuntimeError, JitTypeError, JitValueError

_MISSING = object()
_SOURCE = "__kspec_source__"
# Constant memory of a GPU: a kernel cannot hold the elements of larger arrays.
MAX_BYTES = 65536


@dataclass
class Captured:
    """A function as kernels see it.

    Attributes
    ----------
    function : FunctionType
        The function.
    node : FunctionDef or Lambda
        Its syntax, with the line numbers of the file.
    path : str
        Of the file.
    lines : list of str
        Of the file.
    used : dict
        What was looked up: the place of a name, and what it meant.
    """

    function: FunctionType
    node: ast.FunctionDef | ast.Lambda
    path: str
    lines: list[str]
    used: dict[tuple[str, str], Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.function.__name__

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """Its parameters."""
        return inspect.signature(self.function).parameters

    def lookup(self, name: str) -> Any:
        """Return the current value of a name outside of the function.

        Raises
        ------
        KeyError
            If it is not defined.
        """
        value = _find(self.function, name)
        if value is _MISSING:
            raise KeyError(name)
        self.used["", name] = value
        return value

    def attribute(self, path: str, owner: Any, name: str) -> Any:
        """Return an attribute of something that was looked up, and remember it."""
        value = getattr(owner, name)
        self.used[path, name] = value
        return value

    def watch(self) -> Callable[[], bool]:
        """Return a test of whether a value that was looked up has changed since."""
        return _watch(self.function, self.used)


def watch_names(function: Any) -> Callable[[], bool]:
    """Return a test of whether a name in a called function has changed its meaning."""
    if not isinstance(function, FunctionType):
        return lambda: False
    names = (*function.__code__.co_names, *function.__code__.co_freevars)
    found = {("", name): _find(function, name) for name in names}
    return _watch(function, {key: one for key, one in found.items() if one is not _MISSING})


def _watch(function: FunctionType, used: Mapping[tuple[str, str], Any]) -> Callable[[], bool]:
    spaces, cells = [], []
    inside = [(one, found) for one in used.values() if (found := _inside(one)) is not None]
    cell_of = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    for (path, name), value in used.items():
        if path:
            first, *rest = path.split(".")
            owner = functools.reduce(getattr, rest, _find(function, first))
            spaces.append((vars(owner), name, value))
        elif name in cell_of:
            cells.append((cell_of[name], value))
        else:
            known = function.__globals__
            spaces.append((known, name, value if name in known else _MISSING))

    def is_stale() -> bool:
        for space, name, value in spaces:
            if space.get(name, _MISSING) is not value:
                return True
        if cells and any(_contents(cell) is not value for cell, value in cells):
            return True
        return any(_inside(one) != found for one, found in inside) if inside else False

    return is_stale


def _inside(value: Any) -> Any:
    """Return a copy of the parts of a value that can change while it stays the same object."""
    if isinstance(value, np.ndarray) and value.nbytes <= MAX_BYTES:
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        parts = [_inside(one) for one in value]
        if isinstance(value, list):
            return [one if part is None else part for one, part in zip(value, parts, strict=True)]
        return None if all(part is None for part in parts) else parts
    return None


def _contents(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _MISSING


def capture(function: Any) -> Captured:
    """Return a function with its source.

    Raises
    ------
    JitTypeError
        If it is not a function.
    JitRuntimeError
        If its source cannot be found.
    JitValueError
        If two lambdas cannot be told apart.
    """
    if inspect.isbuiltin(function):
        raise JitValueError(f"{function.__name__} is built in: kernels are made of Python source")
    if not isinstance(function, FunctionType):
        raise JitTypeError(f"a kernel is made of a Python function, not {type(function).__name__}")
    code = function.__code__
    carried = getattr(function, _SOURCE, None)
    if carried is not None:
        return _from_carried(function, *carried)
    lines = linecache.getlines(code.co_filename, function.__globals__)
    node = None
    if lines:
        try:
            node = _find_node(ast.parse("".join(lines)), code)
        except SyntaxError:  # a notebook's own syntax stands around it
            node = None
    if node is None:
        node = _from_inspect(function)
    return Captured(function, node, code.co_filename, [line.rstrip("\n") for line in lines])


def carry_source(function: Any) -> Any:
    """Return a function that has its source with it, wherever it is pickled to."""
    captured = capture(function)
    node = captured.node
    first = function.__code__.co_firstlineno  # that of the first decorator
    if isinstance(node, ast.Lambda):
        text = f"({ast.get_source_segment(_text_of(captured), node)})"
    else:
        lines = _text_of(captured).splitlines()[first - 1 : node.end_lineno]
        text = textwrap.dedent("\n".join(lines))
    setattr(function, _SOURCE, (captured.path, first, text))
    return function


def _text_of(captured: Captured) -> str:
    return "\n".join(captured.lines)


def _from_carried(function: FunctionType, path: str, first: int, text: str) -> Captured:
    tree = ast.increment_lineno(ast.parse(text), first - 1)
    (found,) = tree.body
    node = found.value if isinstance(found, ast.Expr) else found
    assert isinstance(node, ast.FunctionDef | ast.Lambda)
    return Captured(function, node, path, [""] * (first - 1) + text.splitlines())


def _from_inspect(function: FunctionType) -> ast.FunctionDef | ast.Lambda:
    code = function.__code__
    try:
        found, start = inspect.getsourcelines(function)
        tree = ast.parse(textwrap.dedent("".join(found)))
    except (OSError, TypeError, SyntaxError) as error:
        raise JitRuntimeError(
            f"the source of {function.__name__} cannot be found ({error}); kernels need it, so "
            "define the function in a file or a notebook"
        ) from None
    ast.increment_lineno(tree, max(0, start - 1))
    node = _find_node(tree, code)
    if node is None:
        raise JitRuntimeError(
            f"the source of {function.__name__} has changed since it was defined: import it again"
        )
    return node


def _find_node(tree: ast.AST, code: CodeType) -> ast.FunctionDef | ast.Lambda | None:
    if code.co_name != "<lambda>":
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                if first == code.co_firstlineno:
                    return node
        return None
    found = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Lambda) and node.lineno == code.co_firstlineno
    ]
    same = [node for node in found if _body_of(node) in set(_positions(code))] or found
    if len(same) > 1:
        raise JitValueError("several lambdas stand on one line: give the function a name by def")
    return same[0] if same else None


def _body_of(node: ast.Lambda) -> tuple[int, int]:
    return node.body.lineno, node.body.col_offset


def _positions(code: CodeType) -> Iterator[tuple[int, int]]:
    for line, _, column, _ in code.co_positions():
        if line is not None and column is not None:
            yield line, column


def _find(function: FunctionType, name: str) -> Any:
    code = function.__code__
    if name in code.co_freevars:
        return _contents((function.__closure__ or ())[code.co_freevars.index(name)])
    return function.__globals__.get(name, getattr(builtins, name, _MISSING))
