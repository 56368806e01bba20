"""The path of a new user: kspec from its wheel, `kspec init`, `pytest`, and a wheel for other people.

`test_isolated` has the ways in which wheels are built, `test_downstream` those without an index.
"""

from __future__ import annotations

import json
import subprocess
import venv
from pathlib import Path

import pytest

from kspec.build import scaffold
from tests.packaging.builds import succeed, users_environment

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("index"),
    pytest.mark.timeout(1800),
]

LIBRARIES = [name for name in scaffold.TEMPLATES if name != "script"]
# A call of a kernel of each library, and what it prints.
CALLS = {
    "library": ("fast_norms.l2norm(np.array([[3.0, 4.0]]), axis=1)", "[5.]"),
    "torch": ("fast_norms.gated_silu(np.array([0.0, 1000.0]), 2.0)", "[   0. 2000.]"),
}
INSTALLED = """\
import json
from importlib.metadata import distributions
print(json.dumps(sorted({one.metadata["Name"].lower() for one in distributions()})))
"""


@pytest.fixture
def variables(user: Path, wheel: Path, tmp_path: Path) -> dict[str, str]:
    variables = users_environment(wheel.parent)
    return variables | {
        "PATH": f"{user}:{variables['PATH']}",
        "KSPEC_CACHE_DIR": str(tmp_path / "cache"),
    }


@pytest.fixture
def project(request: pytest.FixtureRequest, variables: dict[str, str], tmp_path: Path) -> Path:
    """Return a new project whose tests have run."""
    init = ["kspec", "init", "Fast-Norms", "--folder", "project", "--template", request.param]
    succeed(init, tmp_path, variables)
    printed = succeed(["pytest", "-q"], tmp_path / "project", variables)
    assert " passed" in printed and "failed" not in printed
    return tmp_path / "project"


def committed(folder: Path) -> set[str]:
    """Return the files that git takes of a project."""
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    listed = subprocess.run(
        ["git", "ls-files"], cwd=folder, check=True, capture_output=True, text=True
    )
    return set(listed.stdout.split())


@pytest.mark.parametrize("project", ["script"], indirect=True)
def test_a_script(project: Path, variables: dict[str, str]) -> None:
    printed = succeed(["python", "fast_norms.py"], project, variables)
    assert printed.endswith("best: 0.30\n")
    assert committed(project) == set(scaffold.new_project("Fast-Norms", "script").files)


@pytest.mark.parametrize(
    ("project", "template"), [(name, name) for name in LIBRARIES], indirect=["project"]
)
def test_a_library(project: Path, template: str, variables: dict[str, str], tmp_path: Path) -> None:
    succeed(["kspec", "build"], project, variables)
    succeed(["kspec", "check"], project, variables)
    succeed(["pip", "wheel", "--no-deps", "--no-build-isolation", "."], project, variables)
    (made,) = project.glob("*.whl")
    package = "generated/fast_norms_kernels"
    files = set(scaffold.new_project("Fast-Norms", template).files) | {"kspec.lock"}
    written = {"__init__.py", "fast_norms.cu", "fast_norms.py", "manifest.json", "py.typed"}
    written |= {"torch.py"} if template == "torch" else set()
    assert committed(project) == files | {f"{package}/{name}" for name in written}
    python = bare_environment(made, tmp_path / "other", variables)
    call, expected = CALLS[template]
    code = f"import numpy as np; from fast_norms_kernels import fast_norms; print({call})"
    assert succeed([python, "-c", code], tmp_path, variables) == f"{expected}\n"


def bare_environment(wheel: Path, folder: Path, variables: dict[str, str]) -> str:
    """Install a wheel, and no more than it requires; return the Python of its environment."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin/python")
    succeed([python, "-m", "pip", "install", "--quiet", str(wheel)], folder, variables)
    there = set(json.loads(succeed([python, "-c", INSTALLED], folder, variables)))
    needed = {"cuda-bindings", "cuda-pathfinder", "fast-norms", "kspec", "numpy"}
    assert needed <= there <= needed | {"pip", "setuptools"}
    return python
