"""`backward`: the kernels that tables of expressions declare, and what their parameters follow from."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.model.backward import Backward, form_gradient_fault
from kspec.model.shapes import kept_shape, normalize_axes, reduced_count, summed_axes
from kspec.spec.building import build_spec
from kspec.spec.gradients.kernels import gradient_spec
from kspec.spec.loader import load_specs
from kspec.spec.models import ElementwiseSpec, ReductionSpec

SWISH = """\
[elementwise.swish]
inputs = ["T x", "T beta"]
outputs = ["T y"]
operation = "y = x / (1 + exp(-beta * x))"
preamble = "template <class R> __device__ R square(R v) { return v * v; }"
types = { T = ["int32", "float32", "float64", "complex64"] }
[elementwise.swish.backward]
x = "grad_y * (1 + beta * (x - y)) * y / x" # where x is not 0
beta = '''
grad_y
  * y * (x - y)'''
"""


def gradient(spec: ElementwiseSpec | ReductionSpec) -> ElementwiseSpec:
    found, faults = gradient_spec(spec)
    assert not faults
    assert found is not None
    return found


def elementwise(inputs: str, outputs: str, **fields: object) -> ElementwiseSpec:
    names = {"name": "f", "inputs": inputs, "outputs": outputs, "operation": "y = x"}
    return build_spec(ElementwiseSpec, **{**names, **fields})


def reduction(inputs: str, outputs: str, **fields: object) -> ReductionSpec:
    names = {"name": "f", "inputs": inputs, "outputs": outputs, "map": "x", "reduce": "a + b"}
    return build_spec(ReductionSpec, **{**names, "post_map": "y = a", **fields})


def test_a_table_declares_a_kernel_of_the_module(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SWISH)
    (file,) = load_specs(tmp_path, tmp_path)
    front, found = file.specs
    assert isinstance(front, ElementwiseSpec) and isinstance(found, ElementwiseSpec)
    assert front.declaration().backward == found.name == "swish_backward"
    assert found.declaration().forward == front.name and not front.declaration().forward
    assert str(found.inputs) == "T x, T beta, T y, T grad_y"
    assert str(found.outputs) == "T grad_x, T grad_beta"
    assert found.types == {"T": ("float32", "float64")}
    assert found.preamble == front.preamble


def test_its_lines_are_those_of_the_expressions(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SWISH)
    (file,) = load_specs(tmp_path, tmp_path)
    texts = SWISH.split("\n")
    rows = file.rows["swish_backward", "operation"]
    operation = file.specs[1].operation.split("\n")  # type: ignore[union-attr]
    assert len(rows) == len(operation) == 3
    for row, line in zip(rows, operation, strict=True):
        assert line.partition(" = ")[2].rstrip(";") or line
        assert line.rpartition(" = ")[2].strip().rstrip(";") in texts[row - 1]
    assert file.lines["swish_backward", "name"] == file.lines["swish", "name"]


def test_inputs_are_those_that_expressions_name() -> None:
    found = gradient(elementwise("T x, T k", "T y", backward={"x": "grad_y * k"}))
    assert found.inputs.names == ("k", "grad_y")


def test_an_input_stays_where_only_it_tells_the_dtype() -> None:
    spec = elementwise("X x, Y k", "Z y", backward={"x": "grad_y"}, types=[])
    assert gradient(spec).inputs.names == ("x", "grad_y")


def test_an_array_that_is_indexed_is_an_input() -> None:
    found = gradient(elementwise("T x, raw T w", "T y", backward={"x": "grad_y * w[i]"}))
    assert str(found.inputs) == "raw T w, T grad_y"
    found = gradient(elementwise("T x, T w", "T y", backward={"x": "grad_y * _raw_w[i]"}))
    assert found.inputs.names == ("w", "grad_y")


def test_macros_may_name_parameters() -> None:
    fields = {"preamble": "#define SLOPE (2 * x)", "backward": {"x": "grad_y * SLOPE"}}
    assert gradient(elementwise("T x", "T y", **fields)).inputs.names == ("x", "grad_y")


def test_a_comment_ends_an_expression() -> None:
    found = gradient(elementwise("T x", "T y", backward={"x": "grad_y // plain"}))
    assert found.operation == "grad_x = grad_y // plain\n;"


def test_count_is_a_parameter_unless_the_kernel_has_one() -> None:
    found = gradient(reduction("T x", "T y", backward={"x": "grad_y / count"}))
    assert str(found.inputs) == "T x, T grad_y, int64 count".removeprefix("T x, ")
    found = gradient(reduction("T x, float64 count", "T y", backward={"x": "grad_y / count"}))
    assert str(found.inputs) == "float64 count, T grad_y"


def test_rows_of_types_keep_what_is_floating() -> None:
    types = [
        {"X": "float32", "K": "int32", "Y": "float32"},
        {"X": "int32", "K": "int32", "Y": "float32"},
        {"X": "float64", "K": "int32", "Y": "float64"},
        {"X": "float32", "K": "int64", "Y": "float32"},
    ]
    spec = elementwise("X x, K k", "Y y", types=types, backward={"x": "grad_y * x"})
    assert gradient(spec).types == (
        {"X": "float32", "Y": "float32"},
        {"X": "float64", "Y": "float64"},
    )


def test_types_that_are_never_floating_leave_nothing_to_precompile() -> None:
    spec = elementwise("T x", "T y", types={"T": ["int32"]}, backward={"x": "grad_y"})
    assert gradient(spec).bindings() == ()


@pytest.mark.parametrize(
    ("shape", "axis", "reduced", "kept", "number"),
    [
        ((4, 5), None, (0, 1), (1, 1), 20),
        ((4, 5), -1, (1,), (4, 1), 5),
        ((4, 5, 6), (2, 0), (0, 2), (1, 5, 1), 24),
        ((4, 5), (), (), (4, 5), 1),
        ((), None, (), (), 1),
    ],
)
def test_axes_of_reductions(
    shape: tuple[int, ...],
    axis: int | tuple[int, ...] | None,
    reduced: tuple[int, ...],
    kept: tuple[int, ...],
    number: int,
) -> None:
    assert normalize_axes(axis, len(shape)) == reduced
    assert kept_shape(shape, axis) == kept
    assert reduced_count(shape, axis) == number


@pytest.mark.parametrize(
    ("shape", "wanted", "axes"),
    [
        ((4, 5), (4, 5), ()),
        ((4, 5), (5,), (0,)),
        ((4, 5), (4, 1), (1,)),
        ((4, 5), (), (0, 1)),
        ((1, 5), (1,), (0, 1)),
        ((4, 0), (1, 0), (0,)),
    ],
)
def test_sums_of_broadcast_inputs(
    shape: tuple[int, ...], wanted: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    assert summed_axes(shape, wanted) == (axes, wanted)


def test_arguments_are_in_the_order_of_the_kernel() -> None:
    norm = Backward(None, ("x", "y", "grad_y", "count"), ("grad_x",))
    assert norm.arguments({"count": 4, "grad_y": 3, "y": 2, "x": 1}) == (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("fields", "sums"),
    [
        ({}, "elements"),
        ({"reduce": "b + a", "post_map": "y = a; // all"}, "elements"),
        ({"identity": None}, "elements"),
        ({"identity": "10"}, "values"),  # which an exclusive scan begins with
        ({"map": "x * x"}, "values"),
        ({"inputs": "T x, T w"}, "values"),
        ({"outputs": "float64 y"}, "values"),
        ({"reduce_type": "double"}, "elements"),
        ({"post_map": "y = a / (_in_ind.size() / _out_ind.size())"}, "means"),
        ({"reduce": "max(a, b)"}, ""),
        ({"post_map": "y = sqrt(a)"}, ""),
        ({"post_map": "y = a / _in_ind.size()"}, ""),
        ({"post_map": "y = 2 * a"}, ""),
        ({"map": "x * _J"}, ""),
        ({"map": "x * _in_ind.size()"}, ""),
        ({"outputs": "T y, T z", "post_map": "y = a; z = a"}, ""),
        ({"reduce_type": "int"}, ""),  # rounds
        ({"reduce_type": "Pair", "preamble": "struct Pair { float a, b; };"}, ""),
    ],
)
def test_which_reductions_are_sums(fields: dict[str, object], sums: str) -> None:
    """Gradients of their scans, segments and windows are derived."""
    total = {"inputs": "T x", "outputs": "T y", "map": "x", "reduce": "a + b", "post_map": "y = a"}
    spec = build_spec(ReductionSpec, **{"name": "f", **total, "identity": "0", **fields})
    assert spec.declaration().sums == sums


@pytest.mark.parametrize(
    ("post_map", "backward", "fault"),
    [
        ("y = a", "2 * x * grad_y", ""),
        ("y = a", "2 * x * grad_y / count", ""),
        ("y = a", "grad_y * (y / x)", "its backward reads the output y"),
        ("y = a", "grad_y + _raw_grad_y[0]", "its backward reads grad_y as a whole"),
        ("y = sqrt(a)", "grad_y * (x / y)", "gradients of its scan are derived only where outputs"),
        ("y = a / (_in_ind.size() / _out_ind.size())", "2 * x * grad_y / count", ""),
        ("y = a / (_in_ind.size() / _out_ind.size())", "2 * x * grad_y", "does not read count"),
    ],
)
def test_gradients_of_other_forms(post_map: str, backward: str, fault: str) -> None:
    spec = build_spec(
        ReductionSpec,
        **{"name": "f", "inputs": "T x", "outputs": "T y", "map": "x * x", "reduce": "a + b"},
        **{"post_map": post_map, "identity": "0", "backward": {"x": backward}},
    )
    found = form_gradient_fault(spec.declaration(), gradient(spec).declaration(), "scan")
    assert found == fault if not fault else fault in found
