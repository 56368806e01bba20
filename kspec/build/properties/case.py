"""One call of a kernel, as data: it can be made, and given to the reference.

>>> steps = ArrayLayout((1, 0), (0, 0), (1, -2))
>>> x = ArrayArgument("x", (2, 3), "float32", Values((1.0, 2.0)), steps)
>>> x.source()
'np.zeros((6, 2), "float32").transpose((1, 0))[::1, ::-2]'
>>> x.make().tolist()
[[1.0, 2.0, 1.0], [2.0, 1.0, 2.0]]

`kspec.build.properties.strategies` draws cases, `kspec.build.properties.runner` runs them, and
`kspec.build.properties.reproducer` prints them as Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.build.properties.examples import ExampleCall, as_numpy, bind_call, with_values
from kspec.build.properties.forms import FormPiece, pieces_of
from kspec.dataclass import dataclass
from kspec.model import dtypes
from kspec.model.forms.kinds import REDUCE
from kspec.model.forms.options import indices_of
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import device_array as arrays
from kspec.runtime.memory import numpy_dtype
from kspec.spec.models import RawSpec, Spec

_ALIKE = 3  # so many equal neighbours are written out

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Values:
    """Elements of an array: a few that repeat, or random ones.

    Attributes
    ----------
    pattern : tuple
        What repeats, in C order; empty: random numbers.
    seed : int
        Of the random numbers.
    low, high : float
        Their range.
    ascending : bool
        Whether they are sorted along the last axis.
    """

    pattern: tuple[Any, ...] = ()
    seed: int = 0
    low: float = -1.0
    high: float = 1.0
    ascending: bool = False

    def make(self, shape: Shape, dtype: str) -> Array:
        """Return them as a C-ordered array."""
        with np.errstate(all="ignore"):
            found = self._unsorted(shape, dtype)
            return (np.sort(found) if self.ascending else found).astype(numpy_dtype(dtype))

    def _unsorted(self, shape: Shape, dtype: str) -> Array:
        if self.pattern:
            return np.resize(np.array(self.pattern), shape)
        generator = np.random.default_rng(self.seed)
        found: Array
        if dtypes.lookup(dtype).kind in "iub":
            low, high = int(self.low), int(self.high)
            found = generator.integers(low, high, shape, endpoint=True)
        else:
            found = generator.uniform(self.low, self.high, shape)
        if dtypes.lookup(dtype).kind == "c":
            found = found + 1j * generator.uniform(self.low, self.high, shape)
        return np.asarray(found)

    def source(self, shape: Shape, dtype: str) -> str:
        """Return Python that makes them, but for the last conversion to the dtype."""
        found = self._unsorted_source(shape, dtype)
        return f"np.sort({found})" if self.ascending else found

    def _unsorted_source(self, shape: Shape, dtype: str) -> str:
        if self.pattern:
            return f"np.resize({_shortest(self.pattern)}, {shape})"
        generator = f"np.random.default_rng({self.seed})"
        if dtypes.lookup(dtype).kind in "iub":
            return (
                f"{generator}.integers({int(self.low)}, {int(self.high)}, {shape}, endpoint=True)"
            )
        if dtypes.lookup(dtype).kind == "c":
            uniform = f"random.uniform({self.low}, {self.high}, {shape})"
            return f"(lambda random: {uniform} + 1j * {uniform})({generator})"
        return f"{generator}.uniform({self.low}, {self.high}, {shape})"


def _shortest(pattern: tuple[Any, ...]) -> str:
    """Return Python for the fewest elements that make the same when they are repeated.

    >>> _shortest((1, 2, 1, 2)), _shortest((0, 7, 7, 7, 7, 7))
    ('[1, 2]', '[0, *[7] * 5]')
    """
    shown = [literal(one) for one in pattern]  # tells -0.0 from 0.0, and NaN is NaN
    count = len(pattern)
    periods = (n for n in range(1, count) if count % n == 0 and shown == shown[:n] * (count // n))
    written: list[str] = []
    for text, alike in groupby(shown[: next(periods, count)]):
        times = len([*alike])
        written += [text] * times if times <= _ALIKE else [f"*[{text}] * {times}"]
    return f"[{', '.join(written)}]"


@dataclass(frozen=True)
class ArrayLayout:
    """Layout of an array in memory: a C-ordered block, transposed, then sliced.

    Attributes
    ----------
    order : tuple of int
        Argument of ``transpose``.
    starts, steps : tuple of int
        Of the slice of each axis.
    """

    order: Shape
    starts: Shape
    steps: Shape

    @classmethod
    def plain(cls, ndim: int) -> ArrayLayout:
        """Return that of a C-ordered array."""
        return cls(tuple(range(ndim)), (0,) * ndim, (1,) * ndim)

    @property
    def is_plain(self) -> bool:
        """Whether the array is all of its block, in C order."""
        return self == ArrayLayout.plain(len(self.order))

    def block(self, shape: Shape) -> Shape:
        """Return the shape of the block that holds an array of this shape."""
        extents = [
            extent * abs(step) + start
            for extent, start, step in zip(shape, self.starts, self.steps, strict=True)
        ]
        block = [0] * len(shape)
        for axis, extent in zip(self.order, extents, strict=True):
            block[axis] = extent
        return tuple(block)

    def view(self, block: Any) -> Any:
        """Return the array in a block."""
        if self.is_plain:
            return block
        slices = tuple(
            slice(a or None, None, b) for a, b in zip(self.starts, self.steps, strict=True)
        )
        return block.transpose(self.order)[slices]

    def source(self) -> str:
        """Return Python that does the same to what stands in front of it."""
        if self.is_plain:
            return ""
        slices = ", ".join(f"{a or ''}::{b}" for a, b in zip(self.starts, self.steps, strict=True))
        moved = self.order != tuple(range(len(self.order)))
        return f"{f'.transpose({self.order})' if moved else ''}[{slices}]"


@dataclass(frozen=True)
class ArrayArgument:
    """An array argument.

    Attributes
    ----------
    name : str
        Of the parameter.
    shape : tuple of int
        Its shape.
    dtype : str
        Name of its dtype.
    values : Values or None
        Its elements; None where the kernel only writes, so they start as zeros.
    layout : ArrayLayout
        Where they are.
    expression : str
        What the example makes of the elements; empty: it leaves them as they are.
    """

    name: str
    shape: Shape
    dtype: str
    values: Values | None
    layout: ArrayLayout
    expression: str = ""

    def content(self) -> Array:
        """Return its elements as a C-ordered array."""
        if self.values is None:
            return np.zeros(self.shape, numpy_dtype(self.dtype))
        return with_values(self.name, self.values.make(self.shape, self.dtype), self.expression)

    def make(self, device: Device | None = None) -> Any:
        """Return it in its layout, as a NumPy array or on a CUDA device."""
        block = np.zeros(self.layout.block(self.shape), numpy_dtype(self.dtype))
        self.layout.view(block)[...] = self.content()
        if device is None or device.is_host:
            return self.layout.view(block)
        return self.layout.view(arrays.from_numpy(block, device))

    def source(self) -> str:
        """Return Python that makes it, with zeros."""
        block = f"np.zeros({self.layout.block(self.shape)}, {dtype_source(self.dtype)})"
        return f"{block}{self.layout.source()}"


@dataclass(frozen=True)
class Case:
    """One call of a kernel.

    Attributes
    ----------
    spec : Spec
        The kernel.
    function : str
        The generated function, with its module: ``"norms.l2norm"``.
    operands : tuple of Operand
        Its arrays.
    scalars : tuple of (str, object)
        Its numbers, by name.
    casts : mapping of str to str
        Dtypes that numbers given for arrays have in the kernel.
    order : tuple
        Positional arguments: names, or numbers.
    written : tuple of str
        Arguments that hold the results; empty: they are returned.
    keywords : tuple of (str, object)
        Keyword arguments.
    form : str
        The form of a reduction that is called, by a method of the function.
    out : tuple of str
        Arrays that are given for the outputs by keyword.
    """

    spec: Spec
    function: str
    operands: tuple[ArrayArgument, ...]
    scalars: tuple[tuple[str, Any], ...] = ()
    casts: Mapping[str, str] = field(default_factory=dict)
    order: tuple[Any, ...] = ()
    written: tuple[str, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()
    form: str = REDUCE
    out: tuple[str, ...] = ()

    def call(self) -> ExampleCall:
        """Return it as the reference sees it: plain arrays."""
        values: dict[str, Any] = {one.name: one.content() for one in self.operands}
        for name, value in self.scalars:
            cast = self.casts.get(name)
            values[name] = np.asarray(value).astype(numpy_dtype(cast)) if cast else value
        return ExampleCall(self.spec, values, self.order, self.written, dict(self.keywords))

    def run(self, function: Any, device: Device) -> tuple[Array, ...]:
        """Call the generated function on a device; return the results as NumPy arrays."""
        values: dict[str, Any] = {one.name: one.make(device) for one in self.operands}
        values |= dict(self.scalars)
        keywords = dict(self.keywords)
        if self.out:
            given = tuple(values[name] for name in self.out)
            keywords["out"] = given if len(given) > 1 else given[0]
        call = ExampleCall(self.spec, values, self.order, self.written, keywords)
        return as_numpy(bind_call(call, function, lambda array: array)())

    @property
    def looped(self) -> dict[str, Shape]:
        """The shapes of the inputs that broadcast, by name."""
        if isinstance(self.spec, RawSpec):
            return {}
        names = [one.name for one in self.spec.inputs if not one.raw]
        return {one.name: one.shape for one in self.operands if one.name in names}

    @property
    def loop(self) -> Shape:
        """The shape to which they broadcast."""
        return np.broadcast_shapes(*self.looped.values())

    def pieces(self) -> tuple[Shape, list[FormPiece]]:
        """Return the shape of a form's outputs, and the elements that they are made of."""
        names = indices_of(self.form)
        indices = [one.content().tolist() for one in self.operands if one.name in names]
        return pieces_of(self.form, self.loop, dict(self.keywords), *indices)

    def of_piece(self, call: ExampleCall, piece: FormPiece) -> ExampleCall:
        """Return the reduction of a piece of `call`, which is as `Case.call` returns it."""
        values = dict(call.values)
        for name in self.looped:
            values[name] = piece.of(np.broadcast_to(values[name], self.loop))
        return replace(call, values=values, keywords={"axis": piece.axes, "keepdims": False})


def dtype_source(name: str) -> str:
    """Return Python for a dtype."""
    row = numpy_dtype(name)
    return f'"{name}"' if row.names is None else repr(row).replace("dtype", "np.dtype", 1)


def literal(value: Any) -> str:
    """Return Python for numbers, infinities and NaN among them."""
    text = repr(value)
    return text.replace("inf", "np.inf").replace("nan", "np.nan")
