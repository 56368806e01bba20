"""``cuLaunchKernelEx`` through ctypes, with everything prepared that does not change.

>>> start = prepare_launch(0, function, launch, block.address)               # doctest: +SKIP
>>> relaunch(0, start, code, "f") if (code := start()) else None             # doctest: +SKIP

The driver needs about 2.5 us for a launch.  Arguments that ctypes need not convert are passed in
0.15 us; through `cuda.bindings`, which converts each, a launch takes 1 us more.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from collections.abc import Callable
from typing import Any

from kspec.errors import DriverError
from kspec.runtime import driver
from kspec.runtime.driver.launch import Launch

Start = Callable[[], int]
Resize = Callable[[int, int, int, int, int, int], None]  # grid and block

_CONFIG = struct.Struct("7I4xPPI4x")  # CUlaunchConfig: grid, block, shared_mem, stream, attributes
_ATTRIBUTE = struct.Struct("I4x64s")  # CUlaunchAttribute: which, and its value
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC, _CARVEOUT = 2, 4, 6, 14  # CUlaunchAttributeID
SIZE = struct.Struct("6I")  # a grid and a block
_SINCE = 11080  # CUDA 11.8 has brought cuLaunchKernelEx
# What the driver says when a kernel's context is not the current one: of a thread that has none
# yet, CUDA_ERROR_INVALID_CONTEXT; of another context, CUDA_ERROR_INVALID_HANDLE.
_OTHER_CONTEXT = (201, 400)


@functools.cache
def driver_function(name: str, since: int) -> Callable[..., int]:
    """Return a function of the driver as the bindings call it: they choose the default stream.

    Parameters
    ----------
    name : str
        Of the function, without a version.
    since : int
        The CUDA version that has brought it, as 1000 * major + 10 * minor.
    """
    bindings = driver.bindings()
    flag = bindings.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    address, _ = driver.check(bindings.cuGetProcAddress(name.encode(), since, flag))
    if not address:
        version = f"{since // 1000}.{since % 1000 // 10}"
        raise DriverError(
            "CUDA_ERROR_NOT_SUPPORTED", f"{name}: the driver is older than CUDA {version}", 801
        )
    # No argument types on purpose: objects that ctypes made itself are passed as they are.
    return ctypes.CFUNCTYPE(ctypes.c_int)(int(address))


def as_start(
    ordinal: int, function: Callable[..., int], *arguments: Any, owner: object = None
) -> Start:
    """Return a call of a function of the driver, which keeps what owns its arguments alive."""
    start: Start = functools.partial(function, *arguments)
    if driver.several_devices():
        start = _start_on(ordinal, start)
    start.owner = owner  # type: ignore[attr-defined]
    return start


def _start_on(ordinal: int, plain: Start) -> Start:
    """Return a call for a device that may not be the current one.

    The legacy default stream is that of the current device. To ask which one that is takes 0.4 us
    this way, and 2 us by the bindings.
    """
    ask, wanted = driver_function("cuCtxGetCurrent", 4000), driver.context_of(ordinal)
    new, reference = ctypes.c_void_p, ctypes.byref

    def start() -> int:
        current = new()  # one for each call: threads ask at the same time
        ask(reference(current))
        if current.value == wanted:
            return plain()
        with driver.on_device(ordinal):
            return plain()

    return start


def prepare_launch(ordinal: int, function: Any, launch: Launch, params: int) -> Start:
    """Return a function that launches a kernel as often as wanted.

    It returns the driver's code: `relaunch` takes care of those that are not 0.

    Parameters
    ----------
    ordinal : int
        Device.
    function : CUfunction
        The kernel.
    launch : Launch
        Grid, block, shared memory and stream.
    params : int
        Address of an array of parameter addresses; all of it is read before the function returns.
    """
    return prepare_resizable(ordinal, function, launch, params)[0]


def prepare_resizable(
    ordinal: int, function: Any, launch: Launch, params: int, owner: object = None
) -> tuple[Start, Resize]:
    """Return the result of `prepare_launch`, and a function that sets the grid and the block.

    `owner`: what keeps the kernel loaded.
    """
    rows = _attributes(launch)
    attributes = ctypes.create_string_buffer(b"".join(rows))
    packed = _CONFIG.pack(
        *launch.grid,
        *launch.block,
        launch.shared_mem,
        launch.stream,
        ctypes.addressof(attributes) if rows else 0,
        len(rows),
    )
    config = (ctypes.c_char * len(packed)).from_buffer_copy(packed)
    pointer = ctypes.c_void_p.from_param
    call = driver_function("cuLaunchKernelEx", _SINCE)
    start = as_start(
        ordinal,
        call,
        ctypes.byref(config),
        pointer(int(function)),
        pointer(params),
        None,
        owner=(attributes, owner),
    )
    return start, functools.partial(SIZE.pack_into, config, 0)


def _attributes(launch: Launch) -> list[bytes]:
    """Return the CUlaunchAttributes of a launch."""
    rows = []
    if launch.cooperative:
        rows.append(_ATTRIBUTE.pack(_COOPERATIVE, struct.pack("i", 1)))
    if launch.cluster is not None:
        rows.append(_ATTRIBUTE.pack(_CLUSTER, struct.pack("3I", *launch.cluster)))
    if launch.pdl:
        rows.append(_ATTRIBUTE.pack(_PROGRAMMATIC, struct.pack("i", 1)))
    if launch.carveout is not None:
        rows.append(_ATTRIBUTE.pack(_CARVEOUT, struct.pack("i", launch.carveout)))
    return rows


def relaunch(ordinal: int, start: Start, code: int, name: str) -> None:
    """Launch once more if only the thread's context was wrong.

    Raises
    ------
    DriverError
        For every other code; it has the kernel's name.
    """
    if code in _OTHER_CONTEXT:
        with driver.on_device(ordinal):
            code = start()
    driver.check_code(code, name)


def launch_once(ordinal: int, function: Any, launch: Launch, params: int, name: str) -> None:
    """Launch a kernel; parameters as for `prepare_launch`, errors as those of `relaunch`."""
    with driver.on_device(ordinal):
        driver.check_code(prepare_launch(ordinal, function, launch, params)(), name)
