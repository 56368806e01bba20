"""Modules of the host device: images in, kernels and variables by their names out.

`kspec.compiler.host.compile` makes the images; `kspec.host.kernels` launches the kernels.
"""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import LoadError
from kspec.host import runtime
from kspec.host.kernels import TABLES, NativeKernel, Region
from kspec.model.stages import Image

if TYPE_CHECKING:
    from kspec.host.recording import Variable


@dataclass(frozen=True)
class _SharedGlobal:
    """A global variable of an instrumented module and of the plain one, which keeps its value."""

    name: str
    here: int
    home: int
    nbytes: int


class NativeModule:
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

    def __init__(self, image: Image, home: NativeModule | None = None) -> None:
        arch, *sanitize = image.arch.split("+")
        if image.format != "so" or arch != "host":
            raise LoadError(f"the host device cannot load a {image.format} for {image.arch}")
        self.image = image
        self.sanitize = tuple(sanitize)
        self.traced = any(mode in TABLES for mode in sanitize)
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
        with runtime.LAUNCHING:
            _unload_dropped(self._runtime)
            if "bounds" not in self.sanitize:
                return runtime.load_library(image.code, "module")
            self._runtime.begin_load()
            try:
                return runtime.load_library(image.code, "module")
            finally:
                self._runtime.end_load()

    def get_kernel(self, name: str) -> NativeKernel:
        """Return a kernel by its name expression, plain name or symbol; `LoadError` if absent."""
        symbol = self._symbol(name, "kspec_entry_")
        return NativeKernel(self, _name_of(self.image.symbols, name), symbol)

    def get_global(self, name: str) -> tuple[int, int]:
        """Return address and size in bytes of a global variable; `LoadError` if absent."""
        symbol = self._symbol(name, "kspec_global_")
        size = symbol.replace("global_", "global_size_")
        return self._call(symbol, ctypes.c_void_p), self._call(size, ctypes.c_size_t)

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory of its only kernel; 0 if it has several."""
        kernels = [one for one in self.image.symbols.values() if one.startswith("kspec_entry_")]
        return self._call("kspec_shared_bytes", ctypes.c_size_t) if len(kernels) == 1 else 0

    def list_variables(self) -> tuple[Variable, ...]:
        """Return the global variables, for reviews."""
        from kspec.host.recording import Variable

        return tuple(
            Variable(
                name,
                *self.get_global(symbol),
                constant=hasattr(self._library, symbol.replace("global", "constant")),
            )
            for name, symbol in self.image.symbols.items()
            if symbol.startswith("kspec_global_")
        )

    def _globals_shared_with(self, home: NativeModule) -> tuple[_SharedGlobal, ...]:
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
            from kspec.cpp.name_expressions import ADVICE

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
    with runtime.LAUNCHING:
        return bool(run.has_shadow())


def load_module(image: Image, home: NativeModule | None = None) -> NativeModule:
    """Load an image of `kspec.compiler.host.compile.compile_host`.

    Parameters
    ----------
    image : Image
        What to load.
    home : NativeModule, optional
        The same source without instrumentation: it keeps the global variables of both.

    Raises
    ------
    LoadError
        When it is not a host image, is damaged, or comes from another version.
    ToolNotFoundError
        When the runtime has to be built and there is no C++ compiler.
    """
    return NativeModule(image, home)


def _name_of(symbols: Mapping[str, str], name: str) -> str:
    """Return the readable name of a kernel that was asked for by name or by symbol."""
    if name in symbols:
        return name
    return next((key for key, symbol in symbols.items() if symbol == name), name)
