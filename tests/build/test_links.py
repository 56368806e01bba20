"""A build writes nothing through links, and waits for no pipe, in a project of someone else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kspec.build import atomic_replace, stamp
from kspec.build.hook import sources
from kspec.build.plan import make_plan
from kspec.build.project import build_project
from kspec.build.settings import load_settings
from kspec.errors import SpecError
from tests.projects import ROOT, environment

PACKAGE = Path("generated/toy_kernels")
PRECIOUS = "precious"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    path = tmp_path / "victim"
    path.write_text(PRECIOUS)
    return path


def text_only(toy: Path) -> None:
    build_project(toy, compiling=False)


@pytest.mark.parametrize("make", [Path.symlink_to, Path.hardlink_to], ids=["symbolic", "hard"])
def test_a_lock_that_is_a_link_keeps_its_target(toy: Path, victim: Path, make) -> None:
    (toy / "generated").mkdir()
    make(toy / "generated/.toy_kernels.lock", victim)
    if make is Path.symlink_to:
        with pytest.raises(
            SpecError,
            match=r"toy_kernels\.lock: the lock of builds is not a regular file; remove it",
        ):
            text_only(toy)
    else:
        text_only(toy)
    assert victim.read_text() == PRECIOUS


def test_a_lock_that_leads_nowhere_makes_no_file(toy: Path, tmp_path: Path) -> None:
    (toy / "generated").mkdir()
    (toy / "generated/.toy_kernels.lock").symlink_to(tmp_path / "made")
    with pytest.raises(SpecError, match="remove it"):
        text_only(toy)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("make", ["os.mkfifo(path)", "os.mkdir(path)"])
def test_a_lock_that_is_no_file_does_not_hang(toy: Path, make: str) -> None:
    (toy / "generated").mkdir()
    code = f"""
import os, sys
from pathlib import Path
path = Path(sys.argv[1], "generated/.toy_kernels.lock")
{make}
from kspec.build.cli import main
sys.argv = ["kspec", "build", "--project", sys.argv[1]]
main()
"""
    command = [sys.executable, "-c", code, str(toy)]
    done = subprocess.run(
        command, env=environment(ROOT), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 2 and "the lock of builds is not a regular file" in done.stderr, (
        done.stderr
    )


@pytest.mark.parametrize("name", [".toy_kernels.staging", ".toy_kernels.retired"])
def test_leftovers_that_are_links(toy: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/kept").write_text(PRECIOUS)
    (toy / "generated").mkdir()
    (toy / "generated" / name).symlink_to(tmp_path / "other")
    text_only(toy)
    assert (toy / PACKAGE / "squares.py").is_file()
    assert (tmp_path / "other/kept").read_text() == PRECIOUS


@pytest.mark.parametrize("name", ["kspec.lock", ".kspec.lock.staging"])
def test_the_lock_file_of_a_project(toy: Path, victim: Path, name: str) -> None:
    (toy / name).symlink_to(victim)
    atomic_replace.write_whole(toy / "kspec.lock", b"new")
    assert victim.read_text() == PRECIOUS
    assert (toy / "kspec.lock").read_bytes() == b"new" and not (toy / "kspec.lock").is_symlink()


def test_the_stamp(toy: Path, victim: Path) -> None:
    text_only(toy)
    path = toy / PACKAGE / "__pycache__/kspec-stamp.json"
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(victim)
    stamp.write_stamp(make_plan(load_settings(toy)), 2e9)
    assert victim.read_text() == PRECIOUS and not path.is_symlink()


def test_a_link_in_the_package_is_not_ours(toy: Path, victim: Path) -> None:
    text_only(toy)
    path = toy / PACKAGE / "squares.py"
    path.unlink()
    path.symlink_to(victim)
    with pytest.raises(SpecError, match=r"kspec did not write squares\.py; move those files"):
        text_only(toy)
    assert victim.read_text() == PRECIOUS


def test_a_source_distribution_has_no_file_from_elsewhere(
    toy: Path, victim: Path, tmp_path: Path
) -> None:
    text_only(toy)
    (toy / "specs/notes.txt").symlink_to(victim)
    with pytest.raises(SpecError, match=r"specs/notes\.txt is a link out of the project"):
        sources(make_plan(load_settings(toy)), tmp_path)


def test_a_file_that_is_written_as_a_whole_has_the_usual_mode(tmp_path: Path) -> None:
    atomic_replace.write_whole(tmp_path / "one", b"1")
    (tmp_path / "two").write_bytes(b"1")
    assert (tmp_path / "one").stat().st_mode == (tmp_path / "two").stat().st_mode
