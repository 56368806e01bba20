"""Specs in, Hypothesis strategies for calls of their kernels out.

Dtypes are those that the spec lists. Shapes broadcast, are empty, odd and large; arrays are
transposed, reversed and have gaps; reductions have every axis there is.  Where a kernel's shapes
hang together in a way that only its example knows, they are the example's (`_free_shapes`).
`kspec.build.properties.form_strategies` does the same for other forms of reductions.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from kspec.build.properties import examples
from kspec.build.properties.case import ArrayArgument, ArrayLayout, Case, Shape, Values
from kspec.build.properties.dimensions import drawn_sizes, loop_axes, with_core
from kspec.errors import SpecError
from kspec.model import dtypes
from kspec.model.neighbours.windows import BoundWindow
from kspec.model.signature import Param
from kspec.runtime.memory import dtype_name
from kspec.spec.base import Example
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec

_MANY = (257,), (1023,), (33, 65), (4097,), (31, 3, 17), (3, 1025), (1025, 3)
# What failures shrink to: Hypothesis takes what needs one choice for simpler than `array_shapes`.
_FEW = (1,), (2,), (3,), (5,), (2, 3)
_PATTERN = 7  # an odd number of elements repeats
_SEED_BITS = 16
_MOST_ELEMENTS = 1 << 18  # of an array of items
_SPAN = 100  # of integers, where the example does not say
_EACH_INDEX = re.compile(r"_ind\s*\.\s*get")
NO_EXAMPLE = Example.model_validate({})
NO_SIZES: Mapping[str, int] = MappingProxyType({})


def cases(spec: Spec, function: str) -> st.SearchStrategy[Case]:
    """Return the calls that a kernel is tested with.

    Parameters
    ----------
    spec : Spec
        A kernel with a reference.
    function : str
        The generated function, with its module.

    Raises
    ------
    SpecError
        If it cannot be called without an example, and there is none.
    """
    if isinstance(spec, RawSpec):
        return _raw_cases(spec, function)
    if _all_raw(spec) and spec.example is None:
        raise SpecError(f"kernel {spec.name!r} indexes all its arrays: it needs an example")
    return _generated_cases(spec, function)


def bindings_of(spec: ElementwiseSpec | ReductionSpec) -> tuple[Mapping[str, str], ...]:
    """Return the types that a kernel is tested with: what it lists, or else its example's."""
    listed = tuple(dict(binding) for binding in spec.bindings())
    if listed:
        return listed
    given = spec.example.types if spec.example else {}
    named = {letter: dtypes.canonical_name(name) for letter, name in given.items()}
    return ({letter: named.get(letter, "float32") for letter in spec.placeholders},)


@st.composite
def _generated_cases(draw: st.DrawFn, spec: ElementwiseSpec | ReductionSpec, function: str) -> Case:
    example = spec.example or NO_EXAMPLE
    binding = draw(st.sampled_from(bindings_of(spec)))
    sizes = draw(drawn_sizes(spec, example, free=_free_shapes(spec, example)))
    near = draw(_window_keywords(spec, example, sizes))
    windows = examples.windows_of(spec, near)
    drawn = draw(drawn_inputs(spec, example, binding, windows, sizes=sizes))
    operands, scalars, casts, loop = drawn
    keywords = {**draw(_keywords(spec, example, loop)), **near}
    order = [param.name for param in spec.inputs]
    written = [param.name for param in spec.inputs if param.non_const]
    if outputs_needed(spec, operands, example) or (spec.outputs.params and draw(st.booleans())):
        result = _result_shape(spec, loop, keywords, example)
        for param in spec.outputs:
            dtype = binding.get(param.type, param.type)
            shape = example.shapes[param.name] if param.raw else with_core(param, result, sizes)
            layout = draw(layouts(shape)) if not param.raw else ArrayLayout.plain(len(shape))
            operands.append(ArrayArgument(param.name, shape, dtype, None, layout))
            order.append(param.name)
            written.append(param.name)
    returns = isinstance(spec, ReductionSpec) or not spec.no_return
    return Case(
        spec,
        function,
        tuple(operands),
        tuple(scalars),
        casts,
        tuple(order),
        () if returns else tuple(written),
        tuple(keywords.items()),
    )


