"""Which specializations of a spec are precompiled: its bindings times its layouts.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x",
...                        types={"T": ["float32"]})
>>> [one.name_expression for one in specializations(spec)]
['sq<float, 0>', 'sq<float, 8>']
"""

from __future__ import annotations

from itertools import product

from kspec.spec.models import ElementwiseSpec, RawSpec, Spec
from kspec.stages import FLAT, STRIDED_AXES, RawSymbol, Specialization

# Raw arguments of these many dimensions are precompiled; others compile on first use.
RAW_NDIMS = (1, 2)


def specializations(spec: Spec) -> tuple[Specialization | RawSymbol, ...]:
    """Return what the build compiles for `spec`, in a fixed order."""
    if isinstance(spec, RawSpec):
        return tuple(RawSymbol(expression) for expression in spec.declaration().name_expressions)
    declaration = spec.declaration()
    elementwise = isinstance(spec, ElementwiseSpec)
    params = declaration.params
    looped = any(not param.raw for param in params)
    layouts: tuple[int, ...] = (STRIDED_AXES[0],)
    if elementwise:
        # With raw arguments only there is no operand to be strided.
        layouts = (FLAT, STRIDED_AXES[0]) if looped else (FLAT,)
    raw_count = sum(param.raw for param in params)
    ndims = [(ndim,) * raw_count for ndim in RAW_NDIMS] if raw_count else [()]
    return tuple(
        Specialization(spec.name, binding, axes, raw_ndims)
        for binding, axes, raw_ndims in product(spec.bindings(), layouts, ndims)
    )
