"""Calling a program of rows, and when not to.

Few rows, and longer ones than registers can keep, are left to one kernel for each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from kspec import config
from kspec.dataclass import dataclass
from kspec.fusion.call.row_sizes import (
    ACCESS,
    NO_CLUSTERS,
    WITH_CLUSTERS,
    Limits,
    RowSizes,
    row_sizes,
)
from kspec.fusion.graph import Node
from kspec.fusion.partition import Output
from kspec.fusion.row_values import PER_COLUMN, PER_ROW, WHOLE
from kspec.fusion.rows import RowProgram
from kspec.model import dtypes
from kspec.runtime import driver
from kspec.runtime.callcache import CacheInfo, layout_function
from kspec.runtime.driver import most_shared_memory
from kspec.runtime.driver.device import Device
from kspec.runtime.libraries.array_access import Maker, maker
from kspec.runtime.libraries.lookup import library_of
from kspec.runtime.libraries.registry import Library, Plain
from kspec.runtime.memory import ArrayView
from kspec.runtime.raw.kernel import RawKernel
from kspec.spec.building import build_spec
from kspec.spec.models import RawSpec

LookUp = Callable[[Node], Any]
# With fewer rows than fill a GPU and long ones, several blocks for a row are faster.
_FEW_ROWS, _SHORT = 64, 8192
_MOST_LAUNCHES = 256  # remembered


@dataclass(frozen=True)
class _Launch:
    """Launch of the kernel for arrays of one kind.

    Attributes
    ----------
    kernel : RawKernel
        The program's kernel, for packs and blocks of these sizes.
    grid, block : tuple of int
        Blocks, and threads of each.
    cluster : tuple of int or None
        Blocks of a row, if they are several.
    shared : int
        Bytes of dynamic shared memory.
    sizes : tuple of int
        Parameters after the arrays and numbers.
    makers : tuple of callable
        Each makes a new output.
    device : Device
        Their device.
    library : Library or None
        What is told that new outputs were written to; None if nothing is.
    """

    kernel: RawKernel
    grid: tuple[int]
    block: tuple[int]
    cluster: tuple[int] | None
    shared: int
    sizes: tuple[int, ...]
    makers: tuple[Maker, ...]
    device: Device
    library: Library | None


class RowCaller:
    """Calls a program of rows.

    Parameters
    ----------
    program : RowProgram
        The program.
    """

    def __init__(self, program: RowProgram) -> None:
        self._program = program
        self._kernels: dict[tuple[int, ...], RawKernel] = {}
        self._launches: dict[tuple[object, ...], _Launch | None] = {}

    def __call__(self, look_up: LookUp, targets: Sequence[Any]) -> list[Any] | None:
        """Call the kernel; return its outputs, or None if it does not fit the arrays.

        Parameters
        ----------
        look_up : callable
            Returns the array or number that a value is.
        targets : sequence of array or None
            Arrays to write to; None where a new one is wanted.
        """
        program = self._program
        arrays = [look_up(value) for value, _ in program.reads]
        key = (config.fuse_rows(), *[_layout(one) for one in (*arrays, *targets)])
        try:
            launch = self._launches[key]
        except KeyError:
            if len(self._launches) >= _MOST_LAUNCHES:
                self._launches.clear()
            launch = self._launches[key] = self._launch(arrays, targets)
        if launch is None:
            return None
        outputs = [
            make() if target is None else target
            for make, target in zip(launch.makers, targets, strict=True)
        ]
        numbers = [look_up(one) for one in program.numbers]
        launch.kernel(
            launch.grid,
            launch.block,
            (*arrays, *outputs, *numbers, *launch.sizes),
            shared_mem=launch.shared,
            cluster=launch.cluster,
        )
        library = launch.library
        if library is None:
            return outputs
        stream = library.stream(launch.device)
        return [
            library.finish(one, launch.device, stream) if target is None else one
            for one, target in zip(outputs, targets, strict=True)
        ]

    def cache_info(self) -> CacheInfo:
        """Return the contents of the call caches of all its kernels."""
        return CacheInfo.total(kernel.cache_info() for kernel in list(self._kernels.values()))

    def _launch(self, arrays: Sequence[Any], given: Sequence[Any]) -> _Launch | None:
        """Return the launch for arrays like these, or None if they do not fit."""
        program, library = self._program, library_of(arrays[0])
        assert library is not None
        views = [_view(one) for one in arrays]
        targets = [None if one is None else _view(one) for one in given]
        domain = _domain(views, [kind for _, kind in program.reads])
        if domain is None:
            return None
        rows, row = domain[: -program.axes], domain[-program.axes :]
        length, count = math.prod(row), math.prod(rows)
        if not length or not count or not _is_worth_it(count, length, views[0].device.is_host):
            return None
        steps: list[int] = []
        starts: list[tuple[int, int]] = []  # address and step, in bytes, of packed arrays
        for view, (_, kind) in zip(views, program.reads, strict=True):
            itemsize = _itemsize(view)
            if kind == PER_COLUMN:
                if not _is_packed(view.shape, view.strides, itemsize):
                    return None
                starts.append((view.ptr, 0))
                continue
            if kind != PER_ROW and not _is_packed(row, view.strides[len(rows) :], itemsize):
                return None
            step = _one_step(rows, view.strides[: len(rows)])
            if step is None or step % itemsize:
                return None
            steps.append(step // itemsize)
            if kind != PER_ROW:
                starts.append((view.ptr, step))
        for target in targets:
            if target is not None:
                if not target.is_c_contiguous:
                    return None
                starts.append((target.ptr, 0))
        device = views[0].device
        width = self._width(length, starts)
        sizes = row_sizes(length, width, program.kept, _limits(device))
        if sizes is None:
            return None
        finish: Any = type(library).finish
        kernel = self._kernel(sizes)
        blocks = self._blocks(kernel, sizes, count, device)
        if not blocks:
            return None
        return _Launch(
            kernel,
            (blocks,),
            (sizes.threads,),
            (sizes.blocks,) if sizes.blocks > 1 else None,
            sizes.shared(program.kept),
            (*steps, count, length),
            tuple(
                maker(library, *self._shape(out, kind, domain), device)
                for out, kind in program.writes
            ),
            device,
            None if finish is Plain.finish else library,
        )

    def _blocks(self, kernel: RawKernel, sizes: RowSizes, rows: int, device: Device) -> int:
        """Return the number of blocks for so many rows; 0 if the device has no such clusters."""
        if not sizes.blocks:
            return -(-rows // (sizes.threads >> sizes.lanes))
        kernel.max_dynamic_shared_size_bytes = sizes.shared(self._program.kept)
        resident = kernel.loaded(device).resident_blocks(
            sizes.threads, sizes.shared(self._program.kept), sizes.blocks
        )
        return min(rows * sizes.blocks, resident)

    def _shape(
        self, out: Output, kind: str, domain: tuple[int, ...]
    ) -> tuple[tuple[int, ...], str]:
        shape = domain
        if kind == PER_ROW:  # with axes of extent 1, or without
            rows = domain[: -self._program.axes]
            shape = rows + (1,) * (len(out.value.shape) - len(rows))
        return shape, out.value.dtype

    def _width(self, length: int, starts: Sequence[tuple[int, int]]) -> int:
        """Return the number of elements read at once: one where something is misaligned.

        New arrays never are: no library aligns its memory to less.
        """
        width = ACCESS // self._program.widest
        fits = length % width == 0 and not any(
            address % ACCESS or step % ACCESS for address, step in starts
        )
        return width if fits else 1

    def _kernel(self, sizes: RowSizes) -> RawKernel:
        kernel = self._kernels.get(sizes.template)
        if kernel is None:
            name = _expression(self._program, sizes)
            kernel = RawKernel(self._program.code, name, options=self._program.options)
            self._kernels[sizes.template] = kernel
        return kernel


def row_spec(program: RowProgram) -> RawSpec | None:
    """Return a row program as a spec, for C-ordered arrays whose rows are as long as when traced.

    None if rows are too long for it, or empty. Called like a function, with the arrays that it
    reads and writes, and the numbers.
    """
    length, sizes = _of_packed_rows(program)
    if sizes is None or not length:
        return None
    names = [param.split()[-1] for param in program.params]
    whole = next(
        name
        for name, (_, kind) in zip(names, program.reads, strict=False)
        if kind not in (PER_ROW, PER_COLUMN)
    )
    defaults: dict[str, Any] = {
        name: 1 if _is_of_row(name, program, names) else length
        for name in names
        if name.endswith("_step")
    }
    defaults |= {"rows": f"{whole}.size // {length}", "length": length}
    return build_spec(
        RawSpec,
        name=program.name,
        doc=f"Rows of {length} elements, kept in registers.",
        code=program.code,
        options=program.options,
        name_expressions=(_expression(program, sizes),),
        params=program.params,
        grid=f"ceil_div(rows, {sizes.threads >> sizes.lanes})",
        block=str(sizes.threads),
        defaults=defaults,
    )


def _is_of_row(step: str, program: RowProgram, names: Sequence[str]) -> bool:
    """Return whether a step is that of an array with one number for each row."""
    place = names.index(step.removesuffix("_step") + "_data")
    return program.reads[place][1] == PER_ROW


def _layout(array: Any) -> object:
    """Return the properties of an array that a launch depends on.

    Those of the libraries that are called most are asked without a view, which takes longer.
    """
    if array is None:
        return None
    kind: Any = type(array)
    ask = layout_function(kind, ACCESS)
    if ask is not None:
        return kind, ask(array)
    view = _view(array)
    return kind, view.ptr % ACCESS, view.shape, view.strides, view.dtype, view.device


def where_it_fits(program: RowProgram) -> str:
    """Return the GPUs that run a program in place of several kernels, as it was traced.

    If the arrays are packed, too. Empty if none do.
    """
    rows = math.prod(program.domain.sizes[: -program.axes])
    for limits, where in (
        (NO_CLUSTERS, "GPUs"),
        (WITH_CLUSTERS, "GPUs of compute capability 9.0 or later"),
    ):
        length, sizes = _of_packed_rows(program, limits)
        if sizes is not None and _is_worth_it(rows, length, on_host=False):
            return where
    return ""


def _of_packed_rows(
    program: RowProgram, limits: Limits = NO_CLUSTERS
) -> tuple[int, RowSizes | None]:
    """Return length and sizes of rows that are packed and as long as when traced."""
    length = math.prod(program.domain.sizes[-program.axes :])
    width = ACCESS // program.widest
    width = width if length % width == 0 else 1
    return length, row_sizes(length, width, program.kept, limits)


def _expression(program: RowProgram, sizes: RowSizes) -> str:
    """Return the name expression of a kernel."""
    return f"{program.name}<{', '.join(map(str, sizes.template))}>"


def _limits(device: Device) -> Limits:
    """Return the limits of a device."""
    if device.is_host:
        return NO_CLUSTERS
    if driver.compute_capability(device.ordinal) < (9, 0):
        return NO_CLUSTERS
    return Limits(most_shared_memory(device.ordinal), WITH_CLUSTERS.blocks)


def _view(array: Any) -> ArrayView:
    library = library_of(array)
    assert library is not None
    return library.view(array)


def _itemsize(view: ArrayView) -> int:
    return dtypes.lookup(view.dtype).itemsize


def _domain(views: Sequence[ArrayView], kinds: Sequence[str]) -> tuple[int, ...] | None:
    """Return the shape of all rows."""
    found = [view.shape for view, kind in zip(views, kinds, strict=True) if kind == WHOLE]
    return found[0] if found else None


def _is_worth_it(rows: int, length: int, on_host: bool) -> bool:
    """Return whether one kernel is faster than several."""
    mode = config.fuse_rows()
    if mode != "auto":
        return mode == "always"
    # The host device takes three times as long: its threads wait for each other at every step.
    return not on_host and (rows >= _FEW_ROWS or length <= _SHORT)


def _is_packed(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> bool:
    """Return whether elements follow each other in C order."""
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent != 1 and stride != itemsize:
            return False
        itemsize *= extent
    return True


def _one_step(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """Return the bytes from one row to the next, or None if they differ."""
    step: int | None = None
    span = 0
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        if extent == 1:
            continue
        if step is None:
            step, span = stride, stride * extent
        elif stride == span:
            span *= extent
        else:
            return None
    return step or 0