@st.composite
def drawn_inputs(
    draw: st.DrawFn,
    spec: ElementwiseSpec | ReductionSpec,
    example: Example,
    binding: Mapping[str, str],
    windows: Mapping[str, BoundWindow],
    least: int = 0,
    sizes: Mapping[str, int] = NO_SIZES,
) -> tuple[list[ArrayArgument], list[tuple[str, Any]], dict[str, str], Shape]:
    """Return the inputs of a call: arrays, numbers, these numbers' dtypes, and the loop's shape.

    `least`: number of axes that the loop has at least; `sizes`: those of core dimensions.
    """
    shapes, loop = draw(_shapes(spec, example, windows, least, sizes))
    operands: list[ArrayArgument] = []
    scalars: list[tuple[str, Any]] = []
    casts: dict[str, str] = {}
    numbers = _numbers_instead(spec, draw)
    for param in spec.inputs:
        dtype = binding.get(param.type, param.type)
        if param.name in spec.declaration().scalars or param.name in numbers:
            value = draw(_number(param, dtype, example))
            scalars.append((param.name, value))
            if param.name in numbers:
                casts[param.name] = dtype
        else:
            operands.append(draw(_operand(param.name, shapes[param.name], dtype, example)))
    return operands, scalars, casts, _loop_shape(spec, operands, loop, windows)


@st.composite
def _raw_cases(draw: st.DrawFn, spec: RawSpec, function: str) -> Case:
    example = spec.example
    if example is None:
        raise SpecError(f"kernel {spec.name!r} is launched by its example: it needs one")
    expression = draw(st.sampled_from(spec.declaration().name_expressions))
    if example.name_expression or spec.params:
        chosen = example.model_copy(
            update={"name_expression": expression, "types": {}, "sizes": {}}
        )
        call = examples.make_call(spec.model_copy(update={"example": chosen}))
    else:
        call = examples.make_call(spec)
    arrays = [name for name, value in call.values.items() if isinstance(value, np.ndarray)]
    size = draw(_sizes(spec, example))
    operands = []
    scalars = []
    for name, value in call.values.items():
        if isinstance(value, np.ndarray):
            shape = value.shape if size is None else (size,) * value.ndim
            dtype = dtype_name(value.dtype)
            values = draw(_values(dtype, example))
            operands.append(
                ArrayArgument(
                    name,
                    shape,
                    dtype,
                    values,
                    ArrayLayout.plain(len(shape)),
                    example.values.get(name, ""),
                )
            )
        else:
            scalars.append((name, value))
    # Arrays by keyword are those of the case.
    keywords = {name: None if name in arrays else one for name, one in call.keywords.items()}
    return Case(
        spec,
        function,
        tuple(operands),
        tuple(scalars),
        {},
        call.order,
        call.written,
        tuple(keywords.items()),
    )


def _sizes(spec: RawSpec, example: Example) -> st.SearchStrategy[int | None]:
    """Return lengths of all arrays, where the launch follows from them; else None."""
    extents = {extent for shape in example.shapes.values() for extent in shape}
    one_length = len(extents) == 1 and all(len(one) <= 1 for one in example.shapes.values())
    named = extents & {value for value in example.scalars.values() if not isinstance(value, bool)}
    if example.fixed_shapes or not spec.launch_rules.complete or not one_length or named:
        return st.none()
    return st.sampled_from([1, 0, 2, 31, 33, 255, 257, 1023, 4097])


@st.composite
def _window_keywords(
    draw: st.DrawFn,
    spec: ElementwiseSpec | ReductionSpec,
    example: Example,
    core: Mapping[str, int],
) -> dict[str, Any]:
    """Return the boundary and the sizes of a call, given those of kernels with core dimensions."""
    if isinstance(spec, ReductionSpec):
        return {}
    keywords = examples.window_keywords(spec, example)
    if not _free_shapes(spec, example):
        return keywords
    if spec.boundaries:
        keywords["boundary"] = draw(st.sampled_from(spec.boundaries))
    # Arrays of weights are as long as the example's sizes want them.
    if spec.has_core:
        keywords |= {name: core[name] for name in spec.given_sizes}
    elif not _own_shapes(spec):
        keywords |= {
            name: draw(st.sampled_from(one)) for name, one in spec.given_sizes.items() if one
        }
    return keywords


