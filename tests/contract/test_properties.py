"""2,000 random calls of each kind of kernel against NumPy.

Each draws a kernel of a small pool (so that few are compiled) with its dtypes, shapes, layouts,
broadcasting, scalars in place of arrays, and outputs given or not.  Whole numbers and single
floating-point operations must agree to the last bit; rows of the pool say otherwise in ulps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kspec
from kspec.model import dtypes
from kspec.runtime.memory import numpy_dtype
from tests.contract.drawing import (
    Layout,
    Memory,
    Shape,
    axis_forms,
    elements,
    layouts,
    parts,
    reference_axes,
    scalar,
    shapes,
)
from tests.devices import ArrayDevice
from tests.profiles import examples

EVERY = tuple(row.name for row in dtypes.TABLE)
drawn = settings(
    max_examples=examples(2000),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)

Reference = Callable[[SimpleNamespace], tuple[Any, ...]]


@dataclass(frozen=True)
class Row:
    """A kernel of the pool.

    Attributes
    ----------
    kernel : ElementwiseKernel or ReductionKernel
        What is called.
    bindings : tuple of str
        dtypes of its placeholders in order, separated by spaces.
    reference : callable
        Its outputs from the elements: inputs, `i`, and outputs as they were.
    floats : {"whole", "normal", "any"}
        Which floats are drawn; `any`: infinities, NaN and denormal numbers too.
    reads_outputs : bool
        Whether outputs must be given.
    ulps : int
        How far the last bit may be off, per element that is folded.
    """

    kernel: Any
    bindings: tuple[str, ...]
    reference: Reference
    floats: str = "whole"
    reads_outputs: bool = False
    ulps: int = 0

    def dtype_of(self, param: Any, binding: str) -> str:
        letters = self.kernel.declaration.placeholders
        return dict(zip(letters, binding.split(), strict=True)).get(param.type, param.type)


def _wide(x: Any) -> Any:
    """Return floats of 16 bits and fewer as 32-bit ones, in which they compute."""
    return x.astype("f4") if x.dtype.name.startswith(("float8", "float16", "bfloat16")) else x


ELEMENTWISE = (
    Row(
        kspec.ElementwiseKernel("T x, T y", "T s, T p", "s = x + y; p = x * y", "sum_and_product"),
        EVERY,
        lambda e: (_wide(e.x) + _wide(e.y), _wide(e.x) * _wide(e.y)),
        floats="any",
    ),
    Row(
        kspec.ElementwiseKernel("S x", "T y", "y = x", "convert"),
        (
            *("int32 float64", "float64 float32", "float32 bfloat16", "bfloat16 float32"),
            *("float16 float32", "uint8 float16", "bool int32", "int64 complex128"),
        ),
        lambda e: (e.x,),
        floats="any",
        reads_outputs=True,
    ),
    Row(
        kspec.ElementwiseKernel(
            "bool m, T x, T y, float64 w", "T z, float64 v", "z = m ? x : y; v = m ? w : -w", "pick"
        ),
        ("int16", "complex64"),
        lambda e: (np.where(e.m, e.x, e.y), np.where(e.m, e.w, -e.w)),
    ),
    Row(
        kspec.ElementwiseKernel(
            "T x, int32 k", "T y", "if (k % 2) continue; y += x", "accumulate_even"
        ),
        ("float64",),
        lambda e: (np.where(e.k % 2, e.y, e.y + e.x),),
        reads_outputs=True,
    ),
    Row(
        kspec.ElementwiseKernel("T x", "int64 y, T z", "y = i * 7 + n; z = x", "number"),
        ("uint16",),
        lambda e: (e.i * 7 + e.i.size, e.x),
    ),
    Row(
        kspec.ElementwiseKernel(
            "T x, raw S w", "T y", "y = x + w[(i * 5 + 3) % w.size()]", "gather"
        ),
        ("float64 int32",),
        lambda e: (e.x + e.w.ravel()[(e.i * 5 + 3) % e.w.size],),
    ),
    Row(
        kspec.ElementwiseKernel("T x, _non_const T w", "", "w = w - x", "subtract_in_place"),
        ("int64",),
        lambda e: (e.w - e.x,),
    ),
    Row(
        kspec.ElementwiseKernel("T x, T y", "T z", "z = exp(x) * y", "exponential"),
        ("float32", "float64"),
        lambda e: (np.exp(e.x.astype("g")) * e.y,),
        floats="any",
        ulps=4,
    ),
)

_BEST = """
struct Best { T value; long long place; };
__device__ Best better(Best a, Best b) {
  return a.value > b.value || (a.value == b.value && a.place < b.place) ? a : b;
}
"""
REDUCTIONS = (
    Row(
        kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total"),
        EVERY,
        lambda e: (_wide(e.x).sum(axis=-1),),
    ),
    Row(
        kspec.ReductionKernel("T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot"),
        ("int32", "complex128"),
        lambda e: ((e.x * e.y).sum(axis=-1),),
    ),
    Row(
        kspec.ReductionKernel("T x, T y", "T z", "x * y + 1", "a + b", "z = a", "0", "dot_plus"),
        ("float32", "float16"),
        lambda e: ((_wide(e.x).astype("f8") * e.y + 1).sum(axis=-1),),
        floats="normal",
        ulps=2,
    ),
    Row(
        kspec.ReductionKernel("T x", "T y", "x", "min(a, b)", "y = a", None, "minimum"),
        ("int16", "float32", "uint64"),
        lambda e: (e.x.min(axis=-1),),
    ),
    Row(
        kspec.ReductionKernel(
            "T x", "int64 y", "x * (_J + 1000 * _i)", "a + b", "y = a", 10, "places"
        ),
        ("int64",),
        lambda e: ((e.x * (e.J + 1000 * e.i[..., None])).sum(axis=-1) + 10,),
    ),
    Row(
        kspec.ReductionKernel(
            "T x", "T s, int64 n", "x", "a + b", "s = a; n = _in_ind.size()", "0", "counted"
        ),
        ("float64",),
        lambda e: (e.x.sum(axis=-1), np.full(e.i.shape, e.x.size)),
    ),
    Row(
        kspec.ReductionKernel(
            "T x, raw T w", "T y", "x * w[_J % w.size()]", "a + b", "y = a", "0", "weighted"
        ),
        ("int64",),
        lambda e: ((e.x * e.w.ravel()[e.J % e.w.size]).sum(axis=-1),),
    ),
    Row(
        kspec.ReductionKernel(
            "T x",
            "T high, int64 place",
            "Best{x, _J}",
            "better(a, b)",
            "high = a.value; place = a.place",
            None,
            "best_of",
            reduce_type="Best",
            preamble=_BEST,
        ),
        ("int8",),
        lambda e: (e.x.max(axis=-1), e.x.argmax(axis=-1)),
    ),
    Row(
        kspec.ReductionKernel("S x", "T y", "x", "a + b", "y = a", "0", "widened"),
        ("int16 int64", "float32 float64"),
        lambda e: (e.x.astype("f8").sum(axis=-1),),
        reads_outputs=True,
    ),
)


@dataclass(frozen=True)
class Case:
    """A call: what each operand is, in memory or as a scalar, and how outputs are given."""

    row: Row
    binding: str
    shape: Shape
    inputs: tuple[Layout | bool, ...]  # a scalar: whether it is one of Python's
    outputs: tuple[Layout, ...]
    seed: int
    axis: Any = None
    keepdims: bool = False
    by_keyword: bool = False

    def __str__(self) -> str:
        return f"{self.row.kernel.__name__}<{self.binding}> {self.inputs} -> {self.outputs}"


def _choose(draw: Any, pool: tuple[Row, ...]) -> tuple[Row, str]:
    return draw(st.sampled_from([(row, binding) for row in pool for binding in row.bindings]))


def _scalars(draw: Any, row: Row, outputs_bind: bool) -> list[bool]:
    """Draw which inputs are scalars, so that every type is bound and a loop has a shape."""
    declaration = row.kernel.declaration
    free = [not (param.raw or param.non_const) for param in declaration.inputs]
    scalars = [may and draw(st.integers(0, 3)) == 0 for may in free]
    bound = {p.type for p in declaration.outputs} if outputs_bind else set()
    bound |= {p.type for p, one in zip(declaration.inputs, scalars, strict=True) if not one}
    looped = outputs_bind or any(
        not (param.raw or one) for param, one in zip(declaration.inputs, scalars, strict=True)
    )
    for position, param in enumerate(declaration.inputs):
        unbound = param.is_placeholder and param.type not in bound
        if scalars[position] and (unbound or not looped):
            scalars[position], looped = False, True
            bound.add(param.type)
    return scalars


def _input(draw: Any, param: Any, is_scalar: bool, full: Shape) -> Layout | bool:
    if is_scalar:
        return draw(st.booleans())
    if param.raw:
        extents = draw(st.lists(st.integers(1, 4), max_size=2))
        return draw(layouts(tuple(extents), written=False))
    shape = full if param.non_const else draw(parts(full))
    return draw(layouts(shape, written=param.non_const))


def _broadcast(row: Row, inputs: list[Layout | bool]) -> Shape:
    looped = zip(row.kernel.declaration.inputs, inputs, strict=True)
    return np.broadcast_shapes(
        *(one.shape for param, one in looped if isinstance(one, Layout) and not param.raw)
    )


@st.composite
def elementwise_calls(draw: Any) -> Case:
    row, binding = _choose(draw, ELEMENTWISE)
    full = draw(shapes())
    outputs = row.kernel.declaration.outputs
    given = bool(outputs) and (row.reads_outputs or draw(st.booleans()))
    scalars = _scalars(draw, row, given)
    inputs = [
        _input(draw, param, one, full)
        for param, one in zip(row.kernel.declaration.inputs, scalars, strict=True)
    ]
    targets = tuple(draw(layouts(full, written=True)) for _ in outputs) if given else ()
    shape = full if given else _broadcast(row, inputs)
    return Case(row, binding, shape, tuple(inputs), targets, draw(st.integers(0, 999)))


@st.composite
def reduction_calls(draw: Any) -> Case:
    row, binding = _choose(draw, REDUCTIONS)
    full = draw(shapes(max_dims=5))
    scalars = _scalars(draw, row, False)
    inputs = [
        _input(draw, param, one, full)
        for param, one in zip(row.kernel.declaration.inputs, scalars, strict=True)
    ]
    shape = _broadcast(row, inputs)
    axis, keepdims = draw(axis_forms(len(shape))), draw(st.booleans())
    reduced = reference_axes(axis, len(shape))
    result = tuple(
        1 if number in reduced else extent
        for number, extent in enumerate(shape)
        if keepdims or number not in reduced
    )
    given = row.reads_outputs or draw(st.booleans())
    outputs = row.kernel.declaration.outputs
    targets = tuple(draw(layouts(result, written=True)) for _ in outputs) if given else ()
    return Case(
        row,
        binding,
        shape,
        tuple(inputs),
        targets,
        draw(st.integers(0, 999)),
        axis,
        keepdims,
        draw(st.booleans()),
    )


class _Operands:
    """The operands of a case on a device."""

    def __init__(self, case: Case, place: ArrayDevice) -> None:
        self.random = np.random.default_rng(case.seed)
        self.declaration = case.row.kernel.declaration
        self.case, self.place = case, place
        self.values: dict[str, Any] = {}
        self.inputs = [
            self._one(param, plan)
            for param, plan in zip(self.declaration.inputs, case.inputs, strict=True)
        ]
        self.outputs = [
            self._one(param, plan)
            for param, plan in zip(
                self.declaration.outputs, case.outputs, strict=bool(case.outputs)
            )
        ]

    def dtype(self, param: Any) -> str:
        return self.case.row.dtype_of(param, self.case.binding)

    def _one(self, param: Any, plan: Layout | bool) -> Any:
        count = plan.total if isinstance(plan, Layout) else 1
        buffer = elements(self.dtype(param), count, self.random, self.case.row.floats)
        if isinstance(plan, Layout):
            memory = Memory(plan, buffer, self.place)
            self.values[param.name] = memory.view.copy()
            return memory
        self.values[param.name] = buffer.reshape(())
        return scalar(buffer[0], plan)

    def arguments(self) -> list[Any]:
        return [one.array if isinstance(one, Memory) else one for one in self.inputs]

    def compare(self, given: list[Any], results: tuple[Any, ...], expected: list[Any]) -> None:
        """Compare results with the expectation, and the memory around them with what it was."""
        assert len(results) == len(expected)
        for k, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            found = self.place.numpy(result)
            assert found.shape == wanted.shape and found.dtype == wanted.dtype
            self._compare(found, wanted)
            if given:
                assert result is given[k]
                self.outputs[k].view[...] = found
        for memory in (*self.inputs, *self.outputs):
            if isinstance(memory, Memory):
                memory.check()

    def _compare(self, found: Any, wanted: Any) -> None:
        ulps = self.case.row.ulps
        if not ulps:
            # To NumPy a NaN of bfloat16 is no NaN.
            np.testing.assert_array_equal(_wide(found), _wide(wanted))
            return
        finite = np.isfinite(wanted)
        np.testing.assert_array_equal(found[~finite], wanted[~finite])
        scale = self.values.get("scale", np.abs(wanted).astype("f8"))[finite]
        tolerance = ulps * (np.finfo(found.dtype).eps * scale + np.finfo(found.dtype).tiny)
        error = np.abs(found[finite].astype("f8") - wanted[finite].astype("f8"))
        assert (error <= tolerance).all()


@pytest.mark.slow
@drawn
@given(elementwise_calls())
def test_elementwise_calls_are_those_of_numpy(place: ArrayDevice, case: Case) -> None:
    operands = _Operands(case, place)
    size = int(np.prod(case.shape, dtype=int))
    raw = {param.name for param in operands.declaration.inputs if param.raw}
    looped = {
        name: value if name in raw else np.broadcast_to(value, case.shape)
        for name, value in operands.values.items()
    }
    looped["i"] = np.arange(size).reshape(case.shape)
    with np.errstate(all="ignore"):
        expected = list(case.row.reference(SimpleNamespace(**looped)))
        kinds = [operands.dtype(param) for param in operands.declaration.outputs]
        if not kinds:  # the modified input
            operands.inputs[1].view[...] = expected.pop()
        expected = [
            np.asarray(one).astype(numpy_dtype(kind))
            for one, kind in zip(expected, kinds, strict=True)
        ]
    given = [memory.array for memory in operands.outputs]
    results = case.row.kernel(*operands.arguments(), *given)
    results = results if isinstance(results, tuple) else (results,)
    operands.compare(given, results, expected)


@pytest.mark.slow
@drawn
@given(reduction_calls())
def test_reductions_are_those_of_numpy(place: ArrayDevice, case: Case) -> None:
    operands = _Operands(case, place)
    kernel, declaration = case.row.kernel, operands.declaration
    given = [memory.array for memory in operands.outputs]
    keywords = {"axis": case.axis, "keepdims": case.keepdims}
    positional = [*operands.arguments(), *given]
    if case.by_keyword and given:
        positional, keywords["out"] = operands.arguments(), tuple(given)
    reduced = reference_axes(case.axis, len(case.shape))
    kept = [axis for axis in range(len(case.shape)) if axis not in reduced]
    outer = tuple(case.shape[axis] for axis in kept)
    length = int(np.prod([case.shape[axis] for axis in reduced], dtype=int))
    if length == 0 and 0 not in outer and not declaration.has_identity:
        with pytest.raises(ValueError, match="has no identity"):
            kernel(*positional, **keywords)
        operands.compare([], (), [])
        return
    shown = {}
    for param in declaration.inputs:
        value = operands.values[param.name]
        if not param.raw:
            whole = np.broadcast_to(value, case.shape)
            value = whole.transpose(*kept, *reduced).reshape(*outer, length)
        shown[param.name] = value
    shown["i"] = np.arange(int(np.prod(outer, dtype=int))).reshape(outer)
    shown["J"] = np.arange(length)
    result_shape = tuple(
        1 if axis in reduced else extent
        for axis, extent in enumerate(case.shape)
        if case.keepdims or axis not in reduced
    )
    with np.errstate(all="ignore"):
        if 0 in outer:
            expected = [np.zeros(result_shape)] * len(declaration.outputs)
        else:
            expected = list(case.row.reference(SimpleNamespace(**shown)))
        expected = [
            np.asarray(one).reshape(result_shape).astype(numpy_dtype(operands.dtype(param)))
            for one, param in zip(expected, declaration.outputs, strict=True)
        ]
        if case.row.ulps and 0 not in outer:
            terms = np.abs(_wide(shown["x"]).astype("f8") * shown["y"]) + 1
            operands.values["scale"] = terms.sum(axis=-1).reshape(result_shape) * (1 + length / 256)
    results = kernel(*positional, **keywords)
    results = results if isinstance(results, tuple) else (results,)
    operands.compare(given, results, expected)
