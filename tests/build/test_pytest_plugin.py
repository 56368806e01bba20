"""``pytest --kspec`` in a project of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.build.project import build_project
from tests.packaging.builds import plugin
from tests.projects import ROOT, SQUARES, environment, write_project

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.slow
OPTIONS = ("-p", "no:cacheprovider", "--kspec-device", "host")
CONFIGURATION = """

[tool.pytest.ini_options]
testpaths = ["tests"]
"""
OWN = "def test_own():\n    assert True\n"


@pytest.fixture(autouse=True)
def kspec_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    paths = environment(plugin(tmp_path_factory.mktemp("plugin")), ROOT)["PYTHONPATH"]
    monkeypatch.setenv("PYTHONPATH", paths)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_project(pytester.path)
    path = folder / "pyproject.toml"
    path.write_text(path.read_text() + CONFIGURATION)
    (folder / "tests").mkdir()
    (folder / "tests/test_own.py").write_text(OWN)
    build_project(folder, compiling=False)
    monkeypatch.delenv("KSPEC_JIT", raising=False)
    return folder


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    # In a process of its own: NumPy cannot be imported twice.
    return pytester.runpytest_subprocess(*OPTIONS, "--kspec-examples=5", *arguments)


def test_nothing_unless_asked(pytester: pytest.Pytester, project: Path) -> None:
    result = run(pytester, "-v")
    result.assert_outcomes(passed=1)
    assert "kspec-kernels" not in str(result.stdout)


def test_kernels_join_the_projects_own_tests(pytester: pytest.Pytester, project: Path) -> None:
    result = run(pytester, "--kspec", "-v")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "tests/test_own.py::test_own PASSED*",
            "specs/shifts.toml::shift?host? PASSED*",
            "specs/squares.toml::square?host? PASSED*",
            "specs/squares.toml::total?host? PASSED*",
        ]
    )


def test_files_and_names_choose(pytester: pytest.Pytester, project: Path) -> None:
    run(pytester, "--kspec", "specs/squares.toml").assert_outcomes(passed=2)
    run(pytester, "--kspec", "tests").assert_outcomes(passed=1)
    run(pytester, "--kspec", "specs/squares.toml::total[host]").assert_outcomes(passed=1)
    run(pytester, "--kspec", "-k", "square").assert_outcomes(passed=2, deselected=2)
    run(pytester, "--kspec", ".").assert_outcomes(passed=4)


def test_a_failure_is_python_to_paste(pytester: pytest.Pytester, project: Path) -> None:
    wrong = SQUARES.replace('reference = "x * x"', 'reference = "x + x"')
    (project / "specs/squares.toml").write_text(wrong)
    build_project(project, compiling=False)
    result = run(pytester, "--kspec", "-k", "square and not total")
    result.assert_outcomes(passed=0, failed=1, deselected=3)
    result.stdout.fnmatch_lines(["*error * is above *", "from toy_kernels import squares"])


def test_a_package_that_is_stale(pytester: pytest.Pytester, project: Path) -> None:
    path = project / "specs/squares.toml"
    path.write_text(path.read_text().replace("y = x * x", "y = x * x * x"))
    result = run(pytester, "--kspec")
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*toy_kernels is not what the specs say; run `kspec build`*"])


def test_a_package_that_is_watched_is_brought_up_to_date(
    pytester: pytest.Pytester, project: Path
) -> None:
    path = project / "pyproject.toml"
    path.write_text(f"{path.read_text()}kspec_watch = true\n")
    path = project / "specs/squares.toml"
    path.write_text(path.read_text().replace("y = x * x", "y = x * x * x"))
    result = run(pytester, "--kspec", "specs/squares.toml")
    result.assert_outcomes(passed=1, failed=1)


def test_a_folder_without_specs(pytester: pytest.Pytester) -> None:
    (pytester.path / "pyproject.toml").write_text("[tool.kspec]\nspecs = 3\n")
    result = run(pytester, "--kspec")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --kspec: *specs: must be a folder*"])


def test_a_package_that_forbids_compiling_is_tested_all_the_same(
    pytester: pytest.Pytester, project: Path
) -> None:
    path = project / "pyproject.toml"
    path.write_text(path.read_text().replace("[tool.kspec]", '[tool.kspec]\njit = "never"'))
    build_project(project, compiling=False)
    run(pytester, "--kspec", "specs/squares.toml").assert_outcomes(passed=2)
