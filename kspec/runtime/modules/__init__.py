"""Interface of loaded images and their kernels on either kind of device, with the common checks.

`kspec.runtime.modules.cuda` and `kspec.runtime.modules.host` are the two kinds;
`kspec.runtime.modules.loader` chooses.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Protocol

from kspec.errors import ArgumentTypeError, LaunchError, counted
from kspec.runtime.driver.launch import Launch
from kspec.runtime.schedules.marshal import PackedParameters

if TYPE_CHECKING:
    from kspec.runtime.driver.graph import GraphStart
    from kspec.runtime.driver.launch_ex import Resize, Start


class LoadedKernel(Protocol):
    """A kernel that can be launched.

    Attributes
    ----------
    name : str
        Its lowered name.
    modes : tuple of str
        What it is instrumented for, on the host device.
    parameter_sizes : tuple of int or None
        Bytes of each parameter, None where the driver cannot tell.
    points : tuple of bool or None
        Whether each is a pointer, None where that is unknown: on CUDA devices.
    """

    name: str
    parameter_sizes: tuple[int, ...] | None
    points: tuple[bool, ...] | None
    modes: tuple[str, ...]

    @property
    def attributes(self) -> dict[str, int]:
        """Resources of the kernel, and limits of its launches (`KernelAttributes`)."""

    def allow_shared_memory(self, nbytes: int) -> None:
        """Allow launches with so much dynamic shared memory.

        Raises
        ------
        DriverError
            If the device does not have it.
        """

    def launch(self, launch: Launch, params: PackedParameters) -> None:
        """Launch it."""

    def prepare(self, launch: Launch, params: PackedParameters) -> Start:
        """Return a function that launches it, as often as wanted, unchecked.

        Each launch takes what the memory of `params` holds then.  The function returns 0, or a
        code for `relaunch`.
        """

    def prepare_resizable(self, launch: Launch, params: PackedParameters) -> tuple[Start, Resize]:
        """Return the result of `prepare`, and a function that sets the grid and the block."""

    def relaunch(self, start: Start, code: int) -> None:
        """Launch once more what returned a code, or raise."""

    def becomes_graph(self, launch: Launch) -> bool:
        """Return whether it is to be launched as a graph if that happens often."""

    def make_graph(self, launch: Launch, params: PackedParameters, plain: Start) -> GraphStart:
        """Return functions that launch it as a graph, given the plain launch.

        Raises
        ------
        DriverError
            If it cannot be a graph.
        """

    def resident_blocks(self, threads: int, shared_mem: int = 0, cluster: int = 1) -> int:
        """Return the number of blocks of so many threads that the device holds at the same time.

        In clusters of so many blocks, if they are several.
        """


class LoadedModule(Protocol):
    """A loaded image.

    Attributes
    ----------
    mapping : dict of str to str
        Name expressions, and the names that the compiler gave their kernels.
    """

    mapping: dict[str, str]

    def get_kernel(self, symbol: str) -> LoadedKernel:
        """Return a kernel by its lowered name; raise `LoadError` if there is none."""

    def get_global(self, symbol: str) -> tuple[int, int]:
        """Return address and size of a variable; raise `LoadError` if there is none."""


def readable(symbol: str) -> str:
    """Return the name of a kernel for messages: of a mangled one the identifier.

    >>> readable("_Z4axpyIfEvPT_"), readable("axpy")
    ('axpy', 'axpy')
    """
    match = re.match(r"_Z(\d+)", symbol)
    return symbol[match.end() : match.end() + int(match[1])] if match else symbol


def check_parameters(kernel: LoadedKernel, params: PackedParameters) -> None:
    """Refuse a launch whose parameters the kernel would read past.

    Larger ones are legal; `kspec.runtime.raw.fitting` has the rules of raw kernels.

    Raises
    ------
    ArgumentTypeError
        If there are too many, too few, or too small parameters.
    """
    sizes = kernel.parameter_sizes
    if sizes is None or sizes == params.sizes:
        return
    name = readable(kernel.name)
    if len(sizes) != len(params.sizes):
        raise ArgumentTypeError(
            f"{name} takes {counted(len(sizes), 'parameter')}, not {len(params.sizes)}"
        )
    for number, (size, given) in enumerate(zip(sizes, params.sizes, strict=True)):
        if given < size:
            raise ArgumentTypeError(
                f"{name}: parameter {number} has {size} bytes, but the argument has {given}"
            )


def check_resources(kernel: LoadedKernel, launch: Launch, most_shared: int) -> None:
    """Refuse a launch that the kernel is too large for.

    Parameters
    ----------
    kernel : LoadedKernel
        What is launched.
    launch : Launch
        How.
    most_shared : int
        Bytes of shared memory that a block can have on the device.

    Raises
    ------
    LaunchError
        If a block has too many threads, or too much shared memory.
    """
    name, attributes = readable(kernel.name), kernel.attributes
    threads, most = math.prod(launch.block), attributes["max_threads_per_block"]
    if threads > most:
        raise LaunchError(
            f"{name}: a block of {threads} threads; with {attributes['num_regs']} registers "
            f"for each, {most} fit: launch smaller blocks, or compile the kernel for larger ones "
            f"(__launch_bounds__({threads}))"
        )
    limit = launch.shared_limit
    if limit is None:
        limit = attributes["max_dynamic_shared_size_bytes"]
    if launch.shared_mem > limit:
        room = most_shared - attributes["shared_size_bytes"]
        advice = (
            f"set max_dynamic_shared_size_bytes of the kernel, on this device to at most {room}"
            if launch.shared_mem <= room
            else f"this device has {room} for it"
        )
        raise LaunchError(
            f"{name}: {launch.shared_mem} bytes of dynamic shared memory, but it may have "
            f"{limit}; {advice}"
        )


def launch_in_full(kernel: LoadedKernel, launch: Launch, params: PackedParameters) -> int:
    """Launch a kernel that has to be asked each time how many of its blocks can be resident."""
    kernel.launch(launch, params)
    return 0
