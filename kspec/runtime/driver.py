"""The CUDA driver, as far as kernels need it: the only module that imports its bindings.

Every call goes through `check`, so every failure is a `DriverError` with the symbolic name and
the driver's explanation.  Nothing is initialised before it is asked for, and a machine without
a driver gets a reason, not a traceback: see `why_unavailable`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kspec import config
from kspec.errors import DriverError, LoadError, ToolNotFoundError
from kspec.runtime.meanwhile import Meanwhile
from kspec.runtime.once import OnceMap

# What a kernel has done wrong by the time that some later call fails with it, over and over.
_POISONOUS = frozenset(
    f"CUDA_ERROR_{name}"
    for name in (
        "ILLEGAL_ADDRESS",
        "LAUNCH_TIMEOUT",
        "ASSERT",
        "HARDWARE_STACK_ERROR",
        "ILLEGAL_INSTRUCTION",
        "MISALIGNED_ADDRESS",
        "INVALID_ADDRESS_SPACE",
        "INVALID_PC",
        "LAUNCH_FAILED",
    )
)
_POISONED = (
    "a kernel has failed, and CUDA works in this process no more. It is this one or one launched "
    "before it{candidates}; with CUDA_LAUNCH_BLOCKING=1 the launch itself fails. Call that kernel "
    'with NumPy copies of its arguments, under kspec.checking(sanitize="memory"): the host device '
    "names the line"
)
_MOST_CANDIDATES = 8
_MOST_NAMES = 8  # of kernels in a message
# Names of kernels that were launched, those that were checked in full last.
_launched: dict[str, None] = {}

_KEPT_FOR_SCRATCH = 32 << 20  # bytes that stay allocated for launches to come
_ASYNC_POOLS: OnceMap[int, Any] = OnceMap()  # one for each device
# Handles that are no addresses: of each device's legacy default stream, and each thread's.
LEGACY_STREAM, PER_THREAD_STREAM = 1, 2
# What can be done while the driver starts.
MEANWHILE = Meanwhile()


@functools.cache
def _bindings() -> Any:
    """Return `cuda.bindings.driver`, initialised."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ToolNotFoundError(
            "cuda-bindings is not installed: pip install cuda-bindings"
        ) from error
    try:
        driver.cuDriverGetVersion()  # without a driver this fails at once, and nothing is prepared
        MEANWHILE.start()
        result = driver.cuInit(0)
    except Exception as error:  # the loader of libcuda raises classes of its own
        raise ToolNotFoundError(
            "no CUDA driver: libcuda can not be loaded; install the NVIDIA driver, or pass NumPy "
            "arrays to run on the host device"
        ) from error
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        name = result[0].name
        raise ToolNotFoundError(
            f"no usable CUDA device: cuInit says {name}; NumPy arrays run on the host device"
        )
    return driver


def bindings() -> Any:
    """Return `cuda.bindings.driver`, initialised, for `kspec.runtime.texture.driver_texture`."""
    return _bindings()


@functools.cache
def why_unavailable() -> str:
    """Return why no CUDA device can be used, or the empty string if one can."""
    try:
        count = device_count()
    except (ToolNotFoundError, DriverError) as error:
        return str(error)
    return "" if count else "no CUDA device: the driver is there, but it lists no GPU"


def check(result: tuple[Any, ...]) -> Any:
    """Return what a driver call returned; raise `DriverError` if it failed."""
    error, *values = result
    if error.value:
        driver = _bindings()
        text = (driver.cuGetErrorString(error)[1] or b"unknown error").decode()
        if error.name in _POISONOUS:
            names = ", ".join(list(_launched))  # a copy: other threads launch
            candidates = f" (kspec has launched {names})" if names else ""
            text = f"{text}; {_POISONED.format(candidates=candidates)}"
        raise DriverError(error.name, text, error.value)
    return values[0] if len(values) == 1 else tuple(values)


def note_launch(kernel: str) -> None:
    """Remember the name of a kernel that is launched, for the message that one has failed."""
    _launched.pop(kernel, None)
    _launched[kernel] = None
    for oldest in list(_launched)[:-_MOST_CANDIDATES]:  # a copy: other threads launch too
        _launched.pop(oldest, None)


