"""Whole builds: what is written, when, and what stays when something is wrong."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from kspec.build import images
from kspec.build.images import Step
from kspec.build.load import import_package
from kspec.build.project import build_project, check_project, plan_project
from kspec.errors import CompileError, ManifestError, SpecError
from kspec.model import manifest
from kspec.model.coverage import Coverage
from tests.projects import ROOT, SQUARES, files_of, run_python, write_project

PACKAGE = Path("generated/toy_kernels")
ROTATE = """
[raw.rotate]
code = '''
#include <cooperative_groups.h>
extern "C" __global__ void rotate(float* x, int n) {
  float next = x[(blockIdx.x + 1) % n];
  cooperative_groups::this_grid().sync();
  x[blockIdx.x] = next;
}
'''
params = "float* x, int n"
defaults = { n = "x.size" }
grid = "n"
block = 1
cooperative = true
"""
IMAGES = {"shifts.shift", "squares.square", "squares.total"}
TEXT = {
    "__init__.py",
    "amount.cuh",
    "manifest.json",
    "py.typed",
    "shifts.cu",
    "shifts.py",
    "squares.cu",
    "squares.py",
}


def test_a_build_writes_the_package(toy: Path) -> None:
    report = build_project(toy)
    assert set(report.changed) == TEXT | {f"{name}.fatbin" for name in IMAGES}
    assert set(report.compiled) == IMAGES
    assert set(files_of(toy / PACKAGE)) == set(report.changed)
    index = manifest.load((toy / PACKAGE / "manifest.json").read_text())
    square, total = index.module("squares").images
    assert square.archs == total.archs == ("sm_90", "compute_80")
    assert {*square.symbols, *total.symbols} == set(index.module("squares").precompiled)
    assert square.figures["sm_90"]["square<float, kspec::Flat>"].registers > 0
    assert index.module("shifts").headers == ("amount.cuh",)


def test_what_a_spec_says_of_the_launch_reaches_it(tmp_path: Path) -> None:
    project = write_project(tmp_path / "toy", rotates=ROTATE)
    build_project(project, compiling=False)
    package = import_package(project / PACKAGE)
    x = np.arange(5, dtype=np.float32)
    package.rotates.rotate(x)
    assert x.tolist() == [1, 2, 3, 4, 0]


def test_the_package_runs(built: Path) -> None:
    package = import_package(built / PACKAGE)
    assert package.kernel_names() == ("shifts.shift", "squares.square", "squares.total")
    x = np.arange(6, dtype=np.float32)
    np.testing.assert_array_equal(package.squares.square(x), x * x)
    assert package.squares.total(np.ones((2, 3)), axis=0).tolist() == [2, 2, 2]
    given = np.empty_like(x)
    assert package.squares.square(x, given) is given
    package.shifts.shift((1,), (32,), x, 5)
    assert x.tolist() == [3, 4, 5, 6, 7, 5]
    with pytest.raises(AttributeError, match="no attribute 'cubes'"):
        package.cubes


def test_text_is_deterministic_and_portable(built: Path, tmp_path: Path) -> None:
    other = write_project(tmp_path / "elsewhere" / "deeper")
    build_project(other)
    assert files_of(built / PACKAGE) == files_of(other / PACKAGE)
    for name, content in files_of(built / PACKAGE).items():
        if not name.endswith(".fatbin"):
            assert str(tmp_path).encode() not in content and b"\r" not in content


def test_images_are_deterministic(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever process compiles them."""
    first = files_of(built / PACKAGE)
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(built / "fresh-cache"))
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    for path in (built / PACKAGE).glob("*.fatbin"):
        path.unlink()
    build_project(built)
    assert files_of(built / PACKAGE) == first


def test_an_unchanged_build_does_nothing(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in (built / PACKAGE).iterdir()}
    folder = (built / PACKAGE).stat().st_ino
    monkeypatch.setattr(images, "Workers", _refused)
    monkeypatch.setattr(images, "make_fatbin", _refused)
    report = build_project(built)
    assert (report.changed, report.compiled) == ((), ())
    assert {path.name: path.stat().st_mtime_ns for path in (built / PACKAGE).iterdir()} == before
    assert (built / PACKAGE).stat().st_ino == folder


