"""Dataclasses whose methods are written at their first use.

>>> @dataclass(frozen=True)
... class Point:
...     x: int
>>> Point(1) == Point(1)  # the first call of the class has its methods written
True

The standard decorator writes up to six functions of a class as text and compiles each: 0.5 to 1 ms
for a frozen class.  A generated package imports 120 of them and makes instances of 27, so that
writing all of them took half of the time of its import.  Here a method that is not written yet is
a descriptor, which has the standard decorator write all of them when it is asked for.  Most classes
need their constructor only, and some their fields: where these are plain, each is made by itself.

Until then, a mistake of the class is not reported, and a field's default is a `dataclasses.Field`.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any, Literal, NoReturn

# `fields`, `replace` and classes that are derived from a dataclass look at the first two.
_ALWAYS = (
    "__dataclass_fields__",
    "__dataclass_params__",
    "__match_args__",
    "__init__",
    "__repr__",
    *(["__replace__"] if sys.version_info >= (3, 13) else []),
)
_COMPARING = ("__eq__", "__hash__")
_REFUSING = ("__setattr__", "__delattr__")
_NOT_PLAIN = ("ClassVar", "InitVar", "KW_ONLY")  # in annotations
# Attributes that a class keeps, whatever is written: the last are the registrations of an ABC.
_KEPT = ("__dict__", "__weakref__", "__doc__", "_abc_impl", *_REFUSING)


def _decorator(*, frozen: Literal[True], eq: bool = True) -> Callable[[type], type]:
    """Return a decorator for frozen dataclasses, with the standard one's options."""

    def decorate(cls: type) -> type:
        body = {name: value for name, value in vars(cls).items() if name not in _KEPT}
        write = _writer(cls, body, eq)
        for name in _ALWAYS + (_COMPARING if eq else ()):
            # A class with an `__eq__` of its own has None for a hash that is to be written.
            if name not in body or (name == "__hash__" and "__eq__" in body and not body[name]):
                setattr(cls, name, _Unwritten(cls, name, write))
        for name, make in _ALONE.items():
            if name not in body:
                alone = functools.partial(_write_alone, cls, body, name, make, write)
                setattr(cls, name, _Unwritten(cls, name, alone))
        for name, refuse in zip(_REFUSING, (_refuse_setting, _refuse_deleting), strict=True):
            if name in vars(cls):
                raise TypeError(f"{cls.__name__} is frozen, and has a {name} of its own")
            setattr(cls, name, refuse)
        return cls

    return decorate


def _writer(cls: type, body: dict[str, Any], eq: bool) -> Callable[[], None]:
    """Return a function that has the methods of a frozen class written, given its body.

    Several threads may call it at once, and a signal handler in the middle of it: each has a copy
    of the class decorated, and sets attributes of the class, one after the other, that are still as
    they were.
    """

    def write() -> None:
        namespace = {
            **body,
            "__annotations__": cls.__annotations__,
            "__doc__": cls.__doc__ or cls.__name__,  # without one, a signature would be made for it
            "__qualname__": cls.__qualname__,
        }
        copy = type(cls)(cls.__name__, cls.__bases__, namespace)
        written = vars(dataclasses.dataclass(frozen=True, eq=eq)(copy))
        for name in body.keys() - written.keys():
            if vars(cls).get(name) is body[name]:
                with suppress(AttributeError):
                    delattr(cls, name)  # a field without a default for all instances
        for name, value in written.items():
            if name in _KEPT or value is body.get(name):
                continue
            current = vars(cls).get(name)
            if current is body.get(name) or isinstance(current, _Unwritten):
                setattr(cls, name, value)

    return write


class _Made:
    """The default of a parameter whose value is made anew."""

    def __repr__(self) -> str:
        return "<factory>"


_MADE = _Made()


