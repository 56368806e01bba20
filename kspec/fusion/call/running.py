"""The kernels of a program, called one after the other on the arrays of a call."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kspec.constructors import ElementwiseKernel, ReductionKernel
from kspec.fusion.call.copies import copy
from kspec.fusion.call.outputs import Unfinished, written
from kspec.fusion.call.rows import RowCaller
from kspec.fusion.call.view_ops import apply_view_op
from kspec.fusion.graph import ArrayInput, Count, Dim, Input, Node, Stored, View, Whole
from kspec.fusion.lower import LoweredKernel
from kspec.fusion.numbers import NumberArgument, NumberExpression, evaluate
from kspec.fusion.partition import ElementwiseGroup, Producer
from kspec.fusion.program import FusedProgram, Returned
from kspec.runtime.callcache import CacheInfo
from kspec.runtime.libraries.lookup import library_of
from kspec.spec.models import ElementwiseSpec, ReductionSpec, Spec

Run = Callable[[tuple[Any, ...]], Any]


class Runnable:
    """The kernels of a program, ready to be called.

    Attributes
    ----------
    program : FusedProgram
        What it computes.
    run : callable
        Takes the arguments, returns what the function returns.
    short : ElementwiseKernel or None
        A kernel that takes the first arguments as they are, and returns that.
    """

    def __init__(self, program: FusedProgram) -> None:
        self.program = program
        self._kernels = [_kernel(one.spec) for one in program.kernels]
        self._rows = RowCaller(program.rows) if program.rows else None
        self._saved = _overwritten(program)
        self._phases = [(one, Runnable(one.program)) for one in program.phases]
        usual = self._run_phases if self._phases else self._run
        self.short: ElementwiseKernel | None = None
        run, record = self._direct() or usual, program.record
        self.run: Run = run if record is None else lambda args: record(run(args))

    def cache_info(self) -> CacheInfo:
        """Return the contents of the call caches of all kernels."""
        infos = [kernel.cache_info() for kernel in self._kernels]
        infos += [runnable.cache_info() for _, runnable in self._phases]
        if self._rows is not None:
            infos.append(self._rows.cache_info())
        return CacheInfo.total(infos)

    def _direct(self) -> Run | None:
        """Return a short way for one kernel that is given the arguments as they are."""
        if len(self._kernels) != 1 or self._rows:
            return None
        kernel, step = self._kernels[0], self.program.kernels[0]
        plain = all(isinstance(one, Input) for one in step.reads)
        values = [one.value for one in step.writes]
        returned = self.program.returned
        wanted = returned if isinstance(returned, tuple) else (returned,)
        if not plain or step.is_scan or self.program.written or tuple(values) != wanted:
            return None
        if isinstance(kernel, ReductionKernel) and any(
            not _is_whole(self.program.partition.producer(value)) for value in values
        ):
            return None
        positions = [one.position for one in step.reads if isinstance(one, Input)]
        take = _taker(positions)
        axes: dict[str, Any] = {"axis": step.axes} if isinstance(kernel, ReductionKernel) else {}
        if isinstance(returned, tuple) and len(returned) == 1:
            return lambda args: (kernel(*take(args), **axes),)
        if axes:
            return lambda args: kernel(*take(args), **axes)
        in_order = positions == list(range(len(positions)))
        if in_order and self.program.record is None and isinstance(kernel, ElementwiseKernel):
            self.short = kernel
        return lambda args: kernel(*take(args))

    def _run_phases(self, args: tuple[Any, ...]) -> Any:
        """Write to arguments that share memory with others one by one, then do the rest."""
        given = list(args)
        for phase, runnable in self._phases:
            kept = {place: copy(given[place]) for place in phase.copied}
            read = [kept.get(place, one) for place, one in enumerate(given)]
            read[phase.target] = given[phase.target]
            runnable.run(tuple(read))
            for place, one in kept.items():
                given[place] = one
            given += [args[position] for position in phase.renewed]
        return self._run(tuple(given))

    def _run(self, args: tuple[Any, ...]) -> Any:
        results: dict[Node, Any] = {}
        program = self.program
        if self._rows is not None and self._run_rows(self._rows, args, results):
            return self._returned(args, results)
        for value in self._saved:
            results[value] = copy(self._look_up(value, args, results))
        for kernel, step, group in zip(
            self._kernels, program.kernels, program.partition.groups, strict=True
        ):
            given = [self._look_up(one, args, results) for one in step.reads]
            if isinstance(group, ElementwiseGroup):
                found = _elements(kernel, given, step, args, results)
            elif step.is_scan:
                assert isinstance(kernel, ReductionKernel)
                found = _all_of(kernel.scan(*given, axis=group.axes[0]))
            else:
                axes: dict[str, Any] = {"axis": step.axes}
                found = _all_of(kernel(*given, **axes))
            for one, array in zip(step.writes, found, strict=True):
                if one.target is None and one.part is None:
                    results[one.value] = array
        return self._returned(args, results)

    def _run_rows(self, rows: RowCaller, args: tuple[Any, ...], results: dict[Node, Any]) -> bool:
        """Run one kernel in place of all; return whether it fits."""
        outputs = self.program.outputs
        targets = [None if one.target is None else args[one.target] for one in outputs]
        found = rows(lambda value: self._look_up(value, args, results), targets)
        if found is None:
            return False
        for one, array in zip(outputs, found, strict=True):
            if one.target is None:
                results[one.value] = array
        return True

    def _returned(self, args: tuple[Any, ...], results: dict[Node, Any]) -> Any:
        returned = self.program.returned
        if not isinstance(returned, tuple):
            return self._returned_one(returned, args, results)
        found: list[Any] = []
        for place, one in enumerate(returned):
            made = self._returned_one(one, args, results)
            again = isinstance(one, Node) and any(one is other for other in returned[:place])
            found.append(copy(made) if again else made)
        return tuple(found)

    def _returned_one(self, one: Returned, args: tuple[Any, ...], results: dict[Node, Any]) -> Any:
        if isinstance(one, Node):
            return self._look_up(one, args, results)
        return evaluate(one, args) if isinstance(one, NumberArgument | NumberExpression) else one

    def _look_up(self, value: Node, args: tuple[Any, ...], results: dict[Node, Any]) -> Any:
        """Return the array or number that a value is in this call."""
        producer = self.program.partition.producer(value)
        if isinstance(results.get(value), Unfinished):
            results[value] = results[value].finished()
        if producer is not None and value in results:
            array = results[value]  # a pass leaves out the axes of extent 1
            return array if len(array.shape) == len(value.shape) else array[producer.frame]
        if value in results:
            return results[value]
        if isinstance(value, Input):
            return args[value.position]
        if isinstance(value, Count):
            return _product(value, args)
        if isinstance(value, Stored):
            return self._look_up(value.input, args, results)
        assert isinstance(value, View), value
        array = self._look_up(value.input, args, results)
        for op in value.ops:
            array = apply_view_op(array, op)
        return array


def _elements(
    kernel: Any,
    given: Sequence[Any],
    step: LoweredKernel,
    args: tuple[Any, ...],
    results: dict[Node, Any],
) -> Sequence[Any]:
    """Call a kernel that writes to arguments, to new arrays, or to both; return all of them."""
    is_plain = all(one.target is None and one.part is None for one in step.writes)
    if is_plain and not any(isinstance(one, Whole) for one in step.reads):
        return _all_of(kernel(*given))
    # The first array decides whose the new ones are, as where a kernel makes them.
    targets = [None if one.target is None else args[one.target] for one in step.writes]
    first, library = next(
        (one, found) for one in (*given, *targets) if (found := library_of(one)) is not None
    )
    device = library.view(first).device
    for place, one in enumerate(step.writes):
        if one.part is not None:
            joined, number = one.part
            if joined not in results:
                array = library.empty(_sizes(joined, args), joined.dtype, device)
                results[joined] = Unfinished(library, device, array)
            targets[place] = results[joined].part(joined.places[number])
    if all(one is not None for one in targets):
        return _all_of(kernel(*given, *targets))
    kinds = [(_sizes(one.value, args), one.value.dtype) for one in step.writes]
    return written(library, device, targets, kinds, lambda outputs: kernel(*given, *outputs))


def _all_of(made: Any) -> Sequence[Any]:
    return made if isinstance(made, tuple) else (made,)


def _taker(positions: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Return a function that selects the arguments of some positions."""
    count = len(positions)
    if list(positions) == list(range(count)):
        return lambda args: args[:count]
    if count == 1:
        only = positions[0]
        return lambda args: (args[only],)
    return operator.itemgetter(*positions)


