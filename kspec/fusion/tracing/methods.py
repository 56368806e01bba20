"""Operators and methods of proxies: functions that find the proxy's tracer.

`kspec.fusion.tracing.proxies.Proxy` is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from kspec.fusion.refusals import refuse, refuse_call

if TYPE_CHECKING:
    from kspec.fusion.tracing.proxies import Proxy


def not_a_scalar(what: str, instead: str) -> Callable[[Proxy], NoReturn]:
    """Return a method that refuses conversion to a Python scalar, with advice."""

    def method(self: Proxy) -> NoReturn:
        refuse(f"{what} needs a Python number, and a traced array has no value yet; {instead}")

    return method


def not_fused(what: str) -> Callable[[Proxy, Any], NoReturn]:
    """Return an operator that is refused."""

    def method(self: Proxy, other: Any) -> NoReturn:
        refuse_call(what)

    return method


def binary(name: str, swapped: bool = False) -> Callable[[Proxy, Any], Any]:
    """Return an operator of two operands; swapped: the proxy is the second."""

    def method(self: Proxy, other: Any) -> Any:
        if _is_foreign(other):
            if name in ("equal", "not_equal"):  # Python would say that they differ, and go on
                refuse(f"{name}: an array is compared with {other!r}; use `is` for None")
            return NotImplemented
        args = (other, self) if swapped else (self, other)
        results = self.tracer.operation(name, args)
        return results[0] if len(results) == 1 else results

    return method


def in_place(name: str) -> Callable[[Proxy, Any], Any]:
    """Return an operator that writes into the proxy, or makes another of a number."""
    apply = binary(name)

    def method(self: Proxy, other: Any) -> Any:
        if self.is_immutable:
            return apply(self, other)
        self.assign(self.tracer.ufunc(name, (self, other))[0], name)
        return self

    return method


def operator_of(name: str) -> tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]:
    """Return an operator with the array on the left, on the right, and in place."""
    return binary(name), binary(name, swapped=True), in_place(name)


def unary(name: str) -> Callable[[Proxy], Proxy]:
    """Return an operator of one operand."""
    return lambda self: self.tracer.operation(name, (self,))[0]


def method_of(name: str) -> Callable[..., Proxy]:
    """Return a method that is a function of the table (`kspec.fusion.functions`)."""

    def method(self: Proxy, *args: Any, **keywords: Any) -> Proxy:
        return self._function(name, *args, **keywords)

    method.__name__ = name
    return method


def _is_foreign(other: Any) -> bool:
    return isinstance(other, str | bytes | dict | set) or other is None
