"""Precompiled specializations of a spec: its bindings times its layouts.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x",
...                        types={"T": ["float32"]})
>>> [one.layout.removeprefix("kspec::") for one in specializations(spec)]
['Flat', 'Strided<8>', 'Rows', 'Packs', 'Tiles']
"""

from __future__ import annotations

from kspec.model.coverage import layouts_of
from kspec.model.stages import RawSymbol, Specialization
from kspec.spec.models import RawSpec, Spec
from kspec.spec.neighbours.windows import choices


def specializations(spec: Spec) -> tuple[Specialization | RawSymbol, ...]:
    """Return the specializations that the build compiles for `spec`, in a fixed order."""
    if isinstance(spec, RawSpec):
        return tuple(RawSymbol(expression) for expression in spec.declaration().name_expressions)
    declaration = spec.declaration()
    rows = list(choices(dict(getattr(declaration, "sizes", ()))))
    return tuple(
        Specialization(spec.name, binding, layout, raw_ndims, tuple(sizes.items()))
        for binding in spec.bindings()
        for layout, raw_ndims in layouts_of(declaration, binding, spec.layouts)
        for sizes in rows
    )