def _refused(*arguments: object) -> None:
    raise AssertionError("nothing is to be made")


def edit(toy: Path, before: str, after: str) -> None:
    path = toy / "specs/squares.toml"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_one_changed_kernel_is_compiled_alone(built: Path) -> None:
    edit(built, "y = x * x", "y = x * x + 0")
    steps: list[Step] = []
    report = build_project(built, progress=steps.append)
    assert {(step.name, step.arch) for step in steps if step.done} == {
        ("squares.square", "sm_90"),
        ("squares.square", "compute_80"),
    }
    assert report.compiled == ("squares.square",)
    changed = {f"squares.{end}" for end in ("cu", "py", "square.fatbin")}
    assert set(report.changed) == {"manifest.json", *changed}


def test_kernels_that_move_in_their_file_are_not_compiled(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = files_of(built / PACKAGE)
    head, square, total = re.split(r"(?m)^(?=\[elementwise|\[reduction)", SQUARES)
    (built / "specs/squares.toml").write_text(f"# A line.\n{head}{total}\n\n{square}")
    with monkeypatch.context() as patch:
        patch.setattr(images, "Workers", _refused)
        patch.setattr(images, "make_fatbin", _refused)
        report = build_project(built)
    assert report.compiled == ()
    assert {"manifest.json", "squares.cu", "squares.py"} <= set(report.changed)
    # Nothing in the code says where it stood.
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(built / "fresh-cache"))
    for name in IMAGES:
        (built / PACKAGE / f"{name}.fatbin").unlink()
    assert set(build_project(built).compiled) == IMAGES
    images_of = {name: data for name, data in before.items() if name.endswith(".fatbin")}
    assert images_of.items() <= files_of(built / PACKAGE).items()


def test_a_line_that_is_part_of_the_code_is_compiled(toy: Path) -> None:
    edit(toy, "y = x * x", "y = x + __LINE__")
    build_project(toy)
    edit(toy, 'doc = "Squares."', '\ndoc = "Squares."')
    assert build_project(toy).compiled == ("squares.square",)


def test_an_error_that_moved_is_shown_where_it_is(toy: Path) -> None:
    edit(toy, "y = x * x", "y = x * nothing")
    for line in (7, 9):
        with pytest.raises(CompileError, match=rf"specs/squares\.toml:{line}:"):
            build_project(toy)
        edit(toy, 'doc = "Squares."', '\n\ndoc = "Squares."')


def test_a_warning_that_moved_is_shown_where_it_is(toy: Path, run) -> None:
    edit(toy, "y = x * x", "int unused; y = x * x")
    for line in (7, 9):
        (toy / PACKAGE / "squares.square.fatbin").unlink(missing_ok=True)
        _, _, err = run("build", "--project", toy)
        assert f"specs/squares.toml:{line}:" in err and "unused" in err
        edit(toy, 'doc = "Squares."', '\n\ndoc = "Squares."')


