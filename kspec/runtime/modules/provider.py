"""Providers of the image of a kernel for a device.

A provider looks a specialization up (that of `kspec.runtime.package`: precompiled) or
compiles it (`CompilingProvider`, the seam through which the runtime reaches the compiler).
`kspec.runtime.modules.loader` asks them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kspec import config
from kspec.dataclass import dataclass
from kspec.errors import CompileError, ToolNotFoundError, ToolStoppedError
from kspec.locks import OnceMap
from kspec.model.stages import (
    CudaSource,
    Figures,
    Image,
    MachineCode,
    RawSymbol,
    Specialization,
    Target,
)
from kspec.runtime import driver
from kspec.runtime.driver.device import Device

if TYPE_CHECKING:
    from kspec.compiler import ImageCache

T = TypeVar("T")
Wanted = Specialization | RawSymbol

_LINES = "-lineinfo"  # which does not change the code


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

    @property
    def recipe(self) -> str:
        """Digest of all that it is made of, but for headers (`kspec.compiler.memo`)."""
        from kspec.compiler.memo import recipe_of

        return recipe_of("source", vars(self.source), self.source.options)


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
        note, image = self._noted(wanted, device, sanitize)
        if image is not None:
            return image
        # Lazy on purpose: a deployed package with precompiled kernels never gets here.
        from kspec.compiler import compile_source

        source = self.source(wanted)
        target = target_of(device, sanitize, source.backend)
        return compile_source(source, target, user_cache(), note=note)

    def _noted(
        self, wanted: Wanted, device: Device, sanitize: tuple[str, ...]
    ) -> tuple[str, Image | None]:
        """Return the key of the note on an image, and the image if there is a note."""
        note = self._note(wanted, device, sanitize)
        if not note:
            return "", None
        from kspec.compiler.memo import recalled_image

        return note, recalled_image(user_cache(), note)

    def _note(self, wanted: Wanted, device: Device, sanitize: tuple[str, ...]) -> str:
        """Return the key of the note on an image; empty if there can be none."""
        recipe = getattr(self.source, "recipe", "")
        if not recipe:
            return ""
        from kspec.compiler import memo

        if device.is_host:
            return memo.image_note(recipe, wanted, *_host_compiler(sanitize))
        from kspec.compiler.cuda import headers_in_wheels, library_file

        settings = driver.compute_capability(device.ordinal), config.cuda_optimization()
        nvrtc = memo.file_stamp(library_file("nvrtc"))
        headers = tuple(map(memo.file_stamp, headers_in_wheels()))
        return memo.image_note(recipe, wanted, settings, nvrtc, headers)

    def compiles(self, wanted: Wanted, device: Device) -> bool:
        """Return whether it is allowed to compile, and has to: nothing is in the cache."""
        if config.jit_mode(self.jit) == "never":
            return False
        if self._noted(wanted, device, ())[1] is not None:
            return False
        from kspec.compiler import is_compiled

        source = self.source(wanted)
        return not is_compiled(source, target_of(device, (), source.backend), user_cache())

    def source_of(self, wanted: Wanted) -> CudaSource | None:
        """Return the source of `wanted`."""
        return self.source(wanted)

    def figures(self, wanted: Wanted, arch: str) -> Figures | None:
        """Compile `wanted` and return its figures; None where that cannot be done."""
        from kspec.cpp.name_expressions import find_symbol

        try:
            image = compile_for(self.source(wanted), Target(arch))
        except (CompileError, ToolNotFoundError):
            return None
        symbol = find_symbol(wanted.name_expression, image.symbols)
        return image.figures.get(wanted.name_expression) or image.figures.get(symbol or "")

    def machine_code(self, wanted: Wanted, arch: str) -> MachineCode | None:
        """Compile `wanted` with line tables; return None where that cannot be done."""
        from kspec.cpp.name_expressions import find_symbol

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


def _host_compiler(sanitize: tuple[str, ...]) -> tuple[object, ...]:
    """Return the parts of a note's key for the host device; one is empty without a compiler."""
    from kspec.compiler.host import find_compiler
    from kspec.compiler.memo import dialect_digest, here

    try:
        key = find_compiler().key
    except (ToolNotFoundError, ToolStoppedError):
        key = ""  # compiling raises the error
    environment = config.compiler_environment()
    settings = environment, here() if environment else "", config.host_optimization()
    return ("host", *sanitize), key, settings, dialect_digest()


# One cache object for each directory of this process, so that locks and counters are shared
# (functools.cache would make two for two threads that come first together).
_CACHES: OnceMap[tuple[object, ...], ImageCache] = OnceMap()


def user_cache() -> ImageCache:
    """Return this process's cache, where the environment says by now."""
    from kspec.compiler import ImageCache

    place = config.cache_dir(), config.cache_layers(), config.cache_size()
    return _CACHES.get_or_make(place, ImageCache.configured)


def source_of(providers: Sequence[Provider], wanted: Wanted) -> CudaSource | None:
    """Return the source of a kernel; None if there is none."""
    return _first(provider.source_of(wanted) for provider in providers)


def lowered_name_of(providers: Sequence[Provider], wanted: Wanted, device: Device) -> str | None:
    """Return the symbol that a compiler gives a kernel; None if no provider has one."""
    return _first(provider.lowered_name(wanted, device) for provider in providers)


def line_of(
    known: Callable[[str, int], str] | None,
    providers: Sequence[Provider],
    wanted: Wanted,
    path: str,
    line: int,
) -> str:
    """Return a line of a kernel's source; empty if it is not one of its lines."""
    found = known(path, line) if known else ""
    if found:
        return found
    from kspec.compiler.messages import source_line

    source = source_of(providers, wanted)
    return source_line(source, path, line) if source else ""


def figures_of(providers: Sequence[Provider], wanted: Wanted, arch: str) -> Figures | None:
    """Return the figures that a compiler for GPUs gives for a kernel; None if there are none."""
    return _first(provider.figures(wanted, arch) for provider in providers)


def machine_code_of(providers: Sequence[Provider], wanted: Wanted, arch: str) -> MachineCode | None:
    """Return the machine code of a kernel with line tables; None if there is none."""
    return _first(provider.machine_code(wanted, arch) for provider in providers)


def _first(found: Iterable[T | None]) -> T | None:
    return next((one for one in found if one is not None), None)
