"""An image in, callable kernels out, on either kind of device.

>>> load_module(image, device).get_kernel("_Z4fx3IfEvPfi")          # doctest: +SKIP

The CUDA half is here; `kspec.host.device` is the other.
"""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any, Protocol

from kspec.checks import NO_CHECKS
from kspec.errors import ArgumentTypeError, DriverError, LaunchError, LoadError
from kspec.host import device as host
from kspec.runtime import driver, driver_graph
from kspec.runtime.device import Device
from kspec.runtime.driver_graph import GraphStart
from kspec.runtime.launch import Launch
from kspec.runtime.launcher import (
    Resize,
    Start,
    launch_once,
    prepare_launch,
    prepare_resizable,
    relaunch,
)
from kspec.runtime.marshal import ParameterBlock
from kspec.stages import Image


class LoadedKernel(Protocol):
    """A kernel that can be launched.

    Attributes
    ----------
    name : str
        Its lowered name.
    parameter_sizes : tuple of int or None
        Bytes of each parameter, None where the driver can not tell.
    """

    name: str
    parameter_sizes: tuple[int, ...] | None

    def launch(self, launch: Launch, params: ParameterBlock) -> None:
        """Launch it."""

    def prepare(self, launch: Launch, params: ParameterBlock) -> Start:
        """Return a function that launches it, as often as wanted, unchecked.

        Each launch takes what the memory of `params` holds then.  The function returns 0, or a
        code for `relaunch`.
        """

    def prepare_resizable(self, launch: Launch, params: ParameterBlock) -> tuple[Start, Resize]:
        """Return what `prepare` returns, and what sets the launch's blocks and their threads."""

    def relaunch(self, start: Start, code: int) -> None:
        """Launch once more what returned a code, or raise."""

    def becomes_graph(self, launch: Launch) -> bool:
        """Return whether it is to be launched as a graph if that happens often."""

    def make_graph(self, launch: Launch, params: ParameterBlock, plain: Start) -> GraphStart:
        """Return what launches it as a graph, given what launches the kernel itself.

        Raises
        ------
        DriverError
            If there can be no graph of it.
        """

    def resident_blocks(self, threads: int, shared_mem: int = 0) -> int:
        """Return how many blocks of so many threads the device holds at the same time."""


class LoadedModule(Protocol):
    """A loaded image."""

    def get_kernel(self, symbol: str) -> LoadedKernel:
        """Return a kernel by its lowered name; raise `LoadError` if there is none."""

    def get_global(self, symbol: str) -> tuple[int, int]:
        """Return address and size of a variable; raise `LoadError` if there is none."""


class CudaKernel:
    """A kernel on a CUDA device."""

    def __init__(self, module: CudaModule, name: str, function: Any) -> None:
        self.name = name
        self._module = module  # keeps the code loaded
        self._function = function
        self.parameter_sizes = driver.parameter_sizes(module.ordinal, function)
        self._resident: dict[tuple[int, int], int] = {}

    def launch(self, launch: Launch, params: ParameterBlock) -> None:
        """Queue the kernel on the launch's stream."""
        check_parameters(self, params)
        if not launch.cooperative:
            launch_once(self._module.ordinal, self._function, launch, params.address)
            return
        self._check_residency(launch)
        driver.launch_cooperative(
            self._module.ordinal,
            self._function,
            launch.grid,
            launch.block,
            params.address,
            launch.shared_mem,
            launch.stream,
        )

    def prepare(self, launch: Launch, params: ParameterBlock) -> Start:
        """Return what launches the kernel again and again, with what `params` holds then."""
        if launch.cooperative:
            return functools.partial(_launch_in_full, self, launch, params)
        check_parameters(self, params)
        return prepare_launch(self._module.ordinal, self._function, launch, params.address)

    def becomes_graph(self, launch: Launch) -> bool:
        """Return whether it is to be launched as a graph if that happens often."""
        return not launch.cooperative and driver_graph.is_wanted()

    def make_graph(self, launch: Launch, params: ParameterBlock, plain: Start) -> GraphStart:
        """Return what launches it as a graph, given what launches the kernel itself."""
        return driver_graph.make_graph(
            self._module.ordinal, self._function, launch, params.address, plain
        )

    def prepare_resizable(self, launch: Launch, params: ParameterBlock) -> tuple[Start, Resize]:
        """Return what launches the kernel again and again, and what sets the launch's size."""
        check_parameters(self, params)
        return prepare_resizable(self._module.ordinal, self._function, launch, params.address)

    def relaunch(self, start: Start, code: int) -> None:
        """Deal with a launch of `prepare` that returned a code other than 0."""
        relaunch(self._module.ordinal, start, code)

    def resident_blocks(self, threads: int, shared_mem: int = 0) -> int:
        """Return how many blocks of so many threads the device holds at the same time."""
        key = threads, shared_mem
        if key not in self._resident:
            self._resident[key] = driver.resident_blocks(
                self._module.ordinal, self._function, threads, shared_mem
            )
        return self._resident[key]

    def _check_residency(self, launch: Launch) -> None:
        """Raise `LaunchError` for more blocks than wait for each other without a deadlock."""
        blocks, threads = math.prod(launch.grid), math.prod(launch.block)
        limit = self.resident_blocks(threads, launch.shared_mem)
        if blocks > limit:
            raise LaunchError(
                f"{self.name}: a cooperative grid of {blocks} blocks can not be resident; the "
                f"limit on this device is {limit} blocks of {threads} threads with "
                f"{launch.shared_mem} bytes of dynamic shared memory: launch fewer, and let each "
                "do more"
            )