def _own_shapes(spec: ElementwiseSpec | ReductionSpec) -> bool:
    """Whether raw arrays have shapes of their own: the operation does not know the element."""
    if not isinstance(spec, ElementwiseSpec) or not any(one.raw for one in spec.inputs):
        return False
    declaration = spec.declaration()
    alike = declaration.ordered or declaration.counts or any(one.raw for one in spec.outputs)
    return bool(spec.windows) and not alike


def _free_shapes(spec: ElementwiseSpec | ReductionSpec, example: Example) -> bool:
    """Whether any shapes will do: nothing is indexed by hand, or only in C order."""
    if example.fixed_shapes or _all_raw(spec):
        return False
    if _own_shapes(spec):
        return all(one.name in example.shapes for one in spec.inputs if one.raw)
    loop = _example_loop(spec, example)
    raw = [example.shapes.get(one.name) for one in spec.params if one.raw]
    same_size = all(one is not None and math.prod(one) == math.prod(loop) for one in raw)
    return same_size if raw and example.shapes else True


def _free_axes(spec: ElementwiseSpec | ReductionSpec) -> bool:
    """Whether any number of axes will do: the kernel does not look at the index of each."""
    text = " ".join([spec.preamble, *spec.fragments.values()])
    return spec.reduce_dims and not spec.raw_views and not _EACH_INDEX.search(text)


def _example_loop(spec: ElementwiseSpec | ReductionSpec, example: Example) -> Shape:
    windows: Mapping[str, BoundWindow] = {}
    if isinstance(spec, ElementwiseSpec):
        windows = examples.windows_of(spec, examples.window_keywords(spec, example))
    shapes = [
        _inside(one, example.shapes[one.name], windows)
        for one in spec.params
        if _loops(one, example)
    ]
    return np.broadcast_shapes(*shapes)


def _inside(param: Param, shape: Shape, windows: Mapping[str, BoundWindow]) -> Shape:
    """Return the shape of an input's elements, or items, that have a result."""
    if param.name in windows:
        return windows[param.name].shape_inside(shape)
    return loop_axes(param, shape)


def _loops(param: Param, example: Example) -> bool:
    return not param.raw and param.name in example.shapes


def _all_raw(spec: ElementwiseSpec | ReductionSpec) -> bool:
    scalars = spec.declaration().scalars
    return all(one.raw for one in spec.inputs if one.name not in scalars)


@st.composite
def _shapes(
    draw: st.DrawFn,
    spec: ElementwiseSpec | ReductionSpec,
    example: Example,
    windows: Mapping[str, BoundWindow],
    least: int,
    sizes: Mapping[str, int],
) -> tuple[dict[str, Shape], Shape]:
    """Return the shape of each input that is an array, and one they broadcast to."""
    scalars = spec.declaration().scalars
    names = [one.name for one in spec.inputs if one.name not in scalars]
    if not _free_shapes(spec, example):
        missing = [name for name in names if name not in example.shapes]
        if missing:
            raise SpecError(f"example of {spec.name!r}: give {missing[0]!r} a shape")
        return {name: example.shapes[name] for name in names}, _example_loop(spec, example)
    axes = max((len(one.reach) for one in windows.values()), default=0)
    most, least = max(4, axes + 1), max(axes, least)
    if not _free_axes(spec) and example.shapes:
        most = least = len(_example_loop(spec, example))
    nothing = isinstance(spec, ElementwiseSpec) or spec.declaration().has_identity
    small = npst.array_shapes(
        min_dims=least, max_dims=most, min_side=0 if nothing else 1, max_side=5
    )
    inputs = [one for one in spec.inputs if one.name not in scalars]
    item = max((math.prod(with_core(one, (), sizes)) for one in inputs), default=1)
    many = [
        shape
        for shape in _MANY
        if least <= len(shape) <= most and math.prod(shape) * item <= _MOST_ELEMENTS
    ]
    few = [shape for shape in _FEW if 0 < least <= len(shape) <= most]
    sorts = [*([st.sampled_from(few)] if few else []), small]
    loop = draw(st.one_of(*sorts, *([st.sampled_from(many)] if many else [])))
    found = {}
    full = False  # one array has them all, so that the others can do with less
    for param in inputs:
        if param.raw and _own_shapes(spec):
            found[param.name] = example.shapes[param.name]
        elif param.raw or not full or not _free_axes(spec):
            found[param.name] = (
                windows[param.name].shape_outside(loop) if param.name in windows else loop
            )
            full = full or not param.raw
        elif param.name in windows:
            split = len(loop) - len(windows[param.name].reach)
            shape = draw(_broadcastable(loop[:split])) + loop[split:]
            found[param.name] = windows[param.name].shape_outside(shape)
        else:
            found[param.name] = draw(_broadcastable(loop))
        found[param.name] = with_core(param, found[param.name], sizes)
    return found, loop


