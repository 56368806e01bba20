"""A call's arguments in, checked operands and device out.

The order of the checks is CuPy's: number of arguments, kind of each one, device, and then
shapes and types (`kspec.model.infer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kspec.dataclass import dataclass
from kspec.errors import ArgumentTypeError
from kspec.model import dtypes
from kspec.model.declaration import GeneratedDeclaration
from kspec.model.infer import Abstract, check_one_device
from kspec.model.shapes import Shape, check_ndim
from kspec.model.signature import Param
from kspec.runtime.driver.device import HOST, Device, default_device
from kspec.runtime.libraries.lookup import Library, library_of, view_of
from kspec.runtime.libraries.stream_order import DEFAULT_STREAMS, stream_of_call
from kspec.runtime.memory import ArrayView
from kspec.runtime.schedules import Strides, marshal

if TYPE_CHECKING:
    from kspec.model.neighbours.binding import BoundNeighbours
    from kspec.model.neighbours.samples import BoundSample
    from kspec.model.neighbours.windows import BoundWindow
    from kspec.runtime.libraries.aliasing import Place


@dataclass(frozen=True)
class Operand:
    """One argument of a call.

    Attributes
    ----------
    param : Param
        What it was declared as.
    value : object
        What the caller gave.
    view : ArrayView or None
        Its elements, if it is an array; scalars and textures have none.
    library : Library or None
        Whose array it is.
    is_output : bool
        Whether it is written to.
    is_new : bool
        Whether it is an output that was made for the call.
    where : str
        What messages about its value call it.
    window : BoundWindow or None
        The neighbours that threads read.
    is_gathered : bool
        Whether threads read elements of other threads, which the kernel does not index by hand.
    sample : BoundSample or None
        What lies outside of a raw array that threads read between its elements.
    """

    param: Param
    value: Any
    view: ArrayView | None
    library: Library | None
    is_output: bool = False
    where: str = ""
    window: BoundWindow | None = None
    is_gathered: bool = False
    sample: BoundSample | None = None
    is_new: bool = False

    @property
    def dtype(self) -> str | None:
        """The type it binds its placeholder to; None for a scalar."""
        if self.view is not None:
            return self.view.dtype
        from kspec.runtime.arguments.opaque import TEXTURE, kind_of

        return dtypes.TEXTURE.name if kind_of(self.value) == TEXTURE else None

    @property
    def abstract(self) -> Abstract:
        """Its shape and dtype."""
        return Abstract(None if self.view is None else self.view.shape, self.dtype)

    @property
    def layout(self) -> tuple[Shape, Strides]:
        """Extents and strides of an array along the axes of the loop, without core dimensions."""
        assert self.view is not None
        split = len(self.view.shape) - len(self.param.core)
        return self.view.shape[:split], self.view.strides[:split]

    @property
    def item(self) -> tuple[Shape, Strides]:
        """Extents and strides of an array along its core dimensions."""
        assert self.view is not None
        split = len(self.view.shape) - len(self.param.core)
        return self.view.shape[split:], self.view.strides[split:]

    @property
    def device(self) -> Device | None:
        """Its device; None for a scalar, and for CuPy's textures, which do not say."""
        if self.view is not None:
            return self.view.device
        from kspec.runtime.arguments.opaque import device_of

        return device_of(self.value)


@dataclass(frozen=True)
class Call:
    """The operands of a call, where it runs, and on which stream, once that is known."""

    inputs: tuple[Operand, ...]
    outputs: tuple[Operand, ...]
    device: Device
    library: Library | None
    stream: int = 0

    def types(self) -> tuple[list[Abstract], list[Abstract]]:
        """Return the shapes and dtypes of the inputs and of the given outputs."""
        return [one.abstract for one in self.inputs], [one.abstract for one in self.outputs]


def new_output(param: Param, array: Any) -> Operand:
    """Return an output that was made for a call.

    Its library may be another than that of the inputs, which cannot all make arrays.
    """
    library = library_of(array)
    assert library is not None
    return Operand(param, array, library.view(array), library, is_output=True, is_new=True)