def test_cached_images_start_no_process(built: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = files_of(built / PACKAGE)
    for path in (built / PACKAGE).glob("*.fatbin"):
        path.unlink()
    monkeypatch.setattr(images, "Workers", _refused)
    build_project(built)
    assert files_of(built / PACKAGE) == before


def test_images_of_an_earlier_layout_are_removed(built: Path) -> None:
    (built / PACKAGE / "squares.fatbin").write_bytes(b"of all kernels of the file")
    assert build_project(built).changed == ("squares.fatbin",)
    assert not (built / PACKAGE / "squares.fatbin").exists()


def test_a_changed_header_recompiles_its_users(built: Path) -> None:
    (built / "specs/amount.cuh").write_text("#define AMOUNT 4\n")
    report = build_project(built)
    assert report.compiled == ("shifts.shift",)
    assert "amount.cuh" in report.changed


def test_a_damaged_image_is_made_again(built: Path) -> None:
    path = built / PACKAGE / "squares.square.fatbin"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    assert build_project(built).changed == ("squares.square.fatbin",)
    assert path.read_bytes() == good


def test_a_removed_spec_file_takes_its_module_along(built: Path) -> None:
    (built / "specs/shifts.toml").unlink()
    build_project(built)
    assert not [name for name in files_of(built / PACKAGE) if "shift" in name or "amount" in name]


def test_text_only(toy: Path) -> None:
    report = build_project(toy, compiling=False)
    assert set(report.changed) == TEXT
    assert json.loads((toy / PACKAGE / "manifest.json").read_text())["modules"][0]["images"] == []
    x = np.ones(3, np.float32)
    assert import_package(toy / PACKAGE).squares.square(x).tolist() == [1, 1, 1]


def test_text_only_keeps_images_that_still_fit(built: Path) -> None:
    edit(built, "y = x * x", "y = x * x + 0")
    report = build_project(built, compiling=False)
    assert {name for name in report.changed if name.endswith("fatbin")} == {"squares.square.fatbin"}
    assert set(report.images) == {"shifts.shift", "squares.total"}


def test_architectures_can_be_chosen(toy: Path) -> None:
    report = build_project(toy, archs=["sm_80"])
    assert report.images["squares.total"].entry.archs == ("sm_80",)


def test_kernels_without_types_are_lazy(tmp_path: Path) -> None:
    lazy = SQUARES.replace('types = { T = ["float32", "int32"] }\n', "")
    toy = write_project(tmp_path, squares=lazy.split("[reduction")[0])
    report = build_project(toy)
    assert set(report.images) == {"shifts.shift"}
    x = np.ones(3, np.int8)
    assert import_package(toy / PACKAGE).squares.square(x).dtype == np.int8


def test_every_problem_is_reported_and_nothing_written(tmp_path: Path) -> None:
    bad = "[elementwise.f]\ninputs = 'flaot32 x'\noutputs = 'T y'\nsurprise = 1\n"
    raw = "[raw.g]\nsource = '../outside.cu'\n[raw.h]\nsource = 'missing.cu'\n"
    toy = write_project(tmp_path, bad=bad, worse=raw)
    with pytest.raises(SpecError) as caught:
        build_project(toy)
    for part in ("flaot32", "surprise", "operation", "outside the folder", "no file 'missing.cu'"):
        assert part in str(caught.value)
    assert not (toy / "generated").exists()


def test_cuda_that_does_not_compile(built: Path) -> None:
    before = files_of(built / PACKAGE)
    path = built / "specs/squares.toml"
    path.write_text(path.read_text().replace("y = x * x", "y = x * undefined_thing"))
    (built / "specs/amount.cuh").write_text("#define AMOUNT other_thing\n")
    with pytest.raises(CompileError) as caught:
        build_project(built)
    assert 'specs/squares.toml:7:22: error: identifier "undefined_thing" is undefined' in (
        caught.value.log
    )
    assert 'identifier "other_thing" is undefined' in caught.value.log, "all files are reported"
    assert files_of(built / PACKAGE) == before
    assert [path.name for path in (built / "generated").iterdir() if path.is_dir()] == [
        "toy_kernels"
    ]


def test_foreign_files_are_not_thrown_away(toy: Path) -> None:
    mine = toy / PACKAGE / "mine.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious = True\n")
    with pytest.raises(SpecError, match=r"kspec did not write mine\.py"):
        build_project(toy)
    assert mine.read_text() == "precious = True\n"


def test_a_header_outside_the_specs_is_refused(toy: Path) -> None:
    (toy / "specs/amount.cuh").write_text('#include "../elsewhere.cuh"\n#define AMOUNT 1\n')
    (toy / "elsewhere.cuh").write_text("")
    with pytest.raises(SpecError, match=r"elsewhere\.cuh' is outside the folder 'specs'"):
        build_project(toy)


