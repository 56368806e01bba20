"""An operation that is a sum in, the functions that add its layers out.

`kspec.spec.neighbours.layers` tells which operations are sums, ``kspec/layers.cuh`` calls the
functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kspec.render import parameters
from kspec.render.fragments import Fragment
from kspec.render.neighbours import window_scope
from kspec.render.variants import Variant, Variants
from kspec.spec.models import ElementwiseSpec
from kspec.spec.neighbours.layers import Term

_SUM = "_sum"


def layers_context(spec: ElementwiseSpec, operation: Fragment) -> Variants | None:
    """Return the functions of layers, or None for a kernel without.

    The first one returns the first term.  The others add those of one layer to the sum so far; the
    last one assigns it.
    """
    layers = spec.terms
    if not layers:
        return None
    window = next(param for param in spec.inputs if param.name in spec.windows)
    (output,) = spec.outputs
    declaration = spec.declaration()
    item = parameters.window_item(window)
    before = window_scope(spec, declaration.windows).before
    result = parameters.loop_item(declaration, output)

    def variant(items: str, *lines: str) -> Variant:
        return Variant(items, before, replace(operation, text=";\n".join(lines)))

    (first, *rest), *others = layers
    parts = []
    for number, terms in enumerate([rest, *others]):
        *lines, total = _added(terms)
        is_last = number == len(others)
        end = f"{output.name} = {total}" if is_last else f"return {total}"
        items = f"const auto& {_SUM}, {item}" + f", {result}" * is_last
        parts.append(variant(items, *lines, end))
    return Variants("layered", (variant(item, f"return {first.sign}{first.text}"), *parts))


def _added(terms: Sequence[Term]) -> Iterator[str]:
    """Yield a statement for each partial sum but the last, and that sum."""
    total = _SUM
    for number, term in enumerate(terms, 1):
        if term.factors is not None:
            product = "plus_product" if term.sign == "+" else "minus_product"
            added = f"kspec::{product}({total}, {', '.join(term.factors)})"
        elif term.is_plain:
            added = f"{total} {term.sign} {term.text}"
        else:  # what is called may return a product
            added = f"{total} {term.sign} kspec::rounded({term.text})"
        total = f"{_SUM}_{number}"
        yield f"const auto {total} = {added}"
    yield total
