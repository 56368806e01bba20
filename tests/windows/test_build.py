"""Spec files with windows and sizes, through all that a build makes of them."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.build.package.catalogue import make_page
from kspec.build.project import build_project, check_project, plan_project
from kspec.build.properties import runner
from kspec.build.properties.gradients import gradient_problem
from kspec.build.report.diff import signature_of
from kspec.build.tools.show import show_kernel
from kspec.model import manifest
from kspec.model.coverage import layouts_of
from kspec.model.declaration import ElementwiseDeclaration
from kspec.model.stages import Specialization, Target, strided
from kspec.model.stages import windowed as windowed_layout
from kspec.pipeline import LazySource
from kspec.runtime.driver.device import HOST
from kspec.runtime.modules.advice import missing_lines
from kspec.runtime.package import load_manifest, module_of
from kspec.spec.base import Example
from kspec.spec.loader import load_specs
from kspec.spec.models import ElementwiseSpec
from tests.compiling import compiled
from tests.projects import environment, generated_package, only_ptx, write_specs
from tests.windows.reference import correlate, neighbours

STENCILS = """\
doc = "Stencils."

[elementwise.laplacian]
doc       = "Five-point Laplacian of the last two axes."
inputs    = ["T u", "T h"]
outputs   = "T v"
windows   = { u = { reach = [1, 1], boundary = ["nearest", "wrap", "valid"] } }
operation = "v = (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4 * u(0, 0)) / (h * h)"
types     = { T = "float64" }
reference = "(u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4 * u(0, 0)) / (h * h)"

[elementwise.laplacian.example]
shapes = { u = [20, 30] }
scalars = { h = 0.5 }
boundary = "wrap"
special_values = false

[elementwise.blur]
doc       = "Weighted sum along the last axis."
inputs    = ["T u", "raw T w"]
outputs   = "T v"
windows   = { u = { reach = ["R"], boundary = "reflect" } }
sizes     = { R = [1, 2] }
operation = "T sum = 0; for (int k = -R; k <= R; ++k) sum += w[k + R] * u(k); v = sum"
types     = { T = "float32" }
reference = "np.sum([w[k + R] * u(k) for k in np.arange(-R, R + 1)], axis=0)"
example   = { shapes = { u = [20, 30], w = [5] }, sizes = { R = 2 }, special_values = false }

[elementwise.wrong]
inputs    = "T u"
outputs   = "T v"
windows   = { u = { reach = ["N"], boundary = ["mirror", "reflect"] } }
sizes     = { N = [1, 3] }
operation = "v = u(N)"
types     = { T = "int32" }
reference = "u(-N)"
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = only_ptx(write_specs(tmp_path_factory.mktemp("windows") / "toy", stencils=STENCILS))
    build_project(folder)
    return folder


@pytest.fixture(scope="module")
def package(project: Path) -> Any:
    return generated_package(project)


