"""The forms of a reduction, which share its map, reduce, post-map and identity.

* ``reduce`` itself makes one output of all elements along axes;
* ``scan`` makes an output of each element and those before it;
* ``segments`` makes an output of the elements from one bound to the next;
* ``by_key`` makes an output of the elements that have a key;
* ``window`` makes an output of each window that slides along an axis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from kspec.errors import NotSupportedError
from kspec.model.declaration import ReductionDeclaration
from kspec.model.stages import (
    MAX_AXES,
    key_bins,
    key_cells,
    key_groups,
    key_runs,
    key_sorted,
    rolling,
    scan_columns,
    scan_lines,
    scan_walks,
    scan_waves,
    segment_columns,
    segment_lines,
)

REDUCE, SCAN, SEGMENTS, BY_KEY, WINDOW = "reduce", "scan", "segments", "by_key", "window"
FORMS = (REDUCE, SCAN, SEGMENTS, BY_KEY, WINDOW)
# Forms with outputs that may have no elements, which are the identity then.
WITH_EMPTY = {SEGMENTS: "an empty segment", BY_KEY: "an output without elements"}


# Layouts of forms, each for so many collapsed axes (`kspec.model.stages`).
LAYOUTS: dict[str, tuple[Callable[[int], str], ...]] = {
    SCAN: (scan_lines, scan_columns, scan_walks, scan_waves),
    SEGMENTS: (segment_lines, segment_columns),
    BY_KEY: (key_cells, key_runs, key_groups, key_sorted, key_bins),
    WINDOW: tuple(functools.partial(rolling, axes) for axes in range(1, MAX_AXES + 1)),
}
PRECOMPILED_AXES = 2  # along which windows slide; others compile on first use


def form_of(layout: str) -> str:
    """Return the form that a layout is of, or that it is a stage of.

    >>> form_of("kspec::ScanColumns<64>"), form_of("kspec::Lines")
    ('scan', 'reduce')
    >>> form_of("kspec::Continued<kspec::ScanLines<8>>")
    'scan'
    """
    found = (
        form
        for form, layouts in LAYOUTS.items()
        for tag in layouts
        if _innermost(tag(1)) == _innermost(layout)
    )
    return next(found, REDUCE)


def _innermost(layout: str) -> str:
    """Return the name of the layout that others are around."""
    return layout.rpartition("::")[2].partition("<")[0]


def form_fault(declaration: ReductionDeclaration) -> str:
    """Return why a reduction has no other forms; empty if it has."""
    if declaration.indexers or declaration.raw_views:
        named = (*declaration.indexers, *(f"_raw_{name}" for name in declaration.raw_views))
        return f"its expressions read {' and '.join(named)}, which only the reduction itself has"
    if declaration.has_core:
        return "its parameters have core dimensions, which only the reduction itself can have"
    return declaration.overwrites


def check_form(declaration: ReductionDeclaration, form: str) -> None:
    """Raise `NotSupportedError` unless a reduction has other forms."""
    fault = form_fault(declaration)
    if fault:
        raise NotSupportedError(f"{declaration.name} has no {form}: {fault}")
