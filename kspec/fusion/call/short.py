"""Repeated calls of a fused function that is one kernel: straight to the kernel's launch plans.

To find the program of a call by the types and shapes of its arguments takes longer than to find the
launch plan, which depends on the same. A kernel of a program is called for this program only, so a
plan that it has left behind says that the call is the program's, too. Calls without a plan take the
long way.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from kspec.constructors import ElementwiseKernel
from kspec.model.declaration import PLACES
from kspec.runtime.callcache import ABSENT, CallFunction

_MOST_TYPES = 64
_DEFAULTS = -1, None, None  # size, block_size and stream

Types = tuple[type, ...]
Launch = tuple[CallFunction, ElementwiseKernel, tuple[Any, ...]]  # and what follows arguments


class ShortCalls(dict[Types, "Launch | None"]):
    """Launches by the types of all arguments; None where they would rarely be of use.

    Parameters
    ----------
    otherwise : callable
        A method that takes the arguments of a call which has no plan. Its object is not kept alive:
        what a dropped function has loaded goes at once.
    """

    def __init__(self, otherwise: Callable[[tuple[Any, ...]], Any]) -> None:
        super().__init__()
        self._otherwise = weakref.WeakMethod(otherwise)

    def learn(self, args: tuple[Any, ...], kernel: ElementwiseKernel) -> None:
        """Take note of a call that went the long way to a kernel that took its arguments."""
        types = (*map(type, args),)
        found = self.get(types, ())
        if found is None or len(args) != kernel.nin:
            return
        entry = kernel.entry_of(args)
        if entry is None:  # not yet
            return
        if entry.has_dynamic or (found and found[1] is not kernel):
            self[types] = None  # ever new shapes, or several programs
            return
        if not found:
            if len(self) >= _MOST_TYPES:
                self.clear()
            rest = (*[ABSENT] * (PLACES - len(args)), *_DEFAULTS)
            self[types] = entry.make_call_or(self._other(len(args))), kernel, rest

    def _other(self, count: int) -> CallFunction:
        method = self._otherwise

        def other(_kernel: Any, _key: Hashable, *values: Any, shapeless: Hashable = None) -> Any:
            otherwise = method()
            assert otherwise is not None  # it is being called
            return otherwise(values[:count])

        return other