def check_code(code: int, kernel: str = "") -> None:
    """Raise `DriverError` for the code of a function that was called without the bindings.

    Parameters
    ----------
    code : int
        The driver's.
    kernel : str
        The kernel it was about, for the message.
    """
    if not code:
        return
    try:
        check((_bindings().CUresult(code),))
    except DriverError as error:
        if not kernel:
            raise
        text = f"{kernel}: {error.explanation}"
        raise DriverError(error.name, text, error.code) from None


def device_count() -> int:
    """Return the number of CUDA devices."""
    return int(check(_bindings().cuDeviceGetCount()))


@functools.cache
def several_devices() -> bool:
    """Return whether the current device matters: there is more than one."""
    return device_count() > 1


@functools.cache
def compute_capability(ordinal: int) -> tuple[int, int]:
    """Return ``(major, minor)`` of a device."""
    driver = _bindings()
    attribute = driver.CUdevice_attribute
    device = check(driver.cuDeviceGet(ordinal))
    return (
        check(
            driver.cuDeviceGetAttribute(
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device
            )
        ),
        check(
            driver.cuDeviceGetAttribute(
                attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device
            )
        ),
    )


@functools.cache
def multiprocessors(ordinal: int) -> int:
    """Return how many multiprocessors a device has."""
    driver = _bindings()
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    return int(check(driver.cuDeviceGetAttribute(attribute, check(driver.cuDeviceGet(ordinal)))))


def device_name(ordinal: int) -> str:
    """Return the marketing name of a device."""
    driver = _bindings()
    name = check(driver.cuDeviceGetName(128, check(driver.cuDeviceGet(ordinal))))
    return bytes(name).split(b"\0")[0].decode()


def driver_version() -> int:
    """Return the CUDA version the driver supports, as 1000 * major + 10 * minor."""
    return int(check(_bindings().cuDriverGetVersion()))


def current_ordinal() -> int:
    """Return the device of the calling thread's context, or 0 if it has none yet."""
    driver = _bindings()
    if not int(check(driver.cuCtxGetCurrent())):
        return 0
    return int(check(driver.cuCtxGetDevice()))


@functools.cache
def _primary_context(ordinal: int) -> Any:
    # Retained for the life of the process, as the CUDA runtime does.
    driver = _bindings()
    return check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(ordinal))))


def context_of(ordinal: int) -> int:
    """Return the handle of the context that a device has in this process."""
    return int(_primary_context(ordinal))


@contextmanager
def on_device(ordinal: int) -> Iterator[None]:
    """Make a device current for the calling thread, and restore what was."""
    driver = _bindings()
    wanted = _primary_context(ordinal)
    before = check(driver.cuCtxGetCurrent())
    if int(before) == int(wanted):
        yield
        return
    check(driver.cuCtxSetCurrent(wanted))
    try:
        yield
    finally:
        # A thread that had no context keeps that of the first device: other libraries expect to
        # find it. That of another one would change what they take for the current device.
        if int(before) or ordinal:
            check(driver.cuCtxSetCurrent(before))


@contextmanager
def whatever_is_captured() -> Iterator[None]:
    """Allow calls that a capture which is going on, in this thread or another, would forbid.

    It would be spoiled by them, although what they do is no part of it.
    """
    driver = _bindings()
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = check(driver.cuThreadExchangeStreamCaptureMode(mode))
    try:
        yield
    finally:
        check(driver.cuThreadExchangeStreamCaptureMode(before))


def total_memory(ordinal: int) -> int:
    """Return how many bytes of memory a device has."""
    driver = _bindings()
    return int(check(driver.cuDeviceTotalMem(check(driver.cuDeviceGet(ordinal)))))


def allocate(ordinal: int, nbytes: int) -> int:
    """Return the address of new device memory (0 for no bytes)."""
    if nbytes == 0:
        return 0
    with on_device(ordinal), whatever_is_captured():
        return int(check(_bindings().cuMemAlloc(nbytes)))


