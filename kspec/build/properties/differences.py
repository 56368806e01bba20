"""Differences of results from those of a reference, in words: arrays in, a line out.

>>> difference(["y"], [np.array([1.0, 4.0])], [np.array([1.0, 2.0])], 1e-12)
'error 1 is above 1e-12: y[1] is 4, the reference says 2'
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kspec.build.properties.examples import Array, ExampleCall, errors_of, worst_error
from kspec.diagnostics import Diagnostic
from kspec.errors import SpecError
from kspec.spec.document.positions import Lines, document_text, scan_positions
from kspec.spec.document.problems import problem_at
from kspec.spec.models import RawSpec, Spec


def result_names(call: ExampleCall) -> tuple[str, ...]:
    """Return the names of the results of a call."""
    if call.written:
        return call.written
    spec = call.spec
    return tuple(spec.returns) if isinstance(spec, RawSpec) else spec.outputs.names


def difference(
    names: Sequence[str], got: Sequence[Array], want: Sequence[Array], limit: float
) -> str:
    """Return the largest difference of results; empty if they are those of the reference.

    Parameters
    ----------
    names : sequence of str
        What the results are called.
    got, want : sequence of array
        The results, and those of the reference.
    limit : float
        The error that results may have.
    """
    if len(got) != len(want):
        return f"the reference has {len(want)} results, the kernel has {len(got)}"
    for name, a, b in zip(names, got, want, strict=True):
        if a.shape != b.shape:
            which = f" {name}" if len(got) > 1 else ""
            return f"the result{which} has shape {a.shape}, the reference {b.shape}"
    found = [worst_error([a], [b]) for a, b in zip(got, want, strict=True)]
    worst = max(found, default=0.0)
    if worst <= limit:
        return ""
    number = found.index(worst)
    text = f"error {worst:.2g} is above {limit:.2g}"
    if worst == np.inf:
        text = "a result is NaN or infinite where the reference is not, or the other way round"
    return f"{text}: {_place(names[number], got[number], want[number])}"


def _place(name: str, got: Array, want: Array) -> str:
    """Return the element with the largest error, and both of its values."""
    if got.dtype.names is not None:
        return f"{name} differs"
    errors = errors_of(got, want)
    place = np.unravel_index(int(np.argmax(errors)), errors.shape)
    index = ", ".join(map(str, place))
    shown = f"{name}[{index}]" if index else name
    return f"{shown} is {_number(got[place])}, the reference says {_number(want[place])}"


def _number(value: Any) -> str:
    exact = value.item()
    return f"{exact:.7g}" if isinstance(exact, float | complex) else str(exact)


def reference_problem(project: Path, path: str, spec: Spec, error: SpecError) -> Diagnostic:
    """Return the error of a reference, at its place in the spec file.

    Parameters
    ----------
    project : Path
        Folder that the spec file's `path` is relative to.
    path : str
        The spec file.
    spec : Spec
        The kernel.
    error : SpecError
        As `kspec.build.properties.examples.expected` raises it.
    """
    try:
        text = document_text((project / path).read_bytes())
        span = scan_positions(text)[spec.kind, spec.name, "reference"]
    except (OSError, UnicodeDecodeError, LookupError):  # gone or changed since it was read
        return Diagnostic("error", str(error), path)
    value = text[span.value_start : span.value_end]
    start, length = span.value_start, len(value.partition("\n")[0])
    name = getattr(error.__cause__, "name", None)  # of a NameError or an AttributeError
    found = re.search(rf"\b{re.escape(name)}\b", value) if name else None
    if found:
        start, length = start + found.start(), len(found[0])
    return problem_at(Lines(text), path, start, length, str(error))
