"""Field types of the models: how TOML and Python values become frozen data.

A signature is accepted as CuPy's one string or as a list with one parameter per string;
dtype names become canonical; numbers become C++ text.  Each type knows its JSON Schema.
The neighbour `kspec.spec.models` puts them together.

>>> identity_text(0), identity_text(None), identity_text(True)
('0', None, 'true')
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Complex, Real
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from kspec.errors import SignatureSyntaxError, UnknownTypeError
from kspec.limits import BINDINGS, DTYPES, PARAMS
from kspec.model import dtypes
from kspec.model.raw.c_params import parse_c_params
from kspec.model.raw.launch_rules import Default
from kspec.model.shapes import integer
from kspec.model.signature import CParam, Param, Signature
from kspec.model.structs import FieldText, StructText
from kspec.spec.faults import Fault, FaultError, fault_of, gathered, raise_faults
from kspec.spec.parser import scan_signature, unknown_type

_EXTENTS = re.compile(r"([^\[\]{}]+?)\s*((?:\[\s*\d+\s*\]\s*)+)")
_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING}
_STRING_OR_LIST = {"anyOf": [_STRING, _STRINGS]}
# An editor underlines what is not one of these: a name, bytes, a texture, a dtype of a given byte
# order, or a struct, which may be a table of its fields. Nested tables are not described further.
DTYPE = {
    "anyOf": [
        {"type": "string", "enum": list(dtypes.spellings())},
        {"type": "string", "pattern": rf"^([<=|].+|V[0-9]+|\{{.*\}}|{dtypes.TEXTURE.name})$"},
        {"type": "object", "minProperties": 1},
    ]
}


def wrong_type(value: object, expected: str, *location: str | int) -> FaultError:
    """Return the error for a value of another Python type."""
    message = f"must be {expected}, not {type(value).__name__}"
    return FaultError([Fault(location, message, wrong_type=True)])


def _strings(value: object, expected: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        raise wrong_type(value, expected)
    for index, item in enumerate(value):
        if not isinstance(item, str):
            raise wrong_type(item, "a string", index)
    return tuple(value)


def _limit(
    items: list[Any] | tuple[Any, ...], most: int, message: str, *location: str | int
) -> None:
    """Refuse a list that is too long before each of its items is looked at."""
    if len(items) > most:
        raise FaultError([Fault(location, f"{message.format(most)}, not {len(items)}")])


def _signature(value: object) -> Signature:
    if isinstance(value, Signature):
        value = str(value)  # one made by hand is checked as well
    if isinstance(value, str):
        signature, errors = scan_signature(value)
        raise_faults((fault_of(error) for error in errors), signature)
        return signature
    items = _strings(value, "a string or a list of strings")
    _limit(items, PARAMS, "a kernel has at most {} parameters")
    params: list[Param] = []
    faults: list[Fault] = []
    for index, item in enumerate(items):
        signature, errors = scan_signature(item or " ")
        faults += [fault_of(error, index) for error in errors]
        params += signature.params
    raise_faults(faults, Signature(tuple(params)))
    return Signature(tuple(params))


def _c_params(value: object) -> tuple[CParam, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = [value] if value.strip() else []
    items = value if isinstance(value, list | tuple) else _strings(value, "a list of strings")
    _limit(items, PARAMS, "a kernel has at most {} parameters")
    params: list[CParam] = []
    faults: list[Fault] = []
    for index, item in enumerate(items):
        if isinstance(item, CParam):
            params.append(item)
            continue
        if not isinstance(item, str):
            raise wrong_type(item, "a string", index)
        try:
            params += parse_c_params([item])
        except SignatureSyntaxError as error:
            faults.append(fault_of(error, index))
    raise_faults(faults)
    return tuple(params)


def _extents(value: object) -> str | tuple[str, ...] | None:
    """Return the expressions of a grid or block: one, or up to three in a list."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        return _expression(value, "an expression, or a list with one for each axis")
    if not value:
        raise FaultError([Fault((), "needs one to three axes")])
    if len(value) > 3:
        raise FaultError([Fault((3,), "a grid and a block have three axes at most")])
    return tuple(_expression(item, "an expression", index) for index, item in enumerate(value))


def _launch_sizes(value: object) -> tuple[int, ...]:
    """Return the sizes of a grid, block or cluster: one integer, or one for each axis."""
    if type(value) is int:
        return (value,)
    if not isinstance(value, list | tuple):
        raise wrong_type(value, "an integer, or a list with one for each axis")
    for index, item in enumerate(value):
        if type(item) is not int:
            raise wrong_type(item, "an integer", index)
    return tuple(value)


