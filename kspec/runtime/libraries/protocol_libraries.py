"""JAX and Numba: libraries that are known, whose arrays come by a protocol.

Results are arrays of theirs, which `kspec.runtime.libraries.protocols` alone cannot make.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from kspec.errors import ArgumentTypeError
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.protocols import CudaArrayInterface, DLPack
from kspec.runtime.memory import ArrayView, dlpack, numpy_dtype
from kspec.runtime.memory.device_array import DeviceArray

if TYPE_CHECKING:
    import numpy.typing as npt


class Jax(DLPack):
    """`jax.Array`: immutable, so that results are new ones.

    JAX does not expose its streams. Kernels run on the legacy default stream, which waits for their
    arguments, and JAX's stream waits for them.
    """

    name = "jax"
    read_only = (
        "JAX's arrays are immutable; leave outputs out, and the call returns new ones (raw kernels "
        "write to arrays of other libraries, such as kspec.empty makes)"
    )

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are JAX's, or stand for them while JAX traces a function."""
        jax = sys.modules.get("jax")
        array = getattr(jax, "Array", None)  # missing while jax itself is being imported
        return array is not None and (issubclass(kind, array) or _is_tracer(kind))

    def view(self, array: Any) -> ArrayView:
        """Return the view of the array."""
        if _is_tracer(type(array)):
            raise ArgumentTypeError(
                "JAX traces this function (jax.jit, vmap, grad), and a plain call needs values: "
                "call kspec.jax.function(kernel) there"
            )
        if not hasattr(array, "__dlpack__"):
            raise ArgumentTypeError(
                f"the elements of a {type(array).__name__} are not numbers; for random keys, pass "
                "jax.random.key_data(key)"
            )
        if array.is_deleted():
            raise ArgumentTypeError("the array was deleted, or donated to a function of JAX's")
        places = array.devices()
        if len(places) > 1:
            listed = ", ".join(sorted(map(str, places)))
            raise ArgumentTypeError(
                f"the array is sharded over {listed}, and a kernel runs on one device: pass "
                "jax.device_put(x, one_of_them), or the data of each x.addressable_shards"
            )
        one = dlpack.import_array(array)
        if one.device.is_host:
            array.block_until_ready()  # there is no stream that could wait for it
        return ArrayView(one.ptr, one.shape, one.strides, one.dtype, one.device, True, one.owner)

    def finish(self, array: Any, device: Device, stream: int) -> Any:
        """Return a `jax.Array` of the same memory; on the CPU a copy, if JAX wants one."""
        return sys.modules["jax"].dlpack.from_dlpack(_Handed(array, stream))

    def numpy(self, array: Any) -> npt.NDArray[Any]:
        """Return a copy, of all shards."""
        return np.array(array)


class _Handed:
    """Hands an own array to JAX: its stream waits for one stream, the host for none."""

    def __init__(self, array: DeviceArray, stream: int) -> None:
        self._array = array
        self._stream = stream

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.device_of(self._array.device)

    def __dlpack__(self, *, stream: int | None = None, **_: object) -> object:
        one = self._array
        if not one.device.is_host:
            theirs = driver_streams.LEGACY_STREAM if stream is None else stream
            one._memory.leave(theirs)  # type: ignore[attr-defined]  # memory of the pool
            driver_streams.wait_for_stream(one.device.ordinal, theirs, self._stream)
        return dlpack.export(one, one._ptr, one.shape, one.strides, one.dtype, one.device)


def _is_tracer(kind: type) -> bool:
    tracer = getattr(sys.modules.get("jax.core"), "Tracer", None)
    return tracer is not None and issubclass(kind, tracer)


class Numba(CudaArrayInterface):
    """Device arrays of `numba.cuda`, on its default stream."""

    name = "numba"

    def recognises(self, kind: type) -> bool:
        """Whether objects of a type are device arrays."""
        module = sys.modules.get("numba.cuda.cudadrv.devicearray")
        array = getattr(module, "DeviceNDArray", None)
        return array is not None and issubclass(kind, array)

    def empty(self, shape: tuple[int, ...], dtype: str, device: Device) -> Any:
        """Return a new array."""
        cuda = sys.modules["numba.cuda"]
        with cuda.gpus[device.ordinal]:
            return cuda.device_array(shape, numpy_dtype(dtype))

    def stream(self, device: Device) -> int:
        """Return the default stream: the legacy one, or that of the thread if Numba is set so."""
        numba = sys.modules["numba"]
        per_thread = getattr(numba.config, "CUDA_PER_THREAD_DEFAULT_STREAM", 0)
        return driver_streams.PER_THREAD_STREAM if per_thread else 0