def free(ordinal: int, address: int) -> None:
    """Free memory of `allocate`; waits until kernels that may use it have run."""
    if address:
        with on_device(ordinal), whatever_is_captured():
            check(_bindings().cuMemFree(address))


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
    driver = _bindings()
    wanted = driver.CUmemPoolProps()
    wanted.allocType = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    wanted.location.id = ordinal
    with on_device(ordinal), whatever_is_captured():
        pool = check(driver.cuMemPoolCreate(wanted))
        threshold = driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        check(driver.cuMemPoolSetAttribute(pool, threshold, driver.cuuint64_t(_KEPT_FOR_SCRATCH)))
    return pool


def allocate_async(ordinal: int, nbytes: int, stream: int) -> int:
    """Return stream-ordered memory: for scratch that is freed on the same stream."""
    pool = _ASYNC_POOLS.get_or_make(ordinal, lambda: _new_async_pool(ordinal))
    with on_device(ordinal):
        return int(check(_bindings().cuMemAllocFromPoolAsync(nbytes, pool, stream)))


def free_async(ordinal: int, address: int, stream: int) -> None:
    """Free memory of `allocate_async` once the stream gets there."""
    with on_device(ordinal):
        check(_bindings().cuMemFreeAsync(address, stream))


def zero_async(ordinal: int, address: int, nbytes: int, stream: int) -> None:
    """Fill memory with zero bytes, in stream order."""
    with on_device(ordinal):
        check(_bindings().cuMemsetD8Async(address, 0, nbytes, stream))


def copy(ordinal: int, destination: int, source: int, nbytes: int) -> None:
    """Copy between any two addresses, host or device, and wait for it."""
    if nbytes:
        driver = _bindings()
        with on_device(ordinal):
            check(driver.cuMemcpyAsync(destination, source, nbytes, 0))
            check(driver.cuStreamSynchronize(0))


def synchronize(ordinal: int) -> None:
    """Wait for everything on a device."""
    with on_device(ordinal):
        check(_bindings().cuCtxSynchronize())


def synchronize_stream(ordinal: int, stream: int) -> None:
    """Wait for everything queued on a stream."""
    with on_device(ordinal):
        check(_bindings().cuStreamSynchronize(stream))


def copy_async(ordinal: int, destination: int, source: int, nbytes: int, stream: int) -> None:
    """Copy between addresses of any devices, in stream order."""
    with on_device(ordinal):
        check(_bindings().cuMemcpyAsync(destination, source, nbytes, stream))


def wait_for_stream(ordinal: int, stream: int, other: int, origin: int | None = None) -> None:
    """Let what is queued on a stream from now on run after what is queued on another one.

    `origin`: the device of the other one, if it is not the same.
    """
    driver = _bindings()
    with on_device(ordinal if origin is None else origin), whatever_is_captured():
        flags = driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = check(driver.cuEventCreate(flags))
        try:
            check(driver.cuEventRecord(event, other))
            with on_device(ordinal):  # which the default stream of no handle is of
                check(driver.cuStreamWaitEvent(stream, event, 0))
        finally:
            check(driver.cuEventDestroy(event))


