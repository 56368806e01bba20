"""Integers of a raw kernel's C++ template, as `kspec tune` has measured them to be best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kspec.model.declaration import RawDeclaration
from kspec.model.tuning import Chooser, TuningCase
from kspec.runtime import driver
from kspec.runtime.libraries.lookup import library_of


def measured_template(
    tuned: Chooser, declaration: RawDeclaration, args: Sequence[Any]
) -> tuple[int | None, ...]:
    """Return the integers for a call that gives none; None where its spec is to say.

    What is worth measuring are those of the kernel's name expressions. Sizes are the shapes of the
    arrays among the arguments.
    """
    found = ((library_of(value), value) for value in args)
    views = [library.view(value) for library, value in found if library is not None]
    names = declaration.template.values
    if not views or not names or views[0].device.is_host:
        return ()
    rows = [declaration.template.values_of(one) for one in declaration.name_expressions]
    case = TuningCase(
        driver.device_name(views[0].device.ordinal),
        tuple(view.dtype for view in views),
        tuple(tuple(view.shape) for view in views),
        lambda: [row for k, row in enumerate(rows) if row not in rows[:k]],
    )
    choice = tuned.choice(case) or {}
    chosen = (choice.get(name) for name in names)
    return tuple(one if isinstance(one, int) else None for one in chosen)
