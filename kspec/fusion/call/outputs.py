"""Outputs of the kernels that fused functions call: arguments that are written to, new arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kspec.dataclass import dataclass
from kspec.fusion.call.view_ops import apply_view_op
from kspec.fusion.view_ops import Index, ViewOp
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.lookup import Library


@dataclass(frozen=True, eq=False)
class Unfinished:
    """A new array of which kernels write the parts.

    Attributes
    ----------
    library : Library
        Whose array it is.
    device : Device
        Where it is.
    array : object
        The array, as the library makes it.
    """

    library: Library
    device: Device
    array: Any

    def part(self, place: Index) -> Any:
        """Return the elements of a part, to be written to."""
        return apply_view_op(self.array, ViewOp("index", place))

    def finished(self) -> Any:
        """Return the array, all of which kernels have been launched to write."""
        return self.library.finish(self.array, self.device, self.library.stream(self.device))


def written(
    library: Library,
    device: Device,
    targets: Sequence[Any],
    kinds: Sequence[tuple[tuple[int, ...], str]],
    call: Callable[[Sequence[Any]], object],
) -> list[Any]:
    """Have outputs written, and return them.

    Parameters
    ----------
    library : Library
        Who makes the new ones.
    device : Device
        Where they are.
    targets : sequence of array or None
        Arrays to write to; None where a new one is wanted.
    kinds : sequence of (tuple of int, str)
        Shape and dtype of each.
    call : callable
        Launches the kernel, given all of them.
    """
    outputs = [
        library.empty(shape, dtype, device) if target is None else target
        for target, (shape, dtype) in zip(targets, kinds, strict=True)
    ]
    call(outputs)
    stream = library.stream(device)
    return [
        library.finish(one, device, stream) if target is None else one
        for one, target in zip(outputs, targets, strict=True)
    ]
