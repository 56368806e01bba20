"""Raw kernels that specs declare: `RawCallable` is what a generated function calls.

It differs from `kspec.RawKernel` (`kspec.runtime.raw.kernel`) in where its code comes from, and in
that the dtypes of its arguments may choose the instance of a C++ template.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kspec.cpp.name_expressions import template_arguments
from kspec.errors import ArgumentTypeError, InstanceNotBuilt
from kspec.model import dtypes
from kspec.model.declaration import RawDeclaration
from kspec.model.signature import CParam
from kspec.model.stages import RawSymbol
from kspec.runtime.driver.device import Device
from kspec.runtime.kernels import KernelCallable
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.raw.call import RawCaller
from kspec.runtime.raw.call_cache import GridCallCache
from kspec.runtime.raw.untyped_args import RawArgument


class RawCallable(KernelCallable[RawDeclaration], RawCaller):
    """A raw kernel that a spec declares."""

    _call_cache: GridCallCache
    _call_cache_class = GridCallCache

    def _declare(self, declaration: RawDeclaration, loader: KernelLoader) -> None:
        super()._declare(declaration, loader)
        self._cooperative = declaration.cooperative
        self._chooses = len(declaration.name_expressions) > 1

    @property
    def _params(self) -> Sequence[CParam] | None:
        return self.declaration.params

    @property
    def _structs(self) -> Mapping[str, str]:
        return dict(self.declaration.structs)

    def _expression(
        self,
        bound: Mapping[str, str],
        device: Device,
        operands: Sequence[RawArgument] | None = None,
        template: tuple[int, ...] = (),
    ) -> str:
        """Return the name expression for a call: the one with the types of its arguments.

        And with the integers of its template.  Without a call (`operands` is None) and a binding,
        it is the first.
        """
        expressions, parameters = self.declaration.name_expressions, self.declaration.template
        values = dict(zip(parameters.values, template, strict=False))
        if not bound and not values:
            if operands is None or len(expressions) == 1:
                return expressions[0]
            return self._fitting(operands, device)
        found = parameters.find(expressions, bound, values)
        if found is not None:
            return found
        wanted = (*bound.items(), *((name, str(value)) for name, value in values.items()))
        listed = ", ".join(f"{name}={one}" for name, one in wanted)
        symbol = RawSymbol(parameters.spelled(expressions[0], bound, values), wanted)
        self._loader.watch(symbol, device)
        raise InstanceNotBuilt(
            f"{self.__name__} has no instance for {listed}; it has {', '.join(expressions)}\n"
            f"{self._loader.advice(symbol, device)}"
        )

    def _fitting(self, operands: Sequence[RawArgument], device: Device) -> str:
        """Return the name expression that is for exactly the dtypes of some arguments.

        Nothing says which argument has which of the types, so in doubt it is none.
        """
        expressions = self.declaration.name_expressions
        given = tuple(dict.fromkeys(filter(None, (_dtype(one, device) for one in operands))))
        templates = {expression.partition("<")[0].strip() for expression in expressions}
        fitting = [
            expression
            for expression in expressions
            if len(templates) == 1 and _types_of(expression) == set(given)
        ]
        if len(fitting) == 1:
            return fitting[0]
        found = f"arguments of {', '.join(given)}" if given else "a call without arrays"
        several = f"{len(fitting)} of its name expressions" if fitting else "no name expression"
        raise ArgumentTypeError(
            f"{self.__name__}: {found} fit {several}, and one is required; it has "
            f"{', '.join(expressions)}; declare 'params' with type placeholders, such as "
            "'T* x', or give each kernel a table of its own"
        )


def _types_of(expression: str) -> set[str]:
    """Return the dtypes among the template arguments of a name expression."""
    rows = map(dtypes.from_ctype, template_arguments(expression))
    return {row.name for row in rows if row is not None}


def _dtype(operand: RawArgument, device: Device) -> str:
    """Return the dtype of an array, or of a NumPy number that is not an integer; else ""."""
    view = operand.view
    if view is not None and view.device == device:
        return view.dtype
    value = operand.value
    return value.dtype.name if isinstance(value, np.inexact | np.ndarray) else ""
