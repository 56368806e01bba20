"""Rows of `benchmarks.overhead`: CUDA graphs of another library with kernels of kspec in them.

Each graph has the same number of kernels as its peer's, which are the library's own.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.call_bench import SIZE, Bench, NotHereError, Plan
from benchmarks.timing import Call

_KERNELS = 20  # in a graph
_XLA = "--xla_gpu_enable_command_buffer=FUSION,CUSTOM_CALL --xla_gpu_graph_min_graph_size=1"


def of_cupy(bench: Bench) -> Plan:
    """A graph that a stream of CuPy has captured."""
    if bench.cupy is None:
        raise NotHereError("no CuPy, whose graphs they are")
    stream = bench.cupy.cuda.Stream(non_blocking=True)

    def captured(step: Call) -> Call:
        with stream:
            stream.begin_capture()
            for _ in range(_KERNELS):
                step()
            return functools.partial(stream.end_capture().launch, stream)

    steps = {
        "kspec": bench.kernel(kernels.ADD_F32),
        "CuPy": bench.kernel(kernels.ADD_F32, bench.cupy),
    }
    return _plan(bench, steps, bench.arrays(2), bench.cupy.zeros_like, captured)


def of_torch(bench: Bench) -> Plan:
    """A graph that `torch.cuda.graph` has captured."""
    if bench.machine.kind == "host":
        raise NotHereError("the graphs of torch are CUDA's")
    torch, tensors = bench.torch, bench.tensors(2)

    def captured(step: Call) -> Call:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(_KERNELS):
                step()
        replay: Call = graph.replay
        return replay

    def add(x: Any, y: Any, out: Any) -> None:
        torch.add(x, y, out=out)

    steps = {"kspec": bench.kernel(kernels.ADD_F32), "torch": add}
    return _plan(bench, steps, tensors, torch.zeros_like, captured)


def _plan(
    bench: Bench,
    steps: Mapping[str, Callable[..., Any]],
    arrays: Sequence[Any],
    zeros_like: Callable[[Any], Any],
    captured: Callable[[Call], Call],
) -> Plan:
    """Return the launches of a graph of each library's additions of two arrays.

    `captured` returns the launch of a graph, given one of its steps.
    """
    x, y = arrays
    calls: dict[str, Call] = {}
    results: list[Any] = []
    for name, step in steps.items():
        out = zeros_like(x)
        step(x, y, out)  # what is compiled is compiled before
        calls[name] = captured(functools.partial(step, x, y, out))
        results.append(out)
    want = bench.numpy(x) + bench.numpy(y)
    return Plan(calls, lambda: [(bench.numpy(one), want) for one in results])


def of_jax(bench: Bench) -> Plan:
    """A program of JAX, whose kernels XLA's command buffers hold."""
    if bench.machine.kind == "host":
        raise NotHereError("the command buffers of JAX are CUDA graphs")
    # JAX reads them when it is imported; nothing else here imports it.
    os.environ.setdefault("XLA_FLAGS", _XLA)
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        jax = importlib.import_module("jax")
    except ImportError as error:
        raise NotHereError(f"no JAX: {error}") from None
    add = importlib.import_module("kspec.jax").function(bench.kernel(kernels.ADD_F32))
    numbers = np.linspace(0, 1, SIZE, dtype=np.float32)
    x = jax.numpy.asarray(numbers)
    zeros = jax.numpy.zeros_like(x)

    def program(step: Callable[[Any, Any], Any]) -> Call:
        @jax.jit
        def sums(x: Any, y: Any) -> Any:
            for _ in range(_KERNELS):
                # Otherwise XLA would make one kernel of all of its own.
                y = jax.lax.optimization_barrier(step(x, y))
            return y

        return functools.partial(sums, x, zeros)

    calls = {"kspec": program(add), "JAX": program(jax.numpy.add)}
    return Plan(
        calls,
        lambda: [(np.asarray(call()), _KERNELS * numbers) for call in calls.values()],
    )
