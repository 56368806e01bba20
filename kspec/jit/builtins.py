"""The names that only kernels know: ``jit.threadIdx``, ``jit.syncthreads``, ``jit.range`` ...

>>> from kspec.jit.builtins import grid, threadIdx
>>> threadIdx, grid
(kspec.jit.threadIdx, kspec.jit.grid)
>>> grid(1)
Traceback (most recent call last):
kspec.jit.builtins.OnlyInKernels: kspec.jit.grid means something in kernels only

What they mean there is in `kspec.jit.syntax.calls` and its neighbours.
"""

from __future__ import annotations

from typing import Any, NoReturn

from kspec.errors import JitRuntimeError

_PREFIX = "kspec.jit"


class OnlyInKernels(JitRuntimeError):
    """Python has called what kernels call."""


def _refuse(name: str) -> NoReturn:
    raise OnlyInKernels(f"{_PREFIX}.{name} means something in kernels only")


class DeviceName:
    """A name that kernels know.

    Attributes
    ----------
    name : str
        As users write it behind ``jit.``.
    """

    def __init__(self, name: str, doc: str) -> None:
        self.name = name
        self.__doc__ = doc

    def __repr__(self) -> str:
        return f"{_PREFIX}.{self.name}"


class DeviceBuiltin(DeviceName):
    """A function that kernels may call."""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Raise `RuntimeError`: there are no threads outside of kernels."""
        _refuse(self.name)


class Dim3(DeviceName):
    """Three numbers of a thread: ``x``, ``y`` and ``z``."""

    def __getattr__(self, name: str) -> Any:
        if name in ("x", "y", "z"):
            _refuse(f"{self.name}.{name}")
        raise AttributeError(f"'Dim3' object has no attribute {name!r}")


class DeviceNumber(DeviceName):
    """A number that kernels know."""


threadIdx = Dim3("threadIdx", "Index of the thread in its block.")
blockIdx = Dim3("blockIdx", "Index of the block in the grid.")
blockDim = Dim3("blockDim", "Threads of a block.")
gridDim = Dim3("gridDim", "Blocks of the grid.")
warpsize = DeviceNumber("warpsize", "Threads of a warp.")

grid = DeviceBuiltin("grid", "Index of the thread in the grid, over one to three axes.")
gridsize = DeviceBuiltin("gridsize", "Threads of the grid along one to three axes.")
laneid = DeviceBuiltin("laneid", "Number of the thread in its warp.")
syncthreads = DeviceBuiltin("syncthreads", "Wait for all threads of the block.")
syncwarp = DeviceBuiltin("syncwarp", "Wait for the threads of the warp, or those of a mask.")
threadfence = DeviceBuiltin("threadfence", "Order writes to memory for other blocks.")
shared_memory = DeviceBuiltin("shared_memory", "Memory of the block: dtype, size or shape.")
local_array = DeviceBuiltin("local_array", "Memory of the thread: dtype, shape.")
printf = DeviceBuiltin("printf", "Print as C does: a format, and numbers.")
range = DeviceBuiltin("range", "Python's `range`, with `unroll`.")

_ATOMICS = {
    "add": "the sum",
    "sub": "the difference",
    "exch": "the value",
    "min": "the smaller one",
    "max": "the larger one",
    "inc": "one more, or 0 beyond the value",
    "dec": "one less, or the value below 0",
    "and": "the bits of both",
    "or": "the bits of either",
    "xor": "the bits that differ",
}
ATOMICS = {
    f"atomic_{name}": DeviceBuiltin(
        f"atomic_{name}", f"Store {what} in an element atomically; returns the old value."
    )
    for name, what in _ATOMICS.items()
}
ATOMICS["atomic_cas"] = DeviceBuiltin(
    "atomic_cas", "Store a value in an element that equals another; returns the old value."
)
_SHUFFLES = {
    "shfl_sync": "The value of the lane with a number.",
    "shfl_up_sync": "The value of the lane so many before.",
    "shfl_down_sync": "The value of the lane so many behind.",
    "shfl_xor_sync": "The value of the lane whose number differs in some bits.",
}
SHUFFLES = {name: DeviceBuiltin(name, doc) for name, doc in _SHUFFLES.items()}

_ALL: tuple[Any, ...] = (
    *(threadIdx, blockIdx, blockDim, gridDim, warpsize),
    *(grid, gridsize, laneid, syncthreads, syncwarp, threadfence),
    *(shared_memory, local_array, printf, range),
    *ATOMICS.values(),
    *SHUFFLES.values(),
)
NAMES: dict[str, Any] = {one.name: one for one in _ALL}
"""All of them, as users write them behind ``jit.``."""