GRADIENTS = """\
[elementwise.linear]
inputs    = ["T u", "raw T w", "T h"]
outputs   = "T v"
windows   = { u = { reach = [1, "R"], boundary = ["nearest", "wrap", "constant", "valid"] } }
sizes     = { R = [1, 2] }
operation = "v = w[0] * u(-1, 0) + w[1] * u(1, R) / h"
types     = { T = "float64" }
backward  = { u = "adjoint" }
example   = { shapes = { w = [2] }, sizes = { R = 2 }, low = 0.5, high = 1.5 }

[elementwise.product]
inputs    = "T u"
outputs   = "T v"
windows   = { u = { reach = [1], boundary = ["wrap", "valid"] } }
operation = "v = u(1) * u(-1)"
types     = { T = "float64" }
backward  = { u = "adjoint" }
"""


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("linear", ""),
        ("product", "the gradient of u (2x3) differs from finite differences: error "),
    ],
)
def test_gradients_are_compared_with_differences(name: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs/gradients.toml").write_text(GRADIENTS)
    (file,) = load_specs(tmp_path / "specs", tmp_path)
    (spec,) = (one for one in file.specs if one.name == name)
    assert isinstance(spec, ElementwiseSpec)
    found = gradient_problem(kspec.ElementwiseKernel.from_spec(spec), spec, HOST)
    assert found.startswith(problem) if problem else found == ""


def test_gradients_without_windows_have_the_boundary_of_the_call() -> None:
    """The gradient kernel only samples, and samples outside depend on the boundary."""
    table = {"x": {"order": 1, "boundary": ["nearest", "wrap"]}}
    gradient = kspec.ElementwiseKernel(
        "raw T x, T a, T grad_v",
        "T grad_a",
        "grad_a = x.sample(5.5) * grad_v + 0 * a",
        "sampled_gradient",
        samples=table,
    )
    kernel = kspec.ElementwiseKernel(
        "T u, raw T x, T a",
        "T v",
        "v = u(1) + a * x.sample(5.5)",
        "sampled",
        windows={"u": {"reach": [1], "boundary": ["nearest", "wrap"]}},
        samples=table,
        backward=gradient,
    )
    example = Example(shapes={"x": (4,)}, boundary="wrap")
    spec = kernel.spec.model_copy(update={"example": example, "types": {"T": ("float64",)}})
    assert gradient_problem(kernel, spec, HOST) == ""


@pytest.mark.parametrize(
    ("shape", "column", "differs"),
    [
        ((), 9, ""),
        ((), 4, "boundary 'constant'"),  # the last column of five
        ((4, 6), 9, ""),
        ((4, 6), 4, "boundary 'nearest'"),
    ],
)
def test_gradients_of_samples_are_compared_at_each_boundary(
    shape: tuple[int, ...], column: int, differs: str
) -> None:
    table = {"x": {"order": 1, "boundary": ["nearest", "constant"], "value": 3}}
    gradient = kspec.ElementwiseKernel(
        "raw T x, T a, T grad_v",
        "T grad_a",
        f"grad_a = x.sample(0.5, {column}) * grad_v + 0 * a",
        "image_gradient",
        samples=table,
    )
    kernel = kspec.ElementwiseKernel(
        "raw T x, T a",
        "T v",
        "v = a * x.sample(0.5, 9)",
        "image",
        samples=table,
        backward=gradient,
    )
    example = Example(shapes={"x": shape}) if shape else None
    spec = kernel.spec.model_copy(update={"example": example, "types": {"T": ("float64",)}})
    found = gradient_problem(kernel, spec, HOST)
    assert found.startswith("the gradient of a (12) differs") if differs else found == ""
    assert found.endswith(differs)


def test_builds_follow_the_specs(project: Path) -> None:
    assert not check_project(project)
    text = show_kernel(plan_project(project), "blur", "signature")
    assert text.splitlines()[-4:] == [
        f"  blur<float, kspec::Windows<1, 8>, {ndim}, {size}>" for ndim in (1, 2) for size in (1, 2)
    ]


def test_calls(package: Any) -> None:
    u = np.random.default_rng(0).integers(-9, 9, (2, 20, 30)).astype("float64")
    star = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])
    for boundary in ("nearest", "wrap", "valid"):
        v = package.stencils.laplacian(u, 1.0, boundary=boundary)
        np.testing.assert_array_equal(v, correlate(u, star, boundary))
    w = np.array([1, 2, 4], "float32")
    x = u[0].astype("float32")
    near = neighbours(x, [(1, 1)], "reflect")
    v = package.stencils.blur(x, w, R=1)
    np.testing.assert_array_equal(v, near[-1,] + 2 * near[0,] + 4 * near[1,])
    with pytest.raises(TypeError, match="required keyword-only argument: 'R'"):
        package.stencils.blur(x, w)
    with pytest.raises(kspec.ArgumentTypeError, match="boundary 'mirror' is not declared for u"):
        package.stencils.laplacian(u, 1.0, boundary="mirror")


def test_a_manifest_survives_its_file(project: Path) -> None:
    plan = plan_project(project)
    index = load_manifest(plan.settings.package_folder)
    assert manifest.load(manifest.dump(index)) == index
    (entry,) = index.modules
    assert entry.kernels == tuple(spec.declaration() for spec in plan.specs)


