"""A call in, the review of its launches out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kspec.errors import NotSupportedError
from kspec.host.recording import ReviewedLaunch
from kspec.model.checks import recording
from kspec.reviews.machine import machine_of
from kspec.reviews.review import LaunchReview, Review, review_launch
from kspec.runtime.driver.device import Gpu, imagining

_SHARED_MEMORY = 232448  # bytes of a block on architectures 9.0 and later


def review(function: Callable[..., Any], *args: Any, gpu: str = "H200", **keywords: Any) -> Review:
    """Call a function or kernel on the host device and review its use of memory.

    Parameters
    ----------
    function : callable
        A raw kernel, whose `args` are grid, block and arguments; an elementwise, reduction, fused
        or jitted kernel; a generated function; or any function that calls some.
    *args, **keywords
        Arguments of the call; arrays live on the host device. The call is made: outputs that are
        passed are written.
    gpu : str
        The GPU whose schedules are used, and whose time is estimated: a name or an architecture
        (`kspec.reviews.machine.MACHINES`).

    Returns
    -------
    Review
        Its ``str`` is a table.

    Raises
    ------
    NotSupportedError
        If nothing is launched on the host device, or there are no figures of the GPU.

    Examples
    --------
    >>> import kspec, numpy as np
    >>> double = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "double_it")
    >>> r = kspec.review(double, np.ones(4096, "f4"))
    >>> {line.sectors_per_request for line in r.lines if line.space == "global"}
    {16.0}
    """
    with _reviewing(gpu, everywhere=True) as launches:
        function(*args, **keywords)
    if not launches:
        name = getattr(function, "__name__", None) or getattr(function, "name", repr(function))
        raise NotSupportedError(
            f"{name} launched nothing on the host device, and nothing else can be reviewed: pass "
            "NumPy arrays, or arrays made with device='host'"
        )
    return Review(tuple(launches))


@contextmanager
def reviewing(gpu: str = "H200") -> Iterator[list[LaunchReview]]:
    """Review every launch on the host device inside a ``with`` block.

    Parameters
    ----------
    gpu : str
        As of `review`.

    Yields
    ------
    list of LaunchReview
        One for each launch, in their order; it grows.
    """
    with _reviewing(gpu, everywhere=False) as launches:
        yield launches


@contextmanager
def _reviewing(gpu: str, everywhere: bool) -> Iterator[list[LaunchReview]]:
    machine = machine_of(gpu)
    launches: list[LaunchReview] = []

    def keep(launch: ReviewedLaunch) -> None:
        launches.append(review_launch(launch, machine, everywhere))

    with (
        recording(keep),
        imagining(Gpu(machine.multiprocessors, _SHARED_MEMORY, machine.arch)),
    ):
        yield launches