@st.composite
def _broadcastable(draw: st.DrawFn, loop: Shape) -> Shape:
    shape = tuple(draw(st.sampled_from([extent, 1])) for extent in loop)
    return shape[draw(st.integers(0, len(shape))) :]


def _loop_shape(
    spec: ElementwiseSpec | ReductionSpec,
    operands: Sequence[ArrayArgument],
    drawn: Shape,
    windows: Mapping[str, BoundWindow],
) -> Shape:
    """Return the broadcast shape of the drawn arrays; some have become numbers."""
    params = {one.name: one for one in spec.inputs if not one.raw}
    shapes = [
        _inside(params[one.name], one.shape, windows) for one in operands if one.name in params
    ]
    return np.broadcast_shapes(*shapes) if shapes else drawn


def _numbers_instead(spec: ElementwiseSpec | ReductionSpec, draw: st.DrawFn) -> set[str]:
    """Choose inputs that a number is given for; the arrays left still decide every type."""
    declaration = spec.declaration()
    if any(one.raw for one in spec.params) or (spec.example and spec.example.fixed_shapes):
        return set()  # shapes hang together
    arrays = [one for one in spec.inputs if one.name not in declaration.scalars]
    chosen: set[str] = set()
    for param in arrays[1:]:  # the first has the full shape
        if param.core or (isinstance(spec, ElementwiseSpec) and declaration.needs_array(param)):
            continue
        others = [one for one in arrays if one is not param and one.name not in chosen]
        typed = not param.is_placeholder or any(one.type == param.type for one in others)
        if typed and draw(st.integers(0, 3)) == 3:
            chosen.add(param.name)
    return chosen


def outputs_needed(
    spec: ElementwiseSpec | ReductionSpec, operands: Sequence[ArrayArgument], example: Example
) -> bool:
    """Whether a call must give the outputs, as the inputs do not say what they are."""
    arrays = {one.name for one in operands}
    known = {one.type for one in spec.inputs if one.name in arrays}
    free = any(one.is_placeholder and one.type not in known for one in spec.outputs)
    return free or not operands or any(one.raw for one in spec.outputs)


def _result_shape(
    spec: ElementwiseSpec | ReductionSpec,
    loop: Shape,
    keywords: Mapping[str, Any],
    example: Example,
) -> Shape:
    if isinstance(spec, ElementwiseSpec):
        return loop
    reduced = np.any(np.empty(loop, bool), axis=keywords["axis"], keepdims=keywords["keepdims"])
    return np.shape(reduced)


@st.composite
def _keywords(
    draw: st.DrawFn, spec: ElementwiseSpec | ReductionSpec, example: Example, loop: Shape
) -> dict[str, Any]:
    if isinstance(spec, ElementwiseSpec):
        return {"size": example.size} if _all_raw(spec) and example.size is not None else {}
    if example.fixed_shapes:
        return {"axis": example.axis, "keepdims": example.keepdims}
    choices: list[st.SearchStrategy[Any]] = [st.none()]
    if loop:
        choices.append(st.integers(-len(loop), len(loop) - 1))
        if takes_axes(spec):
            choices.append(npst.valid_tuple_axes(len(loop)))
    return {"axis": draw(st.one_of(choices)), "keepdims": draw(st.booleans())}


