"""Specializations that a spec precompiles, and the changes that add more.

The build compiles a kernel's bindings times its layouts.  Both follow from the spec: bindings from
``types``, layouts from the schedules that fit the kernel, and ``layouts`` adds to these.

>>> widened({"T": ("float32",)}, ("T",), [(("T", "int8"),)])
{'T': ('float32', 'int8')}
>>> types_text({"T": ("float32", "int8")})
'{ T = ["float32", "int8"] }'

The runtime names the line that is missing (`kspec.runtime.modules.advice`), ``kspec trace`` writes
it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from kspec.dataclass import dataclass
from kspec.errors import counted
from kspec.model import dtypes
from kspec.model.declaration import (
    ElementwiseDeclaration,
    GeneratedDeclaration,
    ReductionDeclaration,
)
from kspec.model.forms.kinds import (
    BY_KEY,
    LAYOUTS,
    PRECOMPILED_AXES,
    REDUCE,
    SCAN,
    SEGMENTS,
    WINDOW,
    form_of,
)
from kspec.model.signature import Param
from kspec.model.stages import (
    COLUMNS,
    FLAT,
    LINES,
    PACKS,
    ROWS,
    SHORT_LINES,
    STRIDED_AXES,
    TILES,
    continued,
    counting,
    from_aggregates,
    groups,
    is_of_aggregates,
    items,
    key_bins,
    pack_size,
    strided,
    sweep,
    to_aggregates,
    windowed,
)

Binding = tuple[tuple[str, str], ...]
Types = Mapping[str, tuple[str, ...]] | tuple[Mapping[str, str], ...]
Layout = tuple[str, tuple[int, ...]]

# Raw arguments of these many dimensions are precompiled; others compile on first use.
RAW_NDIMS = (1, 2)
# In ``layouts`` of a reduction: those that reduce arrays in parts
# (`kspec.runtime.kernels.partial_reduction`).
PARTS = "parts"
_PREFIX = "kspec::"
_STRIDED = tuple(map(strided, STRIDED_AXES))
_TAGS: dict[str, tuple[str, ...]] = {
    ElementwiseDeclaration.kind: (FLAT, ROWS, PACKS, TILES, *_STRIDED),
    ReductionDeclaration.kind: (
        *(LINES, SHORT_LINES, COLUMNS, *_STRIDED),
        *(tag(ndim) for tags in LAYOUTS.values() for tag in tags for ndim in STRIDED_AXES),
    ),
}


@dataclass(frozen=True)
class Coverage:
    """Precompiled specializations in the spec of a kernel, and their place.

    Attributes
    ----------
    line : int
        Of the spec file: of ``types`` (``name_expressions`` of a raw kernel), or the table's.
    types : mapping or tuple of mappings
        As in the spec: dtypes for each placeholder, or rows of one dtype for each.
    layouts : tuple of str
        Layouts beside those that follow, as in the spec.
    """

    line: int
    types: Types
    layouts: tuple[str, ...] = ()

    def bindings(self, placeholders: Sequence[str]) -> tuple[Binding, ...]:
        """Return the bindings that are precompiled."""
        return bindings_of(self.types, placeholders)


def bindings_of(types: Types, placeholders: Sequence[str]) -> tuple[Binding, ...]:
    """Return the bindings of `types`, each in the order of `placeholders`.

    Without placeholders there is one, which is empty; with placeholders and no types there is none.
    """
    if not placeholders:
        return ((),)
    if isinstance(types, Mapping):
        choices = [types.get(letter, ()) for letter in placeholders]
        rows: Iterable[Iterable[str]] = itertools.product(*choices)
    else:
        rows = ([row[letter] for letter in placeholders] for row in types)
    return tuple(dict.fromkeys(tuple(zip(placeholders, row, strict=True)) for row in rows))


def layouts_of(
    declaration: GeneratedDeclaration, binding: Binding, more: Sequence[str] = ()
) -> tuple[Layout, ...]:
    """Return the layouts that a kernel is compiled for with a binding.

    Parameters
    ----------
    declaration : ElementwiseDeclaration or ReductionDeclaration
        The kernel.
    binding : tuple of (str, str)
        Placeholder and dtype.
    more : sequence of str
        What the spec lists as ``layouts``.
    """
    found = [
        (layout, raw_ndims)
        for layout in _tags(declaration, binding)
        for raw_ndims in _raw_ndims(declaration, layout)
    ]
    if PARTS in more:
        found += _parts(found)
    return tuple(dict.fromkeys([*found, *(parse_layout(one) for one in more if one != PARTS)]))


def _parts(layouts: Sequence[Layout]) -> list[Layout]:
    """Return layouts that reduce arrays in parts: to accumulators, these to one, and to outputs."""
    reductions = from_aggregates(strided(1))
    reduced = [one for one in layouts if form_of(one[0]) == REDUCE]
    scanned = [one for one in layouts if form_of(one[0]) == SCAN]
    # Scans need what all elements of a part make, in order: a single segment.
    segments = [tag(1) for tag in LAYOUTS[SEGMENTS]]
    ordered = [ndims for layout, ndims in layouts if form_of(layout) in (SCAN, SEGMENTS)]
    keyed = [one for one in layouts if form_of(one[0]) == BY_KEY]
    joined = (to_aggregates(reductions), reductions)
    return [
        *((to_aggregates(layout), ndims) for layout, ndims in (*reduced, *keyed)),
        *((one, ndims) for one in joined for _, ndims in reduced),
        *((counting(one), ndims) for one in joined for _, ndims in keyed),
        *((to_aggregates(layout), ndims) for ndims in ordered for layout in segments),
        *((continued(layout), ndims) for layout, ndims in scanned),
    ]


def layout_text(layout: str, raw_ndims: Sequence[int] = ()) -> str:
    """Return a layout as ``layouts`` of a spec has it.

    >>> layout_text("kspec::Strided<8>", (3,))
    'Strided<8>, 3'
    """
    if is_of_aggregates(layout):
        return PARTS
    return ", ".join([layout.removeprefix(_PREFIX), *map(str, raw_ndims)])


def parse_layout(text: str) -> Layout:
    """Return the layout of a text that `layout_fault` finds nothing wrong with."""
    tag, ndims = _split(text)
    return f"{_PREFIX}{tag}", tuple(map(int, ndims))


def _split(text: str) -> tuple[str, list[str]]:
    """Return the tag of a layout, which may have a comma in its brackets, and the numbers after."""
    end = text.rfind(">") + 1
    head, *rest = text[end:].split(",")
    return (text[:end] + head).strip(), [part.strip() for part in rest]


def layout_fault(declaration: GeneratedDeclaration, text: str) -> str:
    """Return the problem with a layout of a spec; empty if there is none."""
    if text == PARTS:
        return _parts_fault(declaration)
    tag, ndims = _split(text)
    known = [one.removeprefix(_PREFIX) for one in _known_tags(declaration)]
    if tag not in known:
        return f"unknown layout {tag!r}; expected one of {', '.join(known)}"
    expected = len(_raw_ndims(declaration, f"{_PREFIX}{tag}")[0])
    if len(ndims) != expected or not all(re.fullmatch(r"\d{1,2}", one) for one in ndims):
        arrays = counted(expected, "array")
        return (
            f"{text!r} needs the number of axes of {arrays} that the kernel indexes"
            if expected
            else f"{text!r} has numbers, but the kernel indexes no array by itself"
        )
    return ""


def _known_tags(declaration: GeneratedDeclaration) -> tuple[str, ...]:
    if declaration.has_core and isinstance(declaration, ReductionDeclaration):
        inputs = sum(not param.raw for param in declaration.inputs)
        return (*_STRIDED, *map(sweep, range(1, 2**inputs)))
    if declaration.has_core:
        return tuple(_item_tag(declaration, ndim) for ndim in STRIDED_AXES)
    tags = tuple(tag for ndim in STRIDED_AXES for tag in _windowed(declaration, ndim))
    return tags or _TAGS[declaration.kind]


def _windowed(declaration: GeneratedDeclaration, ndim: int) -> tuple[str, ...]:
    """Return the layouts of windows, with so many axes before them; none without windows."""
    windows = getattr(declaration, "all_windows", ())
    if not windows:
        return ()
    axes = max(window.axes for window in windows)
    choices = (False, True) if any(len(window.boundaries) > 1 for window in windows) else (False,)
    return tuple(windowed(axes, ndim, chosen) for chosen in choices)


def _item_tag(declaration: GeneratedDeclaration, ndim: int) -> str:
    """Return the layout of an elementwise kernel with core dimensions."""
    threads = getattr(declaration, "threads", 1)
    return items(ndim) if threads == 1 else groups(ndim, threads)


def _parts_fault(declaration: GeneratedDeclaration) -> str:
    if not isinstance(declaration, ReductionDeclaration):
        return f"{PARTS!r} is for reductions; elementwise kernels take each part by itself"
    reason = declaration.whole
    return f"{PARTS!r} is not possible: {reason}" if reason else ""


def widened(types: Types, placeholders: Sequence[str], wanted: Iterable[Binding]) -> Types:
    """Return `types` with more bindings.

    Dtypes are added to the lists, unless that would compile more than twice the requested number:
    then the combinations are listed one by one.
    """
    asked = list(dict.fromkeys([*bindings_of(types, placeholders), *wanted]))
    if isinstance(types, Mapping):
        lists = {letter: types.get(letter, ()) for letter in placeholders}
        for binding in asked:
            for letter, dtype in binding:
                lists[letter] = tuple(dict.fromkeys([*lists[letter], dtype]))
        if len(bindings_of(lists, placeholders)) <= 2 * len(asked):
            return lists
    return tuple(dict(binding) for binding in asked)


def types_text(types: Types) -> str:
    """Return `types` as TOML, in one line if they are lists."""
    from kspec.toml import toml_value

    if isinstance(types, Mapping):
        return toml_value(types)
    return "[" + "".join(f"\n    {toml_value(row)}," for row in types) + "\n]"


def binding_text(binding: Binding) -> str:
    """Return a binding for people: ``T = float32``."""
    return ", ".join(f"{letter} = {dtype}" for letter, dtype in binding)


def _raw_ndims(declaration: GeneratedDeclaration, layout: str) -> list[tuple[int, ...]]:
    """Return the dimensions of raw arguments, then of ``_raw_<name>``, for a layout."""
    raw = [param for param in declaration.params if param.raw]
    if isinstance(declaration, ReductionDeclaration):
        return _reduced_ndims(declaration, raw)
    views = len(declaration.raw_views)
    loop_ndims = (1,) if layout == FLAT else RAW_NDIMS
    sampled = {sample.param: sample.axes for sample in declaration.samples}
    rows = [
        tuple(sampled.get(param.name, _declared_ndim(param, ndim)) for param in raw)
        for ndim in RAW_NDIMS
    ]
    return [
        row + (loop_ndim,) * views
        for row in dict.fromkeys(rows)
        for loop_ndim in (loop_ndims if views else (0,))
    ]


def _declared_ndim(param: Param, otherwise: int) -> int:
    return otherwise if param.ndim is None else param.ndim


def _reduced_ndims(
    declaration: ReductionDeclaration, raw: Sequence[Param]
) -> list[tuple[int, ...]]:
    """Return the same for a reduction: views and indexers have the axes of inputs or outputs."""
    names = (*declaration.raw_views, *declaration.indexers)
    outputs = [name in declaration.outputs.names or name == "_out_ind" for name in names]
    rows = [tuple(_declared_ndim(param, ndim) for param in raw) for ndim in RAW_NDIMS]
    return [
        row + tuple(kept if of_output else all_ for of_output in outputs)
        for row in dict.fromkeys(rows)
        for all_ in (RAW_NDIMS if not all(outputs) else (0,))
        for kept in (RAW_NDIMS if any(outputs) else (0,))
    ]


def _form_tags(declaration: ReductionDeclaration, form: str) -> list[Callable[[int], str]]:
    """Return the precompiled layouts of a form."""
    tags = LAYOUTS[form]
    if form == WINDOW:
        tags = tags[:PRECOMPILED_AXES]
    return [tag for tag in tags if tag is not key_bins or declaration.joins]


def _tags(declaration: GeneratedDeclaration, binding: Binding) -> tuple[str, ...]:
    """Return the layouts that follow; `elementwise_schedule` of the runtime chooses among them."""
    if isinstance(declaration, ReductionDeclaration):
        inputs = [param for param in declaration.inputs if not param.raw]
        if any(param.non_const or param.core for param in inputs):
            return (strided(1),)
        forms = [tag(1) for form in declaration.forms for tag in _form_tags(declaration, form)]
        if declaration.forms_only:  # from the strided one the size of an accumulator is read
            return strided(1), *forms
        return strided(1), LINES, SHORT_LINES, COLUMNS, *forms
    if declaration.all_windows:
        return _windowed(declaration, 1)
    if declaration.has_core:
        return (_item_tag(declaration, 1),)
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
