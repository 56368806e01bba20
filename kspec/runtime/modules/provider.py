"""Providers of the image of a kernel for a device.

A provider looks a specialization up (that of `kspec.runtime.package`: precompiled) or
compiles it (`CompilingProvider`, the seam through which the runtime reaches the compiler).  A
`KernelLoader` asks them in turn and keeps what it loaded.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from kspec import config
from kspec.cpp.name_expressions import find_symbol, is_expression
from kspec.dataclass import dataclass
from kspec.errors import CompileError, LoadError, SpecializationNotBuilt, ToolNotFoundError
from kspec.host.modules import bounds_mode
from kspec.model.checks import AS_GPU, REVIEW, current_checks
from kspec.model.stages import (
    CudaSource,
    Figures,
    Image,
    MachineCode,
    RawSymbol,
    Specialization,
    Target,
)
from kspec.runtime.arguments.checks import modes_of_call
from kspec.runtime.driver import api as driver
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.modules.host import HostKernel
from kspec.runtime.modules.load import load_module
from kspec.runtime.modules.module import LoadedKernel, LoadedModule
from kspec.runtime.once import OnceMap, RecentMap

if TYPE_CHECKING:
    from kspec.compiler import ImageCache

T = TypeVar("T")
Wanted = Specialization | RawSymbol
_Key = tuple[Wanted, Device, tuple[str, ...]]

# Kernels that are made anew in each call of a function, or unpickled in each task, are loaded once
# if they are equal; no user can reach variables of theirs. Modules that nothing refers to are
# unloaded, but for the latest: a process may have 65,530 mappings, and one of the host device has
# some five.
_SHARED: RecentMap[tuple[bytes, Device], LoadedModule] = RecentMap(64)
_LINES = "-lineinfo"  # which does not change the code
_SHARED_MODES = ((), ("bounds",))
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


class Provider:
    """Answers with an image, or None; by default it has images only, and no compiler."""

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Return an image that holds `wanted` for `device`, or None.

        `sanitize`: checking modes that a host image is to be instrumented for.
        """
        raise NotImplementedError

    def compiles(self, wanted: Wanted, device: Device) -> bool:
        """Return whether `find` would start a compiler."""
        return False

    def source_of(self, wanted: Wanted) -> CudaSource | None:
        """Return the source of `wanted`, if this provider knows it."""
        return None

    def lowered_name(self, wanted: Wanted, device: Device) -> str | None:
        """Return the compiler's name of `wanted`; None without a compiler."""
        return None

    def figures(self, wanted: Wanted, arch: str) -> Figures | None:
        """Return the figures that a compiler gave or gives `wanted`; None if there are none."""
        return None

    def machine_code(self, wanted: Wanted, arch: str) -> MachineCode | None:
        """Return the machine code of `wanted` with line tables; None without a compiler."""
        return None

    def describe(self, wanted: Wanted) -> str:
        """Return a list of available kernels, for the error that nothing was found."""
        raise NotImplementedError


@dataclass(frozen=True)
class OneSource:
    """The source of every kernel of a module: the same."""

    source: CudaSource

    def __call__(self, wanted: Wanted) -> CudaSource:
        """Return it."""
        return self.source


class CompilingProvider(Provider):
    """Compiles on first use, through the user's cache, unless that is forbidden.

    Parameters
    ----------
    source : callable
        Returns the source that holds a wanted kernel; it can be pickled, if kernels shall be.
    jit : str
        ``"never"`` where the package forbids it; ``KSPEC_JIT`` goes first.
    """

    def __init__(self, source: Callable[[Wanted], CudaSource], jit: str = "auto") -> None:
        self.source = source
        self.jit = jit

    def find(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...] = ()) -> Image | None:
        """Compile and return the image; None when compiling is forbidden."""
        if config.jit_mode(self.jit) == "never":
            return None
        # Lazy on purpose: a deployed package with precompiled kernels never gets here.
        from kspec.compiler import compile_source

        source = self.source(wanted)
        target = target_of(device, sanitize, source.backend)
        return compile_source(source, target, user_cache())

    def compiles(self, wanted: Wanted, device: Device) -> bool:
        """Return whether it is allowed to compile, and has to: nothing is in the cache."""
        if config.jit_mode(self.jit) == "never":
            return False
        from kspec.compiler import is_compiled

        source = self.source(wanted)
        return not is_compiled(source, target_of(device, (), source.backend), user_cache())

    def source_of(self, wanted: Wanted) -> CudaSource | None:
        """Return the source of `wanted`."""
        return self.source(wanted)

    def figures(self, wanted: Wanted, arch: str) -> Figures | None:
        """Compile `wanted` and return its figures; None where that cannot be done."""
        try:
            image = compile_for(self.source(wanted), Target(arch))
        except (CompileError, ToolNotFoundError):
            return None
        symbol = find_symbol(wanted.name_expression, image.symbols)
        return image.figures.get(wanted.name_expression) or image.figures.get(symbol or "")

    def machine_code(self, wanted: Wanted, arch: str) -> MachineCode | None:
        """Compile `wanted` with line tables; return None where that cannot be done."""
        source = self.source(wanted)
        if source.backend != "nvrtc":
            return None
        options = tuple(one for one in source.options if one != _LINES)
        try:
            image = compile_for(replace(source, options=(*options, _LINES)), Target(arch))
        except (CompileError, ToolNotFoundError):
            return None
        name = wanted.name_expression
        return MachineCode(image.code, arch, find_symbol(name, image.symbols) or name)

    def lowered_name(self, wanted: Wanted, device: Device) -> str | None:
        """Compile only the one expression, whose types may have other names in the source."""
        expression = wanted.name_expression
        source = self.source(wanted)
        if device.is_host or source.backend != "nvrtc":
            return None
        only = OneSource(replace(source, name_expressions=(expression,)))
        one = CompilingProvider(only, self.jit)
        image = one.find(wanted, device)
        return None if image is None else image.symbols[expression]

    def describe(self, wanted: Wanted) -> str:
        """Return one line for the error that nothing was found."""
        if config.jit_mode() == "never":
            return "compiling at run time is forbidden by KSPEC_JIT=never"
        return (
            'compiling at run time is forbidden by the package: jit = "never" in [tool.kspec]; '
            "KSPEC_JIT=auto allows it"
        )


