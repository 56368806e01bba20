"""Calling a reduction kernel: axes, binding, outputs, schedule, launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kspec import dtypes
from kspec.checks import Checks
from kspec.declaration import ReductionDeclaration
from kspec.errors import ArgumentTypeError, ShapeError
from kspec.host.device import Region
from kspec.runtime import dispatch, driver, layout, marshal
from kspec.runtime.callable import GeneratedCallable
from kspec.runtime.checked import checks_of_call, regions_of_operands
from kspec.runtime.dispatch import Binding, Call, Operand
from kspec.runtime.fold import MAX_ACCUMULATOR, choose, choose_host
from kspec.runtime.launch import Launch
from kspec.runtime.layout import Axes, Shape
from kspec.runtime.loop import member_of
from kspec.runtime.module import LoadedKernel
from kspec.runtime.plan import pack_operand
from kspec.runtime.scratch import Scratch
from kspec.stages import Specialization


class ReductionCallable(GeneratedCallable[ReductionDeclaration]):
    """A reduction kernel that can be called."""

    def __call__(
        self,
        *args: Any,
        out: Any = None,
        axis: int | Sequence[int] | None = None,
        keepdims: bool = False,
        stream: Any = None,
        sanitize: str | None = None,
        order: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Run the kernel.

        Parameters
        ----------
        *args : arrays or scalars
            The inputs, or the inputs and all outputs. Inputs broadcast against each other.
        out : array or tuple of arrays, optional
            The outputs, one for each declared; instead of positional ones.
        axis : int, sequence of int or None
            Axes to reduce; None: all of them, ``()``: none.
        keepdims : bool, default False
            Keep reduced axes with extent 1.
        stream : stream, optional
            Default: the current stream of the first array's library.
        sanitize, order, timeout : optional
            What to check on the host device (`kspec.Checks`); default: as the kernel's `checks`,
            `kspec.checking` or the environment say.

        Returns
        -------
        array or tuple of arrays
            The outputs, of the kind of the first array; 0-d for a full reduction.

        Raises
        ------
        ArgumentTypeError
            A `TypeError`: wrong number of arguments, wrong dtype, arrays on several devices.
        ShapeError
            A `ValueError`: shapes do not fit, or nothing to reduce and no identity.
        numpy.exceptions.AxisError
            An axis is out of range.
        SpecializationNotBuilt
            Nothing precompiled fits and ``KSPEC_JIT=never``.
        """
        declaration = self.declaration
        call = dispatch.classify(declaration, args, self._given_outputs(args, out))
        shape = self._input_shape(call)
        reduced = layout.normalize_axes(axis, len(shape))
        out_shape = _output_shape(shape, reduced, keepdims)
        binding = dispatch.resolve_types(declaration, call)
        length = layout.size_of(tuple(shape[k] for k in reduced))
        if length == 0 and not declaration.has_identity and 0 not in out_shape:
            raise ShapeError(
                f"zero-size array to reduction operation {self.__name__} which has no identity"
            )
        call = self._with_outputs(call, out_shape, binding)
        checks = checks_of_call(self.__name__, call.device, self.checks, sanitize, order, timeout)
        if 0 not in out_shape:
            self._launch(call, shape, reduced, keepdims, binding, stream, checks)
        values = tuple(operand.value for operand in call.outputs)
        return values[0] if len(values) == 1 else values

    def _given_outputs(self, args: Sequence[Any], out: Any) -> tuple[Any, ...]:
        """Return the outputs given by keyword."""
        if out is None:
            return ()
        if len(args) > len(self.declaration.inputs):
            raise ShapeError(
                f"{self.__name__}: cannot specify 'out' as both positional and keyword"
            )
        outputs = out if isinstance(out, tuple) else (out,)
        if len(outputs) != len(self.declaration.outputs):
            raise ShapeError(
                f"{self.__name__}: out must hold {len(self.declaration.outputs)} arrays, "
                f"not {len(outputs)}"
            )
        return outputs

    def _input_shape(self, call: Call) -> Shape:
        """Return the broadcast shape of the inputs; check what must be a scalar."""
        for operand in call.inputs:
            if operand.param.name in self.declaration.scalars and operand.view is not None:
                raise ArgumentTypeError(
                    f"{self.__name__}: {operand.param.name} is read by the reduce or post-map "
                    "expression, where there are no elements any more; pass a scalar"
                )
        shapes = [
            operand.view.shape
            for operand in call.inputs
            if operand.view is not None and not operand.param.raw
        ]
        if not shapes:
            raise ShapeError("Loop size is undecided. Pass an array that is not raw")
        return layout.broadcast_shapes(shapes)

    def _with_outputs(self, call: Call, shape: Shape, binding: Binding) -> Call:
        """Check the given outputs, or allocate them."""
        for operand in call.outputs:
            if operand.view is not None and operand.view.shape != shape:
                raise ShapeError(
                    f"Out shape is mismatched: {self.__name__}: output {operand.param.name} has "
                    f"shape {operand.view.shape}, the result {shape}"
                )
        if call.outputs:
            return call
        library = call.library
        assert library is not None  # there is an array among the inputs
        outputs = []
        for param in self.declaration.outputs:
            array = library.empty(shape, dispatch.param_dtype(param, binding), call.device)
            outputs.append(dispatch.new_output(param, array))
        return Call(call.inputs, tuple(outputs), call.device, library)

    def _launch(
        self,
        call: Call,
        shape: Shape,
        reduced: tuple[int, ...],
        keepdims: bool,
        binding: Binding,
        stream: Any,
        checks: Checks,
    ) -> None:
        handle = dispatch.resolve_stream(call, stream)
        inputs = [operand for operand in call.inputs if not operand.param.raw]
        kept = tuple(axis for axis in range(len(shape)) if axis not in reduced)
        keep_order = self.declaration.ordered
        kept_axes, reduced_axes = _split_axes(
            inputs, call.outputs, shape, kept, reduced, keepdims, keep_order
        )
        raw_ndims = tuple(
            len(operand.view.shape) for operand in call.inputs if operand.param.raw and operand.view
        )

        def load(layout_tag: str) -> LoadedKernel:
            wanted = Specialization(self.__name__, binding, layout_tag, raw_ndims)
            return self._loader.kernel(wanted, call.device, checks.sanitize)

        if call.device.is_host:
            fold = choose_host(kept_axes, reduced_axes)
        else:
            members = [member_of(operand, binding) for operand in inputs]
            fold = choose(
                kept_axes,
                reduced_axes,
                members,
                driver.multiprocessors(call.device.ordinal),
                lambda tag, threads: load(tag).resident_blocks(threads),
            )
        kernel = load(fold.layout)
        operands = [pack_operand(operand, binding) for operand in (*call.inputs, *call.outputs)]
        regions = regions_of_operands(checks, (*call.inputs, *call.outputs))
        nbytes = fold.scratch(_accumulator_size(self.declaration, binding))
        with Scratch(call.device, handle, nbytes, fold.tickets) as scratch:
            if regions and scratch.ptr:
                regions += (Region(scratch.ptr, nbytes, "the scratch memory"),)
            grid, block = (fold.tiles, fold.splits, 1), (fold.threads, 1, 1)
            launch = Launch(grid, block, 0, handle, checks, regions)
            plan = fold.pack(scratch.ptr)
            kernel.launch(launch, marshal.ParameterBlock([plan, *operands]))


