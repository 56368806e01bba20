"""An operation that only selects in, its second text out: the same for pairs of narrow elements.

A pair of ``kspec/pairs.cuh`` is two elements of 8 or 16 bits in one word, whose minima GPUs take at
once.  The second text declares variables as ``auto``.  `kspec.cpp.selection` tells which operations
only select, `kspec.render.neighbours` has the lines around them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kspec.cpp.selection import Names, only_selects, with_auto
from kspec.model import dtypes
from kspec.model.signature import Param
from kspec.render import parameters
from kspec.render.fragments import Fragment
from kspec.render.neighbours import window_scope
from kspec.render.variants import Variant, Variants
from kspec.spec.models import ElementwiseSpec

_DTYPES = frozenset({"int8", "uint8", "int16", "uint16"})
_AUTO = "auto"


def pairs_context(
    spec: ElementwiseSpec, operation: Fragment, binding: Sequence[tuple[str, str]] | None
) -> Variants | None:
    """Return the function of pairs, or None for a kernel that does more than select.

    Parameters
    ----------
    spec : ElementwiseSpec
        The kernel.
    operation : Fragment
        Its operation.
    binding : sequence of (str, str) or None
        The only types this text will be compiled for.
    """
    names = _names(spec, dict(binding or ()))
    if names is None or not only_selects(spec.operation, names, spec.expansion):
        return None
    items = (
        *(_input(param, spec) for param in spec.inputs),
        *(f"{_AUTO}& {name}" for name in spec.outputs.names),
    )
    pairs = Variant(
        parameters=", ".join(["ptrdiff_t", *items]),
        before=window_scope(spec, spec.declaration().windows, _AUTO).before,
        operation=replace(operation, text=with_auto(operation.text, names)),
    )
    return Variants("selection", (pairs,))


def _input(param: Param, spec: ElementwiseSpec) -> str:
    """Return the parameter that is a pair of an input, or its window."""
    in_window = param.name in spec.windows
    return parameters.window_item(param) if in_window else f"const {_AUTO} {param.name}"


def _names(spec: ElementwiseSpec, binding: Mapping[str, str]) -> Names | None:
    """Return the names of an operation that may select, whose parameters have one narrow type."""
    around = (spec.preamble, spec.loop_prep, spec.after_loop)
    types = {param.type for param in spec.params}
    if not spec.windows or spec.samples or spec.adjoint or any(map(str.strip, around)):
        return None
    if len(types) != 1 or any(param.raw or param.non_const for param in spec.params):
        return None
    (name,) = types
    dtype = binding.get(name, name)
    if len(dtype) > 1 and dtype not in _DTYPES:
        return None
    ctype = name if len(name) == 1 else dtypes.lookup(name).ctype
    return Names(
        windows=tuple(spec.windows),
        inputs=tuple(one for one in spec.inputs.names if one not in spec.windows),
        outputs=spec.outputs.names,
        types=((*ctype.split(),),),
        sizes=spec.size_names,
    )