def test_copies_and_pickles(package: Any) -> None:
    kernel = module_of(package.stencils).kernel("blur")
    x, w = np.arange(6, dtype="float32"), np.ones(3, "float32")
    for other in (pickle.loads(pickle.dumps(kernel)), copy.copy(kernel), copy.deepcopy(kernel)):
        assert other.is_same(kernel)
        np.testing.assert_array_equal(other(x, w, R=1), kernel(x, w, R=1))


def windowed(**changes: Any) -> kspec.ElementwiseKernel:
    table = {"u": {"reach": [1], "boundary": ["wrap", "nearest", "constant"], **changes}}
    return kspec.ElementwiseKernel(
        "T u", "T v", "v = u(1)", "shift", windows=table, sizes={"R": [1]}
    )


@pytest.mark.parametrize("table", ["windows", "samples"])
def test_images_have_no_number_of_a_process(table: str) -> None:
    """NVRTC writes one into the names of functions that are `static`, and not inlined."""
    boundary = {"boundary": ["wrap", "reflect"]}
    if table == "windows":
        arguments = "T u", "T v", "v = u(1)"
        layout, option, ndims = windowed_layout(1, 0, chosen=True), {"reach": [1]}, ()
    else:
        arguments = "raw T u, T c", "T v", "v = u.sample(c)"
        layout, option, ndims = strided(1), {"order": 1}, (1,)
    kernel = kspec.ElementwiseKernel(*arguments, "one", **{table: {"u": {**option, **boundary}}})
    wanted = Specialization("one", (("T", "float64"),), layout, ndims)
    image = compiled(LazySource(kernel.spec)(wanted), Target("sm_90"))
    assert image.symbols and b"_INTERNAL_" not in image.code


def test_kernels_of_the_constructor() -> None:
    kernel = windowed(value=3)
    assert kernel.declaration == windowed(value=3).declaration
    assert kernel.declaration != windowed(value=4).declaration
    assert kernel.declaration != windowed(value=3, boundary="constant").declaration
    again = kspec.ElementwiseKernel("T u", "T v", "v = u(1)", "shift", **kernel.kwargs)
    assert again.declaration == kernel.declaration
    other = pickle.loads(pickle.dumps(kernel))
    assert other(np.arange(3), boundary="nearest").tolist() == [1, 2, 2]


def test_arguments_of_the_constructor_are_kept() -> None:
    arguments = "T u, raw T x", "T v", "v = u.sample(0.5) + x.sample(0.25)", "sampled"
    kernel = kspec.ElementwiseKernel(
        *arguments,
        windows={"u": {"reach": [1], "boundary": "wrap"}},
        samples={"u": {"order": 0}, "x": {"boundary": ["mirror", "constant"], "value": 2}},
    )
    assert kernel.kwargs["samples"] == {
        "u": {"order": 0},
        "x": {"boundary": ("mirror", "constant"), "value": 2},
    }
    again = kspec.ElementwiseKernel(*arguments, **kernel.kwargs)
    assert again.declaration == kernel.declaration