def takes_axes(spec: ReductionSpec) -> bool:
    """Whether a reference can reduce several axes, as `numpy.argmax` cannot."""
    binding = bindings_of(spec)[0]
    ones = Values((1,))
    scalars = spec.declaration().scalars
    given = spec.example.scalars if spec.example else {}
    operands = tuple(
        ArrayArgument(one.name, (2, 3), binding.get(one.type, one.type), ones, ArrayLayout.plain(2))
        for one in spec.inputs
        if one.name not in scalars
    )
    numbers = tuple((name, given.get(name, 1)) for name in scalars)
    keywords = (("axis", (0, 1)), ("keepdims", False))
    try:
        examples.expected(Case(spec, "", operands, numbers, keywords=keywords).call())
    except SpecError:
        return False
    return True


def _number(param: Param, dtype: str, example: Example) -> st.SearchStrategy[Any]:
    """Return numbers for a parameter: that of the example, which alone knows what they mean."""
    if param.name in example.scalars:
        value = example.scalars[param.name]
        kind = dtypes.lookup(dtype).kind
        return st.just(value if kind not in "fc" else float(value))
    return _elements(dtype, example, special=False)


@st.composite
def _operand(
    draw: st.DrawFn, name: str, shape: Shape, dtype: str, example: Example
) -> ArrayArgument:
    values, layout = draw(_values(dtype, example)), draw(layouts(shape))
    return ArrayArgument(name, shape, dtype, values, layout, example.values.get(name, ""))


def _values(dtype: str, example: Example) -> st.SearchStrategy[Values]:
    if dtypes.lookup(dtype).fields:
        return st.builds(Values, st.just(()), st.integers(0, 99), st.just(0.0), st.just(9.0))
    low, high = _span(dtype, example)
    patterns = st.lists(_elements(dtype, example), min_size=1, max_size=_PATTERN).map(tuple)
    # Hypothesis takes what needs fewer choices for simpler; patterns read better than seeds.
    bits = st.lists(st.booleans(), min_size=_SEED_BITS, max_size=_SEED_BITS)
    seeds = bits.map(lambda found: sum(bit << k for k, bit in enumerate(found)))
    random = st.builds(Values, st.just(()), seeds, st.just(low), st.just(high))
    return st.one_of(patterns.map(Values), random)


def _span(dtype: str, example: Example) -> tuple[float, float]:
    low, high = example.low, example.high
    kind = dtypes.lookup(dtype).kind
    if kind in "iu" and (low, high) == (-1.0, 1.0):
        low, high = -_SPAN, _SPAN
    return (max(0, low) if kind == "u" else low), high


def _elements(dtype: str, example: Example, special: bool = True) -> st.SearchStrategy[Any]:
    """Return single elements as Python numbers: in the example's range, or special ones."""
    low, high = _span(dtype, example)
    kind = dtypes.lookup(dtype).kind
    if kind == "b":
        return st.booleans()
    if kind in "iu":
        return st.integers(math.ceil(low), math.floor(high))
    # Few digits, so that they are the same in every dtype and read well.
    numbers = st.integers(math.ceil(8 * low), math.floor(8 * high)).map(lambda k: k / 8)
    special = special and example.special_values
    if kind == "c":
        parts = st.builds(complex, numbers, numbers)
        # What infinities give is not the same in C++ and NumPy.
        return st.one_of(parts, st.just(complex(math.nan, 0))) if special else parts
    more = [math.nan] if "float8" in dtype else [math.nan, math.inf, -math.inf, -0.0]
    return st.one_of(numbers, st.sampled_from(more)) if special else numbers


@st.composite
def layouts(draw: st.DrawFn, shape: Shape) -> ArrayLayout:
    """Return layouts of an array: contiguous, transposed, reversed, with gaps."""
    plain = ArrayLayout.plain(len(shape))
    if not shape or draw(st.booleans()):
        return plain
    order = tuple(draw(st.permutations(range(len(shape)))))
    steps = tuple(draw(st.sampled_from([1, 2, -1, 3, -2])) for _ in shape)
    starts = tuple(draw(st.integers(0, 1)) if step > 0 else 0 for step in steps)
    return ArrayLayout(order, starts, steps)
