"""Calling an elementwise kernel: broadcast, bind, allocate, choose, launch.

`ElementwiseCallable` is what a generated function calls; `kspec.ElementwiseKernel` is the same
with CuPy's constructor in front.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from kspec.errors import ArgumentTypeError, LaunchError, ShapeError, shorten
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.infer import infer
from kspec.model.shapes import size_of
from kspec.model.stages import Specialization
from kspec.runtime.arguments.binding import Call, check_count, classify, resolve_stream
from kspec.runtime.arguments.checks import (
    checks_of_call,
    host_options,
    modes_of_call,
    repeatable,
)
from kspec.runtime.callcache import ABSENT, given_of, types_of
from kspec.runtime.callcache.prepared import Prepared
from kspec.runtime.driver.device import Device, is_scheduled_as_host
from kspec.runtime.driver.launch import NO_OPTIONS, Launch, LaunchOptions
from kspec.runtime.kernels import CALL_ERRORS, GeneratedCallable
from kspec.runtime.kernels.loop_nest import make_loop
from kspec.runtime.libraries.lookup import overriding
from kspec.runtime.libraries.untraced import untraced
from kspec.runtime.modules.loader import KernelLoader
from kspec.runtime.schedules.elementwise_schedule import ElementwiseSchedule, Growth

if TYPE_CHECKING:
    from kspec.model.neighbours.binding import BoundNeighbours
    from kspec.runtime.kernels.bound import Bound


class ElementwiseCallable(GeneratedCallable[ElementwiseDeclaration]):
    """An elementwise kernel that can be called."""

    def _declare(self, declaration: ElementwiseDeclaration, loader: KernelLoader) -> None:
        super()._declare(declaration, loader)
        self._options = declaration.call_options  # kept, as repeated calls need them

    def _values(self, boundary: str | None, sizes: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the values of `_options`, None for what is not given; None if they are odd."""
        values = {"boundary": boundary, **sizes}
        extra = tuple(values.get(name) for name in self._options)
        known = sizes.keys() <= set(self._options) and (
            boundary is None or "boundary" in self._options
        )
        # 2.0 and True equal integers, and are none.
        plain = all(value is None or type(value) in (int, str) for value in extra)
        return extra if known and plain else None

    @property
    def no_return(self) -> bool:
        """Whether calls return None."""
        return self._declaration.no_return

    @property
    def return_tuple(self) -> bool:
        """Whether calls return a tuple even for a single output."""
        return self._declaration.return_tuple

    @untraced
    def __call__(
        self,
        a0: Any = ABSENT,
        a1: Any = ABSENT,
        a2: Any = ABSENT,
        a3: Any = ABSENT,
        a4: Any = ABSENT,
        /,
        *rest: Any,
        out: Any = None,
        size: int = -1,
        block_size: int | None = None,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
        boundary: str | None = None,
        **sizes: Any,
    ) -> Any:
        """Run the kernel.

        Parameters
        ----------
        a0, a1, a2, a3, a4, *rest : arrays or scalars
            The inputs, or the inputs and all outputs. Arrays broadcast against each other,
            outputs included; ``raw`` ones do not take part.
        out : array or tuple of arrays, optional
            The outputs, one for each declared; instead of positional ones.
        size : int, optional
            Number of elements, when all arrays are raw.
        block_size : int, optional
            Threads of a block on a CUDA device; default: what suits the layout of the arrays.
            Layouts of two dimensions keep their own.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.
        boundary : str, optional
            What lies outside of windowed and sampled arrays, of the boundaries that the kernel
            declares.
        **sizes : int
            Values of integer placeholders.

        Returns
        -------
        array, tuple of arrays or None
            The outputs, of the kind of the first array; given ones as they are.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices.
        ShapeError
            A `ValueError`: shapes do not broadcast, the size is unknown, or the size or the
            outputs are given twice.
        LaunchError
            A block is larger than any device allows.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        try:
            if (
                sanitize is None
                and order is None
                and timeout is None
                and type(size) is int
                and (block_size is None or type(block_size) is int)
            ):
                if sizes or boundary is not None or out is not None:
                    places, extra = (a0, a1, a2, a3, a4, *rest), self._values(boundary, sizes)
                    if out is not None:
                        listed = self.all_given(given_of(*places), out) or ()
                        places = (*listed, *self._absent[len(listed) :])
                    cached = self._call_cache[types_of(places)]
                    if cached is not None and extra is not None:
                        return cached(self, *places, size, block_size, stream, *extra)
                elif rest:
                    cached = self._call_cache[types_of((a0, a1, a2, a3, a4, *rest))]
                    if cached is not None:
                        return cached(self, a0, a1, a2, a3, a4, *rest, size, block_size, stream)
                else:  # without a star, which takes as long as everything else here
                    cached = self._call_cache[type(a0), type(a1), type(a2), type(a3), type(a4)]
                    if cached is not None:
                        return cached(self, a0, a1, a2, a3, a4, size, block_size, stream)
            args = self.with_given(given_of(a0, a1, a2, a3, a4, *rest), out)
            declaration = self.declaration
            other = overriding(args)
            if other is not None:
                _checked_block_size(self.__name__, block_size)
                check_count(declaration, args)
                self._neighbours(boundary, sizes)
                given = _given(
                    size=size,
                    block_size=block_size,
                    stream=stream,
                    sanitize=sanitize,
                    order=order,
                    timeout=timeout,
                    boundary=boundary,
                    **sizes,
                )
                return other.__cupy_override_elementwise_kernel__(self, *args, **given)
            options = LaunchOptions(stream, sanitize=sanitize, order=order, timeout=timeout)
            prepared = self.prepare(args, size, block_size, options, boundary, **sizes)
            result = prepared.run()
            returned = "one" if len(declaration.outputs) == 1 and not self.return_tuple else "tuple"
            returned = "none" if self.no_return else returned
            keywords, extra = ("size", "block_size"), self._options
            grows = not extra and not declaration.has_core
            self._call_cache.learn(
                args, lambda: self._entry(args, keywords, returned, grows=grows, extra=extra)
            )
            return result
        except CALL_ERRORS as error:
            shorten(error)
            raise

    @untraced
    def bind(
        self,
        *args: Any,
        out: Any = None,
        size: int = -1,
        block_size: int | None = None,
        stream: Any = None,
        boundary: str | None = None,
        **sizes: Any,
    ) -> Bound:
        """Check a call now, for launching it many times with the same arguments.

        Parameters and errors are those of a call. The arrays are kept alive, and must keep their
        shape and memory; outputs that are not given are made once.  The stream is the one that is
        current now.

        Returns
        -------
        Bound
            Calling it, without arguments, launches the kernel and returns the outputs.
        """
        try:
            args = self.with_given(args, out)
            options = repeatable(LaunchOptions(stream), self.checks)
            prepared = self.prepare(args, size, block_size, options, boundary, **sizes)
            keywords = {"boundary": boundary, **sizes}
            call = functools.partial(self, size=size, block_size=block_size, **keywords)
            return self._bound(prepared, call)
        except CALL_ERRORS as error:
            shorten(error)
            raise

    def with_given(self, args: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        """Return all arguments of a call; outputs may have been given by keyword.

        Errors are those of `given_outputs`, and for a wrong number of arguments.
        """
        if out is None:
            return args
        outputs = self.given_outputs(args, out)
        check_count(self.declaration, args)
        return (*args, *outputs)

    def prepare(
        self,
        args: Sequence[Any],
        size: int = -1,
        block_size: int | None = None,
        options: LaunchOptions = NO_OPTIONS,
        boundary: str | None = None,
        **sizes: Any,
    ) -> Prepared:
        """Check a call, with parameters and errors as those of the call, and make its outputs.

        A size that is None was not given.
        """
        neighbours = self._neighbours(boundary, sizes)
        return self.prepare_in(neighbours, args, size, block_size, options)

    def _neighbours(self, boundary: str | None, sizes: Mapping[str, Any]) -> BoundNeighbours | None:
        """Return the windows, samples and integer placeholders of a call; None if it has none."""
        if boundary is None and not sizes and not self.declaration.has_neighbours:
            return None
        from kspec.model.neighbours.binding import bind_neighbours

        return bind_neighbours(self.declaration, boundary, sizes)

    def prepare_in(
        self,
        neighbours: BoundNeighbours | None,
        args: Sequence[Any],
        size: int = -1,
        block_size: int | None = None,
        options: LaunchOptions = NO_OPTIONS,
    ) -> Prepared:
        """Check a call with windows that are bound already: a block has halos, for instance."""
        threads = _checked_block_size(self.__name__, block_size)
        declaration = self.declaration
        given = len(args) > len(declaration.inputs)
        windows = neighbours.windows if neighbours else ()
        call = classify(declaration, args, neighbours=neighbours)
        check_kinds(declaration, call)
        inferred = infer(declaration, *call.types(), size=size, neighbours=neighbours)
        shape, binding = inferred.loop, inferred.binding
        call = self.with_outputs(call, inferred.shapes, binding, size)
        checks = checks_of_call(self.__name__, call.device, self.checks, options)
        if 0 in inferred.shape:  # an item without elements may have others beside it
            made_by = None if given else call.library
            return Prepared(self._result(call), device=call.device, library=made_by)
        handle = resolve_stream(call, options.stream)
        operands = (*call.inputs, *call.outputs)
        modes = modes_of_call(checks, call.device, declaration)
        loop = make_loop(
            declaration,
            operands,
            shape,
            binding,
            call.device,
            windows,
            inferred.shape,
            self.tuned,
            modes,
        )
        layout = loop.schedule.layout
        wanted = Specialization(self.__name__, binding, layout, loop.raw_ndims, inferred.sizes)
        self._loader.check_captured(wanted, call.device, handle)
        kernel = self._loader.kernel(wanted, call.device, modes)
        elements = size_of(inferred.shape)
        grid, block = _geometry(self.__name__, loop.schedule, threads, elements, call.device)
        return Prepared(
            self._result(call),
            kernel,
            Launch(
                grid, block, loop.schedule.shared_mem, handle, host_options(checks, modes, operands)
            ),
            binding,
            call.device,
            lambda scratch: loop.schedule.elements,
            operands,
            loop.views,
            given,
            growth=None if modes else _growth(loop.growth, threads),
            named=options.stream is not None,
            library=None if given else call.library,
        )

    def _result(self, call: Call) -> Any:
        if self.declaration.no_return:
            return None
        values = tuple(operand.value for operand in call.outputs)
        return values[0] if len(values) == 1 and not self.declaration.return_tuple else values


def _checked_block_size(kernel: str, block_size: object) -> int | None:
    """Return the block size as an integer; whole floats are taken too, as in CuPy."""
    if block_size is None:
        return None
    if isinstance(block_size, float) and block_size.is_integer():
        block_size = int(block_size)
    if isinstance(block_size, bool) or not isinstance(block_size, SupportsIndex):
        raise ArgumentTypeError(f"{kernel}: block_size must be an integer, not {block_size!r}")
    threads = operator.index(block_size)
    if threads <= 0:
        raise ShapeError(f"{kernel}: block_size must be positive, not {threads}")
    return threads


def check_kinds(declaration: ElementwiseDeclaration, call: Call) -> None:
    """Check that arrays are given where the kernel needs one, and scalars where it needs one."""
    for operand in call.inputs:
        name, kind = operand.param.name, type(operand.value).__name__
        where = f"{declaration.name}: {name} must be"
        if operand.view is None and name in declaration.raw_views:
            raise ArgumentTypeError(
                f"{where} an array, not {kind}: the operation reads _raw_{name}"
            )
        if operand.view is not None and name in declaration.scalars:
            raise ArgumentTypeError(
                f"{where} a scalar: it is read before or after the loop, where there are no "
                "elements"
            )


def _given(**keywords: Any) -> dict[str, Any]:
    """Return the keyword arguments of a call that are not the defaults."""
    defaults = {"size": -1, "block_size": 128}
    return {
        name: value
        for name, value in keywords.items()
        if value is not None and value != defaults.get(name)
    }


def _geometry(
    kernel: str, schedule: ElementwiseSchedule, block_size: int | None, size: int, device: Device
) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the number of blocks, and of threads in each, along every axis."""
    block = min(block_size or schedule.block, size)
    if block_size:
        from kspec.host import MAX_BLOCK_THREADS

        if block > MAX_BLOCK_THREADS:
            raise LaunchError(
                f"{kernel}: block_size is {block}; a block has at most {MAX_BLOCK_THREADS} threads"
            )
    if schedule.grid:
        return schedule.grid, (schedule.block, 1, 1)
    chunks = is_scheduled_as_host(device) and schedule.block == 1  # each thread of a CPU takes one
    block = 1 if chunks else min(block, schedule.threads)
    return (-(-schedule.threads // block), 1, 1), (block, 1, 1)


def _growth(growth: Growth | None, block_size: int | None) -> Growth | None:
    """Return the changes for another number of elements, in blocks of a size that fits any."""
    if growth is None or block_size is None:
        return growth
    from kspec.host import MAX_BLOCK_THREADS

    return growth.in_blocks(block_size) if block_size <= MAX_BLOCK_THREADS else None
