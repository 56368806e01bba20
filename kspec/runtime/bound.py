"""A call whose arguments are fixed: checked once, launched as often as wanted.

>>> import numpy as np
>>> from kspec import ElementwiseKernel
>>> add_to = ElementwiseKernel("T x", "T total", "total += x", "add_to")
>>> total = np.zeros(3)
>>> step = add_to.bind(np.arange(3.0), total)
>>> for _ in range(10):
...     _ = step()
>>> total
array([ 0., 10., 20.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kspec.checks import NO_CHECKS
from kspec.runtime.launch import Launch
from kspec.runtime.marshal import ParameterBlock
from kspec.runtime.module import LoadedKernel


class Bound:
    """What ``kernel.bind(...)`` returns; calling it launches the kernel and nothing else.

    Threads may share it: nobody writes to its parameters.

    Parameters
    ----------
    kernel : LoadedKernel or None
        Not instrumented; None: there is nothing to do.
    launch : Launch
        How it is launched.
    parameters : sequence of bytes
        Of the kernel.
    again : callable
        Makes the call in full. It holds the arguments, whose memory the kernel uses.
    in_full : callable or None
        Says at each call whether it is to be made in full.
    result : object
        What calls return.
    scratch : object
        Memory of the kernel, which is kept.

    Attributes
    ----------
    result : object
        What each call returns: the outputs, the same arrays every time.
    """

    __slots__ = (
        "_again",
        "_arguments",
        "_in_full",
        "_kernel",
        "_memory",
        "_scratch",
        "_start",
        "result",
    )

    def __init__(
        self,
        kernel: LoadedKernel | None,
        launch: Launch,
        parameters: Sequence[bytes],
        again: Callable[[], Any],
        in_full: Callable[[], bool] | None,
        result: Any = None,
        scratch: object = None,
    ) -> None:
        self._scratch = scratch
        params = ParameterBlock(parameters)
        launch = replace(launch, checks=NO_CHECKS, regions=())
        self.result = result
        self._again = again
        self._in_full = in_full
        self._kernel = kernel
        self._memory = params
        self._start: Callable[..., int | None] = _do_nothing
        self._arguments: tuple[Any, ...] = ()
        if kernel is not None and launch.cooperative:
            # How many blocks can be resident is for each launch to ask.
            self._start, self._arguments = kernel.launch, (launch, params)
        elif kernel is not None:
            self._start, self._arguments = kernel.prepare(launch, params)

    def __call__(self) -> Any:
        """Launch the kernel.

        On the host device, checks that are wanted by then (`kspec.checking`, the environment, the
        kernel's `checks`) are made.
        """
        if self._in_full is not None and self._in_full():
            return self._again()
        code = self._start(*self._arguments)
        if code:
            assert self._kernel is not None
            self._kernel.relaunch(self._start, self._arguments, code)  # type: ignore[arg-type]
        return self.result


def _do_nothing() -> int:
    return 0
