"""Pydantic models of what users write: the tables of spec files.

They are made of the classes of `kspec.spec.models`, field by field, so that both say the same.
Every spec file goes through them, and whatever a Python constructor is given that is not clearly
right; what is right needs none of this (`kspec.spec.building`), for importing Pydantic and making
the models takes 0.1 s (measured), a sixth of a cold start.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    StrictBool,
    ValidationError,
    WithJsonSchema,
    create_model,
)

from kspec.spec import fields as kinds
from kspec.spec.base import BaseSpec, Check
from kspec.spec.faults import Fault, FaultError, unknown_key
from kspec.spec.fields import Kind
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec

# Pydantic's words, and ours: a list is what TOML and JSON call a tuple.
_WORDING = {"a valid tuple": "a list", "a valid integer": "an integer", "a valid ": "a "}


def _annotation(kind: Kind) -> Any:
    """Return the type that tells Pydantic about a kind of field."""
    if kind.schema is None:
        return _PLAIN[kind]
    return Annotated[
        Any,
        PlainValidator(kind.convert),
        PlainSerializer(kind.dump, return_type=Any),
        _schema(kind),
    ]


def _schema(kind: Kind) -> WithJsonSchema:
    return WithJsonSchema(dict(kind.schema or {}))


_Axes = Annotated[
    int | tuple[int, ...] | None, PlainValidator(kinds.AXES.convert), _schema(kinds.AXES)
]
_Number = Annotated[bool | int | float, PlainValidator(kinds.NUMBER.convert), _schema(kinds.NUMBER)]
_Argument = Annotated[
    str | bool | int | float, PlainValidator(kinds.ARGUMENT.convert), _schema(kinds.ARGUMENT)
]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=False)


class Example(_Model):
    """How tests and demonstrations call a kernel: with random arrays of these shapes."""

    shapes: dict[str, tuple[int, ...]] = Field({}, description="Shape of each array argument.")
    scalars: dict[str, _Number] = Field({}, description="Value of each scalar argument.")
    types: dict[str, str] = Field(
        {}, description="Placeholder to dtype; absent: the first precompiled binding."
    )
    axis: _Axes = Field(None, description="Axes to reduce; absent: all.")
    keepdims: StrictBool = Field(False, description="Keep reduced axes with extent 1.")
    size: int | None = Field(None, ge=0, description="Loop size when every array is raw.")
    grid: tuple[int, ...] = Field((), description="Blocks per axis (raw kernels).")
    block: tuple[int, ...] = Field((), description="Threads per axis of a block (raw kernels).")
    shared_mem: int = Field(0, ge=0, description="Dynamic shared memory in bytes (raw kernels).")
    args: tuple[_Argument, ...] = Field(
        (), description="Arguments in order: names of shapes and scalars, or numbers."
    )
    name_expression: str = Field("", description="Name expression to call; absent: the first.")
    low: float = Field(-1.0, description="Least random value.")
    high: float = Field(1.0, description="Bound of the random values.")
    tolerance: float | None = Field(
        None, ge=0, description="Relative tolerance against the reference; absent: by dtype."
    )


_PLAIN: Mapping[Kind, Any] = {
    kinds.TEXT: str,
    kinds.OPTIONAL_TEXT: str | None,
    kinds.TEXTS: tuple[str, ...],
    kinds.FLAG: StrictBool,
    kinds.EXAMPLE: Example | None,
}


def _table(spec: type[BaseSpec]) -> type[_Model]:
    """Return the model of a class of specs."""
    fields: dict[str, Any] = {}
    for one in dataclasses.fields(spec):
        if one.init:
            default = one.default
            if one.default_factory is not dataclasses.MISSING:
                default = one.default_factory()
            options = {} if default is dataclasses.MISSING else {"default": default}
            description = one.metadata["description"]
            fields[one.name] = (
                _annotation(one.metadata["kind"]),
                Field(description=description, **options),
            )
    return create_model(spec.__name__, __base__=_Model, __doc__=spec.__doc__, **fields)


TABLES: Mapping[type[BaseSpec], type[_Model]] = {
    spec: _table(spec) for spec in (ElementwiseSpec, ReductionSpec, RawSpec)
}


def read_fields(
    spec: type[BaseSpec], fields: Mapping[str, Any], folder: Path | None
) -> tuple[dict[str, Any], tuple[Fault, ...]]:
    """Return the fields of a spec as Pydantic accepts them, and everything wrong with them.

    Parameters
    ----------
    spec : type
        Class of specs.
    fields : mapping
        What the user wrote.
    folder : Path, optional
        Folder of the spec file.

    Returns
    -------
    tuple of dict and tuple of Fault
        If there are faults they are complete: those of the spec as a whole are among them, as
        far as they can be told.
    """
    try:
        return _values(TABLES[spec].model_validate(dict(fields))), ()
    except ValidationError as error:
        keys = [key for key in TABLES[spec].model_fields if key != "name"]
        faults = _faults_of(error, keys)
        return {}, (*faults, *_faults_of_the_rest(spec, fields, folder, _refused_fields(error)))


def _values(table: BaseModel) -> dict[str, Any]:
    return {name: getattr(table, name) for name in type(table).model_fields}


def _faults_of_the_rest(
    spec: type[BaseSpec],
    fields: Mapping[str, Any],
    folder: Path | None,
    refused: Mapping[str, object],
) -> tuple[Fault, ...]:
    """Return what is wrong with the fields beside those that Pydantic refused.

    Of those it takes the usable part, or a value that nothing is wrong with.
    """
    accepted = {key: value for key, value in fields.items() if key not in refused}
    partial = {key: value for key, value in refused.items() if value is not None}
    required = [key for key, one in TABLES[spec].model_fields.items() if one.is_required()]
    stand_ins = {key: "kernel" for key in required if key in refused}
    rest = {**accepted, **stand_ins, **partial}
    try:
        made = spec(**_values(TABLES[spec].model_validate(rest)))
        found = tuple(made.faults(Check(folder, frozenset(rest), frozenset(refused))))
    except ValidationError as error:
        found = _faults_of(error, ())
    return tuple(
        fault for fault in found if fault.location[:1] not in {(key,) for key in stand_ins}
    )


def _faults_of(error: ValidationError, keys: Iterable[str]) -> tuple[Fault, ...]:
    """Return Pydantic's findings as faults; `keys` are the keys that would be allowed."""
    allowed = tuple(keys)
    return tuple(fault for entry in error.errors() for fault in _faults_of_entry(entry, allowed))


