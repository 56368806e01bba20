from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kspec.build.project import build_project
from kspec.model import dtypes
from kspec.spec.schema import EXAMPLES, render_schema, spec_file_schema
from tests.projects import write_specs
from tests.spec.test_loader import GOOD

ROOT = Path(__file__).parents[2]


def validates(schema: dict[str, Any], value: Any, definitions: dict[str, Any]) -> bool:
    """Check the part of JSON Schema that our schema uses."""
    if "$ref" in schema:
        return validates(definitions[schema["$ref"].rsplit("/", 1)[1]], value, definitions)
    if "anyOf" in schema:
        return any(validates(option, value, definitions) for option in schema["anyOf"])
    kinds = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(isinstance(value, kinds[name]) for name in types):  # type: ignore[arg-type]
        return False
    if value not in schema.get("enum", [value]):
        return False
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        return False
    if isinstance(value, list):
        return all(validates(schema.get("items", {}), item, definitions) for item in value)
    if isinstance(value, dict):
        return set(schema.get("required", ())) <= set(value) and all(
            _property(schema, key, item, definitions) for key, item in value.items()
        )
    return True


def _property(schema: dict[str, Any], key: str, item: Any, definitions: dict[str, Any]) -> bool:
    if key in schema.get("properties", {}):
        return validates(schema["properties"][key], item, definitions)
    for pattern, sub in schema.get("patternProperties", {}).items():
        if re.search(pattern, key):
            return validates(sub, item, definitions)
    extra = schema.get("additionalProperties", True)
    return validates(extra, item, definitions) if isinstance(extra, dict) else bool(extra)


def test_the_committed_schema_is_current() -> None:
    assert (ROOT / "kspec.schema.json").read_text() == render_schema()
    assert render_schema() == render_schema()


def test_every_key_is_described() -> None:
    schema = spec_file_schema()
    for kind in ("elementwise", "reduction", "raw", "Example"):
        for key, field in schema["$defs"][kind]["properties"].items():
            assert field.get("description"), f"{kind}.{key}"


def test_fields_have_examples() -> None:
    schema = spec_file_schema()
    for kind in ("elementwise", "reduction", "raw", "Example"):
        for key, field in schema["$defs"][kind]["properties"].items():
            if field.get("type") != "boolean" and (kind, key) != ("raw", "source"):  # needs a file
                assert field.get("examples"), f"{kind}.{key}"
                for value in field["examples"]:
                    assert validates(field, value, schema["$defs"]), f"{kind}.{key}: {value}"


@pytest.mark.slow
def test_examples_are_of_kernels_that_compile(tmp_path: Path) -> None:
    project = write_specs(tmp_path / "toy", examples=EXAMPLES.read_text())
    report = build_project(project, ["sm_90"])
    (unit,) = report.plan.units
    assert report.compiled == tuple(group.name for group in unit.groups) != ()


def test_good_and_bad_documents() -> None:
    schema = json.loads(render_schema())
    definitions = schema["$defs"]
    document = tomllib.loads(GOOD)
    assert validates(schema, document, definitions)
    bad = [
        {"docs": "x"},
        {"elementwise": {"f": {"inputs": "T x"}}},
        {"raw": {"not a name": {"code": "x"}}},
        {"raw": {"f": {"code": 3}}},
        {"raw": {"f": {"code": "x", "name": "f"}}},
        {"elementwise": {"f": {"operation": "x", "types": {"T": "float32"}}}},
        {"elementwise": {"f": {"inputs": "", "operation": "x", "types": {"T": ["flaot32"]}}}},
        {"elementwise": {"f": {"inputs": "", "operation": "x", "types": [{"T": "flaot32"}]}}},
    ]
    for wrong in bad:
        assert not validates(schema, wrong, definitions), wrong


def test_every_spelling_of_a_dtype_is_known() -> None:
    schema = json.loads(render_schema())
    spellings = ("float32", "f4", "<f8", "double", "V8", "{x: f4, n: int32}", "bfloat16")
    for name in spellings:
        assert dtypes.canonical_name(name)
        types = {"elementwise": {"f": {"inputs": "", "operation": "x", "types": {"T": [name]}}}}
        assert validates(schema, types, schema["$defs"]), name
