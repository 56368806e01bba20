"""Which specializations of a spec are precompiled: its bindings times its layouts.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x",
...                        types={"T": ["float32"]})
>>> [one.layout.removeprefix("kspec::") for one in specializations(spec)]
['Flat', 'Strided<8>', 'Rows', 'Packs', 'Tiles']
"""

from __future__ import annotations

from kspec import dtypes
from kspec.declaration import ElementwiseDeclaration, GeneratedDeclaration, ReductionDeclaration
from kspec.spec.models import RawSpec, Spec
from kspec.spec.rules import Binding
from kspec.stages import (
    COLUMNS,
    FLAT,
    LINES,
    PACKS,
    ROWS,
    SHORT_LINES,
    TILES,
    RawSymbol,
    Specialization,
    pack_size,
    strided,
)

# Raw arguments of these many dimensions are precompiled; others compile on first use.
RAW_NDIMS = (1, 2)


def specializations(spec: Spec) -> tuple[Specialization | RawSymbol, ...]:
    """Return what the build compiles for `spec`, in a fixed order."""
    if isinstance(spec, RawSpec):
        return tuple(RawSymbol(expression) for expression in spec.declaration().name_expressions)
    declaration = spec.declaration()
    return tuple(
        Specialization(spec.name, binding, layout, raw_ndims)
        for binding in spec.bindings()
        for layout in _layouts(declaration, binding)
        for raw_ndims in _raw_ndims(declaration, layout)
    )


def _raw_ndims(declaration: GeneratedDeclaration, layout: str) -> list[tuple[int, ...]]:
    """Return the dimensions of raw arguments, then of ``_raw_<name>``, for a layout."""
    raw = sum(param.raw for param in declaration.params)
    views = 0
    if isinstance(declaration, ElementwiseDeclaration):
        views = len(declaration.raw_views)
    loop_ndims = (1,) if layout == FLAT else RAW_NDIMS
    return [
        (ndim,) * raw + (loop_ndim,) * views
        for ndim in (RAW_NDIMS if raw else (0,))
        for loop_ndim in (loop_ndims if views else (0,))
    ]


def _layouts(declaration: GeneratedDeclaration, binding: Binding) -> tuple[str, ...]:
    """Return the layouts a kernel is compiled for; `kspec.runtime.walk` chooses among them."""
    if isinstance(declaration, ReductionDeclaration):
        inputs = [param for param in declaration.inputs if not param.raw]
        if any(param.non_const for param in inputs):
            return (strided(1),)
        return strided(1), LINES, SHORT_LINES, COLUMNS
    looped = [param for param in declaration.params if not param.raw]
    if not looped:
        return (FLAT,)
    bound = dict(binding)
    types = [bound.get(param.type, param.type) for param in looped]
    packs = pack_size(dtypes.lookup(dtype).pack_width for dtype in types)
    if declaration.in_place or packs == 1:
        return FLAT, strided(1)
    layouts = (FLAT, strided(1), ROWS, PACKS)
    return layouts if declaration.ordered else (*layouts, TILES)
