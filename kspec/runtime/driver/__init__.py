"""The CUDA driver, as far as kernels need it: the only module that imports its bindings.

Here are devices and contexts; the other modules of this folder and `texture.driver_texture` have
the rest.

Every call goes through `check`, so every failure is a `DriverError` with the symbolic name and
the driver's explanation.  Nothing is initialised before it is asked for, and a machine without
a driver gets a reason, not a traceback: see `why_unavailable`.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kspec.errors import DriverError, ToolNotFoundError

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
    "a kernel has failed, and CUDA no longer works in this process. It is this one or one launched "
    "before it{candidates}; with CUDA_LAUNCH_BLOCKING=1 the launch itself fails. Call that kernel "
    'with NumPy copies of its arguments, under kspec.checking(sanitize="memory"): the host device '
    "names the line"
)
_MOST_CANDIDATES = 8
# Names of kernels that were launched, those that were checked in full last.
_launched: dict[str, None] = {}


class WarmUp:
    """Tasks that run once, in a thread of their own, while the driver starts.

    That and a context take 0.1 to 0.2 s, in which Python has nothing to do: the bindings release
    the interpreter's lock.  Each task may be added again and again.

    >>> warm_up, done = WarmUp(), []
    >>> warm_up.add(lambda: done.append("ready"))
    >>> thread = warm_up.start()
    >>> thread.join(); done
    ['ready']
    """

    def __init__(self) -> None:
        self._tasks: dict[Callable[[], object], None] = {}

    def add(self, task: Callable[[], object]) -> None:
        """Add a task; one that is there already is not added again."""
        self._tasks[task] = None

    def start(self) -> threading.Thread | None:
        """Run the tasks in a new thread and return it; None if there are none."""
        tasks, self._tasks = self._tasks, {}
        if not tasks:
            return None
        # No daemon: an interpreter that ends must not pull the compiler's library away under it.
        thread = threading.Thread(target=_run, args=(tuple(tasks),), name="kspec-warm-up")
        thread.start()
        return thread


def _run(tasks: tuple[Callable[[], object], ...]) -> None:
    for task in tasks:
        # The call that needs the result does the same again, and reports the error.
        with contextlib.suppress(Exception):
            task()


# What `kspec.pipeline` can do before the first lazily compiled kernel is called.
WARM_UP = WarmUp()


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
        WARM_UP.start()
        result = driver.cuInit(0)
    except Exception as error:  # the loader of libcuda raises classes of its own
        raise ToolNotFoundError(
            "no CUDA driver: libcuda cannot be loaded; install the NVIDIA driver"
        ) from error
    if result[0] != driver.CUresult.CUDA_SUCCESS:
        name = result[0].name
        raise ToolNotFoundError(f"no usable CUDA device: cuInit says {name}")
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
    """Return the results of a driver call; raise `DriverError` if it failed."""
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
    """Return the number of multiprocessors of a device."""
    driver = _bindings()
    attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    return int(check(driver.cuDeviceGetAttribute(attribute, check(driver.cuDeviceGet(ordinal)))))


@functools.cache
def most_shared_memory(ordinal: int) -> int:
    """Return the most bytes of shared memory of a block, static and dynamic."""
    driver = _bindings()
    number = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    return int(check(driver.cuDeviceGetAttribute(number, check(driver.cuDeviceGet(ordinal)))))


@functools.cache
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


def synchronize(ordinal: int) -> None:
    """Wait for everything on a device."""
    with on_device(ordinal):
        check(_bindings().cuCtxSynchronize())


def device_of_pointer(address: int) -> int:
    """Return the device that owns an address."""
    driver = _bindings()
    attribute = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(check(driver.cuPointerGetAttribute(attribute, address)))
