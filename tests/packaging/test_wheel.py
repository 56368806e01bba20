"""The wheel of this repository, and one of a downstream project, in the hands of their users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.builds import build_wheel, install, names_in
from tests.projects import BLOCKED, ROOT, environment, run_python, write_project

pytestmark = pytest.mark.slow

SAMPLES = ROOT / "generated"


def test_contents(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-any.whl")
    names = names_in(wheel)
    assert len(names) == len(set(names))
    wanted = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kspec").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    wanted |= {
        f"kspec/templates/{path.relative_to(ROOT / 'templates').as_posix()}"
        for path in (ROOT / "templates").rglob("*.j2")
    }
    others = {name for name in names if ".dist-info/" not in name}
    assert others == wanted  # no sample kernel, no image
    assert wheel.stat().st_size <= 3_000_000


def test_users_need_no_authoring_library(wheel: Path, tmp_path: Path) -> None:
    code = f"{BLOCKED}\nimport kspec, kspec_kernels\nfrom kspec_kernels import norms\n"
    code += "print(kspec.__file__)\nprint(*kspec_kernels.kernel_names(), sep='\\n')"
    installed = install(wheel, tmp_path / "site")
    place, *kernels = run_python(code, installed, SAMPLES, cwd=tmp_path).splitlines()
    assert Path(place) == installed / "kspec/__init__.py"
    assert {"norms.l2norm", "math.squared_diff", "raw.my_add"} <= set(kernels)


def test_an_installed_wheel_runs_and_builds(wheel: Path, tmp_path: Path) -> None:
    installed = install(wheel, tmp_path / "site")
    code = "import numpy as np\nfrom kspec_kernels import norms\n"
    code += "print(norms.l2norm(np.array([[3.0, 4.0]]), axis=1))"
    assert run_python(code, installed, SAMPLES, cwd=tmp_path).strip() == "[5.]"
    toy = write_project(tmp_path / "toy")
    command = [sys.executable, "-m", "kspec.build", "build", "--no-compile"]
    done = subprocess.run(
        command, cwd=toy, env=environment(installed), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (toy / "generated/toy_kernels/squares.py").is_file()


@pytest.mark.parametrize("layout", ["listed", "unlisted", "nested"])
def test_a_downstream_project_gets_its_own_kernels(
    wheel: Path, tmp_path: Path, layout: str
) -> None:
    # The plugin is found by the entry point of the installed distribution.
    installed = install(wheel, tmp_path / "site")
    toy = write_project(tmp_path / "toy")
    package = "src/toy/_kernels" if layout == "nested" else "generated/toy_kernels"
    packages = '"src/toy", "generated/toy_kernels"' if layout == "listed" else '"src/toy"'
    (toy / "src/toy").mkdir(parents=True)
    (toy / "src/toy/__init__.py").write_text("")
    (toy / ".gitignore").write_text("*.fatbin\n")
    (toy / "pyproject.toml").write_text(
        f"""
[build-system]
requires = ["hatchling", "kspec[build]"]
build-backend = "hatchling.build"

[project]
name = "toy"
version = "0.1"

[tool.kspec]
package = "{package}"

[tool.hatch.build.targets.wheel]
packages = [{packages}]

[tool.hatch.build.hooks.kspec]
archs = ["sm_90", "compute_80"]
"""
    )
    build_wheel(toy, environment(installed))
    (made,) = (toy / "dist").glob("*.whl")
    name = "toy/_kernels" if layout == "nested" else "toy_kernels"
    names = names_in(made)
    assert len(names) == len(set(names))
    for file in (
        "squares.square.fatbin",
        "shifts.shift.fatbin",
        "amount.cuh",
        "py.typed",
        "manifest.json",
    ):
        assert f"{name}/{file}" in names
    users = install(made, tmp_path / "user")
    module = name.replace("/", ".")
    listing = f"{BLOCKED}\nimport {module} as kernels\nprint(*kernels.kernel_names())"
    assert run_python(listing, users, installed, cwd=tmp_path).split() == [
        "shifts.shift",
        "squares.square",
        "squares.total",
    ]
    code = f"import numpy as np\nfrom {module} import squares\nprint(squares.square(np.array([7])))"
    assert run_python(code.replace("[7]", "[7], 'int32'"), users, installed, cwd=tmp_path) == (
        "[49]\n"
    )
