"""Progress of long work: how much is done, and how long the rest takes at the pace so far.

>>> now = 0.0
>>> pace = Pace(4, clock=lambda: now)
>>> pace.step(worked=False)  # an image of the cache: its time says nothing of the others
>>> now = 20.0
>>> pace.step()
>>> pace.line("compiling", "norms for sm_90")
'compiling 2/4: norms for sm_90, 40 s left'
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Steps of equal weight, some of which may come for free.

    Parameters
    ----------
    total : int
        Number of steps, as far as it is known.
    clock : callable
        Seconds since some time.
    """

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.done = 0
        self.total = total
        self._clock = clock
        self._worked = 0
        self._started = self._latest = clock()

    def step(self, total: int | None = None, worked: bool = True) -> None:
        """Count a step, of `total` as is now known; `worked`: others will take as long."""
        self.done += 1
        self.total = total or self.total
        self._latest = self._clock()
        if worked:
            self._worked += 1
        elif not self._worked:
            self._started = self._latest

    def left(self) -> float | None:
        """Return the seconds that are left now; None before the first step that has worked."""
        if not self._worked:
            return None
        each = (self._latest - self._started) / self._worked
        return max(0.0, each * (self.total - self.done) - (self._clock() - self._latest))

    def line(self, verb: str, label: str) -> str:
        """Return such as ``compiling 3/15: norms for sm_90, 20 s left``."""
        return f"{verb} {self.done}/{self.total}: {label}{time_left(self.left())}"


def time_left(seconds: float | None) -> str:
    """Return the end of a line of progress; it is empty where the time is unknown or over."""
    if seconds is None or seconds < 0.5:
        return ""
    return f", {seconds / 60:.0f} min left" if seconds >= 119.5 else f", {seconds:.0f} s left"
