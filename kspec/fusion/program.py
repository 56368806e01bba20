"""A function traced for arguments of some types and shapes: what it computes, as kernels.

>>> # traced = trace(function, (ShapedArray("float32", (3,)), "float"), ("x", "s"))

`trace` calls the function with proxies; what comes out has no arrays in it, so it serves every
call whose arguments agree in types and in which extents are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from kspec.dataclass import dataclass
from kspec.fusion import functions, types
from kspec.fusion.functions import call_kernel
from kspec.fusion.functions.from_cupy import cupy_tracing
from kspec.fusion.graph import Dim, Node, Shape, is_number
from kspec.fusion.lower import LoweredKernel, lower
from kspec.fusion.numbers import Number, Recipe
from kspec.fusion.partition import Output, Partition, arguments_of, partition
from kspec.fusion.precision import rounded_once
from kspec.fusion.rows import RowProgram, prefers_row_program, row_program
from kspec.fusion.tracing.proxies import Proxy
from kspec.fusion.tracing.tracer import Tracer, Write


@dataclass(frozen=True)
class ShapedArray:
    """Properties of an array that decide its kernels.

    Attributes
    ----------
    dtype : str
        Of its elements.
    sizes : tuple of int
        Its extents.
    """

    dtype: str
    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class DefaultArgument:
    """An argument that is left at its default, which is known before the arrays are.

    Attributes
    ----------
    value : object
        The default.
    """

    value: Any


# An array, a number that a call computes, a number, or None.
Returned = Node | Recipe | Number | None
# An array, the type of a scalar, a default, or None for None.
ArgumentType = ShapedArray | str | DefaultArgument | None


@dataclass(frozen=True, eq=False)
class FusedProgram:
    """A traced function.

    Attributes
    ----------
    kernels : tuple of LoweredKernel
        In the order in which they run.
    partition : Partition
        What each computes.
    outputs : sequence of Output
        What the function gives back.
    returned : Returned, or tuple of Returned
        What the function returns.
    record : callable or None
        What makes the named tuple of a tuple that it returns.
    shaped : bool
        Whether it is for these extents only.
    written : tuple of int
        Arguments that are written to.
    rows : RowProgram or None
        One kernel in place of all of them, for arrays that it fits.
    phases : tuple of Phase
        Writes to arguments that share memory with others, which run first.
    """

    kernels: tuple[LoweredKernel, ...]
    partition: Partition
    outputs: Sequence[Output]
    returned: Returned | tuple[Returned, ...]
    record: Callable[[tuple[Any, ...]], Any] | None
    shaped: bool
    written: tuple[int, ...]
    rows: RowProgram | None
    phases: tuple[Phase, ...] = ()

    @property
    def all_kernels(self) -> tuple[LoweredKernel, ...]:
        """Its kernels, and those of the phases in front of them."""
        before = (kernel for one in self.phases for kernel in one.program.kernels)
        return (*before, *self.kernels)


@dataclass(frozen=True, eq=False)
class Phase:
    """One write to an argument that shares memory with others.

    What it reads and writes are arrays of a list, which begins with the arguments.

    Attributes
    ----------
    program : FusedProgram
        Computes the new elements, and writes them.
    target : int
        The argument in the list.
    copied : tuple of int
        Arrays of the list of which copies take their place: the write changes them, and they are
        read later; or are read by it, at other places than it writes to.
    renewed : tuple of int
        Arguments that are appended to the list after it, to be read as they are then.
    """

    program: FusedProgram
    target: int
    copied: tuple[int, ...]
    renewed: tuple[int, ...]


def trace(
    function: Callable[..., Any],
    arguments: Sequence[ArgumentType],
    names: Sequence[str],
    kernel_name: str,
    same: Sequence[int] = (),
    options: tuple[str, ...] = (),
    overlaps: Sequence[tuple[int, int]] = (),
    round_each: bool = False,
) -> FusedProgram:
    """Return the program of a function.

    Parameters
    ----------
    function : callable
        It is called once.
    arguments : sequence of ShapedArray, str, DefaultArgument or None
        Its arguments.
    names : sequence of str
        Names of its arguments, for messages and in kernels.
    kernel_name : str
        Name of the kernels.
    same : sequence of int, optional
        For each argument the first one that is the same object; default: all differ.
    options : tuple of str, optional
        Compiler options of the kernels.
    overlaps : sequence of (int, int), optional
        Pairs of arguments that share memory, though not as the same elements; default: none do.
    round_each : bool, optional
        Whether results of functions of float16 and bfloat16 are rounded one by one; default: only
        what is stored is.

    Raises
    ------
    FusionError
        If it does what cannot be fused.
    ValueError
        If it returns something else than arrays.
    """
    tracer = Tracer(functions, len(arguments), overlaps)
    proxies: list[Any] = []
    for position, one in enumerate(arguments):
        if same and same[position] != position:
            proxies.append(proxies[same[position]])
        elif one is None:
            proxies.append(None)
        elif isinstance(one, DefaultArgument):
            proxies.append(one.value)
        elif isinstance(one, str):
            proxies.append(tracer.number(position, one))
        else:
            proxies.append(tracer.argument(position, one.dtype, _dims(position, one.sizes)))
    with cupy_tracing(tracer, call_kernel):
        result = function(*proxies)
    returned = _returned(result)
    values = returned if isinstance(returned, tuple) else (returned,)
    arrays = [one for one in values if isinstance(one, Node)]
    outputs = [Output(one) for one in dict.fromkeys(arrays)]
    outputs += [
        Output(one.value, position)
        for position, one in tracer.written.items()
        if not tracer.overlapping(position)
    ]
    writes = tracer.writes
    if not round_each:
        left = [*(one.value for one in outputs), *(one.value for one in writes)]
        stored = rounded_once(tracer.graph, left)
        outputs = [replace(one, value=stored[one.value]) for one in outputs]
        writes = [replace(one, value=stored[one.value]) for one in writes]
        values = tuple(stored[one] if isinstance(one, Node) else one for one in values)
        returned = values if isinstance(returned, tuple) else values[0]
    record = getattr(type(result), "_make", None) if isinstance(returned, tuple) else None
    phases = _phases(tracer, writes, outputs, names, kernel_name, options)
    names = [*names, *[names[one] for phase in phases for one in phase.renewed]]
    own = f"{kernel_name}_{len(phases)}" if phases and outputs else kernel_name
    groups = partition(tracer.graph, outputs)
    kernels = lower(groups, own, names, options)
    rows = None
    if prefers_row_program(outputs, len(kernels)) and not phases:
        rows = row_program(tracer.graph, outputs, own, names, options)
    written, shaped = tuple(tracer.written), tracer.graph.shaped
    return FusedProgram(kernels, groups, outputs, returned, record, shaped, written, rows, phases)


def _phases(
    tracer: Tracer,
    writes: Sequence[Write],
    outputs: Sequence[Output],
    names: Sequence[str],
    kernel_name: str,
    options: tuple[str, ...],
) -> tuple[Phase, ...]:
    """Return the writes to arguments that share memory with others, one by one."""
    names = list(names)
    several = len(writes) > 1 or bool(outputs)
    reads = [arguments_of(one.value) for one in writes]
    reads.append(arguments_of(*(one.value for one in outputs)))
    newest = {position: position for position in range(len(names))}
    found: list[Phase] = []
    for number, one in enumerate(writes):
        target = one.target.position
        later: set[int] = set().union(*reads[number + 1 :])
        changed = [newest[position] for position in one.renewed]
        now = reads[number] - {target}  # kernels see to what is read of the target itself
        copied = tuple(place for place in changed if place in later | now)
        written = [Output(one.value, target)]
        groups = partition(tracer.graph, written)
        own = f"{kernel_name}_{number}" if several else kernel_name
        kernels = lower(groups, own, names, options)
        shaped = tracer.graph.shaped
        program = FusedProgram(kernels, groups, written, None, None, shaped, (target,), None)
        found.append(Phase(program, target, copied, one.renewed))
        for position in one.renewed:
            newest[position] = len(names)
            names.append(names[position])
    return tuple(found)


def _dims(position: int, sizes: Sequence[int]) -> Shape:
    return tuple(
        Dim(size, None if size == 1 else (position, axis)) for axis, size in enumerate(sizes)
    )


def _returned(result: Any) -> Returned | tuple[Returned, ...]:
    if not isinstance(result, tuple):
        return _returned_one(result, "an array, a number, a tuple of these or None")
    return tuple(_returned_one(one, "arrays and numbers in a tuple") for one in result)


def _returned_one(one: Any, allowed: str) -> Returned:
    if isinstance(one, Proxy):
        if not is_number(one.value):
            return one.value
        if one.recipe is not None:
            return one.recipe
        graph = one.tracer.graph  # of functions that only kernels have
        return graph.apply("filled", (one.value, graph.any_array(())), one.value.dtype)
    if one is None or types.type_of_number(one) is not None:
        return one  # type: ignore[no-any-return]
    name = type(one).__name__
    if hasattr(one, "shape"):
        name = f"concrete {name} (np.zeros_like and its kin make one of an argument)"
    raise ValueError(f"a fused function returns {allowed}, not a {name}")
