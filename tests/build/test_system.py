"""Commands where the operating system refuses something: one line, no traceback, no waiting."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kspec.build.project import build_project, check_project
from kspec.errors import FileError, ManifestError, SpecError
from kspec.runtime.package import load_manifest
from tests.projects import ROOT, environment

PACKAGE = "generated/toy_kernels"


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _folder(path: Path) -> None:
    path.mkdir()


KINDS: dict[str, Callable[[Path], None]] = {"pipe": os.mkfifo, "loop": _loop, "folder": _folder}


@pytest.mark.parametrize("kind", ["pipe", "loop"])
@pytest.mark.parametrize("name", ["specs", "specs/squares.toml", "kspec.lock"])
def test_what_is_no_file_is_refused(toy: Path, run, name: str, kind: str) -> None:
    build_project(toy)
    path = toy / name
    path.rename(toy / "aside")
    KINDS[kind](path)
    for command in ("check", "report"):
        status, out, err = run(command, "--project", toy)
        assert status in (1, 2) and name.rpartition("/")[2] in out + err, err
        assert "Traceback" not in err


@pytest.mark.parametrize("kind", KINDS)
def test_a_configuration_that_is_no_file(toy: Path, run, kind: str) -> None:
    (toy / "pyproject.toml").unlink()
    KINDS[kind](toy / "pyproject.toml")
    status, _, err = run("check", "--project", toy)
    assert status == 2 and err.startswith("kspec: pyproject.toml cannot be read: ")


@pytest.mark.parametrize("name", [".toy_kernels.staging", ".toy_kernels.retired"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_interrupted_builds_left_is_removed(toy: Path, name: str, kind: str) -> None:
    (toy / "generated").mkdir()
    KINDS[kind](toy / "generated" / name)
    build_project(toy, compiling=False)
    assert not os.path.lexists(toy / "generated" / name)
    assert not check_project(toy)


@pytest.mark.parametrize("kind", [os.mkfifo, Path.touch], ids=["pipe", "file"])
def test_a_package_that_is_no_folder_stays(toy: Path, kind: Callable[[Path], None]) -> None:
    (toy / "generated").mkdir()
    kind(toy / PACKAGE)
    mode = (toy / PACKAGE).stat().st_mode
    with pytest.raises(
        SpecError, match=r"toy_kernels is replaced .* but it is not a folder; move it"
    ):
        build_project(toy, compiling=False)
    assert (toy / PACKAGE).stat().st_mode == mode


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_that_is_no_file(toy: Path, run, kind: str) -> None:
    build_project(toy, compiling=False)
    path = toy / PACKAGE / "manifest.json"
    path.unlink()
    KINDS[kind](path)
    with pytest.raises(ManifestError, match=r"manifest\.json cannot be read: .+"):
        load_manifest(toy / PACKAGE)
    assert check_project(toy)


def test_a_manifest_that_is_not_text(toy: Path) -> None:
    build_project(toy, compiling=False)
    (toy / PACKAGE / "manifest.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ManifestError, match=r"manifest\.json is damaged .*; run `kspec build`"):
        load_manifest(toy / PACKAGE)


def test_a_schema_is_not_written_through_a_link(toy: Path, run, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (toy / "kspec.schema.json").symlink_to(target)
    assert run("schema", "--write", "--project", toy)[0] == 0
    assert target.read_text() == "precious"
    assert run("schema", "--check", "--project", toy)[0] == 0


@pytest.mark.parametrize(
    "command",
    [["build"], ["check"], ["show", "square"], ["docs"], ["report"], ["doctor"], ["init", "new"]],
    ids=" ".join,
)
def test_a_folder_that_was_removed(
    run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    status, _, err = run(*command)
    assert status == 1
    assert err == "kspec: the current folder was removed; change to one that exists (cd)\n"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["build", "--no-compile"], "toy_kernels/__init__.py"),
        (["docs", "--output", "page.html"], "page.html"),
        (["schema", "--write"], "kspec.schema.json"),
    ],
    ids=["build", "docs", "schema"],
)
def test_a_file_that_becomes_too_large(toy: Path, command: list[str], name: str) -> None:
    """The system names no file where a write fails."""
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n"
    code += "from kspec.build.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code, *command],
        env=environment(ROOT),
        cwd=toy,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("kspec: ") and "Traceback" not in done.stderr
    assert f"{name}: File too large; raise the limit on file sizes (ulimit -f)" in done.stderr


def test_an_error_of_the_system_without_a_path(
    toy: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("kspec.build.project.exclusive", fail)
    status, _, err = run("build", "--project", toy)
    assert status == 1
    assert err == "kspec: Too many open files; raise the limit on open files (ulimit -n)\n"
    with pytest.raises(FileError, match="raise the limit on open files"):
        build_project(toy)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_warned_of_once(toy: Path, tmp_path: Path) -> None:
    """Each process that compiles warned, and what it compiled was compiled again to be loaded."""
    (tmp_path / "file").touch()
    variables = {"KSPEC_CACHE_DIR": str(tmp_path / "file/cache")}
    build_project(toy)
    done = subprocess.run(
        [sys.executable, "-m", "kspec.build", "warm", "--device", "host", "--project", toy],
        env=environment(ROOT) | variables,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("kspec cannot write its cache") == 1, done.stderr
    assert "(0 precompiled, 0 cached, " in done.stdout
