"""Faults of a spec with their places, and the exceptions made of them.

>>> str(error_for("sq", (Fault(("operation",), "must not be empty"),)))
"kernel 'sq': operation: must not be empty"

Models and rules produce faults, never text with positions; Python constructors turn them into
an exception here, `kspec.spec.loader` into lines and carets of the spec file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from kspec.dataclass import dataclass
from kspec.diagnostics import unknown_key
from kspec.errors import SignatureSyntaxError, SpecError, marked_line

# Pydantic's words, and ours: a list is what TOML and JSON call a tuple.
_WORDING = {"a valid tuple": "a list", "a valid integer": "an integer", "a valid ": "a "}
_TABLE = re.compile(r"a valid dictionary(?: or instance of \w+)?")
_NOTHING: Mapping[str, Any] = MappingProxyType({})


T = TypeVar("T")


class SpecTypeError(SpecError, TypeError):
    """A field of a spec was given a value of the wrong Python type."""


@dataclass(frozen=True)
class Fault:
    """One thing wrong with a spec.

    Attributes
    ----------
    location : tuple of str or int
        Keys and indices that lead to the value, such as ``("inputs", 1)``.
    message : str
        What is wrong and what to write instead.
    offset, length : int
        Offending characters of the string at `location`; -1 if unknown.
    word : str
        Word of the value to point at when `offset` is unknown.
    at_key : bool
        Whether the key is wrong, not its value.
    wrong_type : bool
        Whether the value has the wrong Python type.
    error : SignatureSyntaxError or None
        The parser's own error, raised as it is when nothing else is wrong.
    """

    location: tuple[str | int, ...]
    message: str
    offset: int = -1
    length: int = 1
    word: str = ""
    at_key: bool = False
    wrong_type: bool = False
    error: SignatureSyntaxError | None = None

    def under(self, prefix: tuple[str | int, ...]) -> Fault:
        """Return the same fault seen from further out."""
        return replace(self, location=prefix + self.location)


class FaultError(ValueError):
    """Carries faults out of a Pydantic validator; users never see it.

    `partial`: what of the value could be used nevertheless, so that more can be checked.
    """

    def __init__(self, faults: Iterable[Fault], partial: object = None) -> None:
        self.faults = tuple(faults)
        self.partial = partial
        super().__init__("; ".join(fault.message for fault in self.faults))


def fault_of(error: SignatureSyntaxError, *location: str | int) -> Fault:
    """Return a parser's error as a fault at `location`."""
    return Fault(location, error.message, error.offset, error.length, error=error)


def raise_faults(faults: Iterable[Fault], partial: object = None) -> None:
    """Raise a `FaultError` if there are any faults."""
    found = tuple(faults)
    if found:
        raise FaultError(found, partial)


def gathered(parse: Callable[..., T], rows: Iterable[Iterable[Any]]) -> list[T]:
    """Return the result of a function for each row of arguments; raise all faults at once."""
    found: list[T] = []
    faults: list[Fault] = []
    for row in rows:
        try:
            found.append(parse(*row))
        except FaultError as error:
            faults += error.faults
    raise_faults(faults)
    return found


def faults_of(error: ValidationError, model: type[BaseModel]) -> tuple[Fault, ...]:
    """Return Pydantic's findings about a model as faults."""
    return tuple(fault for entry in error.errors() for fault in _faults_of_entry(entry, model))


def refused_fields(error: ValidationError) -> dict[str, object]:
    """Return the fields whose values Pydantic refused, each with its usable part or None."""
    return {
        str(entry["loc"][0]): getattr(entry.get("ctx", {}).get("error"), "partial", None)
        for entry in error.errors()
        if entry["loc"]
    }


def _keys_beside(location: tuple[Any, ...], model: type[BaseModel]) -> list[str]:
    """Return the keys of the table that a location is in, without the name of a spec."""
    table = model
    for step in location[:-1]:
        field = table.model_fields.get(str(step))
        kinds = (field.annotation, *get_args(field.annotation)) if field else ()
        found = (one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel))
        table = next(found, BaseModel)
    return [key for key in table.model_fields if table is not model or key != "name"]


def _faults_of_entry(entry: object, model: type[BaseModel]) -> Iterator[Fault]:
    assert isinstance(entry, dict)
    location = tuple(entry["loc"])
    cause = entry.get("ctx", {}).get("error")
    if isinstance(cause, FaultError):
        yield from (fault.under(location) for fault in cause.faults)
    elif entry["type"] == "extra_forbidden":
        keys = _keys_beside(location, model)
        yield Fault(location, unknown_key(str(location[-1]), keys), at_key=True)
    elif entry["type"] == "missing":
        yield Fault(location, f"missing key {location[-1]!r}")
    else:
        message = str(cause) if cause else entry["msg"].replace("Input should be", "must be")
        message = _TABLE.sub("a table", message)
        for wording, better in _WORDING.items():
            message = message.replace(wording, better)
        found = type(entry["input"]).__name__
        wrong_type = entry["type"].endswith("_type")
        yield Fault(
            location, f"{message}, not {found}" if wrong_type else message, wrong_type=wrong_type
        )


def error_for(
    name: str,
    faults: tuple[Fault, ...],
    fields: Mapping[str, object] = _NOTHING,
    arguments: Mapping[str, str] = _NOTHING,
) -> SpecError:
    """Return the exception that tells a Python caller about `faults` of these `fields`.

    `arguments` are the names under which the caller gave fields, where they differ. The class is
    that of the first parameter list that does not parse, if there is one.
    """
    if len(faults) == 1 and faults[0].error is not None:
        error = faults[0].error
        message = f"kernel {name!r}: {_where(faults[0], arguments)}: {error.message}"
        return type(error)(message, error.text, error.offset, error.length)
    cls: type[SpecError] = SpecError
    if all(fault.wrong_type for fault in faults):
        cls = SpecTypeError
    cls = next((type(fault.error) for fault in faults if fault.error), cls)
    texts = [_text(fault, fields, arguments) for fault in faults]
    if len(texts) == 1:
        return cls(f"kernel {name!r}: {texts[0]}")
    listed = "\n".join("  " + text.replace("\n", "\n  ") for text in texts)
    return cls(f"kernel {name!r} is declared wrongly:\n{listed}")


def _text(fault: Fault, fields: Mapping[str, object], arguments: Mapping[str, str]) -> str:
    where = _where(fault, arguments)
    message = str(fault.error) if fault.error else fault.message
    value = fields.get(".".join(map(str, fault.location)))
    if not fault.error and fault.offset >= 0 and isinstance(value, str) and value.strip():
        message += "\n" + marked_line(value, fault.offset, fault.length)
    return f"{where}: {message}" if where else message


def _where(fault: Fault, arguments: Mapping[str, str]) -> str:
    path = list(map(str, fault.location))
    path[:1] = [arguments.get(key, key) for key in path[:1]]
    return ".".join(path)