def _write_alone(
    cls: type,
    body: Mapping[str, Any],
    name: str,
    make: Callable[[type, Mapping[str, Any]], Any],
    write: Callable[[], None],
) -> None:
    """Set one attribute of a class whose fields are plain, and all of any other."""
    made = make(cls, body) if _are_plain(cls) else None
    if made is None:
        write()
    elif isinstance(vars(cls)[name], _Unwritten):
        setattr(cls, name, made)


def _are_plain(cls: type) -> bool:
    """Whether the annotations of a class are fields, and its constructor only sets them."""
    if hasattr(cls, "__post_init__"):
        return False
    written = (base for base in cls.__mro__ if "__dataclass_fields__" in vars(base))
    text = "".join(str(one) for base in written for one in base.__annotations__.values())
    return not any(word in text for word in _NOT_PLAIN)


def _constructor(cls: type, body: Mapping[str, Any]) -> Any:
    """Return the constructor of a class with plain fields; None if it is not plain."""
    fields = dataclasses.fields(cls)
    defaults = {one.name: one.default for one in fields if one.default is not MISSING}
    makers = {one.name: one.default_factory for one in fields if one.default_factory is not MISSING}
    positional = [one.name for one in fields if not one.kw_only]
    needed = [one for one in positional if one not in defaults and one not in makers]
    if needed != positional[: len(needed)] or not all(one.init for one in fields):
        return None
    parameters = {
        name: f"{name}=_{name}" if name in defaults or name in makers else name
        for name in (one.name for one in fields)
    }
    named = [text for name, text in parameters.items() if name not in positional]
    values = {name: f"make_{name}() if {name} is made_ else {name}" for name in makers}
    lines = [f"set_(self, {name!r}, {values.get(name, name)})" for name in parameters]
    known = {
        "set_": object.__setattr__,
        "made_": _MADE,
        **{f"_{name}": value for name, value in defaults.items()},
        **{f"_{name}": _MADE for name in makers},
        **{f"make_{name}": make for name, make in makers.items()},
    }
    head = ["self", *map(parameters.__getitem__, positional), *(["*", *named] if named else [])]
    text = (
        f"def make({', '.join(known)}):\n"
        f" def __init__({', '.join(head)}):\n"
        f"  {'; '.join(lines) or 'pass'}\n"
        " return __init__"
    )
    namespace: dict[str, Any] = {}
    exec(text, vars(sys.modules[cls.__module__]), namespace)
    written = namespace["make"](**known)
    written.__qualname__ = f"{cls.__qualname__}.__init__"
    written.__annotations__ = {one.name: one.type for one in fields} | {"return": None}
    return written


def _fields(cls: type, body: Mapping[str, Any]) -> Any:
    """Return the fields of a class, if they are plain; no method is written for them."""
    own = {name: body[name] for name in cls.__annotations__ if name in body}
    namespace = {**own, "__annotations__": cls.__annotations__, "__module__": cls.__module__}
    copy: Any = type(cls.__name__, (), {**namespace, "__doc__": cls.__name__})
    dataclasses.dataclass(init=False, repr=False, eq=False)(copy)
    for name, value in own.items():
        if isinstance(value, dataclasses.Field) and vars(cls).get(name) is value:
            if name in vars(copy):
                setattr(cls, name, vars(copy)[name])
            else:
                with suppress(AttributeError):  # another thread was faster
                    delattr(cls, name)
    found: dict[str, Any] = {}
    for base in cls.__mro__[:0:-1]:
        if "__dataclass_fields__" in vars(base):
            found |= base.__dataclass_fields__  # type: ignore[attr-defined]
    return found | copy.__dataclass_fields__


_ALONE = {"__init__": _constructor, "__dataclass_fields__": _fields}


class _Unwritten:
    """An attribute of a dataclass that the standard decorator has yet to set."""

    def __init__(self, cls: type, name: str, write: Callable[[], None]) -> None:
        self._cls = cls
        self._name = name
        self._write = write

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        self._write()
        written = vars(self._cls)[self._name]
        return written.__get__(instance, owner) if callable(written) else written


def _refuse_setting(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # type checkers know what this one does
else:
    dataclass = _decorator
