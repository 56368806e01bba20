"""Devices, where arrays live and kernels run, and the numbers of a GPU on which schedules depend.

>>> str(HOST)
'host'
>>> parse_device("host")
Device(kind='host', ordinal=0)
>>> parse_device("cuda:1")                                                   # doctest: +SKIP
Device(kind='cuda', ordinal=1)
>>> gpu_of(Device("cuda", 0))                                                # doctest: +SKIP
Gpu(multiprocessors=132, shared_memory=232448, arch='')

Launches on the host device that are reviewed (`kspec.review`) are scheduled as on a GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ToolNotFoundError
from kspec.model.checks import current_checks
from kspec.runtime import driver

_RESERVED = 1024  # bytes of shared memory of each block that are the system's


@dataclass(frozen=True)
class Device:
    """A device.

    Attributes
    ----------
    kind : str
        ``"cuda"`` or ``"host"``.
    ordinal : int
        Number of the CUDA device; 0 for the host.
    """

    kind: str
    ordinal: int = 0

    @property
    def is_host(self) -> bool:
        """Whether this is the CPU."""
        return self.kind == "host"

    def __str__(self) -> str:
        return "host" if self.is_host else f"cuda:{self.ordinal}"


HOST = Device("host")


def parse_device(device: Device | str | None) -> Device:
    """Return a device from its name: ``"host"``, ``"cuda"``, ``"cuda:1"``; None: the default.

    Raises
    ------
    ValueError
        For any other text.
    ToolNotFoundError
        If a CUDA device is asked for and there is none.
    """
    if isinstance(device, Device):
        return device
    if device is None:
        return default_device()
    if device == "host":
        return HOST
    if not isinstance(device, str):
        raise ArgumentTypeError(f"device must be 'host', 'cuda' or 'cuda:N', not {device!r}")
    match = re.fullmatch(r"cuda(?::(\d+))?", device)
    if match is None:
        raise ValueError(f"unknown device {device!r}; expected 'host', 'cuda' or 'cuda:N'")
    reason = driver.why_unavailable()
    if reason:
        raise ToolNotFoundError(f"{reason}; arrays of NumPy, or of device='host', need none")
    return Device("cuda", int(match[1] or 0))


def default_device() -> Device:
    """Return the current CUDA device if there is one, else the host device."""
    if driver.why_unavailable():
        return HOST
    return Device("cuda", driver.current_ordinal())


def devices() -> tuple[Device, ...]:
    """Return every device present: the host first, then the CUDA devices."""
    if driver.why_unavailable():
        return (HOST,)
    return (HOST, *(Device("cuda", ordinal) for ordinal in range(driver.device_count())))


@dataclass(frozen=True)
class Gpu:
    """Multiprocessors and shared memory of a GPU.

    Attributes
    ----------
    multiprocessors : int
        Number of them.
    shared_memory : int
        Bytes of shared memory that a block can have, static and dynamic.
    arch : str
        Architecture of a GPU that is not there.
    """

    multiprocessors: int
    shared_memory: int
    arch: str = ""

    def blocks_with(self, shared: int, share: float = 1) -> int:
        """Return the blocks that a multiprocessor has shared memory for, at least 1.

        Parameters
        ----------
        shared : int
            Bytes of a block, static and dynamic.
        share : float, default 1
            Part of the memory that they may have.
        """
        return max(int(share * (self.shared_memory + _RESERVED)) // (shared + _RESERVED), 1)

    def carveout_of(self, blocks: int, shared: int) -> int:
        """Return the percentage of shared memory that so many blocks of a multiprocessor need.

        The rest is first-level cache.
        """
        needed = 100 * blocks * (shared + _RESERVED)
        return min(-(-needed // (self.shared_memory + _RESERVED)), 100)


H200 = Gpu(132, 232448, "sm_90")  # what KSPEC_HOST_REVIEW=1 imagines, for it names none
_imagined = ContextVar("kspec_imagined_gpu", default=H200)


@contextmanager
def imagining(gpu: Gpu) -> Iterator[None]:
    """Schedule what is reviewed as on a GPU inside a ``with`` block."""
    token = _imagined.set(gpu)
    try:
        yield
    finally:
        _imagined.reset(token)


def is_scheduled_as_host(device: Device) -> bool:
    """Return whether kernels have the schedules of the host: there, unless they are reviewed."""
    return device.is_host and current_checks().review is None


def multiprocessors_of(device: Device) -> int:
    """Return the multiprocessors of a GPU, or of the one that reviews imagine."""
    return (
        _imagined.get().multiprocessors
        if device.is_host
        else driver.multiprocessors(device.ordinal)
    )


def gpu_of(device: Device) -> Gpu | None:
    """Return the numbers of a device; None if it is the host, and launches are not reviewed."""
    if device.is_host:
        return None if is_scheduled_as_host(device) else _imagined.get()
    return Gpu(driver.multiprocessors(device.ordinal), driver.most_shared_memory(device.ordinal))
