"""Contexts of templates for generated modules: frozen, and nothing but strings."""

from __future__ import annotations

from collections.abc import Sequence

from kspec.dataclass import dataclass


@dataclass(frozen=True)
class Overload:
    """One signature of a function that has several."""

    parameters: tuple[str, ...]
    returns: str


@dataclass(frozen=True)
class FormContext:
    """One form of a reduction, a method of the object that is called.

    Attributes
    ----------
    name, parameters, returns, doc, body, overloads
        As those of `FunctionContext`.
    """

    name: str
    parameters: tuple[str, ...]
    returns: str
    doc: tuple[str, ...]
    body: tuple[str, ...]
    overloads: tuple[Overload, ...] = ()


@dataclass(frozen=True)
class FunctionContext:
    """One generated function.

    Attributes
    ----------
    name : str
        Its Python name.
    kernel : str
        The kernel it calls.
    opener : str
        Method of `GeneratedModule` that returns it.
    callee : str
        Private name of the runtime's callable.
    parameters : tuple of str
        With annotations and defaults; ``"*"`` among them.
    returns : str
        Annotation of the result.
    doc : tuple of str
        Lines of the docstring.
    body : tuple of str
        Statements.
    overloads : tuple of Overload
        What type checkers see instead of the signature, if dtypes of results differ.
    forms : tuple of FormContext
        Other forms; with any, the function is an object of a class of its own.
    class_name : str
        Name of that class.
    """

    name: str
    kernel: str
    opener: str
    callee: str
    parameters: tuple[str, ...]
    returns: str
    doc: tuple[str, ...]
    body: tuple[str, ...]
    overloads: tuple[Overload, ...] = ()
    forms: tuple[FormContext, ...] = ()
    class_name: str = ""

    @property
    def signature(self) -> str:
        """The signature in one line, for people."""
        shown = self.overloads[-1] if self.overloads else self
        return f"{self.name}({', '.join(shown.parameters)}) -> {shown.returns}"


@dataclass(frozen=True)
class StructContext:
    """One dtype of a generated module: its name, its layout in a string literal, and its doc."""

    name: str
    literal: str
    doc: str


@dataclass(frozen=True)
class ModuleContext:
    """Context of ``module.py.j2``."""

    stem: str
    doc: tuple[str, ...]
    names: tuple[str, ...]
    imports: tuple[str, ...]
    structs: tuple[StructContext, ...]
    functions: tuple[FunctionContext, ...]


@dataclass(frozen=True)
class PackageContext:
    """Context of ``__init__.py.j2``."""

    doc: tuple[str, ...]
    names: tuple[str, ...]
    modules: tuple[str, ...]
    kernels: tuple[str, ...]


def call_of(callee: str, arguments: Sequence[str]) -> list[str]:
    """Return the lines of a call: one if it is short, or one for each argument."""
    line = f"{callee}({', '.join(arguments)})"
    if len(line) <= 70:
        return [line]
    return [f"{callee}(", *(f"    {argument}," for argument in arguments), ")"]


def body_of(call: list[str], returns: str) -> tuple[str, ...]:
    """Return the statements of a function that returns what a call does."""
    if returns == "None":
        return tuple(call)
    return (f"_result: {returns} = {call[0]}", *call[1:], "return _result")
