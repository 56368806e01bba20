"""The JSON Schema of spec files, which editors use to complete and to check them.

A spec file refers to it in its first line, ``#:schema ../kspec.schema.json``; the committed
file is this module's output (a test compares).  Descriptions are those of `kspec.spec.models`,
examples the values in the spec file ``document/examples.toml``.

>>> spec_file_schema()["title"]
'kspec spec file'
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from kspec.spec.document import versions
from kspec.spec.fields import DTYPE
from kspec.spec.models import MODELS

SCHEMA_FILE = "kspec.schema.json"
EXAMPLES = Path(__file__).parent / "document" / "examples.toml"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_MOST_EXAMPLES = 2
_SECTIONS = {
    "elementwise": "Kernels that compute every element by itself, by name.",
    "reduction": "Kernels that fold the elements along axes, by name.",
    "raw": "Kernels written as CUDA C++, by name.",
}


def spec_file_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file."""
    examples = tomllib.loads(EXAMPLES.read_text(encoding="utf-8"))
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {
        "doc": {"type": "string", "description": "Documentation of the generated module."},
        versions.KEY: {
            "type": "integer",
            "minimum": versions.FIRST,
            "maximum": versions.current(),
            "description": "Version of the format of this file; default: 1, the first.",
        },
        "structs": {
            "type": "object",
            "description": "C++ structs that raw kernels take: the types of their fields, by name.",
            "additionalProperties": DTYPE,
        },
    }
    for kind, model in MODELS.items():
        schema = model.model_json_schema()
        definitions |= schema.pop("$defs", {})
        definitions[kind] = _without_name(schema)
        _illustrate(definitions[kind], examples[kind].values())
        properties[kind] = {
            "type": "object",
            "description": _SECTIONS[kind],
            "patternProperties": {"^[A-Za-z_][A-Za-z_0-9]*$": {"$ref": f"#/$defs/{kind}"}},
            "additionalProperties": False,
        }
    every = [table for kind in MODELS for table in examples[kind].values()]
    for kind in MODELS:
        _illustrate(definitions[kind], every)
    for name in ("Example", "Budget"):
        key = name.lower()
        _illustrate(definitions[name], [one[key] for one in every if key in one])
    schema = {
        "$schema": _DIALECT,
        "title": "kspec spec file",
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
        "$defs": definitions,
    }
    cleaned: dict[str, Any] = _cleaned(schema)
    return cleaned


def render_schema() -> str:
    """Return the JSON text of `spec_file_schema`: same models, same bytes."""
    return json.dumps(spec_file_schema(), indent=2, sort_keys=True) + "\n"


def _illustrate(schema: dict[str, Any], tables: Collection[Mapping[str, Any]]) -> None:
    """Give the fields that have no examples yet the first values that they have in some tables."""
    for name, field in schema["properties"].items():
        values = [one[name] for one in tables if name in one]
        distinct = [one for number, one in enumerate(values) if one not in values[:number]]
        if distinct and field.get("type") != "boolean":
            field.setdefault("examples", distinct[:_MOST_EXAMPLES])


def _without_name(schema: dict[str, Any]) -> dict[str, Any]:
    """Drop the field that a spec file gives as the key of the table."""
    schema["properties"].pop("name")
    required = [key for key in schema.get("required", ()) if key != "name"]
    schema.pop("required", None)
    return schema | ({"required": required} if required else {})


def _cleaned(node: Any) -> Any:
    """Drop the titles Pydantic invents, and null, which TOML has not."""
    if isinstance(node, list):
        return [_cleaned(item) for item in node]
    if not isinstance(node, dict):
        return node
    node = {key: value for key, value in node.items() if not _is_noise(key, value)}
    options = node.pop("anyOf", None)
    if options:
        options = [option for option in options if option != {"type": "null"}]
        if len(options) == 1:
            node |= options[0]
        else:
            node["anyOf"] = options
    return {key: _cleaned(value) for key, value in node.items()}


def _is_noise(key: str, value: object) -> bool:
    return (key == "title" and value != "kspec spec file" and isinstance(value, str)) or (
        key == "default" and value is None
    )
