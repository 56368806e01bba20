"""Spec files with core dimensions, through all that a build makes of them."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.build.package.catalogue import make_page
from kspec.build.package.docs.lines import SpecLocation
from kspec.build.package.docs.operators import operator_doc
from kspec.build.project import build_project, check_project, plan_project
from kspec.build.properties import examples, runner
from kspec.build.properties.case import Case
from kspec.build.properties.gradients import gradient_problem
from kspec.build.report.diff import signature_of
from kspec.build.tools.show import show_kernel
from kspec.errors import SpecError
from kspec.model import manifest
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.operators import operators
from kspec.model.stages import Specialization
from kspec.runtime.driver.device import HOST
from kspec.runtime.modules.advice import missing_lines
from kspec.runtime.package import load_manifest, module_of
from kspec.spec.building import build_spec
from kspec.spec.models import ElementwiseSpec
from tests.build.test_properties import drawn
from tests.build.test_trace import proposed, row
from tests.projects import environment, generated_package, write_project, write_specs

ITEMS = """\
doc = "Items."

[elementwise.times]
doc       = "Matrix times vector."
inputs    = ["T A[n, m]", "T v[m]"]
outputs   = "T w[n]"
sizes     = { n = [2, 3], m = [3] }
operation = "for (int r = 0; r < n; ++r) for (int c = 0; c < m; ++c) w(r) += A(r, c) * v(c)"
types     = { T = ["float32", "float64"] }
backward  = "times_backward"
reference = "(A @ v[..., None])[..., 0]"
example   = { shapes = { A = [10, 2, 3], v = [3] }, special_values = false }

[elementwise.times_backward]
inputs    = ["T A[n, m]", "T v[m]", "T grad_w[n]"]
outputs   = ["T grad_A[n, m]", "T grad_v[m]"]
sizes     = { n = [2, 3], m = [3] }
operation = '''
for (int r = 0; r < n; ++r)
  for (int c = 0; c < m; ++c) {
    grad_A(r, c) = grad_w(r) * v(c);
    grad_v(c) += A(r, c) * grad_w(r);
  }
'''
types     = { T = ["float32", "float64"] }

[elementwise.powers]
doc       = "The first powers of a number, one after the other."
inputs    = "T x"
outputs   = "T y[count]"
sizes     = { count = [3, 4] }
operation = "T power = 1; for (int k = 0; k < count; ++k) { y(k) = power; power *= x; }"
types     = { T = "float64" }
reference = "np.power(x[..., None], np.arange(count))"
example   = { shapes = { x = [20] }, sizes = { count = 4 } }

[elementwise.convolved]
doc       = "Product of two polynomials."
inputs    = ["T a[n]", "T b[m]", "raw T scale[1]"]
outputs   = "T c[n + m - 1]"
operation = "for (int i = 0; i < n; ++i) for (int k = 0; k < m; ++k) c(i + k) += a(i) * b(k) * scale[0]"
types     = { T = "int32" }
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_specs(tmp_path_factory.mktemp("core") / "toy", items=ITEMS)
    build_project(folder)
    return folder


@pytest.fixture(scope="module")
def package(project: Path) -> Any:
    return generated_package(project)


def test_builds_follow_the_specs(project: Path) -> None:
    assert not check_project(project)
    lines = show_kernel(plan_project(project), "times", "signature").splitlines()
    assert lines[0] == "elementwise times(T A[n, m], T v[m]) -> (T w[n])"
    assert lines[-4:] == [
        f"  times<{ctype}, kspec::Items<8>, {n}, 3>"
        for ctype in ("float", "double")
        for n in (2, 3)
    ]


def test_images_have_the_listed_sizes(project: Path) -> None:
    (entry,) = load_manifest(plan_project(project).settings.package_folder).modules
    names = [name for image in entry.images for name in image.symbols]
    names = [name for name in names if name.startswith(("powers", "convolved"))]
    assert sorted(names) == [f"powers<double, kspec::Items<8>, {count}>" for count in (3, 4)]


