"""Arrays around a function: variables of its closure and module, which become arguments of it.

A function that is traced may read arrays that it is not called with. `read_also` finds the
variables that have them, in functions that it calls by name, too; `with_arguments` makes a
function that is given their values.
"""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from kspec.dataclass import dataclass
from kspec.errors import FusionError
from kspec.fusion.refusals import ConcreteArray, is_ours
from kspec.fusion.tracing.proxies import Proxy
from kspec.pickling import PickledByName
from kspec.runtime.libraries.lookup import library_of


@dataclass(frozen=True, eq=False)
class ArrayVariable:
    """A variable of a module or of a closure.

    Attributes
    ----------
    name : str
        Its name.
    space : dict or CellType
        The module's variables, or the closure's cell.
    """

    name: str
    space: dict[str, Any] | CellType

    @property
    def key(self) -> tuple[int, str]:
        """The place that it stands for: other functions may read it too."""
        return id(self.space), self.name if isinstance(self.space, dict) else ""

    def value(self) -> Any:
        """Return its value at this moment; None if it has none."""
        if isinstance(self.space, dict):
            return self.space.get(self.name)
        try:
            return self.space.cell_contents
        except ValueError:
            return None


def read_also(
    function: Any, known: tuple[ArrayVariable, ...], met: ConcreteArray
) -> tuple[ArrayVariable, ...]:
    """Return the variables that a function reads, and those that an array has come from.

    These are the ones that share its memory; all others if it has been computed from some.

    Raises
    ------
    FusionError
        If there are none.
    """
    unread = with_all_arrays(function, known)[len(known) :]
    others = {one: _view(one.value()) for one in unread}
    view = _view(met.array)
    if view is not None:
        low, high = view.bounds
        others = {one: other for one, other in others.items() if other.device == view.device}
        sharing = {
            one: other
            for one, other in others.items()
            if other.bounds[0] < high and low < other.bounds[1]
        }
        others = sharing or others
    if not others:
        raise FusionError(str(met)) from None
    return (*known, *others)


def with_all_arrays(function: Any, known: tuple[ArrayVariable, ...]) -> tuple[ArrayVariable, ...]:
    """Return the variables that a function reads, and all others around it that are arrays."""
    keys = {one.key for one in known}
    return (*known, *[one for one in _arrays_around(function) if one.key not in keys])


def _view(array: Any) -> Any:
    library = library_of(array)
    return None if library is None else library.view(array)


def with_arguments(
    function: Any, signature: inspect.Signature, variables: tuple[ArrayVariable, ...]
) -> Callable[..., Any]:
    """Return a function that is given the values of variables by further keywords."""
    params = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    names: dict[str, ArrayVariable] = {}
    for one in variables:
        name, number = one.name, 1
        while name in signature.parameters or name in names:
            name, number = f"{one.name}_{number}", number + 1
        names[name] = one
    params += [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]

    @functools.wraps(function)
    def extended(*args: Any, **keywords: Any) -> Any:
        values = {one: keywords.pop(name) for name, one in names.items()}
        if any(isinstance(one, Proxy) for one in values.values()):
            return _Rebuilding({one.key: value for one, value in values.items()}).of(function)(
                *args, **keywords
            )
        return function(*args, **keywords)

    extended.__signature__ = signature.replace(parameters=params)  # type: ignore[attr-defined]
    return extended


def _arrays_around(function: Any) -> list[ArrayVariable]:
    """Return the variables around a function, and those it calls, that are arrays."""
    found: dict[tuple[int, str], ArrayVariable] = {}
    pending, seen = [_inside(function)], set()
    while pending:
        one = pending.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        for variable in _variables(one):
            value = variable.value()
            if library_of(value) is not None:
                found[variable.key] = variable
            else:
                pending.append(_inside(value))
    return list(found.values())


def _inside(function: Any) -> FunctionType | None:
    """Return the user's function in something that calls one."""
    if isinstance(function, functools.partial | PickledByName):
        return _inside(getattr(function, "func", None))
    if isinstance(function, MethodType):
        function = function.__func__
    if isinstance(function, FunctionType) and not is_ours(function.__module__ or ""):
        return function
    return None


def _variables(function: FunctionType) -> Iterator[ArrayVariable]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield ArrayVariable(name, cell)
    for name in dict.fromkeys(_global_names(code)):
        if name in function.__globals__:
            yield ArrayVariable(name, function.__globals__)


def _global_names(code: CodeType) -> Iterator[str]:
    for one in dis.get_instructions(code):
        if one.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield one.argval
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _global_names(inner)


class _Rebuilding:
    """Copies of functions for which variables have other values.

    Parameters
    ----------
    values : mapping
        The values by `ArrayVariable.key`.
    """

    def __init__(self, values: Mapping[tuple[int, str], Any]) -> None:
        self._values = values
        self._made: dict[FunctionType, FunctionType] = {}

    def of(self, function: Any) -> Any:
        """Return a copy of a function; it itself if it reads none of the variables."""
        inside = _inside(function)
        if inside is None or not {one.key for one in _arrays_around(inside)} & self._values.keys():
            return function
        made = self._made.get(inside) or self._copy(inside)
        if isinstance(function, functools.partial):
            return functools.partial(self.of(function.func), *function.args, **function.keywords)
        return MethodType(made, function.__self__) if isinstance(function, MethodType) else made

    def _copy(self, function: FunctionType) -> FunctionType:
        code = function.__code__
        space = dict(function.__globals__)
        cells = tuple(CellType() for _ in code.co_freevars)
        made = FunctionType(code, space, function.__name__, function.__defaults__, cells)
        made.__kwdefaults__ = function.__kwdefaults__
        self._made[function] = made  # before the functions that it calls, which may call it
        cell_of = dict(zip(code.co_freevars, cells, strict=True))
        for one in _variables(function):
            value = self._values[one.key] if one.key in self._values else self.of(one.value())
            if isinstance(one.space, dict):
                space[one.name] = value
            else:
                cell_of[one.name].cell_contents = value
        return made
