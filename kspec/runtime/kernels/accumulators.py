"""The accumulator of a reduction: how many bytes it has."""

from __future__ import annotations

from collections.abc import Callable

from kspec.model import dtypes
from kspec.model.declaration import ReductionDeclaration
from kspec.model.infer import Binding, param_dtype
from kspec.model.stages import strided
from kspec.runtime.modules.module import LoadedKernel

_SLOTS = 256  # accumulators in the shared memory of a strided reduction: kspec::MaxThreads


def known_size(declaration: ReductionDeclaration, binding: Binding) -> int:
    """Return the bytes of an accumulator; 0 for a type of the user's."""
    row = known_type(declaration, binding)
    return row.itemsize if row else 0


def known_type(declaration: ReductionDeclaration, binding: Binding) -> dtypes.DType | None:
    """Return the type of an accumulator; None for a type of the user's."""
    name = declaration.accumulator
    if not name:
        name = param_dtype(declaration.outputs.params[0], binding)
        return dtypes.from_ctype(dtypes.lookup(name).accumulator)
    if name in dict(binding):
        return dtypes.lookup(dict(binding)[name])
    return dtypes.from_ctype(name)


def exact_size(
    declaration: ReductionDeclaration, binding: Binding, load: Callable[[str], LoadedKernel]
) -> int:
    """Return the bytes of an accumulator on a GPU.

    The size of a user's type is known to the compiler alone. The kernel of the strided layout has
    room for a number of accumulators in its shared memory, and for nothing else.

    Parameters
    ----------
    load : callable
        Returns the kernel of a layout.
    """
    return (
        known_size(declaration, binding)
        or load(strided(1)).attributes["shared_size_bytes"] // _SLOTS
    )
