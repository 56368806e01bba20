"""A fused function and what it is called with in, spec tables out, to be compiled ahead of time.

>>> arguments = parse_arguments(["float32[4,8]", "float"])
>>> arguments[0].shape, arguments[0].dtype.name, arguments[1]
((4, 8), 'float32', 0.0)

The function is imported and traced, which runs its module and calls it once with proxies; it
never sees an array.
"""

from __future__ import annotations

import importlib
import re
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kspec.errors import KspecError, SpecError, UnknownTypeError
from kspec.files import naming
from kspec.model.dtypes import canonical_name
from kspec.model.signature import CParam, Signature
from kspec.runtime.memory import numpy_dtype
from kspec.spec.loader import load_spec_file
from kspec.spec.models import Spec
from kspec.spec.schema import SCHEMA_FILE
from kspec.toml import toml_value

_NUMBERS: dict[str, Any] = {
    "int": 0,
    "float": 0.0,
    "complex": 0j,
    "bool": False,
    "None": None,
}
_ARRAY = re.compile(r"\s*([A-Za-z]\w*)\s*\[\s*(\d+(?:\s*,\s*\d+)*)?\s*\]\s*")


def parse_arguments(texts: Sequence[str]) -> list[Any]:
    """Return arguments by their descriptions.

    Parameters
    ----------
    texts : sequence of str
        ``"float32[4096,1024]"`` for an array, ``"float32"`` for a NumPy scalar, ``"int"``,
        ``"float"``, ``"complex"``, ``"bool"`` and ``"None"`` for what Python calls so.

    Raises
    ------
    SpecError
        For anything else.
    """
    return [_argument(text) for text in texts]


def array_type(text: str) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
    """Return dtype and shape of ``float32[4096,1024]``; None for what is not written so.

    Raises
    ------
    UnknownTypeError
        If there is no such dtype.
    """
    match = _ARRAY.fullmatch(text)
    if match is None:
        return None
    shape = tuple(int(one) for one in (match[2] or "").split(",") if one)
    return numpy_dtype(canonical_name(match[1])), shape


def _argument(text: str) -> Any:
    if text in _NUMBERS:
        return _NUMBERS[text]
    try:
        array = array_type(text)
        if array is None:
            return numpy_dtype(canonical_name(text)).type(0)
        dtype, shape = array
        # Any size will do: all elements are the same one.
        return np.broadcast_to(np.zeros((), dtype), shape)
    except UnknownTypeError as error:
        raise SpecError(
            f"argument {text!r}: {error}; an array is written float32[4096,1024], a number int or "
            "float"
        ) from None


def frozen_specs(target: str, arguments: Sequence[str]) -> tuple[Spec, ...]:
    """Return the kernels of a function.

    Parameters
    ----------
    target : str
        ``"module:function"``; the module is looked for in the current folder, too.
    arguments : sequence of str
        What it is called with, as for `parse_arguments`.

    Raises
    ------
    SpecError
        If there is no such function, or it has no kernels to give.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise SpecError(f"{target!r} does not name a function; write module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module_name)
    except KspecError:
        raise
    except Exception as error:  # of the module itself, which may do anything
        if isinstance(error, ModuleNotFoundError) and _is_part(error.name, module_name):
            raise SpecError(f"there is no module {module_name!r} in {here} or installed") from None
        raise SpecError(
            f"module {module_name!r} cannot be imported ({type(error).__name__}: {error}); "
            f"`python -c 'import {module_name}'` shows where"
        ) from error
    for part in name.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise SpecError(f"module {module_name!r} has no {name!r}")
    if not hasattr(found, "to_spec"):
        raise SpecError(f"{target} cannot be frozen: only fused and jitted functions have kernels")
    given = parse_arguments(arguments)
    try:
        specs: tuple[Spec, ...] = found.to_spec(*given)
    except KspecError:
        raise
    except Exception as error:  # of the function, whatever it may be
        called = f"{target} called with {', '.join(arguments) or 'nothing'}"
        place = _place(error, sys.modules[module_name].__file__)
        raise SpecError(f"{called}: {type(error).__name__}: {error}{place}") from error
    if not specs:
        raise SpecError(f"{target} has no kernels: it returns no array, and writes to none")
    return specs


def _place(error: Exception, file: str | None) -> str:
    """Return the line of a file that an error comes from, as the end of a message."""
    lines = [one for one in traceback.extract_tb(error.__traceback__) if one.filename == file]
    if not lines:
        return ""
    last = lines[-1]
    return f"\n  {last.filename}:{last.lineno}, in {last.name}\n    {last.line}"


def _is_part(missing: str | None, module: str) -> bool:
    """Return whether a module that was not found is the one that was asked for, or its package."""
    return missing is not None and f"{module}.".startswith(f"{missing}.")


def write_specs(path: Path, specs: Sequence[Spec], origin: str) -> None:
    """Append specs to a spec file, which may be new; it is left as it was if they do not fit.

    Parameters
    ----------
    path : Path
        The file.
    specs : sequence of Spec
        What it gets.
    origin : str
        Where they come from, for a comment.

    Raises
    ------
    SpecError
        If the file has a kernel of that name, or is wrong.
    """
    old = ""
    if path.is_file() and path.stat().st_size:
        taken = {one.name for one in load_spec_file(path, path.parent).specs}
        old = path.read_text(encoding="utf-8-sig")
        for spec in specs:
            if spec.name in taken:
                raise SpecError(
                    f"{path} has a kernel {spec.name!r} already: remove it first, or give "
                    "the function another kernel_name"
                )
    head = old.rstrip("\n") or f"#:schema ../{SCHEMA_FILE}"
    tables = [f"# Frozen from {origin}.\n{spec_table(spec)}" for spec in specs]
    text = "\n\n".join([head, *tables]) + "\n"
    trial = path.with_name(f"{path.stem}_frozen.toml")  # beside it, for its sources
    try:
        with naming(path):
            trial.write_text(text, encoding="utf-8")
        load_spec_file(trial, path.parent)
        trial.replace(path)
    finally:
        trial.unlink(missing_ok=True)


def spec_table(spec: Spec) -> str:
    """Return the TOML table that declares a spec, without what is as by default.

    >>> from kspec.spec.models import ElementwiseSpec
    >>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x")
    >>> print(spec_table(spec))
    [elementwise.sq]
    inputs = ["T x"]
    outputs = ["T y"]
    operation = "y = x * x"
    """
    lines = [f"[{spec.kind}.{spec.name}]"]
    for key, field in type(spec).model_fields.items():
        value = getattr(spec, key)
        if key == "name" or value is None or value == field.default:
            continue
        lines.append(f"{key} = {toml_value(_plain(value))}")
    return "\n".join(lines)


def _plain(value: Any) -> Any:
    """Return a field's value as a spec file has it."""
    if isinstance(value, CParam):
        return str(value)
    if isinstance(value, Signature):
        return [str(param) for param in value]
    return list(map(_plain, value)) if isinstance(value, tuple) else value
