"""Builds with environments of their own, as pip, uv, build and hatch make them by default.

What they require comes from the package index, kspec itself from the wheel of this repository.
"""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.packaging.builds import (
    copy_repository,
    install,
    names_in,
    once,
    pip_command,
    succeed,
    users_environment,
)
from tests.projects import ROOT, environment, run_python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("index"),
    pytest.mark.timeout(1800),
]

IMAGES = {
    "demo_kernels/demo.squared_diff.fatbin",
    "demo_kernels/demo.py",
    "demo_kernels/manifest.json",
}
USE = """\
import numpy as np
from demo_kernels import demo
print(demo.l2norm(np.array([[3.0, 4.0]]), axis=1), demo.__file__)
"""
# A front end to the command that makes a wheel in the folder dist.
FRONT_ENDS = {
    "pip-23.2.1": "pip-23.2.1/bin/python -m pip wheel --no-deps --wheel-dir dist .",
    "pip": "tools/bin/python -m pip wheel --no-deps --wheel-dir dist .",
    "build": "tools/bin/python -m build",
    "build-by-uv": "tools/bin/python -m build --installer uv",
    "uv": "tools/bin/uv build --python tools/bin/python",
    "hatch": "tools/bin/hatch build",
}
EDITABLE = {
    "pip-23.2.1": "pip-23.2.1/bin/python -m pip --python env/bin/python install --editable .",
    "pip": "tools/bin/python -m pip --python env/bin/python install --editable .",
    "uv": "tools/bin/uv pip install --python env/bin/python --editable .",
}


def init(folder: Path) -> Path:
    command = [sys.executable, "-m", "kspec.build", "init", "demo"]
    succeed(command, folder, environment(ROOT))
    return folder / "demo"


@pytest.fixture(scope="session")
def variables(wheel: Path) -> dict[str, str]:
    return users_environment(wheel.parent)


@pytest.fixture(scope="session")
def demo(shared: Path, variables: dict[str, str]) -> Path:
    """Return the wheel that pip makes of a new project."""

    def make(folder: Path) -> None:
        pip = [*pip_command(), "wheel", "--verbose", "--no-deps", "--wheel-dir", "..", "."]
        (folder / "log").write_text(succeed(pip, init(folder), variables))

    (made,) = once(shared / "demo", make).glob("*.whl")
    return made


@pytest.fixture(scope="session")
def tools(shared: Path) -> Path:
    """Return a folder with environments of the front ends."""

    def make(folder: Path) -> None:
        # Scripts name the interpreter's place, so it is made where it stays.
        place = shared / "environments"
        for name, wanted in (
            ("tools", ["pip>=25", "build", "uv", "hatch"]),
            ("pip-23.2.1", ["pip==23.2.1"]),
        ):
            venv.create(place / name, with_pip=True, clear=True)
            pip = [str(place / name / "bin/python"), "-m", "pip", "install", "--upgrade", "--quiet"]
            succeed([*pip, *wanted], shared, users_environment())

    once(shared / "tools", make)
    return shared / "environments"


@pytest.fixture(scope="session")
def sdist(shared: Path, demo: Path, variables: dict[str, str]) -> Path:
    """Return the source distribution of the same project, of which pip makes the same wheel."""

    def make(folder: Path) -> None:
        build = [sys.executable, "-m", "build", "--sdist", "--outdir", "..", "."]
        succeed(build, init(folder), variables)
        (made,) = folder.glob("*.tar.gz")
        pip = [*pip_command(), "wheel", "--no-deps", made.name]
        succeed(pip, folder, variables)
        assert (folder / demo.name).read_bytes() == demo.read_bytes()

    (made,) = once(shared / "sdist", make).glob("*.tar.gz")
    return made


def in_folder(command: str, tools: Path, own: Path) -> list[str]:
    """Return a command with its environments' programs by their paths."""
    places = {"tools": tools, "pip-23.2.1": tools, "env": own}
    return [
        str(places[word.split("/")[0]] / word) if "/bin/" in word else word
        for word in command.split()
    ]


