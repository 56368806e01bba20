"""One call of a kernel, as data: it can be made, given to the reference, and printed as Python.

>>> steps = ArrayLayout((1, 0), (0, 0), (1, -2))
>>> x = ArrayArgument("x", (2, 3), "float32", Values((1.0, 2.0)), steps)
>>> x.source()
'np.zeros((6, 2), "float32").transpose((1, 0))[::1, ::-2]'
>>> x.make().tolist()
[[1.0, 2.0, 1.0], [2.0, 1.0, 2.0]]

`kspec.build.properties.strategies` draws cases, `kspec.build.properties.runner` runs them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kspec.build.properties.examples import (
    ExampleCall,
    as_numpy,
    bind_call,
    launch_sizes,
    windows_of,
)
from kspec.model import dtypes
from kspec.model.neighbours.windows import BoundWindow
from kspec.runtime.driver.device import Device
from kspec.runtime.memory import device_array as arrays
from kspec.runtime.memory.array_view import numpy_dtype
from kspec.spec.models import RawSpec, Spec

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
    """

    pattern: tuple[Any, ...] = ()
    seed: int = 0
    low: float = -1.0
    high: float = 1.0

    def make(self, shape: Shape, dtype: str) -> Array:
        """Return them as a C-ordered array."""
        with np.errstate(all="ignore"):
            if self.pattern:
                return np.resize(np.array(self.pattern), shape).astype(numpy_dtype(dtype))
            generator = np.random.default_rng(self.seed)
            found: Array
            if dtypes.lookup(dtype).kind in "iub":
                low, high = int(self.low), int(self.high)
                found = generator.integers(low, high, shape, endpoint=True)
            else:
                found = generator.uniform(self.low, self.high, shape)
            if dtypes.lookup(dtype).kind == "c":
                found = found + 1j * generator.uniform(self.low, self.high, shape)
            return np.asarray(found).astype(numpy_dtype(dtype))

    def source(self, shape: Shape, dtype: str) -> str:
        """Return Python that makes them, but for the last conversion to the dtype."""
        if self.pattern:
            return f"np.resize({_literal(list(self.pattern))}, {shape})"
        generator = f"np.random.default_rng({self.seed})"
        if dtypes.lookup(dtype).kind in "iub":
            return (
                f"{generator}.integers({int(self.low)}, {int(self.high)}, {shape}, endpoint=True)"
            )
        if dtypes.lookup(dtype).kind == "c":
            uniform = f"random.uniform({self.low}, {self.high}, {shape})"
            return f"(lambda random: {uniform} + 1j * {uniform})({generator})"
        return f"{generator}.uniform({self.low}, {self.high}, {shape})"


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
    """An array argument; `values` is None where the kernel only writes, so it starts with zeros."""

    name: str
    shape: Shape
    dtype: str
    values: Values | None
    layout: ArrayLayout

    def content(self) -> Array:
        """Return its elements as a C-ordered array."""
        if self.values is None:
            return np.zeros(self.shape, numpy_dtype(self.dtype))
        return self.values.make(self.shape, self.dtype)

    def make(self, device: Device | None = None) -> Any:
        """Return it in its layout, as a NumPy array or on a CUDA device."""
        block = np.zeros(self.layout.block(self.shape), numpy_dtype(self.dtype))
        self.layout.view(block)[...] = self.content()
        if device is None or device.is_host:
            return self.layout.view(block)
        return self.layout.view(arrays.from_numpy(block, device))

    def source(self) -> str:
        """Return Python that makes it, with zeros."""
        return (
            f"np.zeros({self.layout.block(self.shape)}, {_dtype(self.dtype)}){self.layout.source()}"
        )


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
    """

    spec: Spec
    function: str
    operands: tuple[ArrayArgument, ...]
    scalars: tuple[tuple[str, Any], ...] = ()
    casts: Mapping[str, str] = field(default_factory=dict)
    order: tuple[Any, ...] = ()
    written: tuple[str, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()

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
        call = ExampleCall(self.spec, values, self.order, self.written, dict(self.keywords))
        return as_numpy(bind_call(call, function, lambda array: array)())

    def source(self, package: str, device: Device, tolerance: float) -> str:
        """Return Python to paste, which makes the call and compares it with the reference."""
        module = self.function.partition(".")[0]
        reference = textwrap.dedent((self.spec.reference or "").strip("\n")).strip()
        lines = [*self._imports(package, module, device, reference), ""]
        for one in self.operands:
            lines += _assignments(one, device)
        lines += [f"{name} = {_literal(value)}" for name, value in self.scalars]
        keywords = [f"{key}={value!r}" for key, value in self.keywords]
        passed = [str(one) if isinstance(one, str) else repr(one) for one in self.order]
        if isinstance(self.spec, RawSpec) and self.spec.params is None:
            passed = [f"({', '.join(passed)},)"]
        leading = map(repr, launch_sizes(self.spec))
        call = f"{self.function}({', '.join([*leading, *passed, *keywords])})"
        names = [one.name for one in self.operands] + [name for name, _ in self.scalars]
        seen = ("axis", "keepdims", "boundary", *self.spec.size_names)
        names += [key for key, _ in self.keywords if key in seen]
        keys = dict(self.keywords)
        exact = [self._exact_source(one, device, keys) for one in names]
        lines += [
            "# The reference, in double precision.",
            f"want = (lambda {', '.join(names)}: (",
            textwrap.indent(reference, "    "),
            f"))({', '.join(exact)})",
        ]
        lines += [call, f"got = {_one(self.written)}"] if self.written else [f"got = {call}"]
        fetch = "kspec.asnumpy(a)" if not device.is_host else "a"
        lines += [
            "several = isinstance(got, tuple)",
            "for a, b in zip(got, want) if several else [(got, want)]:",
            "    np.testing.assert_allclose(",
            f"        {fetch}.astype(np.asarray(b).dtype), b,",
            f"        rtol={tolerance!r}, atol={tolerance!r},",
            "    )",
        ]
        return "\n".join(lines)

    def _imports(self, package: str, module: str, device: Device, reference: str) -> list[str]:
        lines = ["import math", ""] if "math." in reference else []
        lines.append("import numpy as np")
        if not device.is_host:
            lines.append("import kspec")
        if any("bfloat" in one.dtype or "float8" in one.dtype for one in self.operands):
            lines.append("import ml_dtypes  # registers its dtypes with NumPy")
        lines.append(f"from {package} import {module}")
        if self._windows:
            lines.append("from kspec.build.properties.windowed import WindowedArray")
            lines.append("from kspec.model.neighbours.windows import BoundWindow")
        return lines

    @property
    def _windows(self) -> dict[str, BoundWindow]:
        return windows_of(self.spec, dict(self.keywords))

    def _exact_source(self, name: str, device: Device, keywords: Mapping[str, Any]) -> str:
        if name in keywords:
            return repr(keywords[name])
        for one in self.operands:
            if one.name == name:
                kind = dtypes.lookup(one.dtype).kind
                wide = {"f": "float", "c": "complex"}.get(kind)
                host = f"{name}_" if not device.is_host else name
                exact = f"{host}.astype({wide})" if wide else f"{host}.copy()"
                window = self._windows.get(name)
                return f"WindowedArray.of({exact}, {window!r})" if window else exact
        return f"np.asarray({name})" if name in self.casts else name


def _assignments(one: ArrayArgument, device: Device) -> list[str]:
    values = "" if one.values is None else one.values.source(one.shape, one.dtype)
    if device.is_host:
        lines = [f"{one.name} = {one.source()}"]
        return [*lines, f"{one.name}[...] = {values}"] if values else lines
    block = f"np.zeros({one.layout.block(one.shape)}, {_dtype(one.dtype)})"
    lines = [f"block = {block}", f"{one.name}_ = block{one.layout.source()}"]
    lines += [f"{one.name}_[...] = {values}"] if values else []
    where = f'kspec.asarray(block, device="{device}")'
    return [*lines, f"{one.name} = {where}{one.layout.source()}"]


def _one(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"({', '.join(names)})"


def _dtype(name: str) -> str:
    row = numpy_dtype(name)
    return f'"{name}"' if row.names is None else repr(row).replace("dtype", "np.dtype", 1)


def _literal(value: Any) -> str:
    text = repr(value)
    return text.replace("inf", "np.inf").replace("nan", "np.nan")
