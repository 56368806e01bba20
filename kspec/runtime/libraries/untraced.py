"""Functions that torch.compile calls as they are: it breaks the graph in front of them.

A plain call launches a kernel, which is not a part of a graph. torch is never imported for that:
a function has an attribute that torch looks up when it is about to trace a call of it.

>>> @untraced
... def call(x):
...     return x
>>> call._torchdynamo_disable
True
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_REASON = (
    "a plain call of kspec is not a part of the graph; use the operator that "
    "kspec.torch.register makes of a kernel"
)
_CODES: list[CodeType] = []  # of these functions; complete once their modules are imported


def untraced(function: FunctionT) -> FunctionT:
    """Let torch.compile call a function, and all that it calls, instead of tracing them."""
    marked: Any = function
    marked._torchdynamo_disable = _Untraced()
    marked._torchdynamo_disable_msg = _REASON
    _CODES.append(marked.__code__)
    _skip(sys.modules.get("torch"), marked.__code__)
    return function


def tell_torch() -> None:
    """Tell torch, which is imported, not to trace these functions from wherever they are called.

    The attribute counts where torch traces the caller. It may run a caller as it is, too, and trace
    what that calls.
    """
    for code in _CODES:
        _skip(sys.modules["torch"], code)


class _Untraced:
    """Is true, as torch learns when it is about to trace a call; what is behind is not traced."""

    def __repr__(self) -> str:
        return "True"

    def __bool__(self) -> bool:
        torch = sys.modules.get("torch")
        if torch is not None:
            tell_torch()
            _skip_files(torch)
        return True


@functools.cache
def _skip_files(torch: Any) -> None:
    """Tell torch not to trace other functions of kspec; in torch 2.6 this is all that there is."""
    torch._dynamo.trace_rules.add("kspec")


def _skip(torch: Any, code: CodeType) -> None:
    """Tell torch to run a function, and all that it calls, as they are."""
    try:
        frames = torch._C._dynamo.eval_frame
        action = frames._FrameAction.SKIP
        frames.set_code_exec_strategy(code, frames._FrameExecStrategy(action, action))
    except AttributeError:  # it is not imported, or too old
        pass
