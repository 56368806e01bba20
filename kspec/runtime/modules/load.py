"""An image in, callable kernels out, on either kind of device.

>>> load_module(image, device).get_kernel("_Z4fx3IfEvPfi")          # doctest: +SKIP
"""

from __future__ import annotations

from kspec.model.stages import Image
from kspec.runtime.driver.device import Device
from kspec.runtime.modules.cuda import CudaModule
from kspec.runtime.modules.host import HostModule
from kspec.runtime.modules.module import LoadedModule


def load_module(image: Image, device: Device, home: LoadedModule | None = None) -> LoadedModule:
    """Load an image on a device.

    Parameters
    ----------
    image, device
        What, and where.
    home : LoadedModule, optional
        On the host device: the same source not instrumented, which keeps the global variables.

    Raises
    ------
    LoadError
        If the device or its driver cannot run it.
    """
    return HostModule(image, home) if device.is_host else CudaModule(image, device.ordinal)
