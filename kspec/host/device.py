"""Image in, running kernels out: modules, launches and buffers of the host device.

::

    kernel = load_module(compile_host(source)).get_kernel("k")
    kernel.launch((1, 1, 1), (64, 1, 1), params)   # params: the void** of cuLaunchKernel

Faults of a kernel become `HostFault`; the process and the next launch are not affected.
`kspec.compiler.host.compile` makes the images, ``rt/`` executes them.
"""

from __future__ import annotations

import ctypes
import functools
import math
import re
import signal
import struct
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kspec import config
from kspec.cpp.name_expressions import ADVICE
from kspec.errors import HostFault, LaunchError, LoadError
from kspec.host import runtime, sites
from kspec.locks import Turn
from kspec.model.stages import Image

# Those of every GPU since sm_30 (CUDA C++ Programming Guide, compute capabilities); launches on a
# GPU are checked against them too.
MAX_BLOCK_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
MAX_SHARED_BYTES = 227 * 1024
MAX_PARAMETER_BYTES = 32764  # since CUDA 12.1 on compute capability 7.0 and newer
# All threads of a cooperative launch have a stack: 130 MB, and half the mappings Linux allows.
MAX_COOPERATIVE_BLOCKS = 1024  # that of rt/grid.h
MAX_COOPERATIVE_THREADS = 16384

_ENDLESS = 1e9  # seconds, which the system's clocks can count; no timeout is that long

# A launch and the reading of its outcome belong together; the runtime runs one at a time anyway.
_launching = Turn()


@dataclass(frozen=True)
class Region:
    """Memory of an array that somebody else owns, and what messages call it."""

    ptr: int
    nbytes: int
    name: str
    read_only: bool = False


@dataclass(frozen=True)
class _SharedGlobal:
    """A global variable of an instrumented module and of the plain one, which keeps its value."""

    name: str
    here: int
    home: int
    nbytes: int


class HostModule:
    """A loaded image.

    Attributes
    ----------
    image : Image
        What it was loaded from.
    sanitize : tuple of str
        Checking modes it is instrumented for.
    traced : bool
        Whether every access is looked up in tables, which one operating-system thread has.
    """

    def __init__(self, image: Image, home: HostModule | None = None) -> None:
        arch, *sanitize = image.arch.split("+")
        if image.format != "so" or arch != "host":
            raise LoadError(f"the host device cannot load a {image.format} for {image.arch}")
        self.image = image
        self.sanitize = tuple(sanitize)
        self.traced = any(mode in _TABLES for mode in sanitize)
        self._runtime = runtime.load_runtime()
        if "bounds" in sanitize and not _has_shadow():
            raise LoadError("this process has no room for the shadow memory of bounds checks")
        self._home = home  # keeps it loaded
        self._library = self._load(image)
        bind = ctypes.cast(self._library.kspec_bind, ctypes.c_void_p)
        # At exit it stays, since kernels may run in other finalizers.
        weakref.finalize(self, _dropped.append, (self._library._handle, bind.value)).atexit = False
        self._slots = self._runtime.bind(bind)
        if self._slots == 0xFFFFFFFF:
            raise LoadError("the host image was compiled by another version of kspec")
        self._shared = self._globals_shared_with(home) if home else ()

    def _load(self, image: Image) -> ctypes.CDLL:
        with _launching:
            _unload_dropped(self._runtime)
            if "bounds" not in self.sanitize:
                return runtime.load_library(image.code, "module")
            self._runtime.begin_load()
            try:
                return runtime.load_library(image.code, "module")
            finally:
                self._runtime.end_load()

    def get_kernel(self, name: str) -> HostKernel:
        """Return a kernel by its name expression, plain name or symbol; `LoadError` if absent."""
        symbol = self._symbol(name, "kspec_entry_")
        return HostKernel(self, _name_of(self.image.symbols, name), symbol)

    def get_global(self, name: str) -> tuple[int, int]:
        """Return address and size in bytes of a global variable; `LoadError` if absent."""
        symbol = self._symbol(name, "kspec_global_")
        size = symbol.replace("global_", "global_size_")
        return self._call(symbol, ctypes.c_void_p), self._call(size, ctypes.c_size_t)

    def _globals_shared_with(self, home: HostModule) -> tuple[_SharedGlobal, ...]:
        """Return the global variables that both have."""
        names = {symbol: name for name, symbol in self.image.symbols.items()}
        return tuple(
            _SharedGlobal(name, self.get_global(symbol)[0], *home.get_global(symbol))
            for symbol, name in names.items()
            if symbol.startswith("kspec_global_") and symbol in home.image.symbols.values()
        )

    def fetch_globals(self) -> list[bytes]:
        """Take the values of global variables from the module that keeps them; return them."""
        values = [ctypes.string_at(one.home, one.nbytes) for one in self._shared]
        for one, value in zip(self._shared, values, strict=True):
            ctypes.memmove(one.here, value, one.nbytes)
        return values

    def return_globals(self, before: list[bytes]) -> None:
        """Give the changed values of global variables back to the module that keeps them."""
        for one, value in zip(self._shared, before, strict=True):
            # Unchanged here, it may have been written there, through its address.
            if ctypes.string_at(one.here, one.nbytes) != value:
                ctypes.memmove(one.home, one.here, one.nbytes)

    @property
    def variables(self) -> tuple[Region, ...]:
        """The memory of variables whose addresses users get from the module that keeps them."""
        return tuple(Region(one.home, one.nbytes, f"variable {one.name}") for one in self._shared)

    def _symbol(self, name: str, prefix: str) -> str:
        symbol = self.image.symbols.get(name, name)
        if not symbol.startswith(prefix) or not hasattr(self._library, symbol):
            known = [key for key, value in self.image.symbols.items() if value.startswith(prefix)]
            have = f"; the module has {', '.join(sorted(known))}" if known else ""
            asked = _name_of(self.image.symbols, name)
            advice = f"; {ADVICE}" if prefix == "kspec_entry_" else ""
            raise LoadError(f"named symbol not found: {asked}{have}{advice}")
        return symbol

    def _call(self, symbol: str, result: Any) -> int:
        function = getattr(self._library, symbol)
        function.restype = result
        return int(function())