class CudaModule:
    """An image loaded on a CUDA device."""

    def __init__(self, image: Image, ordinal: int) -> None:
        self.ordinal = ordinal
        try:
            self._module = driver.load_module(ordinal, image.code)
        except DriverError as error:
            major, minor = driver.compute_capability(ordinal)
            version = driver.driver_version()
            raise LoadError(
                f"{error}: a {image.format} for {image.arch} on {driver.device_name(ordinal)} "
                f"(sm_{major}{minor}) under a driver for CUDA {version // 1000}."
                f"{version % 1000 // 10}"
            ) from error

    def get_kernel(self, symbol: str) -> CudaKernel:
        """Return a kernel by its lowered name; raise `LoadError` if there is none."""
        return CudaKernel(self, symbol, driver.get_function(self.ordinal, self._module, symbol))

    def get_global(self, symbol: str) -> tuple[int, int]:
        """Return address and size of a variable; raise `LoadError` if there is none."""
        return driver.get_global(self.ordinal, self._module, symbol)


class HostKernel:
    """A kernel on the host device: runs to its end before `launch` returns."""

    def __init__(self, kernel: Any) -> None:
        self.name = kernel.name
        self.parameter_sizes: tuple[int, ...] | None = kernel.parameter_sizes
        self._kernel = kernel

    def launch(self, launch: Launch, params: ParameterBlock) -> None:
        """Run the kernel."""
        check_parameters(self, params)
        checks = launch.checks
        self._kernel.launch(
            launch.grid,
            launch.block,
            params.address,
            launch.shared_mem,
            checks.timeout,
            checks.order,
            launch.regions,
            cooperative=launch.cooperative,
        )

    def prepare(self, launch: Launch, params: ParameterBlock) -> Start:
        """Return what runs the kernel again and again, with what `params` holds then."""
        assert launch.checks == NO_CHECKS
        if launch.cooperative:
            return functools.partial(_launch_in_full, self, launch, params)
        check_parameters(self, params)
        start: Start = self._kernel.prepare(
            launch.grid, launch.block, params.address, launch.shared_mem
        )
        return start

    def relaunch(self, start: Start, code: int) -> None:
        """Never needed: what `prepare` returns raises errors by itself."""
        raise AssertionError(code)

    def prepare_resizable(self, launch: Launch, params: ParameterBlock) -> tuple[Start, Resize]:
        """Return what runs the kernel again and again, and what sets the launch's size."""
        start = self.prepare(launch, params)

        def resize(blocks: int, threads: int) -> None:
            nonlocal start
            size = (blocks, 1, 1), (threads, 1, 1)
            start = self.prepare(replace(launch, grid=size[0], block=size[1]), params)

        return (lambda: start()), resize

    def becomes_graph(self, launch: Launch) -> bool:
        """Return False: what is launched has run."""
        return False

    def make_graph(self, launch: Launch, params: ParameterBlock, plain: Start) -> GraphStart:
        """Never needed, as `becomes_graph` says."""
        raise AssertionError(launch)

    def resident_blocks(self, threads: int, shared_mem: int = 0) -> int:
        """Return 1: blocks run one after the other on each core."""
        return 1


class HostModule:
    """An image loaded into this process."""

    def __init__(self, image: Image, home: LoadedModule | None = None) -> None:
        kept = home._module if isinstance(home, HostModule) else None
        self._module: host.HostModule = host.load_module(image, kept)

    def get_kernel(self, symbol: str) -> HostKernel:
        """Return a kernel by its symbol; raise `LoadError` if there is none."""
        return HostKernel(self._module.get_kernel(symbol))

    def get_global(self, symbol: str) -> tuple[int, int]:
        """Return address and size of a variable; raise `LoadError` if there is none."""
        return self._module.get_global(symbol)


def _launch_in_full(kernel: LoadedKernel, launch: Launch, params: ParameterBlock) -> int:
    """Launch a kernel that has to be asked each time how many of its blocks can be resident."""
    kernel.launch(launch, params)
    return 0


def check_parameters(kernel: LoadedKernel, params: ParameterBlock) -> None:
    """Refuse a launch whose parameters the kernel would read past.

    A larger one is legal: of a Python int's 8 bytes a C int takes the low 4.

    Raises
    ------
    ArgumentTypeError
        If there are too many, too few, or too small parameters.
    """
    sizes = kernel.parameter_sizes
    if sizes is None or sizes == params.sizes:
        return
    if len(sizes) != len(params.sizes):
        raise ArgumentTypeError(
            f"{kernel.name} takes {len(sizes)} parameters, but {len(params.sizes)} were given"
        )
    for number, (size, given) in enumerate(zip(sizes, params.sizes, strict=True)):
        if given < size:
            raise ArgumentTypeError(
                f"{kernel.name}: parameter {number} has {size} bytes, but the argument has {given}"
            )


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
        If the device or its driver can not run it.
    """
    return HostModule(image, home) if device.is_host else CudaModule(image, device.ordinal)
