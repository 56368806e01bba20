"""Objects that decorators put in the place of functions, and that travel as these do: by name.

::

    pickle.loads(pickle.dumps(module.softmax)) is module.softmax      # softmax is @kspec.fuse

`kspec.fuse` and `kspec.jit` make such objects; what they have traced and loaded stays where it is.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Self, SupportsIndex

_FUNCTION = "__wrapped__"  # as functools.update_wrapper has it


def _find(module: str, name: str) -> object:
    found: object = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _found_or_made(kind: Callable[..., Any], args: tuple[Any, ...]) -> object:
    """Return the object of this process's script that has a function, or make one of it."""
    function = args[0]
    name = function.__qualname__.removesuffix(f".{_FUNCTION}")
    found = _find(function.__module__, name)
    if getattr(found, _FUNCTION, None) is function:
        return found
    function.__qualname__ = name
    return kind(*args)


class PickledByName:
    """Base of objects that are pickled by their qualified name.

    Those without such a name are pickled as the arguments they were made from, and those of a
    script too, where the pickler sends functions by value. A copy of one is itself, as it is with
    functions.
    """

    def made_of(self) -> tuple[Any, ...]:
        """Return the arguments that make another one."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        name: str = getattr(self, "__qualname__", "")
        if _find(self.__module__, name) is not self:
            return type(self), self.made_of()
        if self.__module__ != "__main__" or int(protocol) < 4:  # older ones know no attributes
            return name
        # cloudpickle sends functions of scripts by value, for another process has another script,
        # and pickle by name: the function's is that of an attribute here.
        args = self.made_of()
        args[0].__qualname__ = f"{name}.{_FUNCTION}"
        return _found_or_made, (type(self), args)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self
