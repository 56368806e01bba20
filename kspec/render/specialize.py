"""Which specializations of a spec are precompiled: its bindings times its layouts.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x",
...                        types={"T": ["float32"]})
>>> [one.name_expression for one in specializations(spec)]
['sq<float, 0>', 'sq<float, 8>']
"""

from __future__ import annotations

from itertools import product

from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec, Spec
from kspec.stages import FLAT, STRIDED_AXES, RawSymbol, Specialization

# Raw arguments of these many dimensions are precompiled; others compile on first use.
RAW_NDIMS = (1, 2)


def specializations(spec: Spec) -> tuple[Specialization | RawSymbol, ...]:
    """Return what the build compiles for `spec`, in a fixed order."""
    if isinstance(spec, RawSpec):
        return tuple(RawSymbol(expression) for expression in spec.declaration().name_expressions)
    elementwise = isinstance(spec, ElementwiseSpec)
    looped = any(not param.raw for param in spec.params)
    layouts: tuple[int, ...] = (STRIDED_AXES[0],)
    if elementwise:
        # With raw arguments only there is no operand to be strided.
        layouts = (FLAT, STRIDED_AXES[0]) if looped else (FLAT,)
    return tuple(
        Specialization(spec.name, binding, axes, raw_ndims)
        for binding, axes in product(spec.bindings(), layouts)
        for raw_ndims in _raw_ndims(spec, axes)
    )


def _raw_ndims(spec: ElementwiseSpec | ReductionSpec, axes: int) -> list[tuple[int, ...]]:
    """Return the dimensions of raw arguments, then of ``_raw_<name>``, for a layout."""
    raw = sum(param.raw for param in spec.params)
    views = len(spec.declaration().raw_views) if isinstance(spec, ElementwiseSpec) else 0
    loop_ndims = (1,) if axes == FLAT else RAW_NDIMS
    return [
        (ndim,) * raw + (loop_ndim,) * views
        for ndim in (RAW_NDIMS if raw else (0,))
        for loop_ndim in (loop_ndims if views else (0,))
    ]
