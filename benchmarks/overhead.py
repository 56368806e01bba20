"""What a call costs the host: microseconds for arrays of 1000 elements.

Bursts of 200 calls without waiting, the collector off, kspec and its peers in turn; median and
minimum over the bursts.  Each row is a function that returns what to call; ``CALLS`` lists them.
"""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import kspec
from benchmarks import graph_calls, kernels, torch_calls
from benchmarks.call_bench import SIZE, Bench, NotHereError, Plan
from benchmarks.floor import floor_call
from benchmarks.kernels import Text
from benchmarks.references import as_tensor
from benchmarks.results import Overhead
from benchmarks.shipped import generated_function
from benchmarks.timing import Call, interleaved

BURST = 200
_SHAPE_2D = (20, 50)
_THREADS = 256
_GRID = (-(-SIZE // _THREADS),)
_CHANGING = 4096  # shapes: more than the bursts of a run need, so that none comes twice
RAW_CODE = """
extern "C" __global__ void raw_sum(const float* x, const float* y, float* z, unsigned int n) {
  unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) z[i] = x[i] + y[i];
}
"""


def _peers_of_add(bench: Bench, x: Any, y: Any, out: Any = None) -> dict[str, Call]:
    """Return ``x + y`` of NumPy or torch, into an output or a new array."""
    if bench.machine.kind == "host":
        keywords = {} if out is None else {"out": out}
        return {"NumPy": functools.partial(np.add, x, y, **keywords)}
    if bench.torch is None:
        return {}
    tensors = [as_tensor(bench.torch, one) for one in (x, y)]
    if out is None:
        return {"torch": functools.partial(bench.torch.add, *tensors)}
    return {"torch": functools.partial(bench.torch.add, *tensors, out=as_tensor(bench.torch, out))}


def _given(bench: Bench, text: Text = kernels.ADD_F32) -> Plan:
    x, y, z = bench.arrays(3)
    calls = {**bench.calls(text, (x, y, z)), **_peers_of_add(bench, x, y, z)}
    return Plan(calls, lambda: [(bench.numpy(z), bench.numpy(x) + bench.numpy(y))])


def _allocated(bench: Bench, text: Text = kernels.ADD_F32) -> Plan:
    x, y = bench.arrays(2)
    calls = {**bench.calls(text, (x, y)), **_peers_of_add(bench, x, y)}
    return Plan(calls, bench.same(calls["kspec"], lambda: bench.numpy(x) + bench.numpy(y)))


def _own_stream(bench: Bench) -> Plan:
    if bench.cupy is None:
        raise NotHereError("no CuPy, whose stream it is")
    plan = _given(bench)
    stream = bench.cupy.cuda.Stream(non_blocking=True)
    calls = {name: call for name, call in plan.calls.items() if name != "torch"}
    return Plan(calls, plan.check, lambda: stream)


def _four_sets(bench: Bench) -> Plan:
    sets = [tuple(bench.arrays(3)) for _ in range(4)]

    def in_turn(kernel: Callable[..., Any]) -> Call:
        following = itertools.cycle(sets).__next__
        return lambda: kernel(*following())

    calls = {"kspec": in_turn(bench.kernel(kernels.ADD_F32))}
    if bench.cupy is not None:
        calls["CuPy"] = in_turn(bench.kernel(kernels.ADD_F32, bench.cupy))
    if bench.machine.kind == "host":
        calls["NumPy"] = in_turn(np.add)
    return Plan(
        calls, lambda: [(bench.numpy(z), bench.numpy(x) + bench.numpy(y)) for x, y, z in sets]
    )


def _loop(bench: Bench) -> Plan:
    x, first = bench.arrays(2)

    def feeding_back(kernel: Callable[..., Any]) -> Call:
        kept = [first]

        def call() -> None:
            kept[0] = kernel(x, kept[0])

        return call

    calls = {"kspec": feeding_back(bench.kernel(kernels.ADD_F32))}
    if bench.cupy is not None:
        calls["CuPy"] = feeding_back(bench.kernel(kernels.ADD_F32, bench.cupy))
    if bench.machine.kind == "host":
        calls["NumPy"] = feeding_back(np.add)
    return Plan(calls)


def _scalar(bench: Bench) -> Plan:
    x = bench.array(SIZE)
    calls = bench.calls(kernels.ADD_F32, (x, 2.5))
    if bench.machine.kind == "host":
        calls["NumPy"] = functools.partial(np.add, x, 2.5)
    elif bench.torch is not None:
        calls["torch"] = functools.partial(bench.torch.add, as_tensor(bench.torch, x), 2.5)
    return Plan(calls, bench.same(calls["kspec"], lambda: bench.numpy(x) + np.float32(2.5)))


def _broadcast(bench: Bench, given: bool) -> Plan:
    x, y, z = bench.array(*_SHAPE_2D), bench.array(_SHAPE_2D[1]), bench.array(*_SHAPE_2D)
    arguments = (x, y, z) if given else (x, y)
    calls = bench.calls(kernels.ADD_F32, arguments)
    calls |= _peers_of_add(bench, *arguments)
    return Plan(calls, bench.same(calls["kspec"], lambda: bench.numpy(x) + bench.numpy(y)))


def _own(bench: Bench, given: bool) -> Plan:
    x, y, z = bench.own(3)
    call = functools.partial(bench.kernel(kernels.ADD_F32), *((x, y, z) if given else (x, y)))
    return Plan(
        bench.with_cupy({"kspec": call}, given),
        bench.same(call, lambda: bench.numpy(x) + bench.numpy(y)),
    )


def _generated(bench: Bench, given: bool) -> Plan:
    x, y, z = bench.arrays(3)
    arguments = (x, y, z) if given else (x, y)
    calls = bench.calls(kernels.SQUARED_DIFF, arguments)
    calls["kspec"] = functools.partial(generated_function("math.squared_diff"), *arguments)
    if bench.machine.kind == "host":
        calls |= _peers_of_add(bench, *arguments)
    return Plan(calls, bench.same(calls["kspec"], lambda: (bench.numpy(x) - bench.numpy(y)) ** 2))


def _reduction(bench: Bench, axis: int | None, given: bool = False) -> Plan:
    x = bench.array(*_SHAPE_2D)
    keywords: dict[str, Any] = {"axis": axis}
    if given:
        keywords["out"] = bench.array(_SHAPE_2D[0])
    calls = bench.calls(kernels.SUM, (x,), **keywords)
    if bench.machine.kind == "host":
        calls["NumPy"] = functools.partial(np.sum, x, **keywords)
    elif bench.torch is not None and not given:
        tensor = as_tensor(bench.torch, x)
        calls["torch"] = functools.partial(
            bench.torch.sum, tensor, **({} if axis is None else {"dim": axis})
        )
    return Plan(calls, bench.same(calls["kspec"], lambda: bench.numpy(x).sum(axis=axis)))


def _generated_reduction(bench: Bench) -> Plan:
    x = bench.array(*_SHAPE_2D)
    calls = bench.calls(kernels.L2NORM, (x,), axis=1)
    calls["kspec"] = functools.partial(generated_function("norms.l2norm"), x, axis=1)
    if bench.machine.kind == "host":
        calls["NumPy"] = functools.partial(np.linalg.norm, x, axis=1)
    want = functools.partial(np.linalg.norm, bench.numpy(x), axis=1)
    return Plan(calls, bench.same(calls["kspec"], want))


def _fused(bench: Bench, rows: bool) -> Plan:
    """Return a fused function of elements, or a softmax of 20 rows, which CuPy cannot fuse."""
    x, y = bench.array(*_SHAPE_2D), bench.array(*_SHAPE_2D)
    device = "host" if bench.machine.kind == "host" else None

    def softmax(x: Any, y: Any) -> Any:
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    def squared_diff(x: Any, y: Any) -> Any:
        return (x - y) * (x - y)

    function = softmax if rows else squared_diff
    calls: dict[str, Call] = {"kspec": functools.partial(kspec.fuse(device=device)(function), x, y)}
    if bench.cupy is not None and not rows:  # which cannot fuse the other
        calls["CuPy"] = functools.partial(bench.cupy.fuse()(squared_diff), x, y)
    if bench.machine.kind == "host":
        calls["NumPy"] = functools.partial(function, x, y)
    want = functools.partial(function, bench.numpy(x), bench.numpy(y))
    return Plan(calls, bench.same(calls["kspec"], want))


def _jitted(bench: Bench, peer: str) -> Plan:
    """Return a kernel from a Python function, beside that of another library."""
    from kspec import jit

    x, y, z = bench.arrays(3)
    block, count = (_THREADS,), np.uint32(SIZE)

    def made(module: Any) -> Call:
        @module.rawkernel()
        def add(x, y, z, n):  # type: ignore[no-untyped-def]
            i = module.blockIdx.x * module.blockDim.x + module.threadIdx.x
            if i < n:
                z[i] = x[i] + y[i]

        return functools.partial(add, _GRID, block, (x, y, z, count))

    calls = {"kspec": made(jit)}
    if bench.cupy is not None and peer == "CuPy":
        calls["CuPy"] = made(importlib.import_module("cupyx.jit"))
    if bench.machine.kind == "cuda" and peer == "numba":
        calls["numba"] = _numba_call(x, y, z)
    return Plan(calls, lambda: [(bench.numpy(z), bench.numpy(x) + bench.numpy(y))])


# Names that NumPy has dropped and numba, when it compiles its first kernel, may still look for.
_DROPPED = {"row_stack": np.vstack, "in1d": np.isin, "trapz": np.trapezoid}


def _numba_call(x: Any, y: Any, z: Any) -> Call:
    for name, now in _DROPPED.items():
        if not hasattr(np, name):
            setattr(np, name, now)
    try:
        from numba import cuda
    except ImportError as error:
        raise NotHereError(f"no numba: {error}") from None

    @cuda.jit  # type: ignore[misc, unused-ignore]
    def add(x, y, z, n):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n:
            z[i] = x[i] + y[i]

    arrays = [cuda.as_cuda_array(one) for one in (x, y, z)]
    configured = add[_GRID[0], _THREADS]
    return functools.partial(configured, *arrays, np.uint32(SIZE))


def _raw(bench: Bench, declared: bool = False, fresh: bool = False, tensors: bool = False) -> Plan:
    x, y, z = bench.tensors(3) if tensors else bench.arrays(3)
    count = np.uint32(SIZE)
    kernel = kspec.RawKernel(RAW_CODE, "raw_sum")
    block = (_THREADS,)
    if declared:
        call: Call = functools.partial(
            generated_function("raw.test_sum"), _GRID, block, x, y, z, SIZE
        )
    elif fresh:
        call = lambda: kernel(_GRID, block, (x, y, z, np.uint32(SIZE)))  # noqa: E731
    else:
        call = functools.partial(kernel, _GRID, block, (x, y, z, count))
    calls = {"kspec": call}
    if bench.cupy is not None:
        theirs = bench.cupy.RawKernel(RAW_CODE, "raw_sum")
        a, b, c = bench.arrays(3) if tensors else (x, y, z)
        calls["CuPy"] = (
            (lambda: theirs(_GRID, block, (a, b, c, np.uint32(SIZE))))
            if fresh
            else functools.partial(theirs, _GRID, block, (a, b, c, count))
        )
    return Plan(calls, lambda: [(bench.numpy(z), bench.numpy(x) + bench.numpy(y))])


def _bound(bench: Bench, raw: bool) -> Plan:
    x, y, z = bench.arrays(3)
    kernel = kspec.RawKernel(RAW_CODE, "raw_sum") if raw else bench.kernel(kernels.ADD_F32)
    arguments = (_GRID, (_THREADS,), (x, y, z, np.uint32(SIZE))) if raw else (x, y, z)
    calls = {"kspec": kernel.bind(*arguments)}
    if bench.machine.kind == "cuda":
        calls["floor"] = _floor(bench, x, y)
    elif not raw:
        calls |= _peers_of_add(bench, x, y, z)
    return Plan(calls, lambda: [(bench.numpy(z), bench.numpy(x) + bench.numpy(y))])


def _floor(bench: Bench, x: Any, y: Any) -> Call:
    z = bench.array(SIZE)
    return floor_call((x, y, z), SIZE)


def _changing(bench: Bench, given: bool) -> Plan:
    bases = [bench.array(SIZE + _CHANGING) for _ in range(3 if given else 2)]
    views = [tuple(base[: SIZE + extra] for base in bases) for extra in range(_CHANGING)]

    def ever_new(kernel: Callable[..., Any]) -> Call:
        following = itertools.cycle(views).__next__
        return lambda: kernel(*following())

    calls = {"kspec": ever_new(bench.kernel(kernels.ADD_F32))}
    if bench.cupy is not None:
        calls["CuPy"] = ever_new(bench.kernel(kernels.ADD_F32, bench.cupy))
    if bench.machine.kind == "host":
        calls["NumPy"] = ever_new(np.add)
    return Plan(calls)


@dataclass(frozen=True)
class CallCase:
    """A row: its name, what it calls, and the largest ratio to `of` on a GPU."""

    name: str
    plan: Callable[[Bench], Plan]
    target: float | None = None
    of: str = "CuPy"
    slack: float = 0.0

    @property
    def label(self) -> str:
        """The name with its section."""
        return f"overhead/{self.name}"


def _row(
    name: str,
    plan: Callable[..., Plan],
    target: float | None = None,
    of: str = "CuPy",
    **keywords: Any,
) -> CallCase:
    return CallCase(name, functools.partial(plan, **keywords), target, of)


_ELEMENTWISE, _REDUCTION, _RAW_TARGET, _RAW_REPEATED, _FUSED = 0.75, 0.5, 0.85, 0.57, 0.575
_CHANGING_TARGET, _OPERATOR, _GRAPH = 0.94, 1.0, 1.05
_JIT, _JIT_NUMBA = 0.25, 0.8
CALLS = (
    _row("output given", _given, _ELEMENTWISE),
    _row("allocated", _allocated, _ELEMENTWISE),
    _row("placeholder T, given", _given, _ELEMENTWISE, text=kernels.ADD),
    _row("placeholder T, allocated", _allocated, _ELEMENTWISE, text=kernels.ADD),
    _row("own stream, given", _own_stream, _ELEMENTWISE),
    _row("4 array sets in turn", _four_sets, _ELEMENTWISE),
    _row("y = k(x, y) in a loop", _loop, _ELEMENTWISE),
    _row("array and Python float", _scalar, _ELEMENTWISE),
    _row("2-D with 1-D, given", _broadcast, _ELEMENTWISE, given=True),
    _row("2-D with 1-D, allocated", _broadcast, _ELEMENTWISE, given=False),
    _row("torch tensors, given", torch_calls.plain, _ELEMENTWISE, given=True),
    _row("torch tensors, allocated", torch_calls.plain, _ELEMENTWISE, given=False),
    _row("torch operator", torch_calls.operator, _OPERATOR, of="torch"),
    _row("torch operator, compiled", torch_calls.compiled, _OPERATOR, of="torch"),
    _row("torch operator, gradients", torch_calls.differentiated, _OPERATOR, of="torch"),
    _row("own arrays, given", _own, _ELEMENTWISE, given=True),
    _row("own arrays, allocated", _own, _ELEMENTWISE, given=False),
    _row("generated function, given", _generated, _ELEMENTWISE, given=True),
    _row("generated function, allocated", _generated, _ELEMENTWISE, given=False),
    _row("reduction, full", _reduction, _REDUCTION, axis=None),
    _row("reduction, axis 1", _reduction, _REDUCTION, axis=1),
    _row("reduction, axis 1, given", _reduction, _REDUCTION, axis=1, given=True),
    _row("generated reduction, axis 1", _generated_reduction, _REDUCTION),
    _row("raw, arguments kept", _raw, _RAW_REPEATED),
    _row("raw, arguments made", _raw, _RAW_TARGET, fresh=True),
    _row("raw, declared parameters", _raw, _RAW_TARGET, declared=True),
    _row("raw, torch tensors", _raw, _RAW_TARGET, tensors=True),
    _row("jit", _jitted, _JIT, peer="CuPy"),
    _row("jit beside numba", _jitted, _JIT_NUMBA, of="numba", peer="numba"),
    _row("fused", _fused, _FUSED, rows=False),
    _row("fused softmax", _fused, rows=True),
    CallCase("bound", functools.partial(_bound, raw=False), 1.0, "floor", 0.5e-6),
    CallCase("bound raw", functools.partial(_bound, raw=True), 1.0, "floor", 0.5e-6),
    _row("changing shapes, given", _changing, _CHANGING_TARGET, given=True),
    _row("changing shapes, allocated", _changing, _CHANGING_TARGET, given=False),
    _row("graph of CuPy, 20 kernels", graph_calls.of_cupy, _GRAPH),
    _row("graph of torch, 20 kernels", graph_calls.of_torch, _GRAPH, of="torch"),
    _row("program of JAX, 20 kernels", graph_calls.of_jax, _GRAPH, of="JAX"),
)


def run_call(bench: Bench, case: CallCase, rounds: int) -> Overhead:
    """Return the row of one kind of call.

    Raises
    ------
    NotHereError
        If this machine cannot have it.
    """
    on_gpu = bench.machine.kind == "cuda"
    of = case.of if on_gpu else "NumPy"
    row = Overhead(case.name, target=case.target if on_gpu else None, of=of, slack=case.slack)
    try:
        plan = case.plan(bench)
        samples = interleaved(plan.calls, rounds, BURST, bench.machine.finish, plan.around)
        for got, want in plan.check() if plan.check else ():
            np.testing.assert_allclose(got, want, rtol=1e-5, err_msg="WRONG RESULT")
    except NotHereError:
        raise
    except Exception as error:  # one row must not stop the others
        text = " ".join(str(error).split())[:200]
        return Overhead(**{**vars(row), "problem": f"{type(error).__name__}: {text}"})
    return Overhead(**{**vars(row), "samples": samples})
