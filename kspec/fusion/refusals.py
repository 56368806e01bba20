"""Errors about code that cannot be fused, with the line of the function that asked for it."""

from __future__ import annotations

import linecache
import sys
from types import FrameType
from typing import NoReturn

from kspec.errors import FusionError

_OURS = ("kspec", "numpy", "cupy")


def refuse(message: str, error: type[FusionError] = FusionError) -> NoReturn:
    """Raise `FusionError`, or a kind of it, that shows the user's line."""
    raise error(f"{message}{_place()}")


def refuse_unknown(what: str, error: type[FusionError] = FusionError) -> NoReturn:
    """Raise `FusionError`, or a kind of it, for a proxy that would have to be a number."""
    refuse(
        f"{what} must be known before kernels run, and arguments and results are not; write "
        "a number in the function, or as a default that calls leave out, or take it from a "
        "variable around the function",
        error,
    )


def _place() -> str:
    """Return the current line of the traced function, as the end of a message."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not any(name == one or name.startswith(f"{one}.") for one in _OURS):
            code = frame.f_code
            line = linecache.getline(code.co_filename, frame.f_lineno).strip()
            place = f"\n  {code.co_filename}:{frame.f_lineno}, in {code.co_name}"
            return place + (f"\n    {line}" if line else "")
        frame = frame.f_back
    return ""
