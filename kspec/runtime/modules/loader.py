"""Loading of kernels: `KernelLoader` asks providers for images, and keeps what it loads."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from kspec.errors import (
    CompileError,
    KspecError,
    LoadError,
    SpecializationNotBuilt,
    ToolNotFoundError,
    shorten,
)
from kspec.locks import OnceMap, RecentMap
from kspec.model.checks import AS_GPU, REVIEW, current_checks
from kspec.model.stages import Image, RawSymbol, Specialization
from kspec.runtime.arguments.checks import modes_of_call
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.modules import LoadedKernel, LoadedModule
from kspec.runtime.modules.provider import (
    Provider,
    Wanted,
    figures_of,
    line_of,
    lowered_name_of,
    machine_code_of,
    source_of,
)

_Key = tuple[Wanted, Device, tuple[str, ...]]

# Kernels that are made anew in each call of a function, or unpickled in each task, are loaded once
# if they are equal; no user can reach variables of theirs. Modules that nothing refers to are
# unloaded, but for the latest: a process may have 65,530 mappings, and one of the host device has
# some five.
_SHARED: RecentMap[tuple[bytes, Device], LoadedModule] = RecentMap(64)
# Instrumentation that is not slow.
_QUICK_MODES = ((), ("bounds",))
_compiles_while_captured = ContextVar("kspec_compiles_while_captured", default=False)


@contextmanager
def compiled_while_captured() -> Iterator[None]:
    """Let kernels be compiled for calls of this thread whose stream is being captured.

    For callers that cannot call a kernel once before.
    """
    token = _compiles_while_captured.set(True)
    try:
        yield
    finally:
        _compiles_while_captured.reset(token)


class KernelLoader:
    """Finds, loads and keeps the kernels of one module, for each device.

    It is pickled as its providers, and copied by sharing: only what it has loaded can be lost.

    Threads may share it: each kernel is compiled and loaded once, different ones in parallel. A
    `CompileError` is remembered and raised again, as a new object, without compiling again.

    Parameters
    ----------
    providers : sequence of Provider
        Asked in this order.
    hint : callable, optional
        Returns the advice for a kernel that no provider has for a device.
    watch : callable, optional
        Called with each kernel and device that is asked for; see `kspec.runtime.kernels.tracing`.
    line_of : callable, optional
        Returns a line of the files that the source was made of, by file and number; else nothing.
    origin : tuple of str
        Files that the kernels were read from; empty for those that were made in this process.
    """

    def __init__(
        self,
        providers: Sequence[Provider],
        hint: Callable[[Wanted, Device], str] | None = None,
        watch: Callable[[Wanted, Device], None] | None = None,
        line_of: Callable[[str, int], str] | None = None,
        origin: tuple[str, ...] = (),
    ) -> None:
        self._origin = origin
        self._providers = tuple(providers)
        self._line_of = line_of
        self._hint = hint
        self._watch = watch
        self._images: OnceMap[_Key, Image] = OnceMap()
        self._kernels: OnceMap[_Key, LoadedKernel] = OnceMap()
        # Keyed by identity: providers hand out the same image object again and again.
        self._modules: OnceMap[tuple[int, Device], tuple[Image, LoadedModule]] = OnceMap()
        self._failures: dict[_Key, CompileError] = {}
        self._kept: tuple[str, ...] | None = None

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self._providers, self._hint, self._watch, self._line_of, self._origin)

    def __deepcopy__(self, memo: object) -> KernelLoader:
        return self

    def is_same(self, other: KernelLoader) -> bool:
        """Whether another loader has the same kernels."""
        return other is self or bool(self._origin and self._origin == other._origin)

    def kernel(
        self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] | None = None
    ) -> LoadedKernel:
        """Return the loaded kernel, on the host device instrumented for checking modes.

        Without `sanitize`: as the current checks say.

        Raises
        ------
        CompileError
            If it does not compile.
        SpecializationNotBuilt
            If no provider has it.
        """
        key = (wanted, device, self._modes(wanted, device, sanitize))
        found = self._kernels.get(key)
        if found is not None:
            return found
        self.watch(wanted, device)
        try:
            return self._kernels.get_or_make(key, lambda: self._load(*key))
        except KspecError as error:
            shorten(error)
            raise

    def check_captured(self, wanted: Wanted, device: Device, stream: int) -> None:
        """Refuse to compile a kernel for a stream that is being captured.

        Raises
        ------
        SpecializationNotBuilt
            If it would have to be compiled. What is precompiled, or in the cache, is only loaded.
        """
        key = (wanted, device, ())
        if self._kernels.get(key) is not None or self._images.get(key) is not None:
            return
        if device.is_host or _compiles_while_captured.get():
            return
        if not driver_streams.is_capturing(device.ordinal, stream):
            return
        for provider in self._providers:
            if provider.compiles(wanted, device):
                hint = self.advice(wanted, device)
                raise SpecializationNotBuilt(
                    f"{wanted.name_expression} is not compiled, and nothing is compiled while a "
                    "stream is being captured: call the kernel once before, with arrays of the "
                    "same dtypes, layout and alignment" + (f"\n{hint}" if hint else "")
                )
            if provider.find(wanted, device) is not None:
                return

    def module(
        self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] | None = None
    ) -> tuple[Image, LoadedModule]:
        """Return the image that would hold `wanted`, and the module it is loaded as.

        Without `sanitize`: the module that keeps the global variables.
        """
        modes = self._modes(wanted, device, sanitize)
        image = self.image(wanted, device, modes)
        return image, self._module(image, device)

    def image(
        self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] | None = None
    ) -> Image:
        """Return the image that holds a kernel; parameters and errors as for `kernel`."""
        key = (wanted, device, self._modes(wanted, device, sanitize))
        try:
            return self._images.get_or_make(key, lambda: self._find(*key))
        except KspecError as error:
            shorten(error)
            raise

    def sources(self) -> dict[Wanted, str]:
        """Return the CUDA source of each kernel in use, in the order of first calls.

        It is made anew: calls do not pay for keeping it.
        """
        wanted = dict.fromkeys(key[0] for key in self._kernels.keys())  # noqa: SIM118  no dict
        found = {one: self.text(one) for one in wanted}
        return {one: text for one, text in found.items() if text is not None}

    def text(self, wanted: Wanted) -> str | None:
        """Return the CUDA source of a kernel; None if there is none."""
        source = source_of(self._providers, wanted)
        return None if source is None else source.text

    def _load(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...]) -> LoadedKernel:
        image = self.image(wanted, device, sanitize)
        if isinstance(wanted, Specialization) and _is_shared(image, device, sanitize):
            module = _shared_module(image, device)
        else:
            module = self._module(image, device, self._home(wanted, device, image, sanitize))
        kernel = module.get_kernel(self.symbol(wanted, device, image))
        if device.is_host:
            from kspec.host.modules import bounds_mode
            from kspec.runtime.modules.host import HostKernel

            assert isinstance(kernel, HostKernel)
            # Not a method: kernels that refer to their loader wait for the garbage collector.
            kernel.show_lines(functools.partial(line_of, self._line_of, self._providers, wanted))
            kernel.know_figures(
                functools.partial(figures_of, self._providers, wanted),
                functools.partial(machine_code_of, self._providers, wanted),
            )
            if REVIEW in sanitize and bounds_mode() == "bounds":
                kernel.run_beside(functools.partial(_beside, weakref.ref(self), wanted, device))
        return kernel

    def symbol(self, wanted: Wanted, device: Device, image: Image) -> str:
        """Return the symbol of `wanted` in an image; plain names stay as they are.

        Raises
        ------
        CompileError
            If an expression does not parse.
        LoadError
            If the image does not have the expression, in any spelling.
        """
        name = wanted.name_expression
        if name in image.symbols:
            return image.symbols[name]
        from kspec.cpp.name_expressions import find_symbol, is_expression

        found = find_symbol(name, image.symbols)
        if found is not None:
            return found
        if not is_expression(name):
            return name
        lowered = lowered_name_of(self._providers, wanted, device)
        if lowered is not None and lowered in image.symbols.values():
            return lowered
        known = ", ".join(repr(one) for one in image.symbols)
        have = f"the module has {known}" if known else "the module has no name expressions"
        raise LoadError(f"{name}: named symbol not found; {have}: add it to name_expressions")

    def _find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...]) -> Image:
        failure = self._failures.get((wanted, device, sanitize))
        if failure is not None:
            raise failure.copy()
        try:
            for provider in self._providers:
                image = provider.find(wanted, device, sanitize)
                if image is not None:
                    return image
        except CompileError as error:
            self._failures[wanted, device, sanitize] = error.copy()
            raise
        except ToolNotFoundError as error:
            hint = "" if device.is_host else self.advice(wanted, device)
            if not hint:
                raise
            raise ToolNotFoundError(f"{error}\n{hint}") from error  # nothing fits, no compiler
        reasons = "".join(f"\n  {provider.describe(wanted)}" for provider in self._providers)
        hint = self.advice(wanted, device)
        raise SpecializationNotBuilt(
            f"no image of {wanted.name_expression} for {device}:{reasons}"
            + (f"\n{hint}" if hint else "")
        )

    def watch(self, wanted: Wanted, device: Device) -> None:
        """Tell the watcher about the first request for a kernel."""
        if self._watch:
            self._watch(wanted, device)

    def advice(self, wanted: Wanted, device: Device) -> str:
        """Return advice for a missing kernel; empty if there is none."""
        return self._hint(wanted, device) if self._hint else ""

    def _home(
        self, wanted: Wanted, device: Device, image: Image, sanitize: tuple[str, ...]
    ) -> LoadedModule | None:
        """Return the module that keeps the global variables of an instrumented image."""
        names = image.symbols.values()
        if not device.is_host or not any(name.startswith("kspec_global_") for name in names):
            return None
        keeper = self._keeper(device, sanitize)
        return None if sanitize == keeper else self.module(wanted, device, keeper)[1]

    def _modes(
        self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] | None
    ) -> tuple[str, ...]:
        if sanitize is not None:
            return sanitize
        return self._keeper(device) if isinstance(wanted, RawSymbol) else ()

    def _keeper(self, device: Device, sanitize: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return the instrumentation of the module that keeps the global variables.

        The first that is asked for, of the two that are not slow.
        """
        if not device.is_host:
            return ()
        if self._kept is None:
            bounds = modes_of_call(current_checks(), device)
            self._kept = sanitize if sanitize in _QUICK_MODES else bounds
        return self._kept

    def _module(
        self, image: Image, device: Device, home: LoadedModule | None = None
    ) -> LoadedModule:
        key = (id(image), device)
        return self._modules.get_or_make(key, lambda: (image, load_module(image, device, home)))[1]


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


def _is_shared(image: Image, device: Device, sanitize: tuple[str, ...]) -> bool:
    if device.is_host:
        return sanitize in _QUICK_MODES
    return image.format == "cubin"  # made in this process: packages have fatbins, loaded once


def _shared_module(image: Image, device: Device) -> LoadedModule:
    return _SHARED.get_or_make((image.code, device), lambda: load_module(image, device))


def _beside(loader: Callable[[], KernelLoader | None], wanted: Wanted, device: Device) -> Any:
    """Return a kernel as the GPU's schedule runs it, within bounds, without what is recorded."""
    found = loader()
    assert found is not None  # it calls
    modes = ("bounds",) if isinstance(wanted, RawSymbol) else ("bounds", AS_GPU)
    return found.kernel(wanted, device, modes)
