"""A project with kernels of its own, from ``kspec init`` to the machines of its users."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from kspec.build import scaffold
from kspec.runtime import driver
from tests.packaging.builds import install, names_in, pip_command, plugin, succeed
from tests.projects import ROOT, environment, files_of, run_python, write_project

pytestmark = pytest.mark.slow

ENDS = ("py", "cu", "square.fatbin", "total.fatbin")
HOOKED = """\
[build-system]
requires = ["hatchling", "kspec[build]"]
build-backend = "hatchling.build"

[project]
name = "toy"
version = "0.1"
requires-python = ">=3.11"

[tool.kspec]
archs = ["sm_90", "compute_80"]

[tool.hatch.build.hooks.kspec]
"""
RUN_DEMO = """\
import sys
import numpy as np
from demo_kernels import demo
import kspec
device = sys.argv[1]
x, y = np.linspace(-1, 1, 12, dtype="f4").reshape(3, 4), np.ones((3, 4), "f4")
there = (lambda a: a) if device == "host" else (lambda a: kspec.asarray(a, device=device))
np.testing.assert_allclose(kspec.asnumpy(demo.squared_diff(there(x), there(y))), (x - y) ** 2)
np.testing.assert_allclose(
    kspec.asnumpy(demo.l2norm(there(x), axis=1)), np.linalg.norm(x, axis=1), rtol=1e-6
)
z = there(y.ravel().copy())
demo.axpy(2.0, there(x.ravel()), z)
np.testing.assert_allclose(kspec.asnumpy(z), (2 * x + y).ravel(), rtol=1e-6)
unneeded = ("pydantic", "jinja2", "typer", "rich", "kspec.build", "cuda.bindings.nvrtc")
print([name for name in sys.modules if name in unneeded])
"""


@pytest.fixture
def hooked(tmp_path: Path) -> Path:
    """Return a project with the two lines of the hook."""
    toy = write_project(tmp_path / "toy")
    (toy / "pyproject.toml").write_text(HOOKED)
    return toy


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    """Return an environment with kspec and its plugin, as if it were installed."""
    return environment(plugin(tmp_path / "plugin"), ROOT)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Return what runs code where only NumPy, cuda-bindings, kspec and the new wheel are."""
    folder = tmp_path_factory.mktemp("users")
    succeed([sys.executable, "-m", "kspec.build", "init", "demo"], folder, environment(ROOT))
    building = environment(plugin(folder / "plugin"), ROOT)
    pip = [*pip_command(), "wheel", "--no-build-isolation", "--no-deps", "--quiet"]
    succeed([*pip, "."], folder / "demo", building)
    (made,) = (folder / "demo").glob("*.whl")
    assert made.name == "demo-0.1.0-py3-none-any.whl"
    demo_installed = install(made, folder / "installed")
    python = only_what_is_needed(folder / "empty")

    def run(device: str, **changes: str) -> str:
        variables = environment(ROOT, demo_installed)
        variables |= {"KSPEC_CACHE_DIR": str(folder / "cache"), **changes}
        return succeed([str(python), "-c", RUN_DEMO, device], folder, variables)

    return run


def only_what_is_needed(folder: Path) -> Path:
    """Make an environment with NumPy and cuda-bindings and nothing else; return its Python."""
    succeed([sys.executable, "-m", "venv", "--without-pip", str(folder)], ROOT, dict(os.environ))
    (packages,) = (folder / "lib").glob("python*/site-packages")
    numpy = Path(np.__file__).parent
    cuda = importlib.util.find_spec("cuda")
    assert cuda is not None and cuda.submodule_search_locations is not None
    for source in (numpy, numpy.with_name("numpy.libs"), *cuda.submodule_search_locations):
        if Path(source).exists():
            (packages / Path(source).name).symlink_to(source)
    return folder / "bin/python"


def test_a_new_project_runs_where_nothing_else_is(users: Callable[..., str]) -> None:
    assert users("host") == "[]\n"


@pytest.mark.gpu
def test_a_new_project_runs_on_a_gpu_without_a_compiler(users: Callable[..., str]) -> None:
    if driver.why_unavailable():
        pytest.skip(driver.why_unavailable())
    assert users("cuda", KSPEC_JIT="never", CXX="none", PATH="/nonexistent") == "[]\n"


