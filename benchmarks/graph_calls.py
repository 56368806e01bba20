"""Rows of `benchmarks.overhead`: CUDA graphs of another library with kernels of kspec in them.

Each graph has the same number of kernels as its peer's, which are the library's own.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
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
    x, y = bench.arrays(2)
    calls: dict[str, Call] = {}
    results: dict[str, Any] = {}
    for name, kernel in _kernels(bench).items():
        results[name] = bench.cupy.zeros_like(x)
        with stream:
            stream.begin_capture()
            for _ in range(_KERNELS):
                kernel(x, y, results[name])
            calls[name] = functools.partial(stream.end_capture().launch, stream)
    want = bench.numpy(x) + bench.numpy(y)
    return Plan(calls, lambda: [(bench.numpy(one), want) for one in results.values()])


def _kernels(bench: Bench) -> dict[str, Call]:
    return {
        "kspec": bench.kernel(kernels.ADD_F32),
        "CuPy": bench.kernel(kernels.ADD_F32, bench.cupy),
    }


def of_torch(bench: Bench) -> Plan:
    """A graph that `torch.cuda.graph` has captured."""
    if bench.machine.kind == "host":
        raise NotHereError("the graphs of torch are CUDA's")
    x, y = bench.tensors(2)
    cuda = bench.torch.cuda
    ours = bench.kernel(kernels.ADD_F32)
    steps = {"kspec": ours, "torch": functools.partial(_add_into, bench.torch)}
    calls: dict[str, Call] = {}
    results: dict[str, Any] = {}
    for name, step in steps.items():
        results[name] = bench.torch.zeros_like(x)
        step(x, y, results[name])  # what is compiled is compiled before
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            for _ in range(_KERNELS):
                step(x, y, results[name])
        calls[name] = graph.replay
    want = bench.numpy(x) + bench.numpy(y)
    return Plan(calls, lambda: [(bench.numpy(one), want) for one in results.values()])


def _add_into(torch: Any, x: Any, y: Any, out: Any) -> None:
    torch.add(x, y, out=out)


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
