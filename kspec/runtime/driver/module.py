"""Modules of the driver: images that are loaded on a CUDA device, their kernels and variables.

>>> module = DriverModule(0, image.code)                                     # doctest: +SKIP
>>> function = module.get_function("_Z4fx3IfEvPfi")                          # doctest: +SKIP

A module is unloaded some time after nothing refers to it.  The driver then waits for all that is
queued on the device, so modules are unloaded many at a time, when another one is loaded.  Those
whose kernels may be in a graph stay: other libraries can launch it whenever they want.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Mapping
from typing import Any

from kspec.errors import DriverError, LoadError
from kspec.runtime import driver

_MOST_NAMES = 8  # of kernels in a message
# Modules that nothing refers to, and their devices. Finalizers run anywhere, so they only put them
# here. On an H200 a thousand of the smallest have 3 MiB of the device's memory, and 10 of ours.
_dropped: deque[tuple[int, Any]] = deque()
_MOST_DROPPED = 256


# Attributes of a kernel, as CuPy calls them, and the number of each in CUfunction_attribute.
ATTRIBUTES: Mapping[str, int] = {
    "max_threads_per_block": 0,
    "shared_size_bytes": 1,
    "const_size_bytes": 2,
    "local_size_bytes": 3,
    "num_regs": 4,
    "ptx_version": 5,
    "binary_version": 6,
    "cache_mode_ca": 7,
    "max_dynamic_shared_size_bytes": 8,
    "preferred_shared_memory_carveout": 9,
}
_LARGE_CLUSTERS = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED


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


def attribute(ordinal: int, function: Any, name: str) -> int:
    """Return an attribute of a kernel."""
    bindings = driver.bindings()
    with driver.on_device(ordinal):
        number = bindings.CUfunction_attribute(ATTRIBUTES[name])
        return int(driver.check(bindings.cuFuncGetAttribute(number, function)))


def set_attribute(ordinal: int, function: Any, name: str, value: int) -> None:
    """Set an attribute of a kernel."""
    _set(ordinal, function, ATTRIBUTES[name], value)


def allow_large_clusters(ordinal: int, function: Any) -> None:
    """Allow clusters of more than 8 blocks, which not every device has."""
    _set(ordinal, function, _LARGE_CLUSTERS, 1)


def _set(ordinal: int, function: Any, number: int, value: int) -> None:
    bindings = driver.bindings()
    with driver.on_device(ordinal):
        name = bindings.CUfunction_attribute(number)
        driver.check(bindings.cuFuncSetAttribute(function, name, value))


def parameter_sizes(ordinal: int, function: Any) -> tuple[int, ...] | None:
    """Return the size of each parameter of a kernel; None if the driver cannot tell (< 12.4)."""
    bindings = driver.bindings()
    sizes: list[int] = []
    with driver.on_device(ordinal):
        while True:
            try:
                error, _, size = bindings.cuFuncGetParamInfo(function, len(sizes))
            except (AttributeError, RuntimeError):
                return None
            if error == bindings.CUresult.CUDA_ERROR_INVALID_VALUE:  # past the last one
                return tuple(sizes)
            if error.value:
                return None
            sizes.append(int(size))


def resident_blocks(
    ordinal: int, function: Any, threads: int, shared_mem: int, cluster: int = 1
) -> int:
    """Return the number of blocks of a kernel that fit on a device at the same time.

    Parameters
    ----------
    ordinal : int
        Device.
    function : CUfunction
        The kernel.
    threads, shared_mem : int
        Threads of a block, and its dynamic shared memory in bytes.
    cluster : int, optional
        Blocks of a cluster, all of which have to be near each other.
    """
    bindings = driver.bindings()
    with driver.on_device(ordinal):
        if cluster > 1:
            config = _clusters(threads, shared_mem, cluster)
            error, clusters = bindings.cuOccupancyMaxActiveClusters(function, config)
            if error == bindings.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE:
                return 0
            return int(driver.check((error, clusters))) * cluster
        each = driver.check(
            bindings.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, threads, shared_mem)
        )
    return int(each) * driver.multiprocessors(ordinal)


def _clusters(threads: int, shared_mem: int, cluster: int) -> Any:
    """Return the configuration of a launch in clusters."""
    bindings = driver.bindings()
    attribute = bindings.CUlaunchAttribute()
    attribute.id = bindings.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    dimension = attribute.value.clusterDim
    dimension.x, dimension.y, dimension.z = cluster, 1, 1
    config = bindings.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = cluster, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared_mem
    config.attrs, config.numAttrs = [attribute], 1
    return config
