"""Devices, where arrays live and kernels run: a CUDA device by ordinal, or the host device.

>>> str(HOST)
'host'
>>> parse_device("host")
Device(kind='host', ordinal=0)
>>> parse_device("cuda:1")                                                   # doctest: +SKIP
Device(kind='cuda', ordinal=1)
"""

from __future__ import annotations

import re

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError, ToolNotFoundError
from kspec.runtime.driver import api as driver


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
        raise ToolNotFoundError(reason)
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
