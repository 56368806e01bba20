"""Dataclasses whose methods are written at their first use.

>>> @dataclass(frozen=True)
... class Point:
...     x: int
>>> Point(1) == Point(1)  # the first call of the class has its methods written
True

The standard decorator writes up to six functions of a class as text and compiles each: 0.5 to 1 ms
for a frozen class.  A generated package imports 120 of them and makes instances of 27, so that
writing all of them took half of the time of its import.  Here a method that is not written yet is
a descriptor, which has the standard decorator write all of them when it is asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, Literal, NoReturn

# The first is how `fields`, and a dataclass derived from this one, know that it is one.
_ALWAYS = ("__dataclass_fields__", "__match_args__", "__init__", "__repr__")
_COMPARING = ("__eq__", "__hash__")
# Attributes that a class keeps, whatever is written.
_KEPT = ("__dict__", "__weakref__", "__doc__", "__setattr__", "__delattr__")


def _decorator(*, frozen: Literal[True], eq: bool = True) -> Callable[[type], type]:
    """Return a decorator for frozen dataclasses, with the standard one's options."""

    def decorate(cls: type) -> type:
        body = {name: value for name, value in vars(cls).items() if name not in _KEPT}
        write = _writer(cls, body, eq)
        for name in _ALWAYS + (_COMPARING if eq else ()):
            if body.get(name) is None:
                setattr(cls, name, _Unwritten(cls, name, write))
        for name, refuse in (("__setattr__", _refuse_setting), ("__delattr__", _refuse_deleting)):
            setattr(cls, name, refuse)
        return cls

    return decorate


def _writer(cls: type, body: dict[str, Any], eq: bool) -> Callable[[], None]:
    """Return a function that has the methods of a frozen class written, given its body.

    Several threads may call it at once, and a signal handler in the middle of it: each has a copy
    of the class decorated, and sets equal attributes of the class, one after the other.
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
            with suppress(AttributeError):
                delattr(cls, name)  # a field without a default for all instances
        for name, value in written.items():
            if name not in _KEPT and value is not body.get(name):
                setattr(cls, name, value)

    return write


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