def _product(count: Count, args: tuple[Any, ...]) -> Any:
    number = math.prod(_extent(dim, args) for dim in count.dims)
    return number if count.dtype == "int64" else float(number)


def _sizes(value: Node, args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(_extent(dim, args) for dim in value.shape)


def _extent(dim: Dim, args: tuple[Any, ...]) -> int:
    """Return an extent of this call."""
    return dim.size if dim.source is None else args[dim.source[0]].shape[dim.source[1]]


def _is_whole(producer: Producer | None) -> bool:
    return producer is not None and all(entry == slice(None) for entry in producer.frame)


def _overwritten(program: FusedProgram) -> tuple[Node, ...]:
    """Return values that kernels read from arguments written to elsewhere."""
    gone: set[int] = set()
    found: dict[Node, None] = {}
    for kernel in program.kernels:
        mine = {one.target for one in kernel.writes if one.target is not None}
        gone |= mine
        for read in kernel.reads:
            same_place = isinstance(read, ArrayInput) and read.position in mine
            if not same_place and _is_view_of(read, gone):
                found[read] = None
    return tuple(found)


def _is_view_of(value: Node, positions: set[int]) -> bool:
    source = value.input if isinstance(value, View) else value
    return isinstance(source, ArrayInput) and source.position in positions


def _kernel(spec: Spec) -> ElementwiseKernel | ReductionKernel:
    if isinstance(spec, ElementwiseSpec):
        return ElementwiseKernel.from_spec(spec)
    assert isinstance(spec, ReductionSpec)
    return ReductionKernel.from_spec(spec)
