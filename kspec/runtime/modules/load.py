"""An image in, callable kernels out, on either kind of device.

>>> load_module(image, device).get_kernel("_Z4fx3IfEvPfi")          # doctest: +SKIP
"""

from __future__ import annotations

from kspec.model.stages import Image
from kspec.runtime.driver.device import Device
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
    # A process that runs kernels on one kind of device does not import the other.
    if device.is_host:
        from kspec.runtime.modules.host import HostModule

        return HostModule(image, home)
    from kspec.runtime.modules.cuda import CudaModule

    return CudaModule(image, device.ordinal)
