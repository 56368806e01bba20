"""``kspec test``: what arguments kernels are tested with, what is found, and how it is shown."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import kspec_kernels
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import kspec
from kspec.build.load import import_package
from kspec.build.project import build_project, plan_project
from kspec.build.properties import runner
from kspec.build.properties.case import ArrayArgument, ArrayLayout, Case, Values
from kspec.build.properties.differences import difference
from kspec.build.properties.gradients import gradient_problem
from kspec.build.properties.strategies import cases
from kspec.errors import SpecError
from kspec.runtime.driver.device import HOST, devices
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec, ReductionSpec
from tests.profiles import examples
from tests.projects import ROOT, SQUARES, environment, write_project


def drawn(spec: Any, count: int = 60) -> list[Case]:
    """Return cases as a run of this many examples sees them."""
    return drawn_from(cases(spec, "m.f"), count)


def drawn_from(strategy: st.SearchStrategy[Case], count: int) -> list[Case]:
    """Return cases of a strategy, the same ones each time."""
    found: list[Case] = []

    @hypothesis.seed(0)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(case: Case) -> None:
        found.append(case)

    collect()
    return found


def elementwise(**fields: Any) -> ElementwiseSpec:
    usual = {"name": "f", "inputs": "T x, T y", "outputs": "T z", "operation": "z = x + y"}
    return ElementwiseSpec(**{**usual, "types": {"T": ["float32", "int8"]}, **fields})


def reduction(**fields: Any) -> ReductionSpec:
    usual = {"name": "f", "inputs": "T x", "outputs": "T y", "map": "x", "reduce": "a + b"}
    more = {"post_map": "y = a", "identity": 0, "types": {"T": ["float64"]}}
    return ReductionSpec(
        **{**usual, **more, "reference": "x.sum(axis=axis, keepdims=keepdims)", **fields}
    )


def shapes_of(case: Case) -> list[tuple[int, ...]]:
    return [one.shape for one in case.operands]


class TestArguments:
    def test_elementwise_kernels(self) -> None:
        found = drawn(elementwise(reference="x + y"))
        assert {one.dtype for case in found for one in case.operands} == {"float32", "int8"}
        assert any(0 in shape for case in found for shape in shapes_of(case)), "empty"
        assert any(np.prod(shape) > 1000 for case in found for shape in shapes_of(case)), "large"
        assert any(shape == () for case in found for shape in shapes_of(case)), "no axes"
        assert any(len(set(shapes_of(case))) > 1 for case in found), "broadcasting"
        assert any(case.scalars for case in found), "a number instead of an array"
        layouts = [one.layout for case in found for one in case.operands]
        assert any(one.order != tuple(sorted(one.order)) for one in layouts), "transposed"
        assert any(min(one.steps, default=1) < 0 for one in layouts), "reversed"
        assert any(max(one.steps, default=1) > 1 for one in layouts), "gaps"
        assert any(case.order[-1] == "z" for case in found), "an output that is given"
        assert any(case.order[-1] == "y" for case in found), "and one that is not"

    def test_special_values_and_how_to_leave_them_out(self) -> None:
        def special(spec: ElementwiseSpec) -> bool:
            arrays = [one.content() for case in drawn(spec) for one in case.operands]
            return any(not np.isfinite(one).all() for one in arrays if one.dtype.kind == "f")

        assert special(elementwise(reference="x + y"))
        assert not special(elementwise(reference="x + y", example={"special_values": False}))

    def test_reductions(self) -> None:
        keywords = [dict(case.keywords) for case in drawn(reduction(), 100)]
        axes = [one["axis"] for one in keywords]
        assert None in axes and any(isinstance(one, tuple) for one in axes)
        assert any(isinstance(one, int) and one < 0 for one in axes)
        assert {one["keepdims"] for one in keywords} == {True, False}

    def test_references_that_reduce_one_axis_only(self) -> None:
        spec = reduction(reference="np.argmax(x, axis=axis, keepdims=keepdims)", identity=None)
        found = drawn(spec)
        assert not any(isinstance(dict(case.keywords)["axis"], tuple) for case in found)
        assert not any(0 in shape for case in found for shape in shapes_of(case))

    def test_numbers_are_those_of_the_example(self) -> None:
        spec = reduction(
            inputs="T x, float64 eps", post_map="y = a + eps", example={"scalars": {"eps": 2}}
        )
        assert {case.scalars for case in drawn(spec)} == {(("eps", 2.0),)}

    def test_shapes_that_hang_together_are_the_examples(self) -> None:
        example = {"shapes": {"x": [6], "table": [3]}}
        spec = elementwise(inputs="T x, raw T table", operation="z = table[i % 3]", example=example)
        assert {tuple(shapes_of(case)[:2]) for case in drawn(spec)} == {((6,), (3,))}

    def test_raw_arrays_as_large_as_the_others_stay_so(self) -> None:
        example = {"shapes": {"x": [6], "w": [6]}}
        spec = elementwise(inputs="T x, raw T w", operation="z = x + w[n - 1 - i]", example=example)
        found = {tuple(shapes_of(case)[:2]) for case in drawn(spec)}
        assert len(found) > 5 and all(a == b for a, b in found)

    def test_kernels_that_look_at_each_index_keep_their_number_of_axes(self) -> None:
        example = {"shapes": {"x": [6, 5], "y": [6, 5]}}
        spec = elementwise(operation="z = x + y + _ind.get()[1]", example=example)
        found = drawn(spec)
        assert {len(one.shape) for case in found for one in case.operands} == {2}
        assert len({shapes_of(case)[0] for case in found}) > 5

    def test_fixed_shapes(self) -> None:
        example = {"shapes": {"x": [6, 5], "y": [5]}, "fixed_shapes": True}
        found = drawn(elementwise(reference="x + y", example=example))
        assert {tuple(shapes_of(case)[:2]) for case in found} <= {((6, 5), (5,)), ((6, 5), (6, 5))}

    def test_outputs_whose_type_no_input_has_are_given(self) -> None:
        spec = elementwise(outputs="S z", types={"T": ["int8"], "S": ["float64"]})
        assert all(case.order == ("x", "y", "z") for case in drawn(spec, 50))

    def test_kernels_that_nobody_can_call(self) -> None:
        with pytest.raises(SpecError, match="it needs an example"):
            cases(elementwise(inputs="raw T x", outputs="raw T z", operation="z[i] = x[i]"), "m.f")


operands = st.builds(
    lambda case: case.operands[0],
    cases(
        elementwise(
            inputs="T x",
            operation="z = x",
            types={"T": ["float16", "uint8", "complex64", "bool", "float64"]},
        ),
        "m.f",
    ),
)


@given(operands)
@settings(max_examples=examples(100))
def test_what_is_printed_makes_the_array_that_was_used(operand: ArrayArgument) -> None:
    assert operand.values is not None
    names = {"np": np}
    array = eval(operand.source(), names)
    with np.errstate(all="ignore"):
        array[...] = eval(operand.values.source(operand.shape, operand.dtype), names)
    made = operand.make()
    np.testing.assert_array_equal(array, made)
    np.testing.assert_array_equal(made, operand.content())
    assert (array.dtype, array.shape, array.strides) == (made.dtype, made.shape, made.strides)


@given(
    st.lists(st.sampled_from([0.0, -0.0, np.nan, np.inf, 2.5]), min_size=1, max_size=5),
    st.integers(1, 30),
    st.integers(0, 99),
)
def test_elements_that_repeat_are_printed_once(few: list[float], times: int, size: int) -> None:
    for pattern in (tuple(few) * times, (*few, *(few[-1:] * times))):
        printed = Values(pattern).source((size,), "float64")
        made = eval(printed, {"np": np})
        np.testing.assert_array_equal(made, np.resize(pattern, (size,)))
        np.testing.assert_array_equal(np.signbit(made), np.signbit(np.resize(pattern, (size,))))
        assert printed.count("inf") <= len(few) and len(printed) < 100


def test_bounds_of_segments_are_short() -> None:
    assert Values((0,) * 100).source((100,), "int64") == "np.resize([0], (100,))"
    found = Values((0, *(5,) * 99, 7)).source((101,), "int64")
    assert found == "np.resize([0, *[5] * 99, 7], (101,))"


def test_blocks_and_views() -> None:
    layout = ArrayLayout((1, 0), (1, 0), (2, -3))
    assert layout.block((4, 5)) == (15, 9)
    assert layout.view(np.zeros((15, 9))).shape == (4, 5)
    assert layout.source() == ".transpose((1, 0))[1::2, ::-3]"
    assert ArrayLayout.plain(2).source() == ""
    assert Values((1, 2)).make((3,), "int8").tolist() == [1, 2, 1]


SPEC = """
[elementwise.f]
inputs = "T x"
outputs = "T y"
operation = '''{operation}'''
types = {{ T = ["float32"] }}
reference = "{reference}"
{more}
"""


def outcome_of(folder: Path, name: str, count: int = 50, **fields: str) -> runner.Outcome:
    """Test one kernel of a new project on the host device."""
    text = SPEC.format(**{"operation": "y = x", "reference": "x", "more": "", **fields})
    project = write_project(folder, made=text)
    build_project(project, compiling=False)
    plan = plan_project(project)
    (subject,) = runner.subjects(plan, import_package(plan.settings.package_folder), [name])
    return runner.test_kernel(subject, HOST, count)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"operation": "y = 2 * x"}, " is above 1e-05: y"),
        ({"operation": "y = n > 256 && i == n - 1 ? 7 : x"}, "error"),
        ({"operation": "y = isnan(x) ? 0.f : x"}, "NaN or infinite where the reference is not"),
        ({"reference": "x[::-1]"}, "error"),
        ({"reference": "x.sum()"}, "the result has shape"),
        ({"reference": "(x, x)"}, "the reference has 2 results, the kernel has 1"),
        ({"reference": "x.nothing"}, "reference of kernel 'f': AttributeError"),
        ({"reference": "y"}, "name 'y' is not defined; it knows the arguments, np and math"),
        ({"operation": "y = nothing(x)"}, "CompileError: "),
    ],
    ids=str,
)
@pytest.mark.usefixtures("unshrunk")
def test_what_is_wrong_is_found(tmp_path: Path, fields: dict[str, str], problem: str) -> None:
    outcome = outcome_of(tmp_path, "f", **fields)
    assert problem in outcome.problem


@pytest.mark.parametrize(
    ("reference", "place", "line", "caret"),
    [
        ("x + q", "specs/made.toml:7:18", 'reference = "x + q"', 17),
        ("x.nothing", "specs/made.toml:7:16", 'reference = "x.nothing"', 15),
    ],
)
@pytest.mark.usefixtures("unshrunk")
def test_references_that_fail_have_a_place(
    tmp_path: Path, reference: str, place: str, line: str, caret: int
) -> None:
    head, shown, marks = outcome_of(tmp_path, "f", reference=reference).problem.splitlines()
    assert head.startswith(f"{place}: error: reference of kernel 'f': ")
    assert shown == f"    {line}" and marks.index("^") == 4 + caret


@pytest.mark.parametrize(
    ("got", "want", "said"),
    [
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]], ""),
        ([[1, 2], [3, 9]], [[1, 2], [3, 4]], "error 1.2 is above 0: b[1, 1] is 9, the reference"),
        ([1.0, np.nan], [1.0, 2.5], "the other way round: b[1] is nan, the reference says 2.5"),
        ([1.0], [1.0, 2.0], "the result b has shape (1,), the reference (2,)"),
        (1 + 0.5j, 1 - 0.5j, "b is 1+0.5j, the reference says 1-0.5j"),
        (np.zeros(1, "i4,f4"), np.ones(1, "i4,f4"), "error 1 is above 0: b differs"),
    ],
    ids=str,
)
def test_the_worst_element_is_named(got: Any, want: Any, said: str) -> None:
    same, got, want = np.zeros(3), np.asarray(got), np.asarray(want)
    found = difference(["a", "b"], [same, got], [same, want], 0.0)
    assert said in found and bool(said) == bool(found)


def test_failures_are_short(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "f", operation="y = x > 0.5f ? 9 : x")
    assert 'x = np.zeros((), "float32")\nx[...] = np.resize([0.625], ())' in outcome.reproducer


def test_all_is_well(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, "f")
    assert (outcome.problem, outcome.reproducer) == ("", "")
    assert outcome.examples == 50 and outcome.device == "host" and outcome.kernel == "made.f"


@pytest.mark.usefixtures("unshrunk")
def test_tolerances_of_a_spec(tmp_path: Path) -> None:
    fields = {"operation": "y = x * 1.01f"}
    assert outcome_of(tmp_path / "a", "f", **fields).problem
    more = "example = { tolerance = { f4 = 0.05, float64 = 0 } }"
    assert not outcome_of(tmp_path / "b", "f", more=more, **fields).problem
    assert not outcome_of(
        tmp_path / "c", "f", more="example = { tolerance = 0.05 }", **fields
    ).problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{ flaot = 1 }", "unknown"),
        ("{ float32 = -1 }", "must be 0 or more"),
        ('"small"', "must be a number, not str"),
        ("-1", "must be 0 or more"),
    ],
)
def test_tolerances_that_are_none(tmp_path: Path, text: str, message: str) -> None:
    more = f"example = {{ tolerance = {text} }}"
    with pytest.raises(SpecError, match=message):
        outcome_of(tmp_path, "f", more=more)


def test_what_a_dtype_can_not_hold() -> None:
    stored = runner.as_stored(np.array([1e6, 1.0, -1e6]), np.zeros(3, np.float16))
    assert stored.tolist() == [np.inf, 1.0, -np.inf]
    assert runner.as_stored(np.array([300]), np.zeros(1, np.uint8)).tolist() == [44]


def test_the_command(run, toy: Path) -> None:
    code, out, err = run("test", "--project", toy, "--examples", 20, "--device", "host")
    assert code == 0
    assert "evaluating the reference of 3 kernels from specs/" in out
    for name in ("shifts.shift", "squares.square", "squares.total"):
        assert f" {name} " in out and f": {name} on host" in err
    assert out.count("20 ok") == 3
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("package", ["generated/toy_kernels", "generated/toy/parts/_kernels"])
def test_what_the_command_prints_can_be_pasted(run, tmp_path: Path, package: str) -> None:
    wrong = SQUARES.replace('reference = "x * x"', 'reference = "x * np.abs(x)"')
    toy = write_project(tmp_path, squares=wrong)
    settings = toy / "pyproject.toml"
    settings.write_text(settings.read_text().replace("generated/toy_kernels", package))
    for parent in (toy / package).parents[: package.count("/") - 1]:
        parent.mkdir(parents=True, exist_ok=True)
        (parent / "__init__.py").touch()
    code, out, err = run("test", "square", "total", "--project", toy, "--device", "host")
    assert code == 1
    assert "kspec: 1 of 2 fail" in err and "# squares.square on host fails:" in out
    program = out[out.index("# squares.square on host fails:") :]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(ROOT, toy / "generated"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "AssertionError" in done.stderr


@pytest.mark.usefixtures("unshrunk")
def test_the_same_seed_tries_the_same_calls(tmp_path: Path) -> None:
    first, again = (
        outcome_of(tmp_path / name, "f", operation="y = 2 * x").reproducer for name in "ab"
    )
    assert first == again


def test_names_of_kernels(run, toy: Path) -> None:
    code, _, err = run("test", "nothing", "--project", toy)
    assert code == 2 and "there is no kernel 'nothing'" in err
    code, _, err = run("test", "--device", "cuda:77", "--project", toy)
    assert code == 3


def test_without_references(run, tmp_path: Path) -> None:
    text = SQUARES.replace('reference = "x * x"\n', "")
    toy = write_project(tmp_path, squares=text)
    code, _, err = run("test", "square", "--project", toy)
    assert code == 2 and "kernel 'square' has no reference to compare it with" in err


def test_without_hypothesis(run, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, _, err = run("test", "--project", toy)
    assert code == 3 and "python -m pip install 'kspec[test]'" in err


SHIPPED = [
    subject
    for subject in runner.subjects(plan_project(ROOT), kspec_kernels)
    if subject.kernel.backward is not None and subject.form == "reduce"
]


@pytest.mark.parametrize("subject", SHIPPED, ids=lambda one: one.name)
def test_gradients_of_shipped_kernels(subject: runner.Subject) -> None:
    assert not gradient_problem(subject.kernel, subject.spec, HOST)


@pytest.mark.gpu
@pytest.mark.parametrize("subject", SHIPPED, ids=lambda one: one.name)
def test_gradients_of_shipped_kernels_on_a_gpu(subject: runner.Subject) -> None:
    for device in devices()[1:]:
        assert not gradient_problem(subject.kernel, subject.spec, device)


def elementwise_kernel(backward: Any, **fields: Any) -> kspec.ElementwiseKernel:
    names = {"in_params": "T x, T k", "out_params": "T y", "operation": "y = k * x * x"}
    return kspec.ElementwiseKernel(**{**names, **fields}, name="gradient_of", backward=backward)


@pytest.mark.parametrize(
    ("backward", "wrong"),
    [
        ({"x": "2 * grad_y * k * x", "k": "grad_y * x * x"}, ""),
        ({"x": "grad_y * k * x", "k": "grad_y * x * x"}, "x"),
        ({"x": "2 * grad_y * k * x", "k": "grad_y * x"}, "k"),
        ({"k": "grad_y * x * x"}, ""),
    ],
)
@pytest.mark.parametrize("types", ["float64", "float32"])
def test_wrong_gradients_are_found(backward: dict[str, str], wrong: str, types: str) -> None:
    kernel = elementwise_kernel(backward)
    fields = {**dict(kernel.spec), "types": {"T": ["int32", types]}}
    problem = gradient_problem(kernel, build_spec(ElementwiseSpec, **fields), HOST)
    assert problem.startswith(f"the gradient of {wrong}" if wrong else "")
    assert bool(problem) == bool(wrong)


def test_gradients_that_are_added_up() -> None:
    scatter = kspec.ElementwiseKernel(
        "T grad_y, int32 k", "raw T grad_x", "atomicAdd(&grad_x[k], grad_y)", "scatter"
    )
    kernel = elementwise_kernel(scatter, in_params="raw T x, int32 k", operation="y = x[k]")
    example = {"shapes": {"x": [4], "k": [3]}, "low": 0, "high": 2}
    fields = {**dict(kernel.spec), "types": {"T": ["float64"]}, "example": example}
    for _ in range(3):
        assert not gradient_problem(kernel, build_spec(ElementwiseSpec, **fields), HOST)


def test_gradients_that_nobody_has_types_for() -> None:
    kernel = elementwise_kernel({"x": "grad_y"})
    fields = {**dict(kernel.spec), "types": {"T": ["int32", "float16"]}}
    assert not gradient_problem(kernel, build_spec(ElementwiseSpec, **fields), HOST)


def test_a_kernel_with_a_wrong_gradient_fails(tmp_path: Path) -> None:
    spec = """\
[elementwise.half]
inputs = "T x"
outputs = "T y"
operation = "y = x / 2"
backward = { x = "grad_y * 2" }
types = { T = ["float64"] }
reference = "x / 2"
"""
    project = write_project(tmp_path, halves=spec)
    build_project(project, compiling=False)
    plan = plan_project(project)
    package = import_package(plan.settings.package_folder)
    (subject,) = runner.subjects(plan, package, ["half"])
    outcome = runner.test_kernel(subject, HOST, 5)
    assert outcome.problem.startswith("the gradient of x (3x4) differs from finite differences")