def record_event(ordinal: int, stream: int) -> Any:
    """Return a new event that happens when everything queued on a stream by now has run."""
    driver = _bindings()
    with on_device(ordinal), whatever_is_captured():
        event = check(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        check(driver.cuEventRecord(event, stream))
    return event


def has_happened(ordinal: int, event: Any) -> bool:
    """Return whether an event has happened, without waiting for it."""
    driver = _bindings()
    with on_device(ordinal), whatever_is_captured():
        (code,) = driver.cuEventQuery(event)
    if code == driver.CUresult.CUDA_ERROR_NOT_READY:
        return False
    check((code,))
    return True


def destroy_event(ordinal: int, event: Any) -> None:
    """Give an event back."""
    with on_device(ordinal), whatever_is_captured():
        check(_bindings().cuEventDestroy(event))


def is_stream_of(ordinal: int, stream: int) -> bool:
    """Return whether work for a device can be queued on a stream."""
    if stream in (0, LEGACY_STREAM, PER_THREAD_STREAM):
        return True
    context = check(_bindings().cuStreamGetCtx(stream))
    return int(context) == int(_primary_context(ordinal))


def is_of_thread(stream: int) -> bool:
    """Return whether a handle means another stream in each thread."""
    if stream:
        return stream == PER_THREAD_STREAM
    return config.per_thread_default_stream()


def can_be_captured(stream: int) -> bool:
    """Return whether work on a stream can become a graph: that on the legacy default one not."""
    return stream not in (0, LEGACY_STREAM) or is_of_thread(stream)


def is_default_stream_usable() -> bool:
    """Return whether work can be queued on the current device's default stream.

    Not while a stream that waits for it is being captured.
    """
    driver = _bindings()
    code, _ = driver.cuStreamIsCapturing(0)
    if code == driver.CUresult.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT:
        return False
    check((code,))
    return True


def is_capturing(ordinal: int, stream: int) -> bool:
    """Return whether what is queued on a stream becomes a graph."""
    if not can_be_captured(stream):
        return False
    driver = _bindings()
    with on_device(ordinal):
        status = check(driver.cuStreamIsCapturing(stream))
    return bool(status != driver.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)


def device_of_pointer(address: int) -> int:
    """Return the device that owns an address."""
    driver = _bindings()
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(check(driver.cuPointerGetAttribute(attribute, address)))


def load_module(ordinal: int, code: bytes) -> Any:
    """Return a module from a cubin, PTX text or fatbin."""
    driver = _bindings()
    with on_device(ordinal), whatever_is_captured():
        # PTX is text: the driver wants its end marked.
        return check(driver.cuModuleLoadData(code + b"\0"))


def get_function(ordinal: int, module: Any, lowered_name: str) -> Any:
    """Return a kernel of a module.

    Raises
    ------
    LoadError
        If there is none of that name; the text has ``CUDA_ERROR_NOT_FOUND``.
    """
    driver = _bindings()
    with on_device(ordinal), whatever_is_captured():
        try:
            return check(driver.cuModuleGetFunction(module, lowered_name.encode()))
        except DriverError as error:
            if error.name != "CUDA_ERROR_NOT_FOUND":
                raise
            raise LoadError(
                f"{error}: no kernel {lowered_name!r} in the module{_instead(module, lowered_name)}"
            ) from None


def kernel_names(ordinal: int, module: Any) -> tuple[str, ...] | None:
    """Return the sorted names of a module's kernels; None if the driver can not tell (< 12.4)."""
    with on_device(ordinal), whatever_is_captured():
        return _kernel_names(module)


def _kernel_names(module: Any) -> tuple[str, ...] | None:
    driver = _bindings()
    try:
        count = check(driver.cuModuleGetFunctionCount(module))
        functions = check(driver.cuModuleEnumerateFunctions(count, module)) if count else ()
        return tuple(sorted(check(driver.cuFuncGetName(one)).decode() for one in functions))
    except (AttributeError, RuntimeError, DriverError):
        return None


def _instead(module: Any, wanted: str) -> str:
    """Return which kernels a module has, as far as the driver says (since 12.4), and advice."""
    names = _kernel_names(module)
    if names is None:
        return ""
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    mangled = any(name.startswith(f"_Z{len(wanted)}{wanted}") for name in names)
    advice = '; declare it extern "C", or name it in name_expressions' if mangled else ""
    return f", which has {shown or 'none'}{advice}"


def get_global(ordinal: int, module: Any, lowered_name: str) -> tuple[int, int]:
    """Return address and size in bytes of a global variable of a module.

    Raises
    ------
    LoadError
        If there is none of that name.
    """
    driver = _bindings()
    with on_device(ordinal), whatever_is_captured():
        try:
            address, nbytes = check(driver.cuModuleGetGlobal(module, lowered_name.encode()))
        except DriverError as error:
            # A kernel of that name is an invalid value.
            if error.name not in ("CUDA_ERROR_NOT_FOUND", "CUDA_ERROR_INVALID_VALUE"):
                raise
            raise LoadError(f"{error}: no global variable {lowered_name!r} in the module") from None
    return int(address), int(nbytes)
