"""``torch = true``: the package's module of PyTorch operators, made where there is no torch."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from kspec.build.package.torch_module import render_torch_module
from kspec.build.project import plan_project
from kspec.errors import SpecError
from tests.projects import ROOT

SPECS = """\
[elementwise.gate]
doc = "Scale and shift."
inputs = ["T x", "float32 k", "raw int32 table"]
outputs = ["T y", "T z"]
operation = "y = k * x + table[0]; z = x"
[elementwise.gate.backward]
x = "grad_y * k + grad_z"

[elementwise.into]
inputs = ["X x"]
outputs = ["Z z"]
operation = "z = x"

[reduction.total]
inputs = ["T x"]
outputs = ["T y"]
map = "x"
reduce = "a + b"
post_map = "y = a"

[raw.unknown]
code = 'extern "C" __global__ void unknown(float* x) {}'

[raw.scale]
code = 'extern "C" __global__ void scale(float* x, const float* k, int n) {}'
params = ["float* x", "const float* k", "int n"]
defaults = { n = "x.size" }
grid = "ceil_div(n, block.x)"
block = "256"

[elementwise.blur]
inputs = ["T u", "T h"]
outputs = ["T v"]
windows = { u = { reach = ["R"], boundary = ["nearest", "wrap"] } }
sizes = { R = [1, 2] }
operation = "v = (u(R) - u(-R)) / h"

[raw.product]
code = "template <class T, int N, int M> __global__ void product(const T* a, T* b, T* c, int n) {}"
name_expressions = ["product<float, 8, 1>", "product<float, 16, 1>"]
template = ["T", "N", "M"]
params = ["const T* a", "T* b", "T* c", "int n"]
returns = { b = "a.shape[0]", c = "(n, N)" }
grid = "n"
block = "N"
fixed = ["block"]
"""


def project(folder: Path, settings: str = "torch = true", stem: str = "gates") -> Path:
    (folder / "specs").mkdir()
    (folder / "specs" / f"{stem}.toml").write_text(SPECS)
    (folder / "pyproject.toml").write_text(f'[project]\nname = "toy"\n[tool.kspec]\n{settings}\n')
    return folder


def test_signatures(tmp_path: Path) -> None:
    text = render_torch_module(plan_project(project(tmp_path)))
    found = {
        node.name: f"({ast.unparse(node.args)}) -> {ast.unparse(node.returns)}"
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.returns
    }
    assert found == {
        "gate": "(x: ArrayT, k: ArrayT | float, table: ArrayT) -> tuple[ArrayT, ArrayT]",
        "into": "(x: AnyArray, z: AnyArray) -> None",
        "blur": "(u: ArrayT, h: ArrayT | complex, *, R: int, boundary: str | None=None) -> ArrayT",
        "total": "(x: ArrayT, axis: int | Sequence[int] | None=None, keepdims: bool=False)"
        " -> ArrayT",
        "scale": "(x: AnyArray, k: AnyArray, *, n: int | None=None,"
        " grid: Sequence[int] | None=None, block: Sequence[int] | None=None,"
        " shared_mem: int | None=None) -> None",
        "product": "(a: ArrayT, n: int, *, N: int, M: int=1, grid: Sequence[int] | None=None,"
        " shared_mem: int | None=None) -> tuple[ArrayT, ArrayT]",
    }


def test_what_is_documented(tmp_path: Path) -> None:
    text = render_torch_module(plan_project(project(tmp_path)))
    assert re.search(r"declared\s+in\s+specs/gates\.toml,\s+line 1\.", text)
    assert "Differentiable with respect to x." in text
    assert "Tensor(a!) x" in text and "Written to." in text
    assert "N : int\n        Number that the compiler knows: 8 or 16." in text
    assert "grid : sequence of int\n        Number of blocks; one to three numbers." in text


def test_nobody_who_did_not_ask_gets_it(tmp_path: Path) -> None:
    from kspec.build.package.files import text_files

    assert "torch.py" not in text_files(plan_project(project(tmp_path, "")))


@pytest.mark.parametrize(
    ("settings", "stem", "message"),
    [
        ("torch = 1", "gates", "torch: must be true or false, not 1"),
        ("torch = true", "torch", "specs/torch.toml: the package needs this name"),
    ],
)
def test_what_can_not_be(tmp_path: Path, settings: str, stem: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_project(project(tmp_path, settings, stem))


def test_names_that_no_operator_can_have(tmp_path: Path) -> None:
    folder = project(tmp_path)
    spec = folder / "specs" / "gates.toml"
    spec.write_text(spec.read_text().replace(".total]", ".name]"))
    with pytest.raises(SpecError) as caught:
        plan_project(folder)
    assert str(caught.value).splitlines() == [
        "specs/gates.toml:14: name cannot be an operator, and torch = true makes one of it: "
        "torch.ops has another attribute named name; rename the kernel",
    ]
    (folder / "pyproject.toml").write_text('[project]\nname = "toy"\n[tool.kspec]\n')
    assert plan_project(folder)


def test_the_shipped_package_has_it() -> None:
    assert plan_project(ROOT).settings.torch


FORMS = ("reduce", "scan", "segments", "window")


def with_forms(folder: Path) -> Path:
    folder = project(folder)
    spec = folder / "specs" / "gates.toml"
    forms = f'identity = "0"\nforms = {list(FORMS)}\nbackward = {{ x = "grad_y" }}\n'
    text = spec.read_text().replace('post_map = "y = a"\n', f'post_map = "y = a"\n{forms}')
    spec.write_text(text)
    return folder


def test_forms_of_reductions(tmp_path: Path) -> None:
    text = render_torch_module(plan_project(with_forms(tmp_path)))
    found = {
        node.name: ast.unparse(node.args)
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("total_")
    }
    assert found == {
        "total_scan": "x: ArrayT, axis: int=-1, exclusive: bool=False, reverse: bool=False",
        "total_segments": "x: ArrayT, indptr: ArrayT",
        "total_window": "x: ArrayT, size: int | Sequence[int], axis: int | Sequence[int]=-1,"
        " boundary: str='valid', step: int | Sequence[int]=1",
    }
    assert "_OPERATORS.total_window(x, size, axis, boundary, step)" in text
    assert text.count("Differentiable with respect to x.") == 5  # that of gate is one


def test_names_that_forms_have_taken(tmp_path: Path) -> None:
    folder = with_forms(tmp_path)
    spec = folder / "specs" / "gates.toml"
    spec.write_text(spec.read_text().replace("elementwise.into]", "elementwise.total_scan]"))
    with pytest.raises(SpecError) as caught:
        plan_project(folder)
    assert str(caught.value).splitlines() == [
        "specs/gates.toml:9: total_scan cannot be an operator, and torch = true makes one of it: "
        "the operator of total's scan has this name; rename one of the kernels",
    ]