@pytest.mark.parametrize("stem", ["kernel_names", "__init__"])
def test_a_module_can_not_have_a_name_of_the_package(toy: Path, stem: str) -> None:
    (toy / "specs/squares.toml").rename(toy / f"specs/{stem}.toml")
    with pytest.raises(SpecError, match="rename"):
        build_project(toy)


def test_without_specs(toy: Path) -> None:
    for path in (toy / "specs").glob("*.toml"):
        path.unlink()
    with pytest.raises(SpecError, match=r"no spec files"):
        build_project(toy)


class TestCheck:
    def test_current(self, built: Path) -> None:
        assert check_project(built) == ""
        for path in (built / PACKAGE).glob("*.fatbin"):
            path.unlink()
        assert check_project(built) == "", "images are not committed"

    @pytest.mark.parametrize(
        "include",
        [
            '#define H "amount.cuh"\n#include H',
            '/* it */#include "amount.cuh"',
            "%:include <amount.cuh>",
        ],
    )
    def test_an_edited_header(self, toy: Path, include: str) -> None:
        path = toy / "specs/shifts.toml"
        path.write_text(path.read_text().replace('#include "amount.cuh"', include))
        build_project(toy)
        assert check_project(toy) == "" and build_project(toy).compiled == ()
        (toy / "specs/amount.cuh").write_text("#define AMOUNT 4\n")
        assert "-#define AMOUNT 3\n+#define AMOUNT 4\n" in check_project(toy)
        assert build_project(toy).compiled == ("shifts.shift",)

    def test_edited_by_hand(self, built: Path) -> None:
        path = built / PACKAGE / "squares.py"
        path.write_text(path.read_text().replace("-> ArrayT:", "-> object:", 1))
        difference = check_project(built)
        assert "--- generated/toy_kernels/squares.py (committed)" in difference
        assert "-) -> object:\n+) -> ArrayT:\n" in difference
        assert path.read_text().count("-> object:") == 1, "check writes nothing"

    def test_changed_spec(self, built: Path) -> None:
        path = built / "specs/squares.toml"
        path.write_text(path.read_text().replace('"float32", "int32"', '"float32"'))
        difference = check_project(built)
        assert "manifest.json" in difference and "squares.py" in difference

    def test_missing_and_left_over_files(self, built: Path) -> None:
        (built / PACKAGE / "py.typed").unlink()
        (built / PACKAGE / "old.cu").write_text("// Generated by kspec from specs/old.toml.\n")
        difference = check_project(built)
        assert "--- /dev/null\n+++ generated/toy_kernels/py.typed" in difference
        assert "--- generated/toy_kernels/old.cu (committed)\n+++ /dev/null" in difference

    def test_never_built(self, toy: Path) -> None:
        assert check_project(toy).count("--- /dev/null") == len(TEXT)
        assert not (toy / "generated").exists()

    def test_damaged_manifest(self, built: Path) -> None:
        (built / PACKAGE / "manifest.json").write_text("<<<<<<< HEAD")
        assert "-(damaged)" in check_project(built)

    def test_a_manifest_of_another_kspec(self, toy: Path) -> None:
        build_project(toy, compiling=False)
        path = toy / PACKAGE / "manifest.json"
        text = path.read_text()
        path.write_text(text.replace('"schema": 4', '"schema": 2'))
        message = "generated/toy_kernels/manifest.json has schema 2, this kspec knows 4: run"
        assert f"-({message} `kspec build` again)\n" in check_project(toy)
        path.write_text(text.replace('"schema": 4', '"schema": 5'))
        with pytest.raises(ManifestError) as caught:
            check_project(toy)
        assert str(caught.value) == message.replace("schema 2", "schema 5").replace(
            "run", "upgrade kspec"
        )


