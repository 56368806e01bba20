"""Memory of CUDA devices: taken and given back, at once or in stream order, filled and copied."""

from __future__ import annotations

from typing import Any

from kspec.errors import DriverError
from kspec.locks import OnceMap
from kspec.runtime import driver

OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
_KEPT_FOR_SCRATCH = 32 << 20  # bytes that stay allocated for launches to come
_ASYNC_POOLS: OnceMap[int, Any] = OnceMap()  # one for each device


def total_memory(ordinal: int) -> int:
    """Return the bytes of memory of a device."""
    bindings = driver.bindings()
    return int(driver.check(bindings.cuDeviceTotalMem(driver.check(bindings.cuDeviceGet(ordinal)))))


def allocate(ordinal: int, nbytes: int) -> int:
    """Return the address of new device memory (0 for no bytes)."""
    if nbytes == 0:
        return 0
    with driver.on_device(ordinal), driver.whatever_is_captured():
        return _address(driver.bindings().cuMemAlloc(nbytes), ordinal, nbytes)


def _address(result: tuple[Any, ...], ordinal: int, nbytes: int) -> int:
    """Return the address in the result of a call for memory, or say how much there was not."""
    try:
        return int(driver.check(result))
    except DriverError as error:
        if error.name != OUT_OF_MEMORY:
            raise
        text = f"{error.explanation}: cuda:{ordinal} has no {nbytes} bytes left"
        raise DriverError(error.name, text, error.code) from None


def free(ordinal: int, address: int) -> None:
    """Free memory of `allocate`; waits until kernels that may use it have run."""
    if address:
        with driver.on_device(ordinal), driver.whatever_is_captured():
            driver.check(driver.bindings().cuMemFree(address))


def wait(ordinal: int) -> None:
    """Wait for everything on a device, also while a stream is being captured.

    Then the driver refuses `cuCtxSynchronize`, but frees memory, which waits as well.
    """
    free(ordinal, allocate(ordinal, 1))


def _new_async_pool(ordinal: int) -> Any:
    """Return a memory pool for `allocate_async`.

    The device's own one gives all it has back whenever somebody waits, and maps it anew for the
    next launch; to tell it otherwise is for the program, and for other libraries.
    """
    bindings = driver.bindings()
    wanted = bindings.CUmemPoolProps()
    wanted.allocType = bindings.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = bindings.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = ordinal
    with driver.on_device(ordinal), driver.whatever_is_captured():
        pool = driver.check(bindings.cuMemPoolCreate(wanted))
        threshold = bindings.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        driver.check(
            bindings.cuMemPoolSetAttribute(pool, threshold, bindings.cuuint64_t(_KEPT_FOR_SCRATCH))
        )
    return pool


def allocate_async(ordinal: int, nbytes: int, stream: int) -> int:
    """Return stream-ordered memory: for scratch that is freed on the same stream."""
    pool = _ASYNC_POOLS.get_or_make(ordinal, lambda: _new_async_pool(ordinal))
    with driver.on_device(ordinal):
        result = driver.bindings().cuMemAllocFromPoolAsync(nbytes, pool, stream)
        return _address(result, ordinal, nbytes)


def free_async(ordinal: int, address: int, stream: int) -> None:
    """Free memory of `allocate_async` once the stream gets there."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuMemFreeAsync(address, stream))


def zero_async(ordinal: int, address: int, nbytes: int, stream: int) -> None:
    """Fill memory with zero bytes, in stream order."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuMemsetD8Async(address, 0, nbytes, stream))


def copy(ordinal: int, destination: int, source: int, nbytes: int) -> None:
    """Copy between any two addresses, host or device, and wait for it."""
    if nbytes:
        bindings = driver.bindings()
        with driver.on_device(ordinal):
            driver.check(bindings.cuMemcpyAsync(destination, source, nbytes, 0))
            driver.check(bindings.cuStreamSynchronize(0))


def copy_async(ordinal: int, destination: int, source: int, nbytes: int, stream: int) -> None:
    """Copy between addresses of any devices, in stream order."""
    with driver.on_device(ordinal):
        driver.check(driver.bindings().cuMemcpyAsync(destination, source, nbytes, stream))


def copy_rows_async(
    ordinal: int,
    destination: tuple[int, int],
    source: tuple[int, int],
    width: int,
    rows: int,
    stream: int,
) -> None:
    """Copy rows of bytes between devices, in stream order.

    Parameters
    ----------
    ordinal : int
        Device of the stream.
    destination, source : tuple of (int, int)
        Address of the first row, and bytes from one row to the next.
    width, rows : int
        Bytes of a row, and their number.
    stream : int
        Handle.
    """
    bindings = driver.bindings()
    unified = bindings.CUmemorytype.CU_MEMORYTYPE_UNIFIED
    plan = bindings.CUDA_MEMCPY2D()
    plan.dstMemoryType = plan.srcMemoryType = unified
    plan.dstDevice, plan.dstPitch = destination
    plan.srcDevice, plan.srcPitch = source
    plan.WidthInBytes, plan.Height = width, rows
    with driver.on_device(ordinal):
        driver.check(bindings.cuMemcpy2DAsync(plan, stream))