# Modules that nothing refers to: the handles of their libraries, and a function of each. Finalizers
# run anywhere, during a launch too, so they only put them here.
_dropped: deque[tuple[int, Any]] = deque()


def _unload_dropped(run: runtime.Runtime) -> None:
    while _dropped:
        run.unload(*_dropped.popleft())


@functools.cache
def bounds_mode() -> str:
    """Return the mode that keeps kernels within bounds by default.

    ``"memory"`` instead of ``"bounds"``, slower and as safe, where a process has no addresses for
    shadow memory (``ulimit -v``).
    """
    return "bounds" if _has_shadow() else "memory"


def _has_shadow() -> bool:
    run = runtime.load_runtime()
    with _launching:
        return bool(run.has_shadow())


def load_module(image: Image, home: HostModule | None = None) -> HostModule:
    """Load an image of `kspec.compiler.host.compile.compile_host`.

    Parameters
    ----------
    image : Image
        What to load.
    home : HostModule, optional
        The same source without instrumentation: it keeps the global variables of both.

    Raises
    ------
    LoadError
        When it is not a host image, is damaged, or comes from another version.
    ToolNotFoundError
        When the runtime has to be built and there is no C++ compiler.
    """
    return HostModule(image, home)


def _name_of(symbols: Mapping[str, str], name: str) -> str:
    """Return the readable name of a kernel that was asked for by name or by symbol."""
    if name in symbols:
        return name
    return next((key for key, symbol in symbols.items() if symbol == name), name)


