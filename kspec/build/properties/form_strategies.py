"""Reductions in, Hypothesis strategies for calls of their other forms out.

Inputs are those of `kspec.build.properties.strategies`. Scans go along every axis in each way;
segments are short, long, empty, and do not begin or end where the inputs do; windows slide along
one axis or two, with each boundary.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from kspec.build.properties.case import ArrayArgument, Case, Shape, Values
from kspec.build.properties.forms import BOUNDS, counts_places, pieces_of
from kspec.build.properties.strategies import (
    NO_EXAMPLE,
    bindings_of,
    drawn_inputs,
    layouts,
    outputs_needed,
    takes_axes,
)
from kspec.model.forms import BOUNDARIES, PRECOMPILED_AXES, SCAN, SEGMENTS, SHRINK
from kspec.model.neighbours.windows import VALID
from kspec.spec.base import Example
from kspec.spec.models import ReductionSpec

_SHORT = 12  # bounds that are drawn one by one
_MANY = 200  # segments of one element
_WIDE = 9  # elements of a window
_DTYPES = {"int64": 2**63, "int32": 2**31, "uint32": 2**32, "int16": 2**15, "uint8": 2**8}


@st.composite
def form_cases(draw: st.DrawFn, spec: ReductionSpec, function: str, form: str) -> Case:
    """Return the calls that a form is tested with.

    Parameters
    ----------
    spec : ReductionSpec
        A kernel with a reference.
    function : str
        The method, with its function and module.
    form : str
        The form.
    """
    example = spec.example or NO_EXAMPLE
    binding = draw(st.sampled_from(bindings_of(spec)))
    operands, scalars, casts, loop = draw(drawn_inputs(spec, example, binding, {}, least=1))
    order = [param.name for param in spec.inputs]
    keywords: dict[str, Any] = {}
    bounds: list[int] = []
    if form == SCAN:
        keywords = draw(_scan_keywords(spec, example, loop))
    elif form == SEGMENTS:
        bounds = draw(_bounds(loop[0]))
        operands.append(draw(_bounds_operand(bounds)))
        order.append(BOUNDS)
    else:
        keywords = draw(_window_keywords(spec, example, loop))
    out: list[str] = []
    if outputs_needed(spec, operands, example) or draw(st.booleans()):
        shape, _ = pieces_of(form, loop, keywords, bounds)
        for param in spec.outputs:
            dtype = binding.get(param.type, param.type)
            operands.append(ArrayArgument(param.name, shape, dtype, None, draw(layouts(shape))))
            out.append(param.name)
    return Case(
        spec,
        function,
        tuple(operands),
        tuple(scalars),
        casts,
        tuple(order),
        (),
        tuple(keywords.items()),
        form,
        tuple(out),
    )


def _axes(example: Example, loop: Shape) -> st.SearchStrategy[int]:
    """Return axes: any, or one that the example has where shapes are fixed."""
    given = example.axis if isinstance(example.axis, tuple) else (example.axis,)
    if example.fixed_shapes and all(isinstance(axis, int) for axis in given):
        return st.sampled_from(given)
    return st.integers(-len(loop), len(loop) - 1)


@st.composite
def _scan_keywords(
    draw: st.DrawFn, spec: ReductionSpec, example: Example, loop: Shape
) -> dict[str, Any]:
    exclusive = spec.identity is not None and draw(st.booleans())
    # Places in a part of an axis that does not begin with it are others.
    reverse = not counts_places(spec) and draw(st.booleans())
    return {"axis": draw(_axes(example, loop)), "exclusive": exclusive, "reverse": reverse}


def _bounds(extent: int) -> st.SearchStrategy[list[int]]:
    """Return the bounds of segments of a first axis."""
    places = st.integers(0, extent)
    each = list(range(0, extent + 1, extent // _MANY + 1))
    return st.one_of(
        st.just([0, extent]),
        st.just(each),
        places.map(lambda k: [k, k]),
        st.lists(places, min_size=1, max_size=_SHORT).map(sorted),
        places.map(lambda k: [0, *[k] * _SHORT, extent]),
        places.map(lambda k: sorted([*each, *[k] * _SHORT])),
    )


@st.composite
def _bounds_operand(draw: st.DrawFn, bounds: list[int]) -> ArrayArgument:
    fitting = [dtype for dtype, limit in _DTYPES.items() if max(bounds) < limit]
    shape = (len(bounds),)
    values = Values(tuple(bounds))
    dtype = draw(st.sampled_from(fitting))
    return ArrayArgument(BOUNDS, shape, dtype, values, draw(layouts(shape)))


@st.composite
def _window_keywords(
    draw: st.DrawFn, spec: ReductionSpec, example: Example, loop: Shape
) -> dict[str, Any]:
    axes = [draw(_axes(example, loop))]
    if len(loop) > 1 and takes_axes(spec) and draw(st.integers(0, 2)) == 2:
        others = [axis for axis in range(len(loop)) if axis != axes[0] % len(loop)]
        axes += draw(st.permutations(others))[: PRECOMPILED_AXES - 1]
    extents = [loop[axis] for axis in axes]
    boundaries = list(BOUNDARIES)
    if counts_places(spec):
        boundaries.remove(SHRINK)  # elements that are left out count
    if 0 in extents:
        boundaries.remove(VALID)
    boundary = draw(st.sampled_from(boundaries))
    most = [min(n, _WIDE) if boundary == VALID else min(n + 3, _WIDE) for n in extents]
    sizes = [draw(st.integers(1, limit)) for limit in most]
    steps = [draw(st.integers(1, 3)) for _ in axes]
    named = {"size": sizes, "axis": axes, "step": steps}
    keywords = {key: tuple(one) if len(one) > 1 else one[0] for key, one in named.items()}
    return {**keywords, "boundary": boundary}
