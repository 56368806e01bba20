"""The ten attributes of a raw kernel: eight that the compiler has decided, two that can be set.

CuPy keeps the two with the function in the loaded module, so that every object of that kernel
shares them.  Here each object has its own, on all devices.
"""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import SupportsIndex

from kspec.errors import ArgumentTypeError, DriverError
from kspec.runtime.driver.launch import Launch
from kspec.runtime.modules import LoadedKernel

_SHARED, _CARVEOUT = "max_dynamic_shared_size_bytes", "preferred_shared_memory_carveout"


class KernelAttributes:
    """Base of kernels whose attributes can be read.

    They are those on the current CUDA device, or on the host device if there is none; reading one
    compiles the kernel. `kspec.runtime.driver.module` has the driver's names.
    """

    _shared_limit: int | None = None
    _carveout: int | None = None

    @property
    def kernel(self) -> LoadedKernel:
        """The kernel as it is loaded on the current device; on a GPU, ``.ptr`` is its handle."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop the prepared launches of repeated calls."""
        raise NotImplementedError

    @property
    def attributes(self) -> dict[str, int]:
        """All ten, by name."""
        own = {_SHARED: self._shared_limit, _CARVEOUT: self._carveout}
        return self.kernel.attributes | {
            name: value for name, value in own.items() if value is not None
        }

    @property
    def max_threads_per_block(self) -> int:
        """The most threads of a block, with the registers that the kernel needs."""
        return self._read("max_threads_per_block")

    @property
    def shared_size_bytes(self) -> int:
        """Static shared memory of a block."""
        return self._read("shared_size_bytes")

    @property
    def const_size_bytes(self) -> int:
        """Constant memory that the module declares."""
        return self._read("const_size_bytes")

    @property
    def local_size_bytes(self) -> int:
        """Local memory of a thread: its stack, and registers that did not fit."""
        return self._read("local_size_bytes")

    @property
    def num_regs(self) -> int:
        """Registers of a thread."""
        return self._read("num_regs")

    @property
    def ptx_version(self) -> int:
        """Ten times the PTX architecture that it was compiled by, such as 90."""
        return self._read("ptx_version")

    @property
    def binary_version(self) -> int:
        """Ten times the architecture that it was compiled for, such as 90."""
        return self._read("binary_version")

    @property
    def cache_mode_ca(self) -> int:
        """Whether it was compiled with ``-Xptxas --dlcm=ca``."""
        return self._read("cache_mode_ca")

    @property
    def max_dynamic_shared_size_bytes(self) -> int:
        """The most bytes of dynamic shared memory of a launch.

        Raises
        ------
        ArgumentTypeError
            When it is set to anything but an integer.
        DriverError
            When it is set to more than the device has.
        """
        return self._read(_SHARED)

    @max_dynamic_shared_size_bytes.setter
    def max_dynamic_shared_size_bytes(self, nbytes: int) -> None:
        limit = _integer(_SHARED, nbytes)
        self.kernel.allow_shared_memory(limit)
        self._shared_limit = limit
        self._forget()

    @property
    def preferred_shared_memory_carveout(self) -> int:
        """Percentage of a multiprocessor's memory to be shared memory; -1: the driver's choice.

        Raises
        ------
        ArgumentTypeError
            When it is set to anything but an integer.
        DriverError
            When it is set to what is neither a percentage nor -1.
        """
        return self._read(_CARVEOUT)

    @preferred_shared_memory_carveout.setter
    def preferred_shared_memory_carveout(self, percentage: int) -> None:
        carveout = _integer(_CARVEOUT, percentage)
        if not -1 <= carveout <= 100:
            text = f"invalid argument: {_CARVEOUT} is {carveout}; it must be in -1..100"
            raise DriverError("CUDA_ERROR_INVALID_VALUE", text, 1)
        self._carveout = carveout
        self._forget()

    def _read(self, name: str) -> int:
        return self.attributes[name]

    def _with_attributes(self, launch: Launch) -> Launch:
        """Return a launch as the attributes want it."""
        if self._shared_limit is None and self._carveout is None:
            return launch
        return replace(launch, shared_limit=self._shared_limit, carveout=self._carveout)


def _integer(name: str, value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an integer, not {value!r}") from None
