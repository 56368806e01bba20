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

import json
from collections.abc import Mapping
from typing import Any

from kspec.model.signature import CParam, Signature
from kspec.spec.models import Spec


def spec_table(spec: Spec) -> str:
    """Return the table of a spec, without what is as by default."""
    lines = [f"[{spec.kind}.{spec.name}]"]
    for key, field in type(spec).model_fields.items():
        value = getattr(spec, key)
        if key == "name" or value is None or value == field.default:
            continue
        lines.append(f"{key} = {_value(value)}")
    return "\n".join(lines)


def _value(value: Any) -> str:
    if isinstance(value, Signature):
        return _value([str(param) for param in value])
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | CParam):
        return _string(str(value))
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + " }"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _string(text: str) -> str:
    """Return a string as TOML: with its own lines where it has several."""
    plain = all(one.isprintable() or one in "\n\t" for one in text)
    if "\n" in text and plain and "'''" not in text and not text.endswith("'"):
        return f"'''\n{text}'''"
    return json.dumps(text, ensure_ascii=False)
