"""The driver's calls about kernels: their parameters, their resources, and what a device has."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from kspec.runtime.driver import api as driver

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


@functools.cache
def most_shared_memory(ordinal: int) -> int:
    """Return the most bytes of shared memory of a block, static and dynamic."""
    bindings = driver.bindings()
    number = bindings.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    device = driver.check(bindings.cuDeviceGet(ordinal))
    return int(driver.check(bindings.cuDeviceGetAttribute(number, device)))


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