class TestFunctions:
    """Signatures, documentation and stubs of generated functions."""

    def test_keywords_are_the_sizes_that_no_input_decides(self, package: Any) -> None:
        items = package.items
        assert [*inspect.signature(items.times).parameters] == ["A", "v", "w", "out", "stream"]
        assert [*inspect.signature(items.powers).parameters] == ["x", "y", "out", "count", "stream"]
        with pytest.raises(TypeError, match="required keyword-only argument: 'count'"):
            items.powers(np.ones(3))

    def test_docstrings_have_shapes(self, package: Any) -> None:
        times, powers, convolved = (
            getattr(package.items, name).__doc__ for name in ("times", "powers", "convolved")
        )
        assert "\n    A : array of T, shape (..., n, m)\n" in times
        assert "\n    w : array of T, shape (..., m), optional\n" not in times
        assert "\n    w : array of T, shape (..., n), optional\n" in times
        assert "\n    array of T, shape (..., n)\n        `w`." in times
        assert "core dimensions do not match" in times
        assert "float32, float64, n = 2 or 3, m = 3, for sm_90" in " ".join(times.split())
        assert (
            "\n    count : int\n        Number that the compiler knows; precompiled for" in powers
        )
        assert "\n    scale : array of T with 1 dimension\n" in convolved
        assert "array of T, shape (..., n + m - 1)" in convolved
        assert "These dtypes or sizes are not precompiled" in convolved
        assert "Nothing is precompiled: every size compiles on first use." in convolved

    def test_operators_have_shapes_too(self, project: Path) -> None:
        (times, *_) = plan_project(project).specs
        (one,) = operators(times.declaration())[:1]
        lines = operator_doc(times, one, (), SpecLocation("specs/items.toml", 3))
        assert "A : tensor of T, shape (..., n, m)" in lines

    def test_calls(self, package: Any) -> None:
        random = np.random.default_rng(0)
        A, v = random.integers(-9, 9, (4, 1, 2, 3)), random.integers(-9, 9, (5, 3))
        w = package.items.times(A.astype("float64"), v.astype("float64"))
        np.testing.assert_array_equal(w, (A @ v[..., None])[..., 0])
        y = package.items.powers(np.array([2.0, 3.0]), count=3)
        assert y.tolist() == [[1, 2, 4], [1, 3, 9]]
        a, b = np.array([1, 2], "int32"), np.array([1, 0, 4], "int32")
        c = package.items.convolved(a, b, np.array([10], "int32"))
        assert c.tolist() == [10, 20, 40, 80]

    def test_shapes_that_do_not_fit(self, package: Any) -> None:
        with pytest.raises(
            kspec.ShapeError,
            match=r"times: argument v has a mismatch in its core dimension 0, with signature "
            r"\(n,m\),\(m\)->\(n\) \(size 2 is different from 3\)",
        ):
            package.items.times(np.ones((2, 3)), np.ones(2))


def test_a_manifest_survives_its_file(project: Path) -> None:
    plan = plan_project(project)
    index = load_manifest(plan.settings.package_folder)
    assert manifest.load(manifest.dump(index)) == index
    (entry,) = index.modules
    assert entry.kernels == tuple(spec.declaration() for spec in plan.specs)


