"""Arrays of integers that forms take beside their inputs: bounds of segments, keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kspec.errors import ArgumentTypeError
from kspec.model.infer import check_one_device
from kspec.model.signature import Param
from kspec.runtime.arguments.binding import Call, Operand, check_alignment, place_of
from kspec.runtime.libraries.aliasing import check_overlaps
from kspec.runtime.libraries.lookup import library_of, view_of


def index_operand(kernel: str, name: str, value: object, call: Call) -> Operand:
    """Return an array of integers as an operand of a call.

    Parameters
    ----------
    kernel, name : str
        The kernel, and what messages call the array.
    value : object
        The array.
    call : Call
        The call.

    Raises
    ------
    ArgumentTypeError
        If it is not an array, or not aligned.
    DeviceMismatchError
        If it is not on the device of the other arrays.
    """
    where = f"{kernel}: argument {name}"
    library = library_of(value)
    if library is None:
        raise ArgumentTypeError(
            f"{where} must be an array, not {type(value).__name__}; pass an array of integers on "
            "the device of the inputs"
        )
    view = view_of(where, library, value)
    check_alignment(where, view)
    first = next((one for one in (*call.inputs, *call.outputs) if one.device == call.device), None)
    if first is not None and view.device != call.device:
        check_one_device(
            kernel, [f"{first.param.name} on {call.device}", f"{name} on {view.device}"]
        )
    operand = Operand(Param(view.dtype, name), value, view, library, False, where)
    return replace(operand, is_gathered=True)


def gathered(call: Call) -> Call:
    """Return a call whose inputs are read by other threads than those that write outputs."""
    return replace(call, inputs=tuple(replace(one, is_gathered=True) for one in call.inputs))


def check_beside(kernel: str, inputs: Sequence[Operand], outputs: Sequence[Operand]) -> None:
    """Raise `OverlapError` if an output shares memory with an array that other threads read."""
    if outputs:
        places = map(place_of, (*inputs, *outputs))
        check_overlaps(kernel, [one for one in places if one is not None])
