"""Runs the cases: operands, the call of kspec and of each peer, time, and the check of the result.

What is checked is what was timed: the outputs are poisoned, the timed calls fill them, and then
they are compared with the reference in float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import kspec
from benchmarks.cases import BoundCase, Case
from benchmarks.kernels import TOLERANCES, Text
from benchmarks.machines import Machine
from benchmarks.operands import Operand, Pool
from benchmarks.references import ArrayModuleOps, as_tensor, worst_error
from benchmarks.results import Figure, Throughput
from benchmarks.timing import Call, Sample

# Together the operands of consecutive calls exceed the cache so many times.
_CACHES = 4
_MOST_SETS = 32
# Peers that write to the outputs, and whose calls are ours to get wrong.
_CHECKED = ("CUB",)


class Runner:
    """Measures cases on one machine.

    Parameters
    ----------
    machine : Machine
        Where.
    budget : float
        Seconds of calls for each peer and case.
    """

    def __init__(self, machine: Machine, budget: float = 0.1) -> None:
        self._machine = machine
        self._budget = budget
        self._pool = Pool(machine)
        self._kernels: dict[tuple[str, int], Any] = {}

    def run(self, case: Case, with_peers: bool = True, kernel: Any = None) -> Throughput:
        """Return the row of a case; what goes wrong is its `problem`.

        Parameters
        ----------
        case : Case
            What to measure.
        with_peers : bool
            False: kspec only.
        kernel : callable, optional
            Called instead of the kernel that the case's text makes.
        """
        bound = case.bind(self._machine.elements)
        row = Throughput(
            group=case.group,
            name=case.name,
            kernel=case.text.name,
            layout=_layout(bound),
            nbytes=bound.nbytes,
            elements=bound.elements,
            flops=case.text.flops,
            target=case.target if self._machine.kind == "cuda" else None,
            of=case.of,
            held_out=case.held_out,
            latency=case.latency,
        )
        try:
            with np.errstate(all="ignore"):  # NumPy overflows where kernels are asked not to
                return self._measure(row, bound, with_peers, kernel)
        except Exception as error:  # one case must not stop the others
            return _changed(row, problem=_one_line(error))
        finally:
            self._machine.free()

    def _measure(
        self, row: Throughput, bound: BoundCase, with_peers: bool, kernel: Any
    ) -> Throughput:
        text = bound.case.text
        kernel = kernel or text.called(self._kernel(text, kspec))
        inputs = self._pool.inputs(bound.inputs, self._sets(bound))
        bases, outputs = self._outputs(bound.outputs, len(inputs))
        turns = list(zip(inputs, outputs, strict=True))
        calls: list[Call] = [
            functools.partial(kernel, *arrays, *text.scalars, *results, **bound.keywords())
            for arrays, results in turns
        ]
        sample, error = self._timed(calls, bound, bases, *turns[0])
        if not error <= 1:
            problem = f"WRONG RESULT: error {error:.3g} times what is allowed"
            return _changed(row, problem=problem, error=min(error, 1e300))
        samples, notes = {"kspec": sample}, []
        for name, make in self._peers(bound).items() if with_peers else ():
            try:
                theirs = [make(arrays, results) for arrays, results in turns]
                if name in _CHECKED:
                    sample, wrong = self._timed(theirs, bound, bases, *turns[0])
                    if not wrong <= 1:
                        notes.append(f"{name}: WRONG RESULT, which is not counted")
                        continue
                else:
                    sample = self._machine.time(theirs, self._budget)
                samples[name] = sample
            except Exception as failure:
                notes.append(f"{name}: {_one_line(failure)}")
        return _changed(row, samples=samples, error=error, notes=tuple(notes))

    def _timed(
        self,
        calls: Sequence[Call],
        bound: BoundCase,
        bases: Sequence[Any],
        inputs: Any,
        outputs: Any,
    ) -> tuple[Sample, float]:
        """Return the time of calls that write to all outputs, and the error of the first ones."""
        for base in bases:
            self._machine.poison(base)
        sample = self._machine.time(calls, self._budget)
        return sample, self._worst_error(bound, inputs, outputs)

    def _kernel(self, text: Text, module: Any) -> Any:
        key = module.__name__, id(text)
        if key not in self._kernels:
            self._kernels[key] = text.build(module)
        return self._kernels[key]

    def _sets(self, bound: BoundCase) -> int:
        """Return how many operands to use in turn."""
        wanted = math.ceil(_CACHES * self._machine.cache_bytes / max(1, bound.nbytes))
        return max(1, min(_MOST_SETS, wanted))

    def _outputs(
        self, operands: Sequence[Operand], sets: int
    ) -> tuple[list[Any], list[tuple[Any, ...]]]:
        bases, views = [], []
        for _ in range(sets):
            arrays = [self._machine.empty(operand.dtype, operand.count) for operand in operands]
            bases += arrays
            views.append(
                tuple(operand.view(base) for operand, base in zip(operands, arrays, strict=True))
            )
        return bases, views

    def _worst_error(
        self, bound: BoundCase, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> float:
        text, ops = bound.case.text, self._machine.ops
        want = reference(text, ops, inputs, bound)
        return max(
            worst_error(ops, got, one, operand.dtype, _tolerance(text, operand.dtype))
            for got, one, operand in zip(outputs, want, bound.outputs, strict=True)
        )

    def _peers(self, bound: BoundCase) -> dict[str, Callable[[Any, Any], Call]]:
        """Return what makes the call of each peer, given inputs and outputs."""
        text, modules = bound.case.text, self._machine.peers
        axes = () if bound.case.text.kind == "elementwise" else (bound.axes,)
        peers: dict[str, Callable[[Any, Any], Call]] = {}
        # CuPy's kernels have no other forms, and no core dimensions.
        if "cupy" in modules and (text.cupy is not None or not (text.form or text.core)):
            peers["CuPy"] = functools.partial(self._cupy_call, text, bound, axes)
        if "torch" in modules and text.torch is not None:
            peers["torch"] = functools.partial(self._torch_call, text, axes)
        if "cub" in modules and bound.case.cub:
            peers["CUB"] = lambda inputs, outputs: modules["cub"].prepare(
                bound.case.cub, (*inputs, *outputs), bound.elements, bound.rows
            )
        if "numpy" in modules:
            plain = ArrayModuleOps(modules["numpy"], widen=False)
            peers["NumPy"] = lambda inputs, outputs: functools.partial(
                text.reference, plain, *inputs, *text.scalars, *axes
            )
        return peers

    def _cupy_call(
        self, text: Text, bound: BoundCase, axes: tuple[Any, ...], inputs: Any, outputs: Any
    ) -> Call:
        cupy = self._machine.peers["cupy"]
        if text.cupy_inputs is not None:
            inputs = text.cupy_inputs(cupy, *inputs)
        if text.cupy is not None:
            return functools.partial(text.cupy, cupy, *inputs, *text.scalars, outputs, *axes)
        kernel = self._kernel(text, cupy)
        return functools.partial(kernel, *inputs, *text.scalars, *outputs, **bound.keywords())

    def _torch_call(self, text: Text, axes: tuple[Any, ...], inputs: Any, outputs: Any) -> Call:
        torch = self._machine.peers["torch"]
        assert text.torch is not None
        tensors = [as_tensor(torch, array) for array in inputs]
        results = [as_tensor(torch, array) for array in outputs]
        return functools.partial(text.torch, torch, *tensors, *text.scalars, results, *axes)


def beside_peers(case: Case, row: Throughput) -> Iterator[Figure]:
    """Yield how many times as fast as each peer a case is, for those that it says."""
    ours = row.samples.get("kspec")
    for peer, limit in case.times.items():
        theirs = row.samples.get(peer)
        if ours is None or theirs is None:
            continue
        name = f"{row.name}, times as fast as {peer}"
        times = theirs.median / ours.median
        yield Figure(f"{row.group} beside peers", name, times, "x", limit, at_least=True)


def reference(text: Text, ops: Any, inputs: Sequence[Any], bound: BoundCase) -> tuple[Any, ...]:
    """Return the wanted outputs of a case."""
    axes = () if bound.case.text.kind == "elementwise" else (bound.axes,)
    want = text.reference(ops, *map(ops.of, inputs), *text.scalars, *axes)
    return want if isinstance(want, tuple) else (want,)


def _tolerance(text: Text, dtype: str) -> float:
    return text.tolerance or TOLERANCES.get(dtype, 1.0)


def _layout(bound: BoundCase) -> str:
    inputs, outputs = (", ".join(map(str, operands)) for operands in (bound.inputs, bound.outputs))
    axis = "" if bound.case.axis is None else f", axis {bound.case.axis}"
    return f"{inputs} -> {outputs}{axis}"


def _changed(row: Throughput, **changes: Any) -> Throughput:
    return Throughput(**{**vars(row), **changes})


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:160] if lines else ''}"
