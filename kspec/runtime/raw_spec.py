"""Raw kernels that specs declare: `RawCallable` is what a generated function calls.

It differs from `kspec.RawKernel` (`kspec.runtime.raw`) in where its code comes from, and in that
the dtypes of its arguments may choose the instance of a C++ template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kspec import dtypes
from kspec.declaration import RawDeclaration
from kspec.errors import InstanceNotBuilt
from kspec.runtime.callable import KernelCallable
from kspec.runtime.device import Device
from kspec.runtime.provider import KernelLoader
from kspec.runtime.raw_call import RawCaller
from kspec.runtime.raw_route import RawRoutes
from kspec.signature import CParam
from kspec.stages import RawSymbol


class RawCallable(KernelCallable[RawDeclaration], RawCaller):
    """A raw kernel that a spec declares."""

    _routes: RawRoutes
    _routes_class = RawRoutes

    def _declare(self, declaration: RawDeclaration, loader: KernelLoader) -> None:
        super()._declare(declaration, loader)
        self._cooperative = declaration.cooperative

    @property
    def _params(self) -> Sequence[CParam] | None:
        return self.declaration.params

    @property
    def _structs(self) -> Mapping[str, str]:
        return dict(self.declaration.structs)

    def _expression(self, bound: Mapping[str, str], device: Device) -> str:
        """Return the name expression for a binding: the one with these template arguments."""
        expressions = self.declaration.name_expressions
        if not bound:
            return expressions[0]
        wanted = [dtypes.lookup(dtype) for dtype in bound.values()]
        for expression in expressions:
            _, _, arguments = expression.partition("<")
            # In any spelling: "unsigned" is "unsigned int".
            if [dtypes.from_ctype(part) for part in arguments.rstrip("> ").split(",")] == wanted:
                return expression
        types = ", ".join(f"{letter}={dtype}" for letter, dtype in bound.items())
        instance = f"{expressions[0].partition('<')[0]}<{', '.join(row.ctype for row in wanted)}>"
        symbol = RawSymbol(instance, tuple(bound.items()))
        self._loader.watch(symbol, device)
        raise InstanceNotBuilt(
            f"{self.__name__} has no instance for {types}; it has {', '.join(expressions)}\n"
            f"{self._loader.advice(symbol, device)}"
        )