class HostKernel:
    """A callable entry of a module.

    Attributes
    ----------
    name : str
        Name expression.
    parameter_sizes : tuple of int
        Bytes of each parameter.
    writes_to : tuple of bool
        Whether each is a pointer to what is not const.
    modes : tuple of str
        What it is instrumented for.
    line_of : callable or None
        Returns the text of a line of a file, for faults to show.
    """

    def __init__(self, module: HostModule, name: str, symbol: str) -> None:
        self.name = name
        self.line_of: Callable[[str, int], str] | None = None
        self._module = module  # keeps the code loaded
        self.modes = module.sanitize
        library = module._library
        self._entry = ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value
        sizes = getattr(library, symbol.replace("entry", "sizes"))
        sizes.restype = ctypes.c_void_p
        self._sizes = sizes()
        self.parameter_sizes, self.writes_to = _read_parameters(self._sizes)
        _check_parameter_bytes(name, self.parameter_sizes)

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
    ) -> None:
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

        Raises
        ------
        LaunchError
            When the configuration is impossible.
        HostFault
            When a thread does something illegal: which, where, and in which block and thread.
        KeyboardInterrupt
            On Ctrl-C, also while the kernel spins.
        """
        _check_configuration(self.name, grid, block, shared_mem)
        if cooperative:
            _check_cooperative(self.name, grid, block)
        traced = self._module.traced or order != "forward"
        threads = 1 if traced or grid == (1, 1, 1) else config.host_threads()
        options = _PLAIN
        if traced or cooperative or self._module.sanitize:
            options = _launch_options(self._module, order, regions, cooperative)
        seconds = 0.0 if timeout is None or timeout > _ENDLESS else timeout
        self._run((*grid, *block, shared_mem, params), threads, seconds, options)

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
        _check_configuration(self.name, grid, block, shared_mem)
        return PreparedLaunch(self, grid, block, shared_mem, params, regions)

    def _run(
        self, sizes: Sequence[int], threads: int, timeout: float, options: runtime.NativeOptions
    ) -> None:
        """Run the kernel; `sizes` are grid, block, shared memory and address of parameters."""
        run = self._module._runtime
        text = ""
        fault = None
        with _launching:
            before = self._module.fetch_globals()
            outcome = self._run_to_end(run, (*sizes, threads, _interrupts(), timeout, options))
            self._module.return_globals(before)
            if outcome & runtime.PRINTED:
                text = run.printed().decode(errors="replace")
            if outcome & (runtime.FAULT | runtime.INTERRUPT):
                fault = self._fault(run)
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

    def _fault(self, run: runtime.Runtime) -> HostFault:
        record = run.fault().contents
        kind, message = record.kind.decode(), record.message.decode(errors="replace")
        where = _position(record, self._module.image.code)
        code = self._module.image.code
        message = _PLACE.sub(lambda found: _place(code, int(found[1], 16)), message)
        headline, newline, details = message.partition("\n")
        text = f"{self.name}: {kind}: {headline}"
        if where:
            text += f" at {where}"
        if record.has_thread:
            text += f" [block {_triple(record.block)} thread {_triple(record.thread)}]"
        if not where:  # of two accesses that conflict, the one that found it
            where = next(iter(_FIRST_PLACE.findall(headline)), "")
        path, _, line = sites.position(where).rpartition(":")
        shown = self.line_of(path, int(line)) if self.line_of and path else ""
        text = sites.readable(text + newline + details)
        return HostFault(kind, text, path, int(line or 0), shown)


_PLAIN = runtime.NativeOptions()
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
        kernel: HostKernel,
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


_TABLES = {"memory": 1, "race": 2, "init": 4}  # CheckMode of rt/check_state.h
_MODES = {**_TABLES, "bounds": 8}


def _launch_options(
    module: HostModule, order: str, regions: Sequence[Region], cooperative: bool
) -> runtime.NativeOptions:
    name, _, seed = order.partition(":")
    regions = [*regions, *module.variables]
    table = (runtime.RegionRecord * max(1, len(regions)))(
        *(
            runtime.RegionRecord(one.ptr, one.nbytes, one.name.encode(), one.read_only)
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


def _interrupts() -> int:
    """Return the effect of Ctrl-C on a launch made here: as on Python."""
    if threading.current_thread() is not threading.main_thread():
        return runtime.LEAVE
    handler = signal.getsignal(signal.SIGINT)
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


# The runtime writes offsets in the module, only we can look them up: "read by thread 3<@1a2b>".
_PLACE = re.compile("<@([0-9a-f]+)>")
_FIRST_PLACE = re.compile(r" at (\S.*?:\d+)\b")


def _place(code: bytes, offset: int) -> str:
    where = _source_position(code, offset)
    return f" at {where}" if where else ""


def _read_parameters(address: int) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """Return the sizes of parameters, and which point to what is not const (``entry.h``)."""
    values = ctypes.cast(address, ctypes.POINTER(ctypes.c_uint))
    sizes: list[int] = []
    while values[len(sizes)]:
        sizes.append(values[len(sizes)])
    count = len(sizes)
    return tuple(sizes), tuple(values[count + 1 + k] == 1 for k in range(count))


def _check_parameter_bytes(name: str, sizes: tuple[int, ...]) -> None:
    if sum(sizes) > MAX_PARAMETER_BYTES:
        raise LaunchError(
            f"{name}: its parameters have {sum(sizes)} bytes, and CUDA allows "
            f"{MAX_PARAMETER_BYTES}: pass an array, or a pointer to the struct"
        )


def _triple(values: Any) -> str:
    return f"({values[0]},{values[1]},{values[2]})"


def _position(record: Any, code: bytes) -> str:
    """Return ``file:line`` of a fault, or an empty string."""
    if record.line:
        return f"{record.file.decode(errors='replace')}:{record.line}"
    # The instruction that failed has the address; a call's return address would be one further.
    return _source_position(code, record.pc) if record.in_module else ""


def _source_position(code: bytes, offset: int) -> str:
    # Lazy on purpose: only what has failed is looked up.
    from kspec.host.locate import source_position

    return source_position(code, offset)


def _check_configuration(
    name: str, grid: tuple[int, int, int], block: tuple[int, int, int], shared_mem: int
) -> None:
    """Raise `LaunchError` for what a GPU would refuse too."""
    for what, extents, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        for extent, limit in zip(extents, limits, strict=True):
            if not 1 <= extent <= limit:
                raise LaunchError(f"{name}: {what} {extents} is not within (1, 1, 1) and {limits}")
    threads = block[0] * block[1] * block[2]
    if threads > MAX_BLOCK_THREADS:
        raise LaunchError(
            f"{name}: block {block} has {threads} threads; the limit is {MAX_BLOCK_THREADS}"
        )
    if not 0 <= shared_mem <= MAX_SHARED_BYTES:
        raise LaunchError(
            f"{name}: {shared_mem} bytes of shared memory; the limit is {MAX_SHARED_BYTES}"
        )


def _check_cooperative(name: str, grid: tuple[int, int, int], block: tuple[int, int, int]) -> None:
    blocks, threads = math.prod(grid), math.prod(block)
    if blocks > MAX_COOPERATIVE_BLOCKS or blocks * threads > MAX_COOPERATIVE_THREADS:
        raise LaunchError(
            f"{name}: a cooperative grid of {blocks} blocks with {threads} threads each cannot "
            f"be resident; the limit of the host device is {MAX_COOPERATIVE_BLOCKS} blocks and "
            f"{MAX_COOPERATIVE_THREADS} threads in all: launch fewer, and let each do more"
        )


class HostBuffer:
    """Memory of the host device: it ends at 64 MiB of guard, so overruns fault at once.

    Beyond some thousands of them, buffers share pages and have no guard.

    Attributes
    ----------
    ptr : int
        Address of the first byte.
    nbytes : int
        Size asked for.
    """

    def __init__(self, nbytes: int, alignment: int = 16) -> None:
        if nbytes < 0:
            raise ValueError(f"negative size: {nbytes}")
        if alignment < 1 or alignment & (alignment - 1) or alignment > 4096:
            raise ValueError(f"alignment {alignment} is not a power of two up to 4096")
        run = runtime.load_runtime()
        handle = run.allocate(nbytes, alignment)
        if not handle:
            raise MemoryError(f"the host device cannot allocate {nbytes} bytes")
        self.ptr = run.address(handle)
        self.nbytes = nbytes
        self._finalizer = weakref.finalize(self, run.free, handle)
        # At exit other objects may still point into it, and the system takes it back anyway.
        self._finalizer.atexit = False

    def free(self) -> None:
        """Give the memory back now; a second call does nothing."""
        self._finalizer()


def allocate(nbytes: int, alignment: int = 16) -> HostBuffer:
    """Return `nbytes` of memory between guards.

    Parameters
    ----------
    nbytes : int
        Size; its end, rounded up to `alignment`, touches the guard.
    alignment : int
        Of the address, in bytes. What it leaves free is checked after every launch.
    """
    return HostBuffer(nbytes, alignment)


def check_canaries() -> None:
    """Raise `HostFault` when bytes just outside a buffer were written; launches do this."""
    run = runtime.load_runtime()
    with _launching:
        if not run.check_canaries():
            return
        record = run.fault().contents
        kind, message = record.kind.decode(), record.message.decode()
    raise HostFault(kind, f"{kind}: {message}")