def made_in_python(wanted: Wanted, device: Device) -> str:
    """Return advice for a kernel that has no spec file and must not be compiled."""
    name = wanted.name_expression.partition("<")[0]
    return f"{name} is made in Python: declare it in a spec file, and `kspec build` compiles it"


def compile_for(source: CudaSource, target: Target) -> Image:
    """Compile a source for whatever target, through the user's cache."""
    from kspec.compiler import compile_source

    return compile_source(source, target, user_cache())


def target_of(device: Device, sanitize: tuple[str, ...] = (), backend: str = "nvrtc") -> Target:
    """Return the target of a backend for kernels of a device."""
    if device.is_host:
        return Target("host", sanitize)
    from kspec.compiler.target import target_for_capability

    return target_for_capability(*driver.compute_capability(device.ordinal), backend)


# One cache object for each directory of this process, so that locks and counters are shared
# (functools.cache would make two for two threads that come first together).
_CACHES: OnceMap[tuple[object, ...], ImageCache] = OnceMap()


def user_cache() -> ImageCache:
    """Return this process's cache, where the environment says by now."""
    from kspec.compiler import ImageCache

    place = config.cache_dir(), config.cache_layers(), config.cache_size()
    return _CACHES.get_or_make(place, ImageCache.configured)


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
        return self._kernels.get_or_make(key, lambda: self._load(*key))

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
        return self._images.get_or_make(key, lambda: self._find(*key))

    def sources(self) -> dict[Wanted, str]:
        """Return the CUDA source of each kernel in use, in the order of first calls.

        It is made anew: calls do not pay for keeping it.
        """
        wanted = dict.fromkeys(key[0] for key in self._kernels.keys())  # noqa: SIM118  no dict
        found = {one: _source(self._providers, one) for one in wanted}
        return {one: source.text for one, source in found.items() if source}

    def _load(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...]) -> LoadedKernel:
        image = self.image(wanted, device, sanitize)
        if isinstance(wanted, Specialization) and _is_shared(image, device, sanitize):
            module = _shared_module(image, device)
        else:
            module = self._module(image, device, self._home(wanted, device, image, sanitize))
        kernel = module.get_kernel(self.symbol(wanted, device, image))
        if isinstance(kernel, HostKernel):
            # Not a method: kernels that refer to their loader wait for the garbage collector.
            kernel.show_lines(functools.partial(_line, self._line_of, self._providers, wanted))
            kernel.know_figures(
                functools.partial(_figures, self._providers, wanted),
                functools.partial(_machine_code, self._providers, wanted),
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
        found = find_symbol(name, image.symbols)
        if found is not None:
            return found
        if not is_expression(name):
            return name
        answers = (provider.lowered_name(wanted, device) for provider in self._providers)
        lowered = next((answer for answer in answers if answer is not None), None)
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
            self._kept = sanitize if sanitize in ((), ("bounds",)) else bounds
        return self._kept

    def _module(
        self, image: Image, device: Device, home: LoadedModule | None = None
    ) -> LoadedModule:
        key = (id(image), device)
        return self._modules.get_or_make(key, lambda: (image, load_module(image, device, home)))[1]


def _is_shared(image: Image, device: Device, sanitize: tuple[str, ...]) -> bool:
    if device.is_host:
        return sanitize in _SHARED_MODES
    return image.format == "cubin"  # made in this process: packages have one fatbin, loaded once


def _shared_module(image: Image, device: Device) -> LoadedModule:
    return _SHARED.get_or_make((image.code, device), lambda: load_module(image, device))


def _source(providers: Sequence[Provider], wanted: Wanted) -> CudaSource | None:
    answers = (provider.source_of(wanted) for provider in providers)
    return next((source for source in answers if source is not None), None)


def _line(
    line_of: Callable[[str, int], str] | None,
    providers: Sequence[Provider],
    wanted: Wanted,
    path: str,
    line: int,
) -> str:
    """Return a line of a kernel's source; empty if it is not one of its lines."""
    found = line_of(path, line) if line_of else ""
    if found:
        return found
    from kspec.compiler.messages import source_line

    source = _source(providers, wanted)
    return source_line(source, path, line) if source else ""


def _beside(loader: Callable[[], KernelLoader | None], wanted: Wanted, device: Device) -> Any:
    """Return a kernel as the GPU's schedule runs it, within bounds, without what is recorded."""
    found = loader()
    assert found is not None  # it calls
    modes = ("bounds",) if isinstance(wanted, RawSymbol) else ("bounds", AS_GPU)
    return found.kernel(wanted, device, modes)


def _figures(providers: Sequence[Provider], wanted: Wanted, arch: str) -> Figures | None:
    """Return the figures that a compiler for GPUs gives for a kernel; None if there are none."""
    return _first(provider.figures(wanted, arch) for provider in providers)


def _machine_code(providers: Sequence[Provider], wanted: Wanted, arch: str) -> MachineCode | None:
    """Return the machine code of a kernel with line tables; None if there is none."""
    return _first(provider.machine_code(wanted, arch) for provider in providers)


def _first(found: Iterable[T | None]) -> T | None:
    return next((one for one in found if one is not None), None)
