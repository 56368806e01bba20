"""Sizes of kernels with core dimensions in examples and property tests, and shapes of arguments.

>>> A = Param("T", "A", core=("n", "n"))
>>> loop_axes(A, (5, 3, 3)), with_core(A, (5,), {"n": 3})
((5,), (5, 3, 3))

`kspec.model.dimensions` binds the sizes of a call.
"""

from __future__ import annotations

from collections.abc import Mapping

import hypothesis
from hypothesis import strategies as st

from kspec import config
from kspec.errors import ShapeError
from kspec.model.dimensions import core_names, core_shape, dimension
from kspec.model.shapes import Shape
from kspec.model.signature import Param
from kspec.spec.base import Example
from kspec.spec.models import ElementwiseSpec, ReductionSpec

_USUAL = (2, 3, 1)  # where neither the spec nor its example says how large an item is
_ODDS = 8  # one case in so many has a size that the spec does not list


def loop_axes(param: Param, shape: Shape) -> Shape:
    """Return the shape of an argument without its core dimensions."""
    return shape[: len(shape) - len(param.core)]


def with_core(param: Param, loop: Shape, sizes: Mapping[str, int]) -> Shape:
    """Return the shape of an argument, given the axes before its core dimensions."""
    return (*loop, *core_shape("", param, sizes))


def example_sizes(spec: ElementwiseSpec | ReductionSpec, example: Example) -> dict[str, int]:
    """Return the value of each size: the example's, or else the first that is listed."""
    found = dict(example.sizes)
    for param in spec.inputs:
        shape = example.shapes.get(param.name, ())
        if len(shape) >= len(param.core):
            core = shape[len(shape) - len(param.core) :]
            pairs = zip(param.core, core, strict=True)
            found |= {text: extent for text, extent in pairs if dimension(text).is_name}
    return {name: found.get(name, (*known, *_USUAL)[0]) for name, known in spec.all_sizes.items()}


@st.composite
def drawn_sizes(
    draw: st.DrawFn, spec: ElementwiseSpec | ReductionSpec, example: Example, *, free: bool
) -> dict[str, int]:
    """Return a value of each size: mostly a precompiled one.

    `free`: whether shapes may differ from the example's.
    """
    found = example_sizes(spec, example)
    if not spec.has_core or not free:
        return found
    found |= {name: draw(st.sampled_from(one or _USUAL)) for name, one in spec.all_sizes.items()}
    names = core_names(spec.params)
    if names and config.jit_mode() != "never" and draw(st.integers(1, _ODDS)) == _ODDS:
        name = draw(st.sampled_from(names))
        found[name] = draw(st.sampled_from([1, 0, max(spec.all_sizes[name] or _USUAL) + 1]))
    try:
        for param in spec.outputs:
            core_shape(spec.name, param, found)
    except ShapeError:
        hypothesis.reject()
    return found