class TestNotBuilt:
    """Kernels that are not precompiled, where nothing may compile."""

    def test_the_error(self, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("KSPEC_JIT", "never")
        x, w = np.arange(9, dtype="float32"), np.ones(9, "float32")
        with pytest.raises(
            kspec.SpecializationNotBuilt, match=r"missing: .*float32, R = 4, layout"
        ):
            package.stencils.blur(x, w, R=4)

    def test_the_lines_to_add(self, project: Path) -> None:
        (entry,) = load_manifest(plan_project(project).settings.package_folder).modules
        kernel = entry.kernels[1]
        assert isinstance(kernel, ElementwiseDeclaration)

        def lines(*sizes: tuple[str, int], dtype: str = "float32", layout: int = 8) -> list[str]:
            tag = f"kspec::Windows<1, {layout}>"
            wanted = Specialization("blur", (("T", dtype),), tag, (1,), sizes)
            return list(missing_lines(entry, kernel, wanted))

        assert lines(("R", 2)) == []
        assert lines(("R", 4)) == ["sizes = { R = [1, 2, 4] }"]
        assert lines(("R", 4), dtype="float64", layout=64) == [
            'types = { T = ["float32", "float64"] }',
            "sizes = { R = [1, 2, 4] }",
            'layouts = ["Windows<1, 64>, 1"]',
        ]


def traced(project: Path, folder: Path, *lines: str) -> list[dict[str, Any]]:
    """Return the records of a program's calls."""
    script = folder / "program.py"
    script.write_text("\n".join(["import numpy as np", "from toy_kernels import stencils", *lines]))
    subprocess.run(
        [sys.executable, script],
        env={**environment(project / "generated", Path.cwd()), "KSPEC_TRACE": str(folder)},
        check=True,
    )
    (path,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_traces_name_sizes(project: Path, tmp_path: Path) -> None:
    lines = "x = np.zeros(9, 'float32')", "stencils.blur(x, x, R=3)"
    (record,) = traced(project, tmp_path, *lines)
    assert (record["kernel"], record["sizes"]) == ("blur", [["R", 3]])


def test_kernels_know_the_first_boundary(project: Path, tmp_path: Path) -> None:
    records = traced(
        project,
        tmp_path,
        "for boundary in ('nearest', 'wrap', 'valid'):",
        "    stencils.laplacian(np.zeros((4, 5)), 1.0, boundary=boundary)",
    )
    assert {record["layout"] for record in records} == {"Windows<2, 8>", "ChosenBoundary<2, 8>"}
    (entry,) = load_manifest(plan_project(project).settings.package_folder).modules
    laplacian, blur, _ = (
        [layout for layout, _ in layouts_of(kernel, (("T", "float64"),))]
        for kernel in entry.kernels
        if isinstance(kernel, ElementwiseDeclaration)
    )
    assert laplacian == ["kspec::Windows<2, 8>", "kspec::ChosenBoundary<2, 8>"]
    assert set(blur) == {"kspec::Windows<1, 8>"}


def test_the_catalogue(project: Path) -> None:
    ((module,)) = make_page(plan_project(project)).modules
    laplacian, blur, _ = module.kernels
    assert laplacian.arguments[0].shape == (
        "broadcast with the others, but for the axes read at offsets (-1 to 1, -1 to 1)"
    )
    assert blur.coverage == ("T = float32, R = 1", "T = float32, R = 2")
    assert "stencils.blur(u, w, boundary='reflect', R=2)" in blur.example.text


def test_signatures_in_differences(project: Path) -> None:
    laplacian, blur, _ = (spec.declaration() for spec in plan_project(project).specs)
    assert signature_of(laplacian) == (
        "elementwise (T u, T h) -> (T v), windows u(-1 to 1, -1 to 1; nearest, wrap, valid)"
    )
    assert signature_of(blur).endswith(", windows u(-R to R; reflect), sizes R")


class TestProperties:
    def outcome(self, project: Path, package: Any, name: str) -> runner.Outcome:
        (subject,) = runner.subjects(plan_project(project), package, [name])
        return runner.test_kernel(subject, HOST, 30)

    @pytest.mark.parametrize("name", ["laplacian", "blur"])
    def test_right_ones(self, project: Path, package: Any, name: str) -> None:
        outcome = self.outcome(project, package, name)
        assert outcome.problem == ""
        assert outcome.examples >= 20

    def test_wrong_ones(self, project: Path, package: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        outcome = self.outcome(project, package, "wrong")
        assert "error" in outcome.problem
        assert "WindowedArray.of(u.copy(), BoundWindow(param='u'" in outcome.reproducer
        done = subprocess.run(
            [sys.executable, "-c", outcome.reproducer],
            env=environment(project / "generated", Path.cwd()),
            capture_output=True,
            text=True,
            check=False,
        )
        assert "AssertionError" in done.stderr and "Mismatched elements" in done.stderr