class TestNotBuilt:
    """Sizes that are not precompiled, where nothing may compile."""

    def test_the_error(self, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_JIT", "never")
        with pytest.raises(
            kspec.SpecializationNotBuilt, match=r"missing: .*, n = 5, m = 3, layout"
        ):
            package.items.times(np.ones((5, 3)), np.ones(3))

    def test_the_lines_to_add(self, project: Path) -> None:
        (entry,) = load_manifest(plan_project(project).settings.package_folder).modules
        kernels = {one.name: one for one in entry.kernels}

        def lines(name: str, dtype: str, **sizes: int) -> list[str]:
            kernel = kernels[name]
            assert isinstance(kernel, ElementwiseDeclaration)
            ndims = (1,) if name == "convolved" else ()
            wanted = Specialization(
                name, (("T", dtype),), "kspec::Items<8>", ndims, tuple(sizes.items())
            )
            return [*missing_lines(entry, kernel, wanted)]

        assert lines("times", "float32", n=3, m=3) == []
        assert lines("times", "float32", n=4, m=3) == ["sizes = { n = [2, 3, 4], m = [3] }"]
        assert lines("convolved", "int32", n=2, m=3) == ["sizes = { n = [2], m = [3] }"]


def test_the_catalogue(project: Path) -> None:
    ((module,)) = make_page(plan_project(project)).modules
    times, _, powers, convolved = module.kernels
    assert [one.shape for one in times.arguments] == [
        "(..., n, m), broadcast with the others before its core dimensions",
        "(..., m), broadcast with the others before its core dimensions",
        "(..., n), the broadcast shape before its core dimensions",
    ]
    assert times.coverage[:2] == ("T = float32, n = 2, m = 3", "T = float32, n = 3, m = 3")
    assert times.example.text.endswith("items.times(A, v)")
    assert powers.example.text.endswith("items.powers(x, count=4)")
    assert powers.coverage == ("T = float64, count = 3", "T = float64, count = 4")
    assert convolved.arguments[2].shape == "1 dimension: the kernel indexes it"
    assert convolved.coverage == ()


def test_signatures_in_differences(project: Path) -> None:
    times, _, powers, _ = (spec.declaration() for spec in plan_project(project).specs)
    assert signature_of(times) == "elementwise (T A[n, m], T v[m]) -> (T w[n])"
    assert signature_of(powers) == "elementwise (T x) -> (T y[count]), sizes count"


class TestTraces:
    def traced(self, project: Path, folder: Path, *lines: str) -> list[dict[str, Any]]:
        script = folder / "program.py"
        script.write_text(
            "\n".join(["import numpy as np", "from toy_kernels import items", *lines])
        )
        subprocess.run(
            [sys.executable, script],
            env={**environment(project / "generated", Path.cwd()), "KSPEC_TRACE": str(folder)},
            check=True,
        )
        (path,) = folder.glob("*.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def test_records_have_sizes(self, project: Path, tmp_path: Path) -> None:
        (record,) = self.traced(project, tmp_path, "items.times(np.ones((4, 3)), np.ones(3))")
        assert (record["kernel"], record["sizes"]) == ("times", [["n", 4], ["m", 3]])

    def proposed(self, folder: Path, kernel: str, *rows: dict[str, int]) -> str:
        """Return the lines of a new project's spec file that a trace of sizes changes."""
        write_project(folder, items=ITEMS)
        dtype = {"times": "float32", "convolved": "int32"}[kernel]
        ndims = ", 1" if kernel == "convolved" else ""
        record = row(kernel, f"Items<8>{ndims}", "host", T=dtype)
        records = (replace(record, module="items", sizes=tuple(one.items())) for one in rows)
        return proposed(folder, *records)

    def test_sizes_are_listed(self, tmp_path: Path) -> None:
        assert self.proposed(tmp_path / "a", "times", {"n": 2, "m": 3}) == ""
        assert self.proposed(tmp_path / "b", "times", {"n": 4, "m": 3}) == (
            "-sizes     = { n = [2, 3], m = [3] }\n+sizes     = { n = [2, 3, 4], m = [3] }"
        )
        rows = {"n": 2, "m": 3}, {"n": 4, "m": 3}
        assert self.proposed(tmp_path / "c", "convolved", *rows) == (
            "+sizes     = { n = [2, 4], m = [3] }"
        )

    def test_sizes_that_the_table_lacks(self, tmp_path: Path) -> None:
        table = "sizes     = { n = [2, 3], m = [3] }"
        assert ITEMS.count(table) == 2
        text = ITEMS.replace(table, "sizes     = { n = [2, 3] }", 1)
        folder = write_project(tmp_path, items=text)
        record = row("times", "Items<8>", "host", T="float32")
        record = replace(record, module="items", sizes=(("n", 3), ("m", 5)))
        assert proposed(folder, record) == (
            "-sizes     = { n = [2, 3] }\n+sizes     = { n = [2, 3], m = [5] }"
        )


def elementwise(**fields: Any) -> ElementwiseSpec:
    usual = {
        "name": "f",
        "inputs": "T A[n, n], T b[n], T h",
        "outputs": "T x[n]",
        "operation": "for (int k = 0; k < n; ++k) x(k) = A(k, k) * b(k) * h",
        "sizes": {"n": [2, 3]},
        "types": {"T": ["float32"]},
    }
    return ElementwiseSpec(**{**usual, **fields})


@pytest.fixture(scope="module")
def found() -> list[Case]:
    return drawn(elementwise(), 200)


class TestProperties:
    def test_arguments_fit(self, found: list[Case]) -> None:
        sizes = []
        for case in found:
            shapes = {one.name: one.shape for one in case.operands}
            (n,) = {*shapes["A"][-2:], *shapes["b"][-1:], *shapes.get("x", ())[-1:]}
            sizes.append(n)
            loop = np.broadcast_shapes(shapes["A"][:-2], shapes["b"][:-1], shapes.get("h", ()))
            assert "x" not in shapes or shapes["x"] == (*loop, n)
        assert {0, 1, 2, 3, 4} == set(sizes)
        assert sum(n in (2, 3) for n in sizes) > 0.7 * len(sizes)

    def test_loop_axes_and_layouts_vary(self, found: list[Case]) -> None:
        operands = [one for case in found for one in case.operands]
        axes = {len(one.shape) - 2 for one in operands if one.name == "A"}
        assert axes >= {0, 1, 2, 3}
        assert any(one.name == "A" and not one.layout.is_plain for one in operands)
        assert any(one.name == "b" and len(one.shape) == 1 for one in operands)
        assert any(0 in one.shape[:-2] for one in operands if one.name == "A")

    def test_nothing_compiles_where_that_is_forbidden(self, monkeypatch: Any) -> None:
        monkeypatch.setenv("KSPEC_JIT", "never")
        found = [one for case in drawn(elementwise()) for one in case.operands]
        assert {one.shape[-1] for one in found if one.name == "A"} == {2, 3}

    def test_examples_may_fix_shapes(self) -> None:
        example = {"shapes": {"A": (7, 3, 3), "b": (3,)}, "scalars": {"h": 2}, "fixed_shapes": True}
        example["shapes"]["h"] = (7,)
        for case in drawn(elementwise(example=example), 50):
            shapes = {one.name: one.shape for one in case.operands}
            assert (shapes["A"], shapes["b"]) == ((7, 3, 3), (3,))

    def test_sizes_of_outputs_are_never_negative(self) -> None:
        spec = elementwise(
            inputs="T a[n]", outputs="T c[n - 2]", operation="c(0) = a(0)", sizes={"n": [3]}
        )
        sizes = {
            one.shape[-1] for case in drawn(spec, 100) for one in case.operands if one.name == "a"
        }
        assert sizes == {3, 4}

    def outcome(self, project: Path, package: Any, name: str) -> runner.Outcome:
        (subject,) = runner.subjects(plan_project(project), package, [name])
        return runner.test_kernel(subject, HOST, 30)

    @pytest.mark.parametrize("name", ["times", "powers"])
    def test_right_ones(self, project: Path, package: Any, name: str) -> None:
        outcome = self.outcome(project, package, name)
        assert outcome.problem == ""
        assert outcome.examples >= 20

    def test_wrong_ones_have_a_reproducer(
        self, project: Path, package: Any, tmp_path: Path
    ) -> None:
        (subject,) = runner.subjects(plan_project(project), package, ["times"])
        values = {"A": "A + 2 * np.eye(*A.shape[-2:])"}
        assert subject.spec.example is not None
        example = subject.spec.example.model_copy(update={"values": values})
        wrong = {"reference": "(A @ v[..., None])[..., 0] + math.pi", "example": example}
        spec = subject.spec.model_copy(update=wrong)
        outcome = runner.test_kernel(
            runner.Subject("items.times", spec, subject.function, subject.package, subject.kernel),
            HOST,
            10,
        )
        assert outcome.problem.startswith("error ")
        assert "A[...] = (lambda A: (A + 2 * np.eye(*A.shape[-2:])))(A)" in outcome.reproducer
        script = tmp_path / "reproducer.py"
        script.write_text(outcome.reproducer)
        ran = subprocess.run(
            [sys.executable, script],
            env=environment(project / "generated", Path.cwd()),
            capture_output=True,
            text=True,
        )
        assert "Mismatched elements" in ran.stderr


class TestGradients:
    def test_those_of_a_kernel_of_its_own(self, project: Path, package: Any) -> None:
        (spec,) = (one for one in plan_project(project).specs if one.name == "times")
        assert gradient_problem(module_of(package.items).kernel("times"), spec, HOST) == ""

    def test_wrong_ones(self) -> None:
        wrong = kspec.ElementwiseKernel(
            "T b[n], T grad_y[n]",
            "T grad_b[n]",
            "for (int k = 0; k < n; ++k) grad_b(k) = grad_y(k) * b(k)",
            "square_backward",
            sizes={"n": [3]},
        )
        kernel = kspec.ElementwiseKernel(
            "T b[n]",
            "T y[n]",
            "for (int k = 0; k < n; ++k) y(k) = b(k) * b(k)",
            "square",
            sizes={"n": [3]},
            backward=wrong,
        )
        spec = kernel.spec.model_copy(update={"types": {"T": ("float64",)}})
        found = gradient_problem(kernel, spec, HOST)
        assert found.startswith("the gradient of b (3x4x3) differs from finite differences")


class TestValues:
    """`values` of an example: random arrays become arguments."""

    def spec(self, expression: str) -> Any:
        example = {"shapes": {"x": (5,)}, "values": {"x": expression}}
        fields = {"name": "root", "inputs": "T x", "outputs": "T y", "operation": "y = sqrt(x)"}
        return build_spec(ElementwiseSpec, **fields, types={"T": "float32"}, example=example)

    def test_they_change_the_example(self) -> None:
        plain, changed = self.spec("x"), self.spec("x * x + math.e")
        x = examples.make_call(plain).values["x"]
        found = examples.make_call(changed).values["x"]
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, x * x + np.float32(np.e))

    def test_they_change_what_is_drawn(self) -> None:
        for case in drawn(self.spec("np.full_like(x, 4)"), 50):
            assert (case.call().values["x"] == 4).all()

    @pytest.mark.parametrize(
        ("expression", "message"),
        [
            ("x + y", "values of 'x': NameError: name 'y' is not defined"),
            ("np.ones(3)", "values of 'x': ValueError: .*broadcast"),
            ("open('secret')", "values of 'x': NameError"),
        ],
    )
    def test_expressions_that_fail(self, expression: str, message: str) -> None:
        with pytest.raises(SpecError, match=message):
            examples.make_call(self.spec(expression))