@pytest.mark.parametrize("name", ["wheel", "sdist"])
def test_two_builds_have_the_same_bytes(
    hooked: Path, tmp_path: Path, variables: dict[str, str], name: str
) -> None:
    built = []
    succeed([sys.executable, "-m", "kspec.build", "build"], hooked, variables)
    for folder in ("first", "second/and/deeper"):
        clone = tmp_path / folder / "toy"
        shutil.copytree(hooked, clone)
        if folder == "first":
            for path in (clone / "generated/toy_kernels").glob("*.fatbin"):
                path.unlink()
        else:
            for path in clone.rglob("*"):
                os.utime(path, (1, 1))
            os.chmod(clone / "specs/squares.toml", 0o600)  # noqa: PTH101
        command = [sys.executable, "-m", "build", "--no-isolation", f"--{name}", "."]
        succeed(command, clone, {**variables, "KSPEC_CACHE_DIR": str(clone.parent / "cache")})
        (made,) = (path for path in (clone / "dist").iterdir() if path.suffix in (".whl", ".gz"))
        built.append(made)
    assert built[0].name == built[1].name
    assert built[0].read_bytes() == built[1].read_bytes()


def test_a_wheel_from_the_sdist_is_the_wheel_from_the_tree(
    hooked: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation"]
    # Without an argument: the sdist, and the wheel from the unpacked sdist.
    succeed([*command, "--outdir", str(tmp_path / "chain"), "."], hooked, variables)
    succeed([*command, "--outdir", str(tmp_path / "tree"), "--wheel", "."], hooked, variables)
    (chain,) = (tmp_path / "chain").glob("*.whl")
    (tree,) = (tmp_path / "tree").glob("*.whl")
    assert chain.name == tree.name == "toy-0.1-py3-none-any.whl"
    assert chain.read_bytes() == tree.read_bytes()
    (sdist,) = (tmp_path / "chain").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
        manifest = archive.extractfile("toy-0.1/generated/toy_kernels/manifest.json")
        assert manifest is not None and b"fatbin" not in manifest.read()
    text = {"squares.py", "squares.cu", "shifts.cu", "amount.cuh", "manifest.json", "py.typed"}
    assert {f"generated/toy_kernels/{name}" for name in text} <= names
    assert {"specs/squares.toml", "specs/amount.cuh", "pyproject.toml"} <= names
    assert not [name for name in names if "lock" in name or "pycache" in name]
    assert "toy-0.1.dist-info/sboms/kspec.cdx.json" in names_in(tree)
    kernels = sorted(name for name in names_in(tree) if name.startswith("toy_kernels/"))
    images = {
        "shifts.shift.fatbin",
        "squares.square.fatbin",
        "squares.total.fatbin",
        "shifts.py",
        "__init__.py",
    }
    assert kernels == sorted(f"toy_kernels/{name}" for name in text | images)


def test_metadata_are_made_without_a_look_at_specs(hooked: Path, variables: dict[str, str]) -> None:
    (hooked / "specs/squares.toml").write_text("not a spec")
    before = files_of(hooked)
    pip = [*pip_command(), "install", "--dry-run", "--no-build-isolation", "--no-deps", "."]
    assert "Would install toy-0.1" in succeed(pip, hooked, variables)
    assert files_of(hooked) == before


def test_the_wheel_after_its_metadata_has_everything(
    hooked: Path, variables: dict[str, str]
) -> None:
    with (hooked / "pyproject.toml").open("a") as file:  # a folder that is not there yet
        file.write("\n[tool.hatch.build.targets.wheel.force-include]\n")
        file.write('"generated/toy_kernels" = "copied"\n')
    pip = [*pip_command(), "wheel", "--verbose", "--no-build-isolation", "--no-deps", "."]
    printed = succeed(pip, hooked, variables).partition("Building wheel for toy")
    assert "compiling 6/6" in printed[2] and "compiling" not in printed[0]
    (made,) = hooked.glob("*.whl")
    names = {f"{folder}/squares.{end}" for folder in ("toy_kernels", "copied") for end in ENDS}
    assert names <= set(names_in(made))


def test_text_that_is_not_committed_is_in_the_sdist(
    hooked: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    (hooked / ".gitignore").write_text("generated/\n")
    command = [sys.executable, "-m", "build", "--no-isolation", "--sdist", "."]
    succeed(command, hooked, variables)
    (sdist,) = (hooked / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert "toy-0.1/generated/toy_kernels/squares.cu" in archive.getnames()


@pytest.mark.parametrize("listed", [True, False])
def test_an_editable_install_follows_its_specs(
    hooked: Path, tmp_path: Path, variables: dict[str, str], listed: bool
) -> None:
    if listed:
        with (hooked / "pyproject.toml").open("a") as file:
            file.write('\n[tool.hatch.build]\ndev-mode-dirs = ["generated"]\n')
    else:
        pytest.importorskip("editables")
    site = tmp_path / "site"
    pip = [*pip_command(), "install", "--no-build-isolation", "--no-deps", "--quiet"]
    succeed([*pip, "--target", str(site), "--editable", "."], hooked, variables)
    code = f"import site; site.addsitedir({str(site)!r}); import numpy as np\n"
    code += "from toy_kernels import squares; print(squares.square(np.float32([3])))"
    assert succeed([sys.executable, "-c", code], tmp_path, variables) == "[9.]\n"
    assert not [*hooked.rglob("*.fatbin")]
    path = hooked / "specs/squares.toml"
    path.write_text(path.read_text().replace("y = x * x", "y = x * x * x"))
    assert succeed([sys.executable, "-c", code], tmp_path, variables) == "[27.]\n"
    path.write_text(path.read_text().replace("inputs", "input"))
    done = subprocess.run(
        [sys.executable, "-c", code], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode and not done.stdout
    assert "specs/squares.toml:5:1: error: unknown key 'input'" in done.stderr


def test_an_installed_wheel_is_not_watched(
    hooked: Path, tmp_path: Path, variables: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "."]
    succeed(command, hooked, variables)
    (made,) = (hooked / "dist").glob("*.whl")
    assert not [name for name in names_in(made) if "watch" in name or name.endswith(".pth")]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ('watch = "no"', "watch: must be true or false"),
        ("archs = 90", "archs: must be a list of strings"),
    ],
)
def test_options_of_the_hook_that_make_no_sense(
    hooked: Path, tmp_path: Path, variables: dict[str, str], option: str, message: str
) -> None:
    with (hooked / "pyproject.toml").open("a") as file:
        file.write(f'{option}\n\n[tool.hatch.build]\ndev-mode-dirs = ["."]\n')
    pip = [*pip_command(), "install", "--no-build-isolation", "--no-deps"]
    editable = [*pip, "--target", str(tmp_path / "site"), "--editable", "."]
    wheel = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "."]
    command = editable if "watch" in option else wheel
    done = subprocess.run(
        command, cwd=hooked, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode and message in done.stdout + done.stderr


def test_the_scaffold_is_what_the_hook_needs() -> None:
    text = scaffold.new_project("demo").files["pyproject.toml"]
    assert '"kspec[build]"' in text and "[tool.hatch.build.hooks.kspec]" in text


RECIPES = [
    pytest.param("setuptools", id="setuptools"),
    pytest.param("scikit_build_core", id="scikit-build-core"),
]


@pytest.mark.parametrize("backend", RECIPES)
def test_the_documented_recipes_of_other_backends(
    tmp_path: Path, variables: dict[str, str], backend: str
) -> None:
    module = pytest.importorskip(backend)
    if backend == "setuptools" and int(module.__version__.split(".")[0]) < 71:
        pytest.importorskip("wheel")
    page = (ROOT / "docs/packaging.md").read_text()
    snippets = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (text,) = (one for one in snippets if f'build-backend = "{backend}.' in one)
    toy = write_project(tmp_path / "toy")
    (toy / "pyproject.toml").write_text(text)
    arguments = ["build", "--arch", "sm_90", "--arch", "compute_80"]
    succeed([sys.executable, "-m", "kspec.build", *arguments], toy, variables)
    run_python("from toy_kernels import squares", toy / "generated", ROOT)  # leaves bytecode
    pip = [*pip_command(), "wheel", "--no-build-isolation", "--no-deps", "--quiet"]
    succeed([*pip, "."], toy, variables)
    (made,) = toy.glob("*.whl")
    assert made.name == "toy-1.0-py3-none-any.whl"
    found = {name for name in names_in(made) if name.startswith("toy_kernels/")}
    wanted = {f"squares.{end}" for end in ENDS}
    wanted |= {"manifest.json", "py.typed", "amount.cuh", "__init__.py", "shifts.shift.fatbin"}
    assert {f"toy_kernels/{name}" for name in wanted} <= found
    assert not [name for name in found if "__pycache__" in name]
    site = install(made, tmp_path / "site")
    code = "from toy_kernels import squares; import numpy as np\n"
    code += "print(squares.square(np.float32([3])))"
    assert run_python(code, site, ROOT, cwd=tmp_path) == "[9.]\n"
