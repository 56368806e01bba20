"""Building and installing distributions in tests: as users do, or without a network."""

from __future__ import annotations

import importlib.machinery
import importlib.resources
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import kspec
from kspec.build.atomic_replace import locked
from tests.projects import ROOT, environment

_COPIED = ("kspec", "specs", "templates", "generated")
_FILES = ("pyproject.toml", "README.md", "LICENSE", ".gitignore")
# What the caller may have set that a user has not.
_UNUSUAL = ("PYTHONPATH", "VIRTUAL_ENV", "UV_PYTHON", "PIP_NO_BUILD_ISOLATION", "PIP_NO_DEPS")


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """Return a folder that all processes of a run with pytest-xdist have."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "packaging"
    folder.mkdir(exist_ok=True)
    return folder


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """Return a folder that the first process to ask fills, while the others wait."""
    with locked(folder.with_name(f".{folder.name}.lock")):
        if not folder.is_dir():
            started = folder.with_name(f".{folder.name}.started")
            shutil.rmtree(started, ignore_errors=True)
            started.mkdir()
            make(started)
            started.rename(folder)
    return folder


def pip_command() -> list[str]:
    """Return the command that runs pip for this Python: its own pip, or the copy of ensurepip.

    Environments of uv, and those made without pip, have none; some systems leave out the copy too.
    """
    # The finder itself: setuptools puts another one in front, which takes a search for pip for its start.
    if importlib.machinery.PathFinder.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    copies = importlib.resources.files("ensurepip") / "_bundled"
    wheels = sorted(Path(str(copies)).glob("pip-*.whl"))
    if not wheels:
        pytest.skip("this Python has neither pip nor a copy of it in ensurepip; install pip")
    return [sys.executable, str(wheels[-1] / "pip")]


def has_index(shared: Path) -> bool:
    """Return whether pip reaches an index: builds with isolation install what they require."""

    def ask(folder: Path) -> None:
        command = [*pip_command(), "download", "--quiet", "--no-deps", "hatchling"]
        options = ["--retries", "1", "--timeout", "20", "--dest", "."]
        done = subprocess.run([*command, *options], cwd=folder, capture_output=True, check=False)
        (folder / "answer").write_text("yes" if done.returncode == 0 else "no")

    return (once(shared / "index", ask) / "answer").read_text() == "yes"


def users_environment(links: Path | None = None) -> dict[str, str]:
    """Return an environment with the defaults of pip and uv, that has nothing of ours on the path.

    `links`: a folder of wheels beside what the index has.
    """
    variables = {name: value for name, value in os.environ.items() if name not in _UNUSUAL}
    if links is not None:
        variables |= {"PIP_FIND_LINKS": find_links(links), "UV_FIND_LINKS": str(links)}
    return variables


def find_links(folder: Path) -> str:
    """Return pip's setting for a folder of wheels, beside those that are configured."""
    return f"{folder} {os.environ.get('PIP_FIND_LINKS', '')}".strip()


def copy_repository(folder: Path) -> Path:
    """Copy what this repository is built from, without images."""
    skipped = shutil.ignore_patterns("__pycache__", "*.fatbin", ".*")
    folder.mkdir()
    for name in _COPIED:
        shutil.copytree(ROOT / name, folder / name, ignore=skipped)
    for name in _FILES:
        shutil.copy(ROOT / name, folder / name)
    return folder


def kspec_wheel(shared: Path) -> Path:
    """Return the wheel of this repository: by pip in isolation, or by hatchling without an index."""

    def make(folder: Path) -> None:
        clone = copy_repository(folder / "clone")
        if has_index(shared):
            pip = [*pip_command(), "wheel", "--no-deps", "--wheel-dir", "dist", "."]
            succeed(pip, clone, users_environment())
        else:
            build_wheel(clone, environment(clone))
        (made,) = (clone / "dist").glob("*.whl")
        made.rename(folder / made.name)
        shutil.rmtree(clone)

    (found,) = once(shared / "kspec", make).glob("*.whl")
    return found


def build_wheel(project: Path, variables: dict[str, str]) -> None:
    """Run hatchling in a project; the wheel goes to its folder ``dist``."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    succeed(command, project, variables)


def succeed(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Run a command that has to succeed; return both of its outputs."""
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def install(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel as pip does, into a folder for the path."""
    command = [*pip_command(), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*command, "--target", str(folder), str(wheel)], check=True)
    return folder


def names_in(wheel: Path) -> list[str]:
    """Return the files of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def plugin(folder: Path) -> Path:
    """Return a folder that makes this clone of kspec look installed: with its entry points."""
    metadata = folder / f"kspec-{kspec.__version__}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: kspec\nVersion: {kspec.__version__}\n"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {place}" for name, place in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    (folder / "kspec.pth").write_text(f"{ROOT}\n")
    return folder


def pytest_in(folder: Path, *arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Run pytest in a project, where kspec and its plugin are installed."""
    code = f"{before}\nimport sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    with tempfile.TemporaryDirectory() as entry_points:
        return subprocess.run(
            [sys.executable, "-c", code, "-q", "-p", "no:cacheprovider", *arguments],
            cwd=folder,
            env=environment(plugin(Path(entry_points)), ROOT),
            capture_output=True,
            text=True,
            check=False,
        )
