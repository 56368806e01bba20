"""Reductions in, Hypothesis strategies for calls of their other forms out.

Inputs are those of `kspec.build.properties.strategies`. Scans go along every axis in each way;
segments are short, long, empty, and do not begin or end where the inputs do; rows have few keys,
many, one, or none in range; windows slide along one axis or two, with each boundary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from kspec.build.properties.case import ArrayArgument, Case, Shape, Values
from kspec.build.properties.forms import counts_places, pieces_of
from kspec.build.properties.strategies import (
    NO_EXAMPLE,
    bindings_of,
    drawn_inputs,
    layouts,
    outputs_needed,
    takes_axes,
)
from kspec.model.forms.kinds import BY_KEY, PRECOMPILED_AXES, SCAN, SEGMENTS
from kspec.model.forms.options import indices_of
from kspec.model.forms.sliding import BOUNDARIES, SHRINK
from kspec.model.neighbours.windows import VALID
from kspec.runtime.kernels.folding import known_type
from kspec.spec.base import Example
from kspec.spec.models import ReductionSpec

_SHORT = 12  # bounds that are drawn one by one
_MANY = 200  # segments of one element
_WIDE = 9  # elements of a window
_DTYPES = {"int64": 2**63, "int32": 2**31, "uint32": 2**32, "int16": 2**15, "uint8": 2**8}
_KEY_DTYPES = "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8"
_KEYS = 100, 1000, 5000  # outputs, where there may be many
_CELLS = 2**16  # elements of an output with many keys
_SOME = 7  # keys that repeat
_SEED_BITS = 16


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
    indices: list[ArrayArgument] = []
    if form == SCAN:
        keywords = draw(_scan_keywords(spec, example, loop))
    elif form == SEGMENTS:
        indices = [draw(_bounds_operand(draw(_bounds(loop[0]))))]
    elif form == BY_KEY:
        keywords = draw(_key_keywords(spec, binding, loop))
        indices = [draw(_keys_operand(loop[0], keywords["n"], spec.strict_keys))]
    else:
        keywords = draw(_window_keywords(spec, example, loop))
    operands += indices
    order += [one.name for one in indices]
    out: list[str] = []
    if outputs_needed(spec, operands, example) or draw(st.booleans()):
        shape, _ = pieces_of(form, loop, keywords, *(one.content().tolist() for one in indices))
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
    (name,) = indices_of(SEGMENTS)
    return ArrayArgument(name, shape, dtype, values, draw(layouts(shape)))


@st.composite
def _key_keywords(
    draw: st.DrawFn, spec: ReductionSpec, binding: Mapping[str, str], loop: Shape
) -> dict[str, Any]:
    many = [n for n in _KEYS if n * math.prod(loop[1:]) <= _CELLS]
    fewest = int(spec.strict_keys)  # rows are of some output
    counts = [st.integers(fewest, _SHORT), *([st.sampled_from(many)] if many else [])]
    n = draw(st.one_of(counts))
    any_order = _is_commutative(spec, binding) and draw(st.booleans())
    return {"n": n, "deterministic": not any_order}


def _is_commutative(spec: ReductionSpec, binding: Mapping[str, str]) -> bool:
    """Whether the reduce expression is known to be: a usual operation of numbers, not of structs.

    Operators of a user's type, such as ``+``, may do anything.
    """
    declaration = spec.declaration()
    known = known_type(declaration, tuple(binding.items()))
    return bool(declaration.joins) and known is not None


@st.composite
def _keys_operand(draw: st.DrawFn, rows: int, n: int, strict: bool) -> ArrayArgument:
    dtype = draw(st.sampled_from(_KEY_DTYPES))
    is_random = draw(st.booleans()) and rows > _SOME
    values = draw((_random_keys if is_random else _key_patterns)(dtype, n, strict))
    values = replace(values, ascending=draw(st.booleans()))
    shape = (rows,)
    (name,) = indices_of(BY_KEY)
    return ArrayArgument(name, shape, dtype, values, draw(layouts(shape)))


def _key_patterns(dtype: str, n: int, strict: bool) -> st.SearchStrategy[Values]:
    """Return keys that repeat: any, of one output, of each output, and unless `strict` of none."""
    limits = np.iinfo(dtype)
    inside = st.integers(0, min(n - 1, int(limits.max)))
    missing = [] if strict else keys_out_of_range(dtype, n)
    outside = st.sampled_from(missing)
    each = tuple(range(min(n, int(limits.max) + 1, _MANY)))
    parts = [*([inside] if n else []), *([outside] if missing else [])]
    patterns = [st.lists(st.one_of(parts), min_size=1, max_size=_SOME).map(tuple)]
    if n:
        patterns += [inside.map(lambda key: (key,)), st.just(each)]
    if missing:
        patterns.append(st.lists(outside, min_size=1, max_size=_SOME).map(tuple))
    if limits.max >= n and not strict:
        patterns.append(st.just((int(limits.max),)))
    return st.one_of(patterns).map(Values)


def keys_out_of_range(dtype: str, n: int) -> list[int]:
    """Return keys of a dtype without an output: near ones, and some that are wrong when truncated.

    >>> keys_out_of_range("int16", 4)
    [-1, 4, -4, 5, 258, -254, -32768, 32767]
    """
    limits = np.iinfo(dtype)
    least, most = int(limits.min), min(int(limits.max), 2**63 - 1)  # NumPy mixes them exactly
    wrapped = [sign * 2**bits + n // 2 for bits in (8, 16, 32) for sign in (1, -1)]
    keys = dict.fromkeys([-1, n, -n, n + 1, *wrapped, least, most])
    return [key for key in keys if least <= key <= most and not 0 <= key < n]


def _random_keys(dtype: str, n: int, strict: bool) -> st.SearchStrategy[Values]:
    """Return random keys of all outputs, and unless `strict` a few that are out of range."""
    limits = np.iinfo(dtype)
    low, high = (0, n - 1) if strict else (max(int(limits.min), -2), n + 1)
    high = min(int(limits.max), high)
    # Many choices, so that Hypothesis takes patterns for simpler.
    bits = st.lists(st.booleans(), min_size=_SEED_BITS, max_size=_SEED_BITS)
    seeds = bits.map(lambda found: sum(bit << k for k, bit in enumerate(found)))
    return seeds.map(lambda seed: Values((), seed, low, high))


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
