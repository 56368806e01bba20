"""The numbers of a GPU on which schedules depend.

::

    gpu_of(device)    # Gpu(multiprocessors=132, shared_memory=232448); None of the host device
"""

from __future__ import annotations

from dataclasses import dataclass

from kspec.runtime.driver import api as driver
from kspec.runtime.driver.device import Device
from kspec.runtime.driver.function import most_shared_memory


@dataclass(frozen=True)
class Gpu:
    """Multiprocessors and shared memory of a GPU.

    Attributes
    ----------
    multiprocessors : int
        Number of them.
    shared_memory : int
        Bytes of shared memory that a block can have, static and dynamic.
    """

    multiprocessors: int
    shared_memory: int


def gpu_of(device: Device) -> Gpu | None:
    """Return the numbers of a device; None if it is the host."""
    if device.is_host:
        return None
    return Gpu(driver.multiprocessors(device.ordinal), most_shared_memory(device.ordinal))
