"""Kernels of the host device: launches in, results in memory or a `HostFault` out.

::

    kernel = load_module(compile_host(source)).get_kernel("k")
    kernel.launch((1, 1, 1), (64, 1, 1), params)   # params: the void** of cuLaunchKernel

A fault affects neither the process nor the next launch.  `kspec.host.modules` loads the code,
``rt/`` executes it.
"""

from __future__ import annotations

import ctypes
import functools
import math
import signal
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kspec import config
from kspec.dataclass import dataclass
from kspec.host import check_configuration, check_cooperative, check_parameter_bytes, runtime
from kspec.locks import Turn
from kspec.model.checks import REVIEW

if TYPE_CHECKING:
    from kspec.host.modules import NativeModule
    from kspec.host.recording import Recording, Variable
    from kspec.host.sampling import Range

_ENDLESS = 1e9  # seconds, which the system's clocks can count; no timeout is that long


@dataclass(frozen=True)
class Region:
    """Memory of an array that somebody else owns, and what messages call it.

    `fresh`: it was made for the launch, so that nothing is written in it.
    """

    ptr: int
    nbytes: int
    name: str
    read_only: bool = False
    fresh: bool = False


class NativeKernel:
    """A callable entry of a module.

    Attributes
    ----------
    name : str
        Name expression.
    parameter_sizes : tuple of int
        Bytes of each parameter.
    points, writes_to : tuple of bool
        Whether each is a pointer, and one to what is not const.
    modes : tuple of str
        What it is instrumented for.
    line_of : callable or None
        Returns the text of a line of a file, for faults to show.
    beside : callable or None
        Returns the same kernel without what is recorded for reviews.
    """

    def __init__(self, module: NativeModule, name: str, symbol: str) -> None:
        self.name = name
        self.line_of: Callable[[str, int], str] | None = None
        self.beside: Callable[[], NativeKernel] | None = None
        self._module = module  # keeps the code loaded
        self.modes = module.sanitize
        library = module._library
        self._entry = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        sizes = getattr(library, symbol.replace("entry", "sizes"))
        sizes.restype = ctypes.c_void_p
        self._sizes = sizes()
        self.parameter_sizes, flags = _read_parameters(self._sizes)
        self.points = tuple(bool(one & _POINTER) for one in flags)
        self.writes_to = tuple(one == _POINTER for one in flags)
        check_parameter_bytes(name, self.parameter_sizes)

    @property
    def code(self) -> bytes:
        """The image that it is from."""
        return self._module.image.code

    @property
    def shared_bytes(self) -> int:
        """Bytes of its static shared memory, if its module has no other kernel; else 0."""
        return self._module.shared_bytes

    @property
    def variables(self) -> tuple[Variable, ...]:
        """The variables of its source."""
        return self._module.list_variables()

    def launch(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        shared_mem: int = 0,
        timeout: float | None = None,
        order: str = "forward",
        regions: Sequence[Region] = (),
        cooperative: bool = False,
    ) -> Recording | None:
        """Run the kernel to its end.

        Parameters
        ----------
        grid, block : tuple of int
            Extents in blocks and threads.
        params : int
            Address of an array of pointers to the arguments, as for ``cuLaunchKernel``.
        shared_mem : int
            Dynamic shared memory in bytes.
        timeout : float, optional
            Seconds after which the kernel is stopped with a `HostFault` of kind ``"timeout"``.
        order : str
            In which order threads and blocks run (`kspec.model.checks.Checks`).
        regions : sequence of Region
            The memory of the array arguments; buffers of the host device are known anyway. A
            module instrumented for ``"memory"`` may touch nothing else.
        cooperative : bool
            Whether blocks may wait for each other (``grid.sync()``); they then run on one core.

        Returns
        -------
        Recording or None
            Of a kernel that is instrumented for reviews.

        Raises
        ------
        LaunchError
            When the configuration is impossible.
        HostFault
            When a thread does something illegal: which, where, and in which block and thread.
        KeyboardInterrupt
            On Ctrl-C, also while the kernel spins.
        """
        check_configuration(self.name, grid, block, shared_mem)
        if cooperative:
            check_cooperative(self.name, grid, block)
        traced = self._module.traced or order != "forward"
        threads = 1 if traced or grid == (1, 1, 1) else config.host_threads()
        options = _PLAIN
        if traced or cooperative or self._module.sanitize:
            options = _launch_options(self._module, order, regions, cooperative)
        seconds = 0.0 if timeout is None or timeout > _ENDLESS else timeout
        sizes = (*grid, *block, shared_mem, params)
        if REVIEW not in self.modes:
            self._run(sizes, threads, seconds, options)
            return None
        from kspec.host.recording import read_recording
        from kspec.host.sampling import EVENTS, sampled_runs

        alone = self.modes == (REVIEW,) and order == "forward" and not cooperative
        runs = sampled_runs(math.prod(grid), -(-math.prod(block) // _WARP))
        # It is compiled for large grids only.
        beside = self.beside() if alone and self.beside and len(runs) > 1 else None
        plain = _launch_options(beside._module, order, regions, False) if beside else _PLAIN
        options.run_events = EVENTS // len(runs)
        with _REVIEWING:
            self._record(sizes, threads, seconds, options, runs, beside, plain)
            return read_recording(self._module._runtime.review().contents)

    def _record(
        self,
        sizes: Sequence[int],
        threads: int,
        seconds: float,
        options: runtime.NativeOptions,
        runs: list[Range],
        beside: NativeKernel | None,
        plain: runtime.NativeOptions,
    ) -> None:
        """Run the kernel and record some blocks; all others run in the kernel beside it."""
        from kspec.host.sampling import parts

        if beside is None:
            _look_at(options, runs, 1)
            self._run(sizes, threads, seconds, options)
            return
        blocks = math.prod(sizes[:3])
        _look_at(options, runs[:1], 1)
        options.blocks = runtime.BlockRangeRecord(0, 1)
        self._run(sizes, threads, seconds, options)
        options.continues = True
        if self._module._runtime.review().contents.tiled:  # the first block has taken them all
            options.blocks = runtime.BlockRangeRecord(1, blocks)
            self._run(sizes, threads, seconds, options)
            return
        for first, last, run in parts(blocks, runs):  # in their order: some may wait for others
            how = options if run else plain
            how.blocks = runtime.BlockRangeRecord(max(1, first), last)
            if run:
                _look_at(options, [(first, last)], run)
                self._run(sizes, threads, seconds, options)
            elif last > 1:
                beside._run(sizes, config.host_threads(), seconds, plain)

    def prepare(
        self,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        params: int,
        shared_mem: int = 0,
        regions: Sequence[Region] = (),
    ) -> PreparedLaunch:
        """Return a function that runs the kernel, in the order of its threads, at each call.

        Parameters and errors are those of `launch`.
        """
        check_configuration(self.name, grid, block, shared_mem)
        return PreparedLaunch(self, grid, block, shared_mem, params, regions)

    def _run(
        self, sizes: Sequence[int], threads: int, timeout: float, options: runtime.NativeOptions
    ) -> None:
        """Run the kernel; `sizes` are grid, block, shared memory and address of parameters."""
        run = self._module._runtime
        text = ""
        fault = None
        with runtime.LAUNCHING:
            before = self._module.fetch_globals()
            outcome = self._run_to_end(run, (*sizes, threads, _interrupts(), timeout, options))
            self._module.return_globals(before)
            if outcome & runtime.PRINTED:
                text = run.printed().decode(errors="replace")
            if outcome & (runtime.FAULT | runtime.INTERRUPT):
                from kspec.host.faults import fault_of

                fault = fault_of(
                    run.fault().contents, self.name, self._module.image.code, self.line_of
                )
        try:
            if text and sys.stdout is not None:  # as in processes without a console
                sys.stdout.write(text)
        finally:
            if fault is not None:
                raise KeyboardInterrupt(fault.message) if outcome & runtime.INTERRUPT else fault

    def _run_to_end(self, run: runtime.Runtime, arguments: tuple[Any, ...]) -> int:
        try:
            outcome = run.launch(self._entry, self._sizes, self._module._slots, *arguments)
            while outcome & runtime.RUNS:  # handlers of signals run here
                outcome = run.wait()
        except BaseException:  # what one of them raised
            run.cancel()
            raise
        return outcome


def _look_at(options: runtime.NativeOptions, runs: Sequence[Range], first_run: int) -> None:
    """Let a launch record runs of blocks; from the second run on, it goes on with the last."""
    table = (runtime.BlockRangeRecord * len(runs))(
        *(runtime.BlockRangeRecord(*one) for one in runs)
    )
    options.runs, options.run_count, options.first_run = table, len(runs), first_run


_PLAIN = runtime.NativeOptions()
_WARP = 32
_REVIEWING = Turn()  # the runtime has one recording, to which several launches may add
_REGION = "QQP?7x"  # runtime.Region


@functools.cache
def _pack_regions(count: int) -> Callable[..., None]:
    return struct.Struct(_REGION * count).pack_into


@functools.cache
def label_address(label: str) -> int:
    """Return the address of a region's name, for `PreparedLaunch.guard`; it stays there."""
    text = ctypes.create_string_buffer(label.encode())
    _LABELS.append(text)
    return ctypes.addressof(text)


_LABELS: list[Any] = []  # what `label_address` keeps


class PreparedLaunch:
    """Runs a kernel, one call at a time; returns 0."""

    __slots__ = ("_alone", "_kernel", "_module", "_options", "_sizes", "_table", "_variables")

    def __init__(
        self,
        kernel: NativeKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared_mem: int,
        params: int,
        regions: Sequence[Region],
    ) -> None:
        self._kernel = kernel
        self._sizes = (*grid, *block, shared_mem, params)
        self._alone = grid == (1, 1, 1)
        self._options = _PLAIN
        module = kernel._module
        if module.sanitize:
            self._options = runtime.NativeOptions(
                sum(_MODES.get(one, 0) for one in module.sanitize)
            )
            self._variables = _flat(module.variables)
            self.guard(_flat(regions))

    def guard(self, regions: tuple[int, ...]) -> None:
        """Set the memory that the next calls may touch.

        Parameters
        ----------
        regions : tuple of int
            For each region its address, size, `label_address`, and whether it is read-only.
        """
        regions += self._variables
        count = len(regions) // 4
        if count > self._options.region_count or not count:
            self._table = (runtime.RegionRecord * max(1, count))()
            self._options.regions = self._table
        self._options.region_count = count
        _pack_regions(count)(self._table, 0, *regions)

    def __call__(self) -> int:
        """Run the kernel."""
        threads = 1 if self._alone else config.host_threads()
        self._kernel._run(self._sizes, threads, 0.0, self._options)
        return 0


def _flat(regions: Sequence[Region]) -> tuple[int, ...]:
    return tuple(
        value
        for one in regions
        for value in (one.ptr, one.nbytes, label_address(one.name), one.read_only)
    )


TABLES = {"memory": 1, "race": 2, "init": 4, REVIEW: 16}  # CheckMode of rt/check_state.h
_MODES = {**TABLES, "bounds": 8}


def _launch_options(
    module: NativeModule, order: str, regions: Sequence[Region], cooperative: bool
) -> runtime.NativeOptions:
    name, _, seed = order.partition(":")
    regions = [*regions, *module.variables]
    table = (runtime.RegionRecord * max(1, len(regions)))(
        *(
            runtime.RegionRecord(one.ptr, one.nbytes, one.name.encode(), one.read_only, one.fresh)
            for one in regions
        )
    )
    return runtime.NativeOptions(
        sum(_MODES.get(mode, 0) for mode in module.sanitize),
        ("forward", "reverse", "random").index(name),
        int(seed or 0),
        table,
        len(regions),
        cooperative,
    )


# The public function looks its result up in an enumeration, which takes as long as a small kernel.
_handler_of: Callable[[int], Any] = getattr(
    sys.modules.get("_signal"), "getsignal", signal.getsignal
)


def _interrupts() -> int:
    """Return the effect of Ctrl-C on a launch made here: as on Python."""
    if threading.current_thread() is not threading.main_thread():
        return runtime.LEAVE
    handler = _handler_of(signal.SIGINT)
    if handler is signal.default_int_handler or _is_of_asyncio(handler):
        return runtime.TAKE
    return runtime.APART if callable(handler) else runtime.LEAVE


def _is_of_asyncio(handler: Any) -> bool:
    """Return whether this is the handler of `asyncio.run`.

    It cancels the main task, which has no effect before the task gives way to others: a kernel that
    hangs would be stopped by the second Ctrl-C only.
    """
    function = getattr(handler, "func", None)
    return getattr(function, "__module__", None) == "asyncio.runners"


_POINTER = 1  # in flags; 2 if it is to constants


def _read_parameters(address: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sizes of parameters, and their flags (``entry.h``)."""
    values = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint))
    sizes: list[int] = []
    while values[len(sizes)]:
        sizes.append(values[len(sizes)])
    count = len(sizes)
    return tuple(sizes), tuple(values[count + 1 + k] for k in range(count))