def _expression(value: object, expected: str = "an expression", *location: str | int) -> str:
    """Return the text of an expression, which may be a number."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise wrong_type(value, expected, *location)


def _defaults(value: object) -> dict[str, Default]:
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a table of expressions or numbers")
    for name, default in value.items():
        if not isinstance(default, str | bool | int | float):
            raise wrong_type(default, "an expression or a number", str(name))
    return dict(value)


def _returns(value: object) -> dict[str, str | tuple[str, ...]]:
    """Return the shapes of returned arrays: a tuple as text, or an expression for each axis."""
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a table of shapes, such as { y = '(n, 2)' }")
    shapes: dict[str, str | tuple[str, ...]] = {}
    for name, shape in value.items():
        where = str(name)
        if isinstance(shape, list | tuple):
            rows = ((item, "an expression", where, index) for index, item in enumerate(shape))
            shapes[where] = tuple(gathered(_expression, rows))
        else:
            shapes[where] = _expression(shape, "a shape, such as '(n, 2)'", where)
    return shapes


def _backward(value: object) -> str | dict[str, str] | None:
    """Return the name of a kernel, or an expression for each input."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Mapping):
        raise wrong_type(value, "a kernel's name, or a table of expressions by input")
    for name, text in value.items():
        if not isinstance(text, str):
            raise wrong_type(text, "CUDA C++ text", str(name))
    return dict(value)


