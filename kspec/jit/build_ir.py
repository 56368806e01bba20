"""A captured function and the types of its arguments in, a program of the IR out, and its text.

>>> from kspec.ir.types import ArrayType
>>> from kspec.jit.capture import capture
>>> def fill(x): x[0] = 1
>>> program = build(capture(fill), [ArrayType("float32", 1, True)], "cuda")    # doctest: +SKIP
>>> print(program.kernel)                                                       # doctest: +SKIP
kernel fill(x: float32[1d, C]):
    x[0] = 1.0

`kspec.jit.kernel` calls it, once for each combination of types.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace

from kspec.dataclass import dataclass
from kspec.ir.check import check_function
from kspec.ir.control import Function, Table
from kspec.ir.emit_kernel import emit_function, emit_table
from kspec.ir.types import ArrayType, BufferType, IteratorType, RecordView, Type, is_record
from kspec.jit.capture import Captured, watch_names
from kspec.jit.scope import ProgramBuilder, cpp_name
from kspec.jit.syntax.functions import LANGUAGE, build_function, parameters
from kspec.model import dtypes
from kspec.model.definitions import definitions_for, headers_for

_HEADERS = {
    "kspec::ufunc::": "kspec/ufuncs.cuh",
    "kspec::View<": "kspec/view.cuh",
    "kspec::lane_id": "kspec/view.cuh",
    "CUDART_": "kspec/constants.cuh",
    "_floor_divide": "kspec/floor_divide.cuh",
}


@dataclass(frozen=True)
class JitProgram:
    """A kernel for certain types of arguments.

    Attributes
    ----------
    kernel : Function
        The kernel.
    functions : tuple of Function
        What it calls.
    tables : tuple of Table
        Constants that they index.
    headers : tuple of str
        What its text includes.
    cooperative : bool
        Whether all blocks must be resident.
    written : tuple of bool
        For each parameter, whether it is an array that is written to.
    captured : tuple of Captured
        The Python functions.
    paths : mapping of str to str
        The file that each function comes from, by its name.
    is_stale : callable
        Returns whether something that they refer to means something else now.
    """

    kernel: Function
    functions: tuple[Function, ...]
    tables: tuple[Table, ...]
    headers: tuple[str, ...]
    cooperative: bool
    written: tuple[bool, ...]
    captured: tuple[Captured, ...]
    paths: Mapping[str, str]
    is_stale: Callable[[], bool]

    @property
    def name(self) -> str:
        """Name of the kernel in its text."""
        return self.kernel.name

    def ir(self) -> str:
        """Return the functions as text."""
        return "\n\n".join(map(str, (*self.tables, *self.functions, self.kernel)))

    def text(self, lines: bool = True) -> str:
        """Return the CUDA C++; `lines` says whether it mentions the user's file."""
        parts = [
            emit_function(one, self.paths[one.name] if lines else "")
            for one in (*self.functions, self.kernel)
        ]
        body = "\n\n".join([*map(emit_table, self.tables), *parts])
        used = tuple(dict.fromkeys(_dtypes((*self.functions, self.kernel))))
        found = [*headers_for(used), *self.headers]
        found += [header for word, header in _HEADERS.items() if word in body]
        includes = "".join(f'#include "{one}"\n' for one in dict.fromkeys(found))
        structs = "".join(f"{one}\n" for one in definitions_for(used))
        return "\n".join(part for part in (includes, structs, body) if part) + "\n"


def build(
    captured: Captured, given: Sequence[Type], mode: str, exported: bool = False
) -> JitProgram:
    """Return a kernel for arguments of some types.

    Parameters
    ----------
    captured : Captured
        The Python function.
    given : sequence of Type
        Of its arguments.
    mode : str
        Typing rules.
    exported : bool, default False
        Whether it is not a kernel, but a function that other programs are linked with.

    Raises
    ------
    JitError
        With everything that is wrong.
    """
    program = ProgramBuilder(mode, LANGUAGE)
    name = cpp_name(re.sub(r"\W", "", captured.name) or "kernel")
    variables = parameters(captured, given)
    params = tuple(variables.values())
    kernel, scope = build_function(program, captured, name, params, variables, kernel=not exported)
    kernel = replace(kernel, exported=exported)
    program.check()
    made = [one.name for one in program.functions]
    tables = tuple(program.tables.values())
    for number, function in enumerate((*program.functions, kernel)):
        check_function(function, made[:number], tables)
    written = tuple(one.name in scope.written_names for one in kernel.params)
    checks = [*(one.watch() for one in program.captured), *map(watch_names, program.run)]
    return JitProgram(
        kernel,
        tuple(program.functions),
        tables,
        tuple(sorted(program.headers)),
        program.cooperative,
        written,
        tuple(program.captured),
        program.paths,
        checks[0] if len(checks) == 1 else lambda: any(check() for check in checks),
    )


def _dtypes(values: Iterable[object]) -> Iterator[str]:
    """Yield each dtype that occurs in nodes."""
    for value in values:
        if isinstance(value, str):
            continue
        if isinstance(value, tuple):
            yield from _dtypes(value)
        elif isinstance(value, ArrayType | BufferType | IteratorType | RecordView):
            yield value.dtype
        elif is_dataclass(value):
            type_ = getattr(value, "type", None)
            if isinstance(type_, str) and type_ and _is_dtype(type_):
                yield type_
            yield from _dtypes(tuple(getattr(value, one.name) for one in fields(value)))


def _is_dtype(name: str) -> bool:
    return is_record(name) or dtypes.is_known(name)