def test_pip_shows_what_is_compiled(demo: Path) -> None:
    before, _, after = demo.with_name("log").read_text().partition("Building wheel for demo")
    assert "kspec" in before and "compiling" not in before
    line = r"kspec: compiling (\d+)/(\d+): \S+ for \w+(?:, \d+ (?:s|min) left)?$"
    steps = re.findall(line, after, re.MULTILINE)
    assert steps == [(str(done), str(len(steps))) for done in range(1, len(steps) + 1)] != []
    assert "Error" not in after


def test_pip_makes_a_wheel_of_a_new_project(demo: Path, tmp_path: Path) -> None:
    assert demo.name == "demo-0.1.0-py3-none-any.whl"
    assert set(names_in(demo)) >= IMAGES
    installed = install(demo, tmp_path / "site")
    printed = run_python(USE, installed, ROOT, cwd=tmp_path)
    assert printed == f"[5.] {installed / 'demo_kernels/demo.py'}\n"


@pytest.mark.parametrize("name", FRONT_ENDS)
def test_every_front_end_makes_the_same_wheel(
    name: str, demo: Path, sdist: Path, tools: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    project = init(tmp_path)
    own = {f"HATCH_{one}_DIR": str(tmp_path / one) for one in ("DATA", "CACHE", "CONFIG")}
    succeed(in_folder(FRONT_ENDS[name], tools, tmp_path), project, {**variables, **own})
    (made,) = (project / "dist").glob("*.whl")
    assert set(names_in(made)) >= IMAGES
    assert made.read_bytes() == demo.read_bytes()
    if not name.startswith("pip"):
        (found,) = (project / "dist").glob("*.tar.gz")
        assert found.read_bytes() == sdist.read_bytes()


def environment_beside(user: Path, folder: Path) -> str:
    """Make an environment without pip that also finds what a user has; return its Python."""
    venv.create(folder)
    (own,) = folder.glob("lib/python*/site-packages")
    (others,) = user.parent.glob("lib/python*/site-packages")
    (own / "others.pth").write_text(f"{others}\n")
    return str(folder / "bin/python")


@pytest.mark.parametrize("name", EDITABLE)
def test_editable_installs(
    name: str, user: Path, tools: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    project, python = init(tmp_path), environment_beside(user, tmp_path / "env")
    succeed(in_folder(EDITABLE[name], tools, tmp_path), project, variables)
    place = project / "generated/demo_kernels/demo.py"
    assert succeed([python, "-c", USE], tmp_path, variables) == f"[5.] {place}\n"
    specs = project / "specs/demo.toml"
    specs.write_text(specs.read_text().replace("y = sqrt(a)", "y = a"))
    assert succeed([python, "-c", USE], tmp_path, variables) == f"[25.] {place}\n"


def test_an_editable_install_without_isolation_needs_only_the_extra(
    variables: dict[str, str], tmp_path: Path
) -> None:
    project, python = init(tmp_path), str(tmp_path / "env/bin/python")
    venv.create(tmp_path / "env", with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet"]
    succeed([*pip, "kspec[build]"], tmp_path, variables)
    bare = project / "pyproject.toml"  # as projects are that do not come from `kspec init`
    bare.write_text(bare.read_text().replace('dev-mode-dirs = ["generated"]', ""))
    succeed([*pip, "--no-build-isolation", "--editable", "."], project, variables)
    place = project / "generated/demo_kernels/demo.py"
    assert succeed([python, "-c", USE], tmp_path, variables) == f"[5.] {place}\n"


def test_this_repository_from_its_sdist_and_in_place(
    wheel: Path, tools: Path, tmp_path: Path
) -> None:
    clone, variables = copy_repository(tmp_path / "clone"), users_environment()
    succeed([str(tools / "tools/bin/python"), "-m", "build"], clone, variables)
    (made,) = (clone / "dist").glob("*.whl")
    assert made.read_bytes() == wheel.read_bytes()
    python = str(tmp_path / "env/bin/python")
    venv.create(tmp_path / "env", with_pip=True)
    succeed([python, "-m", "pip", "install", "--quiet", "--editable", "."], clone, variables)
    code = "import kspec, kspec_kernels; print(kspec.__file__, kspec_kernels.__file__)"
    done = subprocess.run(
        [python, "-c", code], cwd=tmp_path, env=variables, capture_output=True, text=True
    )
    places = [clone / "kspec/__init__.py", clone / "generated/kspec_kernels/__init__.py"]
    assert done.stdout.split() == list(map(str, places)), done.stderr
