"""CUDA graphs of one kernel, which the driver launches in half the time of the kernel itself.

On an H200 ``cuLaunchKernelEx`` takes 2.4 to 2.8 us and ``cuGraphLaunch`` 1.05.  New parameters cost
another 0.1 to 0.9, making a graph 115 us and 112 KiB of the device's memory.

>>> start = make_graph(0, function, launch, block.address)                   # doctest: +SKIP
>>> start.launch()                                                           # doctest: +SKIP
>>> change(block.memory); start.update(); start.launch()                     # doctest: +SKIP

What is queued already keeps the parameters it was queued with.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import weakref
from typing import Any, NamedTuple

from kspec import config
from kspec.runtime import driver
from kspec.runtime.driver import stream as driver_streams
from kspec.runtime.driver.launch import Launch
from kspec.runtime.driver.launch_ex import SIZE, Resize, Start, as_start, driver_function

# CUDA_KERNEL_NODE_PARAMS_v2: function, grid, block, shared_mem, params, extra, kernel, context
_NODE, _GRID_OFFSET = struct.Struct("P7I4x4P"), 8
_LAUNCH_SINCE, _CAPTURING_SINCE, _NODE_SINCE = 10000, 10000, 12000
_MEASURED_SINCE = 13000  # no graphs on untested drivers


class GraphStart(NamedTuple):
    """Functions to use a graph; neither may run while the other does, nor twice at the same time.

    Attributes
    ----------
    launch : callable
        Launches it; returns 0, or the driver's code.
    update : callable
        Takes over what the parameters hold now, and the size; returns 0, or the driver's code.
    resize : callable
        Sets the grid and the block.
    """

    launch: Start
    update: Start
    resize: Resize


def is_wanted() -> bool:
    """Return whether kernels that are launched often should become graphs."""
    mode = config.graph_launch()
    return mode == "always" or (mode == "auto" and driver.driver_version() >= _MEASURED_SINCE)


class _Graph:
    """A graph, its executable form and its node; destroyed when it can no longer be launched."""

    def __init__(self, ordinal: int, function: Any, launch: Launch, params: int) -> None:
        made: list[tuple[Any, Any]] = []  # what destroys, and what is destroyed
        # At interpreter exit the driver may be gone already, and the graph with it.
        weakref.finalize(self, _destroy, ordinal, made).atexit = False
        bindings = driver.bindings()
        node = bindings.CUDA_KERNEL_NODE_PARAMS()
        node.func, node.kernelParams = function, params
        node.gridDimX, node.gridDimY, node.gridDimZ = launch.grid
        node.blockDimX, node.blockDimY, node.blockDimZ = launch.block
        node.sharedMemBytes = launch.shared_mem
        with driver.on_device(ordinal), driver.whatever_is_captured():
            graph = driver.check(bindings.cuGraphCreate(0))
            made.append((bindings.cuGraphDestroy, graph))
            self.node = driver.check(bindings.cuGraphAddKernelNode(graph, [], 0, node))
            self.executable = driver.check(bindings.cuGraphInstantiate(graph, 0))
            made.append((bindings.cuGraphExecDestroy, self.executable))


def _destroy(ordinal: int, made: list[tuple[Any, Any]]) -> None:
    # Launches that are queued keep what they need.
    with driver.on_device(ordinal), driver.whatever_is_captured():
        for destroy, one in reversed(made):
            destroy(one)


def make_graph(
    ordinal: int, function: Any, launch: Launch, params: int, plain: Start
) -> GraphStart:
    """Return a graph of one kernel; parameters as for `launcher.prepare_launch`.

    Parameters
    ----------
    plain : callable
        Launches the kernel itself, with the same parameters: while its stream is captured, which
        the launch of a graph would end with an error.

    Raises
    ------
    DriverError
        If the driver makes no graph of the kernel.
    """
    graph = _Graph(ordinal, function, launch, params)
    pointer = ctypes.c_void_p.from_param
    executable, stream = pointer(int(graph.executable)), pointer(launch.stream)
    packed = _NODE.pack(
        int(function), *launch.grid, *launch.block, launch.shared_mem, params, 0, 0, 0
    )
    node = (ctypes.c_char * len(packed)).from_buffer_copy(packed)
    resize = functools.partial(SIZE.pack_into, node, _GRID_OFFSET)
    change = driver_function("cuGraphExecKernelNodeSetParams", _NODE_SINCE)
    update = as_start(
        ordinal, change, executable, pointer(int(graph.node)), ctypes.byref(node), owner=graph
    )
    run = driver_function("cuGraphLaunch", _LAUNCH_SINCE)
    start = as_start(ordinal, run, executable, stream, owner=(graph, plain))
    if driver_streams.can_be_captured(launch.stream):
        start = _unless_captured(ordinal, stream, plain, start)
    return GraphStart(start, update, resize)


def _unless_captured(ordinal: int, stream: Any, plain: Start, start: Start) -> Start:
    captured = ctypes.c_int(0)
    ask = as_start(
        ordinal,
        driver_function("cuStreamIsCapturing", _CAPTURING_SINCE),
        stream,
        ctypes.byref(captured),
    )

    def launch() -> int:
        if ask() or captured.value:
            return plain()
        return start()

    return launch
