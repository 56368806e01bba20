"""Specs from values: `build_spec` raises what is wrong, `check_spec` returns it, all at once.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec, faults = check_spec(ElementwiseSpec, {"name": "sq", "inputs": "T i", "outputs": "T y"})
>>> [fault.message for fault in faults]
["'i' is the index of the element; choose another parameter name", "missing key 'operation'"]

The Python constructors come through the first, `kspec.spec.loader` through the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import ValidationError

from kspec.spec.base import BaseSpec
from kspec.spec.faults import Fault, error_for, faults_of, refused_fields

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
    model: type[SpecT],
    fields: dict[str, Any],
    folder: Path | None = None,
    structs: Mapping[str, str] = MappingProxyType({}),
    is_written: bool = True,
) -> tuple[SpecT | None, tuple[Fault, ...]]:
    """Build a spec; return it, or None and everything wrong with it.

    Parameters
    ----------
    model : type
        `ElementwiseSpec`, `ReductionSpec` or `RawSpec`.
    fields : dict
        The fields, ``name`` among them.
    folder : Path, optional
        Folder of the spec file, in which a raw kernel's `source` is looked up.
    structs : mapping of str to str, optional
        The file's structs, with their dtypes, that a raw kernel's parameters may have.
    is_written : bool, default True
        Whether a user wrote it; the operation of an adjoint is that of another kernel.
    """
    context = {"folder": folder, "structs": structs, "is_written": is_written}
    try:
        return model.model_validate(fields, context=context), ()
    except ValidationError as error:
        faults = faults_of(error, model)
        refused = refused_fields(error)
        if refused:
            faults += _faults_of_the_rest(model, fields, context, refused)
        return None, tuple(sorted(faults, key=lambda fault: _rank(model, fault)))


def _faults_of_the_rest(
    model: type[BaseSpec],
    fields: dict[str, Any],
    context: dict[str, Any],
    refused: dict[str, object],
) -> tuple[Fault, ...]:
    """Return the faults of the fields beside those that Pydantic refused.

    It takes the usable part of those, or a valid value instead.
    """
    accepted = {key: value for key, value in fields.items() if key not in refused}
    partial = {key: value for key, value in refused.items() if value is not None}
    required = [key for key, field in model.model_fields.items() if field.is_required()]
    stand_ins = {key: "kernel" for key in required if key in refused}
    context = {**context, "refused": frozenset(refused)}
    try:
        model.model_validate({**accepted, **stand_ins, **partial}, context=context)
    except ValidationError as error:
        found = faults_of(error, model)
        return tuple(x for x in found if x.location[:1] not in {(key,) for key in stand_ins})
    return ()


def _rank(model: type[BaseSpec], fault: Fault) -> int:
    """Return the place of a fault's field among the fields; what is about all of them is first."""
    names = list(model.model_fields)
    field = fault.location[0] if fault.location else ""
    return names.index(str(field)) + 1 if field in names else 0