def check_count(
    declaration: GeneratedDeclaration, arguments: Sequence[object], form: str = "", beside: str = ""
) -> None:
    """Raise `ArgumentTypeError` unless the positional arguments are the inputs, or all.

    `form`: with a dot in front, the method that is called. `beside`: words for the message.
    """
    nin, nout = len(declaration.inputs), len(declaration.outputs)
    if len(arguments) not in (nin, nin + nout):
        either = f"{nin} or {nin + nout}" if nout else f"{nin}"
        raise ArgumentTypeError(
            f"{declaration.name}{form}() takes {either} positional arguments "
            f"({declaration.params}){beside}, not {len(arguments)}"
        )


def classify(
    declaration: GeneratedDeclaration,
    arguments: Sequence[object],
    outputs: Sequence[object] = (),
    neighbours: BoundNeighbours | None = None,
) -> Call:
    """Match arguments with parameters.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    arguments : sequence
        Positional arguments: the inputs, or inputs and outputs.
    outputs : sequence
        Outputs given by keyword.
    neighbours : BoundNeighbours, optional
        Windows and samples of the call.

    Raises
    ------
    ArgumentTypeError
        For a wrong number of arguments, a value that is neither array nor scalar, a scalar
        where an array is due, a read-only output, or arrays on several devices.
    OverlapError
        If an array that is written to shares memory with another one.
    """
    check_count(declaration, arguments)
    nin = len(declaration.inputs)
    given = [*arguments[nin:], *outputs]
    inputs = tuple(
        _operand(declaration, param, value, output=False)
        for param, value in zip(declaration.inputs, arguments[:nin], strict=True)
    )
    if neighbours is not None and (neighbours.windows or neighbours.samples):
        window = {one.param: one for one in neighbours.windows}
        sample = {one.param: one for one in neighbours.samples}
        everywhere = getattr(declaration, "adjoint", None) is not None
        looped = {one.name for one in declaration.inputs if everywhere and not one.raw}
        gathered = {*looped, *window, *sample}
        inputs = tuple(
            replace(
                one,
                window=window.get(one.param.name),
                sample=sample.get(one.param.name),
                is_gathered=one.param.name in gathered,
            )
            for one in inputs
        )
    outs = tuple(
        _operand(declaration, param, value, output=True)
        for param, value in zip(declaration.outputs, given, strict=bool(given))
    )
    operands = (*inputs, *outs)
    device = _common_device(declaration.name, operands) or default_device()
    if outs or any(param.non_const for param in declaration.inputs):
        from kspec.runtime.libraries.aliasing import check_overlaps

        places = [one for one in map(place_of, operands) if one is not None]
        check_overlaps(declaration.name, places)
    libraries = (operand.library for operand in operands if operand.library is not None)
    return Call(inputs, outs, device, next(libraries, None))


def place_of(operand: Operand) -> Place | None:
    """Return the array that an operand is; None for those that the operation indexes by itself."""
    from kspec.runtime.libraries.aliasing import Place

    param, view = operand.param, operand.view
    if view is None or (param.raw and not operand.is_gathered):
        return None
    written = operand.is_output or param.non_const
    item, _ = operand.item
    if item:
        from kspec.runtime.schedules.item_schedule import is_small

        large = not is_small(dtypes.lookup(view.dtype).itemsize, item)
    else:
        large = False
    return Place(param.name, view, written, operand.is_gathered, len(item), large)


def raw_ndims(operands: Sequence[Operand]) -> tuple[int, ...]:
    """Return the dimensions of the raw arguments; -1 for a number, which a kernel sees as such."""
    return tuple(
        -1 if operand.view is None else len(operand.view.shape)
        for operand in operands
        if operand.param.raw
    )


def resolve_stream(call: Call, stream: object) -> int:
    """Return the handle of the stream a call is queued on: the caller's, or the library's."""
    operands = (*call.inputs, *call.outputs)
    libraries = (operand.library for operand in operands)
    handle = stream_of_call(stream, call.library, call.device, libraries)
    if handle not in DEFAULT_STREAMS:
        from kspec.runtime.memory.device_array import use_on

        use_on(handle, *(operand.value for operand in operands))
    return handle


