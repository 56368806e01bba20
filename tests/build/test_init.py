"""`kspec init`: a project that builds, or a message and nothing written."""

from __future__ import annotations

import errno
import tomllib
from pathlib import Path

import pytest

from kspec.build import scaffold
from kspec.build.project import build_project, check_project
from tests.packaging.builds import pytest_in
from tests.projects import files_of


def test_a_new_project_builds_and_passes_its_tests(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run("init", "Fast-Norms")
    assert (status, err) == (0, "")
    assert out.endswith("next: cd Fast-Norms && kspec demo\n")
    assert max(map(len, out.splitlines())) <= 80
    folder = tmp_path / "Fast-Norms"
    plan = build_project(folder, compiling=False).plan
    assert plan.settings.package_name == "fast_norms_kernels"
    assert {spec.kind for spec in plan.specs} == {"elementwise", "reduction", "raw"}
    assert all(spec.reference and spec.example for spec in plan.specs)
    assert not check_project(folder)
    assert run("schema", "--check", "--project", folder)[0] == 0
    done = pytest_in(folder)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout


@pytest.mark.slow
def test_pytest_is_the_first_thing_that_is_run(tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo"), tmp_path)
    (tmp_path / "tests/conftest.py").write_text("from demo_kernels import demo\n")
    done = pytest_in(tmp_path)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
    assert not check_project(tmp_path)
    specs = tmp_path / "specs/demo.toml"
    specs.write_text(specs.read_text().replace("z = (x - y) * (x - y)", "z = x - y"))
    done = pytest_in(tmp_path)
    assert "test_squared_diff" in done.stdout and "1 failed, 2 passed" in done.stdout, done.stdout
    specs.write_text(specs.read_text().replace("inputs", "input"))
    done = pytest_in(tmp_path)
    assert done.returncode and "specs/demo.toml:6:1: error: unknown key 'input'" in done.stderr


@pytest.mark.slow
def test_processes_that_test_a_new_project_together(tmp_path: Path) -> None:
    pytest.importorskip("xdist")
    scaffold.write_project(scaffold.new_project("demo"), tmp_path)
    done = pytest_in(tmp_path, "-n", "2")
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr
    assert not list((tmp_path / "generated").glob(".*"))


def test_a_deployment_tests_the_package_as_it_is(tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo"), tmp_path)
    build_project(tmp_path, compiling=False)
    hidden = "import importlib.util as util; real = util.find_spec\n"
    hidden += (
        "util.find_spec = lambda name, *rest: None if name == 'pydantic' else real(name, *rest)"
    )
    specs = tmp_path / "specs/demo.toml"
    specs.write_text(specs.read_text().replace("z = (x - y) * (x - y)", "z = x - y"))
    done = pytest_in(tmp_path, before=hidden)
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


def test_settings_that_make_no_sense_end_pytest(tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo"), tmp_path)
    path = tmp_path / "pyproject.toml"
    path.write_text(path.read_text().replace('specs = "specs"', "specs = 3"))
    done = pytest_in(tmp_path)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "ERROR: kspec_watch: " in done.stderr and "specs: must be a folder" in done.stderr


@pytest.mark.slow
def test_all_kernels_of_a_new_project_compile(run, tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo"), tmp_path)
    status, out, _ = run("build", "--project", tmp_path)
    assert status == 0 and "3 kernels in 1 module, for sm_80 sm_90" in out
    status, _, err = run("demo", "--project", tmp_path)
    assert status == 0 and "compiled on first use" not in err
    table = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert table["tool"]["hatch"]["build"]["hooks"] == {"kspec": {}}


def test_an_empty_folder_is_filled_where_it_is(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = tmp_path.stat().st_ino
    status, out, _ = run("init", "demo", "--folder", ".")
    assert status == 0 and out.endswith("next: kspec demo\n")
    assert tmp_path.stat().st_ino == before and (tmp_path / "specs/demo.toml").is_file()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "not a name that packages can have"),
        ("a b", "try 'a-b'"),
        ("_a_", "try 'a'"),
        ("../up", "try 'up'"),
        ("päckchen", "not a name"),
        ("3d", "not the name of a Python module; try 'my-3d'"),
        ("Class", "Python keyword; try 'my-class'"),
        ("kspec", "needs the name 'kspec' itself; try 'my-kspec'"),
        ("kernel-names", "try 'my-kernel-names'"),
    ],
)
def test_names_that_no_project_can_have(
    run, tmp_path: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run("init", name)
    assert (status, out) == (2, "") and message in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["demo", "a.b-c", "X_9"])
def test_what_is_proposed_can_be_had(name: str) -> None:
    assert scaffold.new_project(name).module.isidentifier()


def test_folders_that_are_taken(run, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full/.hidden").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for folder, message in (
        ("full", "full has files already (.hidden)"),
        ("file", "file is a file"),
        ("none/demo", "none is not a folder; make it first"),
    ):
        status, out, err = run("init", "demo", "--folder", tmp_path / folder)
        assert (status, out) == (2, "") and message in err
    assert files_of(tmp_path) == {"file": b"mine", "full/.hidden": b"mine"}


@pytest.mark.parametrize("folder", ["new", "."])
@pytest.mark.parametrize("method", ["write_text", "rename"])
def test_nothing_is_left_of_what_can_not_be_written(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str, method: str
) -> None:
    real, calls = getattr(Path, method), []

    def full(self: Path, *arguments: object, **options: object) -> object:
        calls.append(self)
        if len(calls) == (3 if folder == "." or method == "write_text" else 1):
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return real(self, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, method, full)
        status, out, err = run("init", "demo", "--folder", tmp_path / folder)
    assert (status, out) == (1, "")
    place = (tmp_path / folder).resolve()
    assert err.startswith(f"kspec: {place}: No space left on device; free some space")
    assert not list(tmp_path.iterdir())


def test_a_place_that_nobody_may_write_to(run) -> None:
    status, _, err = run("init", "demo", "--folder", "/proc/demo")
    assert status == 1 and err.startswith("kspec: /proc/demo: ")
