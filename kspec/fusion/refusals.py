"""Errors about code that cannot be fused, with the line of the function that asked for it."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import Any, NoReturn

from kspec.errors import FusionError

_OURS = ("kspec", "numpy", "cupy")
_OUTSIDE = "call it outside of the function, and pass its result as an argument"
_DOT = f"write (x * y).sum(-1) for vectors; for matrices {_OUTSIDE}"
_WHERE = "write np.select([a, b], [x, y], z)"
_PARTS = "write np.stack or np.concatenate, with axis="
# What is fused in place of functions that are not.
_INSTEAD = {
    "allclose": "write np.isclose(x, y).all()",
    "array_equal": "write (x == y).all()",
    "average": "write (x * weights).sum() / weights.sum()",
    "ediff1d": "write x[1:] - x[:-1]",
    "fix": "write np.trunc(x)",
    "fliplr": "write x[:, ::-1]",
    "flipud": "write x[::-1]",
    "isneginf": "write x == -np.inf",
    "isposinf": "write x == np.inf",
    "matrix_transpose": "write np.swapaxes(x, -1, -2)",
    "outer": "write x[:, None] * y",
    "polyval": "write (a * x + b) * x + c",
    "trapezoid": "write (x[1:] + x[:-1]).sum() / 2",
    **dict.fromkeys(("choose", "piecewise"), _WHERE),
    **dict.fromkeys(("dot", "inner", "matmul", "the operator @", "vecdot"), _DOT),
    **dict.fromkeys(("block", "column_stack", "dstack", "row_stack", "append"), _PARTS),
    "cumulative_prod": "write np.cumprod(x, axis)",
    "cumulative_sum": "write np.cumsum(x, axis)",
    "take_along_axis": "write np.take(x, indices, mode='clip') of one axis",
}


class ConcreteArray(FusionError):
    """An array that the function is not called with meets a proxy.

    Parameters
    ----------
    message : str
        The advice if no variable around the function holds it.
    array : array, optional
        The array; default: unknown, for NumPy has asked the proxy for its elements.
    """

    def __init__(self, message: str, array: Any = None) -> None:
        super().__init__(f"{message}{_place()}")
        self.array = array


def refuse_array(what: str, array: Any) -> NoReturn:
    """Raise `ConcreteArray` for an array that the function is not called with."""
    raise ConcreteArray(
        f"{what}: a concrete {type(array).__name__} is fused only if a variable around the "
        "function holds it; assign it to one, or pass it as an argument",
        array,
    )


def refuse(message: str, error: type[FusionError] = FusionError) -> NoReturn:
    """Raise `FusionError`, or a kind of it, that shows the user's line."""
    raise error(f"{message}{_place()}")


def refuse_call(name: str, what: str = "", error: type[FusionError] = FusionError) -> NoReturn:
    """Raise `FusionError`, or a kind of it, for a function that is not fused.

    Parameters
    ----------
    name : str
        NumPy's name of it, by which there may be advice.
    what : str
        What the message calls it; default: its name.
    error : type
        What to raise.
    """
    refuse(f"{what or name} is not fused; {_INSTEAD.get(name, _OUTSIDE)}", error)


def refuse_unknown(what: str, error: type[FusionError] = FusionError) -> NoReturn:
    """Raise `FusionError`, or a kind of it, for a proxy that would have to be a number."""
    refuse(
        f"{what} must be known before kernels run, and arguments and results are not; write "
        "a number in the function, or as a default that calls leave out, or take it from a "
        "variable around the function",
        error,
    )


def is_ours(module: str) -> bool:
    """Return whether a module is not the user's, but one of the libraries that trace."""
    return any(module == one or module.startswith(f"{one}.") for one in _OURS)


def _place() -> str:
    """Return the current line of the traced function, as the end of a message."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_ours(frame.f_globals.get("__name__", "")):
            code = frame.f_code
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            place = f"\n  {code.co_filename}:{frame.f_lineno}, in {code.co_name}"
            return place + (f"\n    {line}" if line else "")
        frame = frame.f_back
    return ""