def _operand(
    declaration: GeneratedDeclaration, param: Param, value: object, output: bool
) -> Operand:
    kind, kernel = declaration.kind, declaration.name
    library = library_of(value)
    where = f"{kernel}: argument {param.name}"
    if library is None:
        from kspec.runtime.arguments.opaque import HANDLES, kind_of

        if kind_of(value) in HANDLES:
            _check_handle(where, kind, param, value, output)
            return Operand(param, value, None, None)
        # Only SciPy's and CuPy's; objects of other types may have attributes of any name.
        if hasattr(type(value), "toarray") and hasattr(type(value), "nnz"):
            raise ArgumentTypeError(f"{where} is sparse: pass x.toarray()")
        windowed = any(one.param == param.name for one in getattr(declaration, "windows", ()))
        indexed = windowed or (param.raw and param.name not in declaration.numbers) or param.core
        if output or indexed or param.non_const:
            raise ArgumentTypeError(
                f"{where} must be an array, not {type(value).__name__}{_advice(kernel, value)}"
            )
        if not marshal.is_scalar(value):
            raise ArgumentTypeError(
                f"{where} must be an array or a number, not {type(value).__name__}"
                f"{_advice(kernel, value)}"
            )
        return Operand(param, value, None, None, where=where)
    view = view_of(where, library, value)
    check_ndim(where, len(view.shape))
    if output or param.non_const:
        from kspec.runtime.libraries.aliasing import check_writable

        check_writable(where, library, view)
    check_alignment(where, view)
    return Operand(param, value, view, library, output, where)


def _advice(kernel: str, value: object) -> str:
    """Return advice for a value that a call does not take."""
    module = type(value).__module__
    if module == "dask.delayed":
        return " of Dask, which has no value yet; pass the result of its compute()"
    if module.partition(".")[0] == "dask":
        return f" of Dask; kspec.dask.apply({kernel}, ...) takes those"
    if isinstance(value, list | tuple):
        if not value or not all(hasattr(one, "shape") for one in value):
            return "; pass an array, such as numpy.asarray(...) of it"
        return f"; kspec.sharded.apply({kernel}, ...) takes lists of arrays on several devices"
    if hasattr(value, "__cupy_override_reduction_kernel__"):
        return ", a traced array; call the kernel outside of the fused function"
    return ""


def is_aligned(view: ArrayView) -> bool:
    """Return whether kernels can read the elements of an array where they are."""
    alignment = dtypes.lookup(view.dtype).alignment
    # NumPy leaves any stride along an axis without steps.
    steps = [stride for extent, stride in zip(view.shape, view.strides, strict=True) if extent > 1]
    return not view.size or not any(address % alignment for address in (view.ptr, *steps))


def check_alignment(where: str, view: ArrayView) -> None:
    """Raise `ArgumentTypeError` if kernels cannot read an array where it is."""
    if not is_aligned(view):
        raise ArgumentTypeError(
            f"{where} is not aligned: the addresses of {view.dtype} elements must be multiples "
            f"of {dtypes.lookup(view.dtype).alignment}; pass a copy"
        )


def _check_handle(where: str, kind: str, param: Param, value: object, output: bool) -> None:
    """Refuse a handle unless it is a texture given as a plain input of an elementwise kernel."""
    from kspec.runtime.arguments.opaque import SURFACE, kind_of

    if output or param.raw or param.non_const:
        raise ArgumentTypeError(f"{where} must be an array, not a {type(value).__name__}")
    if kind_of(value) == SURFACE:
        raise ArgumentTypeError(
            f"{where} is a surface; only raw kernels (kspec.RawKernel) take surfaces"
        )
    if kind != "elementwise":
        raise ArgumentTypeError(
            f"{where} is a texture, which a {kind} cannot read: read the texture in an elementwise "
            "kernel, and reduce what it returns"
        )


def _common_device(kernel: str, operands: Sequence[Operand]) -> Device | None:
    """Return the device of the arrays and textures of a call; None if there are none."""
    places: dict[Device, str] = {}
    for operand in operands:
        if operand.device is not None:
            places.setdefault(operand.device, operand.param.name)
    listed = [f"{name} on {device}" for device, name in places.items()]
    others = [one for one in operands if one.view is None]
    if HOST in places and others:
        from kspec.runtime.arguments.opaque import needs_cuda

        unnamed = (one.param.name for one in others if needs_cuda(one.value))
        listed += [f"{name} on a CUDA device" for name in unnamed]
    check_one_device(kernel, listed)
    return next(iter(places), None)
