"""Two ways to a spec, by Pydantic and without it: both must say the same."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kspec.errors import SpecError
from kspec.spec import building
from kspec.spec.base import BaseSpec
from kspec.spec.building import build_spec, check_spec
from kspec.spec.loader import load_specs
from kspec.spec.models import ElementwiseSpec, RawSpec, ReductionSpec
from kspec.spec.tables import TABLES
from tests.projects import ROOT, run_python

SHIPPED = [spec for file in load_specs(ROOT / "specs", ROOT) for spec in file.specs]
ELEMENTWISE = {"name": "f", "inputs": "T x", "outputs": "T y", "operation": "y = x"}
REDUCTION = {
    "name": "f",
    "inputs": "T x",
    "outputs": "T y",
    "map": "x",
    "reduce": "a + b",
    "post_map": "y = a",
}


class Text(str):
    pass


VALUES: list[tuple[type[BaseSpec], dict[str, Any]]] = [
    (ElementwiseSpec, ELEMENTWISE),
    (ElementwiseSpec, ELEMENTWISE | {"types": {"T": ["f4"]}, "options": ("-DN=3",)}),
    (ElementwiseSpec, ELEMENTWISE | {"types": [{"T": "f4"}], "reduce_dims": False}),
    (ElementwiseSpec, ELEMENTWISE | {"preamble": Text("int f();"), "doc": Text("A text.")}),
    (ElementwiseSpec, ELEMENTWISE | {"reference": None, "example": None}),
    (ElementwiseSpec, ELEMENTWISE | {"example": {"shapes": {"x": [3]}}}),
    (ReductionSpec, REDUCTION | {"identity": 0, "reduce_type": "double"}),
    (RawSpec, {"name": "r", "code": "x", "params": ["float* x"], "name_expressions": ["r"]}),
    # wrong as a whole
    (ElementwiseSpec, ELEMENTWISE | {"inputs": "T i", "operation": ""}),
    (ElementwiseSpec, {key: value for key, value in ELEMENTWISE.items() if key != "outputs"}),
    (ReductionSpec, REDUCTION | {"map": "x;", "outputs": ""}),
    (RawSpec, {"name": "r"}),
    (RawSpec, {"name": "r", "source": "r.cu"}),
    # wrong in a field
    (ElementwiseSpec, ELEMENTWISE | {"reduce_dims": 1, "operation": 3, "inputs": "T i"}),
    (ElementwiseSpec, ELEMENTWISE | {"ouputs": "T y"}),
    (ElementwiseSpec, {"name": "f"}),
    (ReductionSpec, REDUCTION | {"identity": [1], "reference": 7}),
    (RawSpec, {"name": "r", "code": "x", "name_expressions": "r", "example": 3}),
]


@pytest.mark.parametrize(("model", "fields"), VALUES)
def test_both_ways_agree(
    model: type[BaseSpec], fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = check_spec(model, fields)
    monkeypatch.setattr(building, "_clear_values", lambda model, fields: None)
    assert quick == check_spec(model, fields)


@pytest.mark.parametrize("spec", SHIPPED, ids=[spec.name for spec in SHIPPED])
def test_shipped_specs_survive_the_quick_way(spec: BaseSpec) -> None:
    fields = spec.fields() | {"example": None}
    if isinstance(spec, RawSpec):
        fields |= {"code": spec.text, "source": ""}
    assert building._clear_values(type(spec), fields) is not None
    assert check_spec(type(spec), fields)[0] == type(spec)(**fields) or isinstance(spec, RawSpec)


@pytest.mark.parametrize("model", TABLES)
def test_tables_have_the_fields_of_their_specs(model: type[BaseSpec]) -> None:
    declared = [one for one in dataclasses.fields(model) if one.init]
    assert list(TABLES[model].model_fields) == [one.name for one in declared]
    assert all(one.metadata["description"] for one in declared)


def test_pydantic_comes_only_for_what_is_wrong() -> None:
    code = """
import sys, kspec
kspec.ReductionKernel("T x", "T y", "x * x", "a + b", "y = sqrt(a)", 0, "l2norm")
try:
    kspec.ElementwiseKernel("T i", "T y", "y = i")
except kspec.SpecError:
    print("pydantic" in sys.modules)
try:
    kspec.ElementwiseKernel("T x", "T y", 3)
except kspec.SpecError:
    print("pydantic" in sys.modules)
"""
    assert run_python(code, ROOT).split() == ["False", "True"]


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(SpecError, match="unknown key 'operatoin'; did you mean 'operation'"):
        build_spec(ElementwiseSpec, **ELEMENTWISE, operatoin="y = x")
