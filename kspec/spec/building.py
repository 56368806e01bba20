"""Specs from values: `build_spec` raises what is wrong, `check_spec` returns it, all at once.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec, faults = check_spec(ElementwiseSpec, {"name": "sq", "inputs": "T i", "outputs": "T y"})
>>> [fault.message for fault in faults]
["'i' is the index of the element; choose another parameter name", "missing key 'operation'"]

The Python constructors come through the first, `kspec.spec.loader` through the second.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from kspec.spec.base import BaseSpec, Check
from kspec.spec.faults import Fault, FaultError, error_for

SpecT = TypeVar("SpecT", bound=BaseSpec)


def build_spec(
    model: type[SpecT], arguments: Mapping[str, str] | None = None, /, **fields: Any
) -> SpecT:
    """Build a spec from Python values.

    Parameters
    ----------
    model : type
        `ElementwiseSpec`, `ReductionSpec` or `RawSpec`.
    arguments : mapping of str to str, optional
        What messages call fields that the caller knows under another name.
    **fields
        The fields, `name` among them.

    Raises
    ------
    SignatureSyntaxError, UnknownTypeError
        If one parameter is wrong and nothing else.
    SpecTypeError
        If fields have values of the wrong Python type; also a `TypeError`.
    SpecError
        For anything else; the message lists every problem.
    """
    spec, faults = check_spec(model, fields)
    if spec is None:
        raise error_for(str(fields.get("name", "kernel")), faults, fields, arguments or {})
    return spec


def check_spec(
    model: type[SpecT], fields: Mapping[str, Any], folder: Path | None = None
) -> tuple[SpecT | None, tuple[Fault, ...]]:
    """Build a spec; return it, or None and everything wrong with it.

    Parameters
    ----------
    model : type
        `ElementwiseSpec`, `ReductionSpec` or `RawSpec`.
    fields : mapping
        The fields, ``name`` among them.
    folder : Path, optional
        Folder of the spec file, in which a raw kernel's `source` is looked up.
    """
    values = _clear_values(model, fields) if folder is None else None
    if values is None:
        # Lazy on purpose: a kernel that Python declares rightly never gets here.
        from kspec.spec.tables import read_fields

        values, faults = read_fields(model, fields, folder)
        if faults:
            return None, _ranked(model, faults)
    spec = model(**values)
    faults = tuple(spec.faults(Check(folder, frozenset(fields))))
    return (None, _ranked(model, faults)) if faults else (spec, ())


def _clear_values(model: type[BaseSpec], fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the converted fields; None if one is missing, unknown, or not clearly right."""
    known = {one.name: one for one in dataclasses.fields(model) if one.init}
    required = (name for name, one in known.items() if _is_required(one))
    if not known.keys() >= fields.keys() or any(name not in fields for name in required):
        return None
    try:
        return {name: known[name].metadata["kind"].convert(fields[name]) for name in fields}
    except FaultError:
        return None


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is field.default_factory is dataclasses.MISSING


def _ranked(model: type[BaseSpec], faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return faults in the order of the fields; what is about all of them is first."""
    names = [one.name for one in dataclasses.fields(model)]
    places = {name: place for place, name in enumerate(names, start=1)}
    return tuple(sorted(faults, key=lambda fault: places.get(str((*fault.location, "")[0]), 0)))
