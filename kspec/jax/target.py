"""The foreign function that XLA calls for every kernel: a call frame in, a launch out.

It is a C function made by `ctypes`, so there is nothing to compile.  It runs on XLA's threads,
holds the interpreter's lock while it queues a kernel, and waits for nothing on a CUDA device: the
kernel comes behind the work before it on XLA's stream.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from kspec.errors import KspecError, LoadError
from kspec.jax import call_frame
from kspec.jax.call_frame import Buffer, CallFrame
from kspec.jax.ending import RunningCalls
from kspec.jax.request import Request, parse_request
from kspec.runtime import driver
from kspec.runtime.driver.device import HOST, Device
from kspec.runtime.kernels import KernelCallable
from kspec.runtime.memory import c_strides, numpy_dtype
from kspec.runtime.memory.device_array import DeviceArray, clear
from kspec.runtime.modules.loader import compiled_while_captured

NAME = "kspec"
# Kernels that need no memory but their arguments': XLA replays them from its graphs, and this
# function is called to record them.
RECORDED = "kspec_recorded"

# XLA's numbers of dtypes, `xla/xla_data.proto`.
_DTYPES = {
    1: "bool",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "uint8",
    7: "uint16",
    8: "uint32",
    9: "uint64",
    10: "float16",
    11: "float32",
    12: "float64",
    15: "complex64",
    16: "bfloat16",
    18: "complex128",
    19: "float8_e5m2",
    20: "float8_e4m3fn",
}
DTYPES = frozenset(_DTYPES.values())

# Functions of our own: `jax.ffi.pycapsule` changes the one that `ctypes.pythonapi` shares.
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))
_keep_for_ever = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


class _XlaMemory:
    """Memory that belongs to XLA."""

    ptr = nbytes = 0


_XLA_MEMORY = _XlaMemory()


class ForeignTarget:
    """The kernels that programs of this process may name, and the functions that run them.

    Programs may be run as long as the process lives, and hold names only, so nothing is removed.
    """

    def __init__(self) -> None:
        self._kernels: dict[str, KernelCallable[Any]] = {}
        self.calls = RunningCalls()

    def add(self, name: str, kernel: KernelCallable[Any]) -> None:
        """Make a kernel known under a name."""
        self._kernels[name] = kernel

    def kernel(self, name: str) -> KernelCallable[Any]:
        """Return the kernel of a name.

        Raises
        ------
        LoadError
            If this process has not made it known.
        """
        try:
            return self._kernels[name]
        except KeyError:
            raise LoadError(
                f"this process does not know the kernel {name!r}, which a compiled program asks "
                "for; make it known with kspec.jax.function(...) before the program runs"
            ) from None

    def register(self) -> None:
        """Give the functions to XLA."""
        for platform, run in (("cpu", self._run_on_host), ("CUDA", self._run_on_cuda)):
            for name, traits in ((NAME, 0), (RECORDED, call_frame.RECORDABLE)):
                handler = call_frame.Handler(functools.partial(self._guarded, run, traits))
                # A program may run while the interpreter shuts down and frees what it knows.
                _keep_for_ever(handler)
                address = ctypes.cast(handler, ctypes.c_void_p)
                capsule = _new_capsule(address, None, None)
                jax.ffi.register_ffi_target(name, capsule, platform=platform, api_version=1)

    def _run_on_host(self, frame: CallFrame) -> int | None:
        inputs = [_array(one, HOST) for one in call_frame.buffers(frame.arguments)]
        outputs = [_array(one, HOST) for one in call_frame.buffers(frame.results)]
        self._run(_request(frame), inputs, outputs, 0)
        return None

    def _run_on_cuda(self, frame: CallFrame) -> int | None:
        given = list(call_frame.buffers(frame.arguments))
        wanted = list(call_frame.buffers(frame.results))
        address = next((one.ptr for one in (*wanted, *given) if one.ptr), 0)
        if not address:
            return None  # there are no elements at all
        stream, error = call_frame.stream_of(frame)
        if error:
            return error
        device = Device("cuda", driver.device_of_pointer(address))
        inputs = [_array(one, device) for one in given]
        outputs = [_array(one, device) for one in wanted]
        self._run(_request(frame), inputs, outputs, stream)
        return None

    def _run(
        self, request: Request, arrays: list[DeviceArray], outputs: list[DeviceArray], stream: int
    ) -> None:
        kernel: Any = self.kernel(request.kernel)
        options: Mapping[str, Any] = dict(request.options)
        for param, output in zip(kernel.declaration.outputs, outputs, strict=True):
            if param.raw:  # which elements are written is the kernel's business
                clear(output, stream)
        with compiled_while_captured():  # XLA records what it has never run
            request.called(kernel)(*request.inputs(arrays), *outputs, stream=stream, **options)

    def _guarded(
        self, run: Callable[[CallFrame], int | None], traits: int, address: int
    ) -> int | None:
        """Run a handler; exceptions become errors of XLA's, for C code cannot pass them on."""
        frame = CallFrame.from_address(address)
        try:
            if call_frame.answer_metadata(frame, traits):
                return None
            return self.calls.run(run, frame)
        except BaseException as error:
            known = isinstance(error, KspecError | TypeError | ValueError)
            code = call_frame.INVALID_ARGUMENT if known else call_frame.INTERNAL
            return call_frame.make_error(frame, code, f"{type(error).__name__}: {error}")


def _request(frame: CallFrame) -> Request:
    return parse_request(call_frame.text_attribute(frame))


def _array(buffer: Buffer, device: Device) -> DeviceArray:
    """Return a view of XLA's memory."""
    code, ptr, shape = buffer
    dtype, strides = _layout(code, shape)
    return DeviceArray(_XLA_MEMORY, ptr, shape, strides, dtype, device)


@functools.lru_cache(maxsize=4096)
def _layout(code: int, shape: tuple[int, ...]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    dtype = numpy_dtype(_DTYPES[code])
    return dtype, c_strides(shape, dtype.itemsize)


@functools.cache
def target() -> ForeignTarget:
    """Return the target, registered at the first call."""
    made = ForeignTarget()
    made.register()
    atexit.register(made.calls.wait)
    return made