SEVERAL = """
extern "C" __global__ void first(float* x) { x[threadIdx.x] = 1; }
extern "C" __global__ void second(float* x) { x[threadIdx.x] = 2; }
extern "C" __global__ void nobodys(float* x) { x[threadIdx.x] = 3; }
template <class T> __global__ void third(T* x) { x[threadIdx.x] = 3; }
template <class T> __global__ void never(T* x) { x->no_such_member(); }
"""
SPECS_OF_SEVERAL = """
[raw.first]
source = "several.cu"
params = "float* x"
grid = 1
block = "x.size"

[raw.second]
source = "several.cu"

[raw.third]
source = "several.cu"
name_expressions = ["third<int>", "third<double>"]
"""


def test_kernels_of_one_file_are_compiled_once(tmp_path: Path) -> None:
    toy = write_project(tmp_path / "toy", several=SPECS_OF_SEVERAL)
    (toy / "specs/several.cu").write_text(SEVERAL)
    steps: list[Step] = []
    build_project(toy, progress=steps.append)
    archs = [step.arch for step in steps if step.stem == "several"]
    assert sorted(archs) == ["compute_80", "sm_90"]
    assert (toy / PACKAGE / "several.cu").read_text().count("void first(") == 1
    entry = manifest.load((toy / PACKAGE / "manifest.json").read_text()).module("several")
    # What no spec names costs nothing: a template is not even instantiated.
    (image,) = entry.images
    assert image.file == "several.first.fatbin"
    assert set(image.symbols) == {"first", "second", "third<int>", "third<double>"}


def test_a_struct_that_differs_is_found_by_the_build(tmp_path: Path) -> None:
    spec = """
[structs.Pair]
a = "float32"
b = "float64"

[raw.swap]
source = "several.cu"
params = "Pair* p"
"""
    toy = write_project(tmp_path / "toy", several=spec)
    code = """struct Pair { double b; float a; };
extern "C" __global__ void swap(Pair* p) {}
"""
    (toy / "specs/several.cu").write_text(code)
    with pytest.raises(CompileError, match=r"specs/several\.toml:3: error: .*Pair\.a is float32"):
        build_project(toy)
    assert not (toy / PACKAGE).exists()


def test_a_package_that_forbids_compiling(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting is in the package, so that it holds where nobody sets a variable."""
    monkeypatch.delenv("KSPEC_JIT", raising=False)
    configuration = toy / "pyproject.toml"
    configuration.write_text(configuration.read_text() + 'jit = "never"\n')
    build_project(toy, compiling=False)
    code = "import numpy as np; from toy_kernels.squares import square; square(np.ones(3))"
    with pytest.raises(AssertionError, match="SpecializationNotBuilt"):
        run_python(code, ROOT, toy / "generated")
    monkeypatch.setenv("KSPEC_JIT", "auto")
    run_python(code, ROOT, toy / "generated")


def test_the_setting_is_checked(toy: Path) -> None:
    configuration = toy / "pyproject.toml"
    configuration.write_text(configuration.read_text() + 'jit = "always"\n')
    with pytest.raises(SpecError, match="jit: must be one of 'auto', 'never', not 'always'"):
        build_project(toy)


def test_a_build_writes_where_each_kernel_says_what_is_precompiled(toy: Path) -> None:
    build_project(toy, compiling=False)
    index = manifest.load((toy / "generated/toy_kernels/manifest.json").read_text())
    coverage = index.module("squares").coverage
    assert coverage["square"] == Coverage(8, {"T": ("float32", "int32")})
    assert coverage["total"].line == 20
    assert index.module("shifts").coverage["shift"] == Coverage(1, {})


def test_layouts_of_a_spec_are_compiled(tmp_path: Path) -> None:
    line = 'types = { T = ["float32", "int32"] }'
    toy = write_project(
        tmp_path, squares=SQUARES.replace(line, f'{line}\nlayouts = ["Strided<64>"]')
    )
    (unit,) = [one for one in plan_project(toy).units if one.stem == "squares"]
    assert "square<int, kspec::Strided<64>>" in unit.source.name_expressions
    wrong = SQUARES.replace(line, f'{line}\nlayouts = ["Rows, 2"]')
    with pytest.raises(SpecError, match=r"squares\.toml:9:13: error: 'Rows, 2' has numbers"):
        plan_project(write_project(tmp_path, squares=wrong))
