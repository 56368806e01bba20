"""Checks of a launch on the host device: `Checks`, and the ways to ask for them.

>>> Checks("memory,race", order="random:7")
Checks(sanitize=('memory', 'race'), order='random:7', timeout=None)
>>> with checking("race"):
...     current_checks().sanitize
('race',)

A call's own keywords come first, then the kernel's ``checks`` attribute, then the innermost
`checking` block, then the environment (`kspec.config`).  `kspec.runtime` applies them,
``kspec/host/rt/check.h`` does the checking.
"""

from __future__ import annotations

import functools
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from typing import Any, Literal

from kspec import config
from kspec.dataclass import dataclass
from kspec.errors import CheckOptionError

RACE = "race"
# No modes that users name: that of `Checks.review`, and of generated kernels as on a GPU, in which
# reviews let the blocks run that they do not look at.
REVIEW, AS_GPU = "review", "gpu"
MODES = ("init", "memory", RACE, "undefined")
UNCHECKED = ("none",)  # no mode: not even the bounds that are checked by default
PRINTED: Literal["print"] = "print"
Reviewer = Callable[[Any], None] | Literal["print"]
_ORDER = re.compile(r"forward|reverse|random:[0-9]{1,18}")


@dataclass(frozen=True)
class Checks:
    """Options of the host device that find mistakes of a kernel.

    Attributes
    ----------
    sanitize : tuple of str
        What to look for beyond the bounds of memory, sorted: ``"memory"`` (bounds, by exact
        tables), ``"race"`` (data races in shared and global memory), ``"init"`` (reads of shared
        memory, or of an output that the call makes, before any write), ``"undefined"`` (signed
        overflow, shifts, divisions, conversions, array indices, alignment, null). Alone,
        ``"none"``: do not even check bounds. ``"bounds"`` is the default, and the same as nothing.
    order : str
        In which order threads and blocks run: ``"forward"``, ``"reverse"`` or ``"random:SEED"``.
    timeout : float or None
        Seconds after which a kernel is stopped.
    review : callable, str or None
        Function of `kspec.reviewing` that gets the recording of each launch; `PRINTED`: its review
        is printed; None: nothing is recorded.

    Raises
    ------
    CheckOptionError
        A `ValueError`: for any other value.
    """

    sanitize: tuple[str, ...]
    order: str
    timeout: float | None
    review: Reviewer | None = field(default=None, repr=False)

    def __init__(
        self,
        sanitize: str | Iterable[str] = (),
        order: str = "forward",
        timeout: float | None = None,
        review: Reviewer | None = None,
    ) -> None:
        object.__setattr__(self, "sanitize", _parse_sanitize(sanitize))
        object.__setattr__(self, "order", _parse_order(order))
        object.__setattr__(self, "timeout", _parse_timeout(timeout))
        object.__setattr__(self, "review", review)


_CHOICE = f"give some of {', '.join(MODES)}, separated by commas, or none"


def _parse_sanitize(sanitize: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(sanitize, Iterable):
        raise CheckOptionError(f"sanitize={sanitize!r} is not a checking mode; {_CHOICE}")
    names = sanitize.split(",") if isinstance(sanitize, str) else tuple(sanitize)
    if not all(isinstance(one, str) for one in names):
        raise CheckOptionError(f"sanitize={sanitize!r} is not a checking mode; {_CHOICE}")
    modes = {name.strip() for name in names} - {"", "bounds"}
    unknown = sorted(modes - {*MODES, *UNCHECKED})
    if unknown:
        raise CheckOptionError(f"sanitize={unknown[0]!r} is not a checking mode; {_CHOICE}")
    if "none" in modes and len(modes) > 1:
        raise CheckOptionError(f"sanitize={sanitize!r} mixes 'none' with others; {_CHOICE}")
    return tuple(sorted(modes))


def _parse_order(order: str) -> str:
    if not isinstance(order, str) or not _ORDER.fullmatch(order):
        raise CheckOptionError(
            f"order={order!r} is not an order; give 'forward', 'reverse' or "
            "'random:SEED' with an integer"
        )
    return order


def _parse_timeout(timeout: Any) -> float | None:
    if timeout is None:
        return None
    number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if not number or not timeout > 0:
        raise CheckOptionError(f"timeout={timeout!r} must be a positive number of seconds")
    try:
        return float(timeout)
    except OverflowError:
        return math.inf


NO_CHECKS = Checks()
_current: ContextVar[Checks | None] = ContextVar("kspec_checks", default=None)


def parse_checks(
    sanitize: str | None = None, order: str | None = None, timeout: float | None = None
) -> Checks:
    """Return the checks that keywords ask for; None means nothing out of the ordinary."""
    return Checks(sanitize or (), order or "forward", timeout)


def current_checks() -> Checks:
    """Return the checks of the innermost `checking` block, or those of the environment."""
    checks = _current.get()
    return _environment(*config.host_checks()) if checks is None else checks


@functools.lru_cache(maxsize=16)
def _environment(sanitize: str, order: str, timeout: str, review: str) -> Checks:
    if not (sanitize or order or timeout or review):
        return NO_CHECKS
    try:
        seconds = float(timeout) if timeout else None
    except ValueError:
        raise CheckOptionError(
            f"KSPEC_HOST_TIMEOUT={timeout!r} is not a number of seconds"
        ) from None
    try:
        checks = parse_checks(sanitize, order, seconds)
    except CheckOptionError as error:
        raise CheckOptionError(f"KSPEC_HOST_* environment variable: {error}") from None
    return with_review(checks, PRINTED) if review not in ("", "0") else checks


@contextmanager
def recording(review: Callable[[Any], None]) -> Iterator[None]:
    """Hand the recording of each launch inside a ``with`` block to a function."""
    token = _current.set(with_review(current_checks(), review))
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def checking(
    sanitize: str | Iterable[str] = (), *, order: str = "forward", timeout: float | None = None
) -> Iterator[Checks]:
    """Check every launch on the host device inside a ``with`` block.

    Kernels with a ``checks`` attribute of their own keep to that; launches on CUDA devices are
    not affected.

    Parameters
    ----------
    sanitize, order, timeout
        As for `Checks`.

    Examples
    --------
    >>> with checking("memory", order="reverse") as checks:
    ...     checks.order
    'reverse'
    """
    checks = with_review(Checks(sanitize, order, timeout), current_checks().review)
    token = _current.set(checks)
    try:
        yield checks
    finally:
        _current.reset(token)


def resolve_checks(
    kernel: Checks | None, sanitize: str | None, order: str | None, timeout: float | None
) -> Checks:
    """Return the checks of one call: its keywords, over its kernel's, over the current ones."""
    now = current_checks()
    base = now if kernel is None else kernel
    if sanitize is not None or order is not None or timeout is not None:
        base = Checks(
            base.sanitize if sanitize is None else sanitize,
            base.order if order is None else order,
            base.timeout if timeout is None else timeout,
        )
    return base if base.review is now.review else with_review(base, now.review)


def with_review(checks: Checks, review: Reviewer | None) -> Checks:
    """Return the same checks of launches that are reviewed; those of a kernel say nothing of it."""
    return Checks(checks.sanitize, checks.order, checks.timeout, review)
