"""Modules of the driver: what is loaded on a CUDA device, its kernels and its variables.

>>> module = DriverModule(0, image.code)                                     # doctest: +SKIP
>>> function = module.get_function("_Z4fx3IfEvPfi")                          # doctest: +SKIP

A module is unloaded some time after nothing refers to it.  The driver then waits for all that is
queued on the device, so modules are unloaded many at a time, when another one is loaded.  Those
whose kernels may be in a graph stay: other libraries can launch it whenever they want.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from kspec.errors import DriverError, LoadError
from kspec.runtime.driver import api as driver

_MOST_NAMES = 8  # of kernels in a message
# Modules that nothing refers to, and their devices. Finalizers run anywhere, so they only put them
# here. On an H200 a thousand of the smallest have 3 MiB of the device's memory, and 10 of ours.
_dropped: deque[tuple[int, Any]] = deque()
_MOST_DROPPED = 256


class DriverModule:
    """An image that is loaded on a device.

    Parameters
    ----------
    ordinal : int
        Device.
    code : bytes
        A cubin, PTX text or a fatbin.
    """

    def __init__(self, ordinal: int, code: bytes) -> None:
        _unload_dropped()
        self.ordinal = ordinal
        self._module = load(ordinal, code)
        self._finalizer = weakref.finalize(self, _dropped.append, (ordinal, self._module))
        self._finalizer.atexit = False  # the driver may be gone by then, and the module with it

    def stay(self) -> None:
        """Keep it loaded for good: a graph, or code that has a handle, may launch its kernels."""
        self._finalizer.detach()

    def get_function(self, lowered_name: str) -> Any:
        """Return a kernel.

        Raises
        ------
        LoadError
            If there is none of that name; the text has ``CUDA_ERROR_NOT_FOUND``.
        """
        ask = driver.bindings().cuModuleGetFunction
        try:
            with driver.on_device(self.ordinal), driver.whatever_is_captured():
                return driver.check(ask(self._module, lowered_name.encode()))
        except DriverError as error:
            if error.name != "CUDA_ERROR_NOT_FOUND":
                raise
            others = self._others(lowered_name)
            raise LoadError(f"{error}: no kernel {lowered_name!r} in the module{others}") from None

    def kernel_names(self) -> tuple[str, ...] | None:
        """Return the sorted names of its kernels; None if the driver cannot tell (< 12.4)."""
        bindings, check, module = driver.bindings(), driver.check, self._module
        with driver.on_device(self.ordinal), driver.whatever_is_captured():
            try:
                count = check(bindings.cuModuleGetFunctionCount(module))
                found = check(bindings.cuModuleEnumerateFunctions(count, module)) if count else ()
                return tuple(sorted(check(bindings.cuFuncGetName(one)).decode() for one in found))
            except (AttributeError, RuntimeError, DriverError):
                return None

    def _others(self, wanted: str) -> str:
        """Return the names of its kernels, as far as the driver tells them, and advice."""
        from kspec.cpp.name_expressions import ADVICE

        names = self.kernel_names()
        if names is None:
            return ""
        shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        mangled = any(name.startswith(f"_Z{len(wanted)}{wanted}") for name in names)
        advice = f"; {ADVICE}" if mangled else ""
        return f", which has {shown or 'none'}{advice}"

    def get_global(self, lowered_name: str) -> tuple[int, int]:
        """Return address and size in bytes of a global variable.

        Raises
        ------
        LoadError
            If there is none of that name.
        """
        bindings = driver.bindings()
        with driver.on_device(self.ordinal), driver.whatever_is_captured():
            try:
                address, nbytes = driver.check(
                    bindings.cuModuleGetGlobal(self._module, lowered_name.encode())
                )
            except DriverError as error:
                # A kernel of that name is an invalid value.
                if error.name not in ("CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_INVALID_VALUE"):
                    raise
                raise LoadError(
                    f"{error}: no global variable {lowered_name!r} in the module"
                ) from None
        return int(address), int(nbytes)


def load(ordinal: int, code: bytes) -> Any:
    """Return the driver's handle of an image that is loaded on a device."""
    with driver.on_device(ordinal), driver.whatever_is_captured():
        # PTX is text: the driver wants its end marked.
        return driver.check(driver.bindings().cuModuleLoadData(code + b"\0"))


def _unload_dropped() -> None:
    """Unload what nothing refers to, if that is much."""
    if len(_dropped) < _MOST_DROPPED:
        return
    for _ in range(_MOST_DROPPED):
        try:
            ordinal, module = _dropped.popleft()
        except IndexError:  # another thread does the same
            return
        with driver.on_device(ordinal), driver.whatever_is_captured():
            driver.check(driver.bindings().cuModuleUnload(module))