def _accumulator_size(declaration: ReductionDeclaration, binding: Binding) -> int:
    """Return the bytes of an accumulator; the most there can be for a type of the user's."""
    name = declaration.accumulator
    if not name:
        name = dispatch.param_dtype(declaration.outputs.params[0], binding)
        row = dtypes.from_ctype(dtypes.lookup(name).accumulator)
    elif name in dict(binding):
        row = dtypes.lookup(dict(binding)[name])
    else:
        row = dtypes.from_ctype(name)
    return row.itemsize if row else MAX_ACCUMULATOR


def _output_shape(shape: Shape, reduced: tuple[int, ...], keepdims: bool) -> Shape:
    if keepdims:
        return tuple(1 if axis in reduced else extent for axis, extent in enumerate(shape))
    return tuple(extent for axis, extent in enumerate(shape) if axis not in reduced)


def _split_axes(
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    shape: Shape,
    kept: tuple[int, ...],
    reduced: tuple[int, ...],
    keepdims: bool,
    keep_order: bool,
) -> tuple[Axes, Axes]:
    """Collapse the kept axes (inputs and outputs) and the reduced ones (inputs)."""
    still = (0,) * len(shape)
    along = [
        layout.broadcast_strides(operand.view.shape, operand.view.strides, shape)
        if operand.view
        else still
        for operand in inputs
    ]
    kept_strides = [tuple(strides[axis] for axis in kept) for strides in along]
    for operand in outputs:
        assert operand.view is not None
        strides = operand.view.strides
        kept_strides.append(tuple(strides[axis] for axis in kept) if keepdims else strides)
    kept_axes = layout.collapse(tuple(shape[k] for k in kept), kept_strides, keep_order)
    extents = tuple(shape[k] for k in reduced)
    reduced_strides = [tuple(strides[axis] for axis in reduced) for strides in along]
    if 0 in extents:
        # Nothing is read: the kernel only has to see the length.
        return kept_axes, Axes((0,), tuple((0,) for _ in inputs))
    return kept_axes, layout.collapse(extents, reduced_strides, keep_order)
