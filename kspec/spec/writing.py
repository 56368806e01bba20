"""Specs in, the TOML tables that declare them out: `kspec.spec.loader` reads the same specs back.

>>> from kspec.spec.models import ElementwiseSpec
>>> spec = ElementwiseSpec(name="sq", inputs="T x", outputs="T y", operation="y = x * x")
>>> print(spec_table(spec))
[elementwise.sq]
inputs = ["T x"]
outputs = ["T y"]
operation = "y = x * x"
"""

from __future__ import annotations

from typing import Any

from kspec.model.signature import CParam, Signature
from kspec.model.toml import toml_value
from kspec.spec.models import Spec


def spec_table(spec: Spec) -> str:
    """Return the table of a spec, without what is as by default."""
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
