"""Specs from values: `build_spec` raises what is wrong, `check_spec` returns it, all at once.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec, faults = check_spec(ElementwiseSpec, {"name": "sq", "inputs": "T i", "outputs": "T y"})
>>> [fault.message for fault in faults]
["'i' is the index of the element; choose another parameter name", "missing key 'operation'"]

The Python constructors come through the first, `kspec.spec.loader` through the second.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import ValidationError

from kspec.cpp.assignment import never_assigns
from kspec.cpp.fragments import identifiers
from kspec.errors import SignatureSyntaxError, SpecError, UnknownTypeError
from kspec.spec.base import BaseSpec
from kspec.spec.faults import Fault, error_for, faults_of, refused_fields
from kspec.spec.parser import parse_signature

# Fields in the order of the constructors' parameters.
_POSITIONAL = {
    "elementwise": ("inputs", "outputs", "operation", "name"),
    "reduction": ("inputs", "outputs", "map", "reduce", "post_map", "identity", "name"),
}
_SHOWN = 60  # characters of an argument in a message

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
    if spec is not None:
        return spec
    ordered = _in_order(model, fields) if arguments else None
    if ordered is not None:
        labels = [arguments.get(field, field) for field in ordered] if arguments else []
        values = [repr(value) if len(str(value)) <= _SHOWN else "..." for value in ordered.values()]
        raise SpecError(
            f"kernel {str(ordered['name'])!r}: the order is {', '.join(labels)}; write "
            f"{', '.join(values)}"
        )
    raise error_for(str(fields.get("name", "kernel")), faults, fields, arguments or {})


def _sets_outputs(model: type[BaseSpec], fields: Mapping[str, Any]) -> bool:
    """Return whether a text sets what is given as outputs, which are right then."""
    text = fields.get(_POSITIONAL[model.kind][-2 if model.kind == "elementwise" else -3])
    given: Any = fields["outputs"]
    try:
        outputs = parse_signature(given if isinstance(given, str) else ", ".join(given))
    except (SignatureSyntaxError, UnknownTypeError, TypeError):
        return False
    return any(not never_assigns(name, str(text)) for name in outputs.names)


def _in_order(model: type[BaseSpec], fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the values of positional arguments in the one order in which they are a spec.

    Two may be swapped, or one may stand in another place: the name in front, for instance.
    """
    names = _POSITIONAL[model.kind]
    given = [fields[name] for name in names]
    tried, sets = {repr(given)}, _sets_outputs(model, fields)
    for source, target in itertools.permutations(range(len(given)), 2):
        swapped, moved = [*given], [*given]
        swapped[source], swapped[target] = given[target], given[source]
        moved.insert(target, moved.pop(source))
        for values in (swapped, moved):
            ordered = dict(zip(names, values, strict=True))
            if repr(values) in tried:
                continue
            tried.add(repr(values))
            if sets and ordered["outputs"] != fields["outputs"]:
                continue
            spec = check_spec(model, {**fields, **ordered})[0]
            if spec is not None and _is_meant(spec):
                return ordered
    return None


def _is_meant(spec: Any) -> bool:
    """Return whether the texts of a reduction are what they are for: most pass as any of them."""
    if spec.kind != "reduction":
        return True
    read, reduced = {*identifiers(spec.map)}, {*identifiers(spec.reduce)}
    is_name = (spec.identity or "").isidentifier() and not spec.identity.isupper()
    return {"a", "b"} <= reduced and not read.isdisjoint(spec.inputs.names) and not is_name


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