def _kernel_name(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        message = "a raw kernel has no elements to write expressions for; name a kernel"
        raise FaultError([Fault((), message, wrong_type=True)])
    raise wrong_type(value, "a kernel's name")


def _options(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        message = f"must be a list or tuple of strings, not one string; write [{value!r}]"
        raise FaultError([Fault((), message, wrong_type=True)])
    return _strings(value, "a list or tuple of strings, such as ['-DN=3']")


def identity_text(value: object) -> str | None:
    """Return a reduction's identity as C++ text; None where there is none."""
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        number = complex(value)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        raise wrong_type(value, "a number or C++ text") from None
    if not (math.isfinite(number.real) and math.isfinite(number.imag)):
        message = f"{value} has no C++ spelling; write it as text, such as '-CUDART_INF_F'"
        raise FaultError([Fault((), message)])
    if isinstance(value, Complex) and not isinstance(value, Real):
        return f"complex<double>({number.real}, {number.imag})"
    return str(value)


def _dtype_names(value: object, *location: str | int) -> tuple[str, ...]:
    single = isinstance(value, str | Mapping)
    items = [value] if single else value
    if not isinstance(items, list | tuple):
        raise wrong_type(value, "a list of dtype names", *location)
    _limit(items, DTYPES, "at most {} dtypes can be listed", *location)
    places = [location] if single else [(*location, index) for index in range(len(items))]
    rows = ((item, *place) for item, place in zip(items, places, strict=True))
    return tuple(dict.fromkeys(gathered(_dtype_name, rows)))


def dtype_of(value: object) -> str:
    """Return the canonical name of a dtype; raise `FaultError` for anything else."""
    return _dtype_name(value)


def _dtype_name(item: object, *where: str | int) -> str:
    """Return the canonical name of a dtype; a struct may be a table of its fields' types."""
    if isinstance(item, Mapping):
        fields = gathered(_struct_field, ((str(key), one, *where) for key, one in item.items()))
        if not fields:
            raise FaultError([Fault(where, "a struct needs at least one field")])
        try:
            return dtypes.canonical_name(str(StructText(tuple(fields))))
        except UnknownTypeError as error:
            raise FaultError([Fault(where, error.message)]) from None
    if not isinstance(item, str):
        raise wrong_type(item, "a dtype name", *where)
    if item == dtypes.TEXTURE.name:
        return item
    try:
        return dtypes.canonical_name(item)
    except UnknownTypeError as error:
        if error.text:
            fault = Fault(where, error.message, offset=error.offset, length=error.length)
        elif item.lstrip().startswith("{"):
            fault = Fault(where, error.message)
        else:
            fault = Fault(where, unknown_type(item), offset=0, length=len(item))
        raise FaultError([fault]) from None


def _struct_field(name: str, item: object, *where: str | int) -> FieldText:
    """Return a field: a type, or an array of it such as ``float32[3]``."""
    extents = _EXTENTS.fullmatch(item) if isinstance(item, str) else None
    if extents is None:
        return FieldText(name, _dtype_name(item, *where, name))
    shape = tuple(map(int, re.findall(r"\d+", extents[2])))
    return FieldText(name, _dtype_name(extents[1], *where, name), shape)


def _types(value: object) -> dict[str, tuple[str, ...]] | tuple[dict[str, str], ...]:
    if isinstance(value, Mapping):
        return _type_lists(value)
    if not isinstance(value, list | tuple):
        raise wrong_type(value, "a table of dtype lists, or a list of tables")
    _limit(value, BINDINGS, "at most {} combinations of dtypes can be listed")
    rows: list[dict[str, str]] = []
    for index, row in enumerate(value):
        if not isinstance(row, Mapping):
            raise wrong_type(row, "a table such as { T = 'float32' }", index)
        for key, item in row.items():
            if not isinstance(item, str | Mapping):
                raise wrong_type(item, "one dtype name", index, str(key))
        rows.append({key: names[0] for key, names in _type_lists(row, index).items()})
    return tuple(rows)


def _type_lists(table: Mapping[str, object], *location: int) -> dict[str, tuple[str, ...]]:
    rows = ((item, *location, str(key)) for key, item in table.items())
    return dict(zip(table, gathered(_dtype_names, rows), strict=True))


def _axes(value: object) -> int | tuple[int, ...] | None:
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, list | tuple) and all(type(item) is int for item in value):
        return tuple(value)
    raise wrong_type(value, "an integer or a list of integers")


def _number(value: object) -> bool | int | float:
    if isinstance(value, bool | int | float):
        return value
    whole = integer(value)
    if whole is not None:
        return whole
    if isinstance(value, Real):  # NumPy's float32
        return float(value)
    raise wrong_type(value, "a number")


def _tolerance(value: object) -> float | dict[str, float] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return _positive(value)
    return dict(gathered(_tolerance_of, value.items()))


def _tolerance_of(dtype: object, value: object) -> tuple[str, float]:
    return _dtype_name(dtype, str(dtype)), _positive(value, str(dtype))


def _positive(value: object, *where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise wrong_type(value, "a number", *where)
    if not value >= 0:
        raise FaultError([Fault(where, "must be 0 or more")])
    return float(value)


def _argument(value: object) -> str | bool | int | float:
    return value if isinstance(value, str) else _number(value)


# Functions of Python: older versions of Pydantic ask for their signatures.
_AS_LIST = PlainSerializer(lambda values: [*values])

SignatureField = Annotated[
    Signature,
    PlainValidator(_signature),
    PlainSerializer(Signature.__str__),
    WithJsonSchema(_STRING_OR_LIST),
]
OptionsField = Annotated[
    tuple[str, ...],
    PlainValidator(_options),
    _AS_LIST,
    WithJsonSchema(_STRINGS),
]
BackwardField = Annotated[
    str | dict[str, str] | None,
    PlainValidator(_backward),
    WithJsonSchema({"anyOf": [_STRING, {"type": "object", "additionalProperties": _STRING}]}),
]
KernelNameField = Annotated[str | None, PlainValidator(_kernel_name), WithJsonSchema(_STRING)]
CParamsField = Annotated[
    tuple[CParam, ...] | None,
    PlainValidator(_c_params),
    PlainSerializer(lambda params: None if params is None else [str(param) for param in params]),
    WithJsonSchema(_STRINGS),
]
_EXPRESSION = {"type": ["string", "integer"]}
ExpressionField = Annotated[str, PlainValidator(_expression), WithJsonSchema(_EXPRESSION)]
ExtentsField = Annotated[
    str | tuple[str, ...] | None,
    PlainValidator(_extents),
    WithJsonSchema(
        {
            "anyOf": [
                _EXPRESSION,
                {"type": "array", "items": _EXPRESSION, "minItems": 1, "maxItems": 3},
            ]
        }
    ),
]
LaunchSizesField = Annotated[
    tuple[int, ...],
    PlainValidator(_launch_sizes),
    _AS_LIST,
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer"},
                {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
            ]
        }
    ),
]
DefaultsField = Annotated[
    dict[str, Default],
    PlainValidator(_defaults),
    WithJsonSchema(
        {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
    ),
]
ReturnsField = Annotated[
    dict[str, str | tuple[str, ...]],
    PlainValidator(_returns),
    WithJsonSchema(
        {
            "type": "object",
            "additionalProperties": {
                "anyOf": [_EXPRESSION, {"type": "array", "items": _EXPRESSION}]
            },
        }
    ),
]
NamesField = Annotated[
    tuple[str, ...],
    PlainValidator(lambda value: _strings(value, "a list of names")),
    _AS_LIST,
    WithJsonSchema(_STRINGS),
]
FixedField = Annotated[
    tuple[str, ...] | None,
    PlainValidator(lambda value: None if value is None else _strings(value, "a list of names")),
    PlainSerializer(lambda names: None if names is None else list(names)),
    WithJsonSchema(_STRINGS),
]
IdentityField = Annotated[
    str | None,
    PlainValidator(identity_text),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
TypesField = Annotated[
    dict[str, tuple[str, ...]] | tuple[dict[str, str], ...],
    PlainValidator(_types),
    PlainSerializer(lambda types: types, return_type=Any),
    WithJsonSchema(
        {
            "anyOf": [
                {
                    "type": "object",
                    "additionalProperties": {"type": "array", "items": DTYPE},
                },
                {
                    "type": "array",
                    "items": {"type": "object", "additionalProperties": DTYPE},
                },
            ]
        }
    ),
]
AxesField = Annotated[
    int | tuple[int, ...] | None,
    PlainValidator(_axes),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}]}
    ),
]
NumberField = Annotated[
    bool | int | float, PlainValidator(_number), WithJsonSchema({"type": ["number", "boolean"]})
]
ToleranceField = Annotated[
    float | dict[str, float] | None,
    PlainValidator(_tolerance),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0},
                {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
            ]
        }
    ),
]
ArgumentField = Annotated[
    str | bool | int | float,
    PlainValidator(_argument),
    WithJsonSchema({"type": ["string", "number", "boolean"]}),
]