def _refused_fields(error: ValidationError) -> dict[str, object]:
    """Return the fields whose values Pydantic refused, each with what of it can be used or None."""
    return {
        str(entry["loc"][0]): getattr(entry.get("ctx", {}).get("error"), "partial", None)
        for entry in error.errors()
        if entry["loc"]
    }


def _faults_of_entry(entry: object, allowed: tuple[str, ...]) -> Iterator[Fault]:
    assert isinstance(entry, dict)
    location = tuple(entry["loc"])
    cause = entry.get("ctx", {}).get("error")
    if isinstance(cause, FaultError):
        yield from (fault.under(location) for fault in cause.faults)
    elif entry["type"] == "extra_forbidden":
        options = allowed if len(location) == 1 else ()
        yield Fault(location, unknown_key(str(location[-1]), options), at_key=True)
    elif entry["type"] == "missing":
        yield Fault(location, f"missing key {location[-1]!r}")
    else:
        message = str(cause) if cause else entry["msg"].replace("Input should be", "must be")
        for wording, better in _WORDING.items():
            message = message.replace(wording, better)
        found = type(entry["input"]).__name__
        wrong_type = entry["type"].endswith("_type")
        yield Fault(
            location, f"{message}, not {found}" if wrong_type else message, wrong_type=wrong_type
        )
