"""Building and installing distributions in tests, without a network."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import kspec
from tests.projects import ROOT


def build_wheel(project: Path, variables: dict[str, str], cache: Path) -> None:
    """Run hatchling in a project; the wheel goes to its folder ``dist``."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
    succeed(command, project, {**variables, "KSPEC_CACHE_DIR": str(cache)})


def succeed(command: list[str], folder: Path, variables: dict[str, str]) -> str:
    """Run a command that has to succeed; return both of its outputs."""
    done = subprocess.run(
        command, cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def install(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel as pip does, into a folder for the path."""
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
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
