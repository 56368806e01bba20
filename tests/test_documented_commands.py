"""README and docs: every command shown is run, and docs/cli.md lists every command and option."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from kspec.build.cli import app
from kspec.build.cli.app import COMMANDS
from kspec.runtime.driver.device import devices
from tests.packaging.builds import plugin
from tests.projects import ROOT, SHIFTS, SQUARES, environment, write_project

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGE = ROOT / "docs/cli.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WRITTEN = "<!-- The rest is written by docs/messages.py. -->"
_SPAN = re.compile(r"`((?:kspec|make|pip|pytest|python) [^`\n]+)`")

# What is not run, and why.
SKIPPED = {
    r"git clone ": "a clone of this repository, from the network",
    r"pip install '(?:\./)?kspec\[": "kspec itself, from the network",
    r"wheels|pip wheel --no-deps \./": "the reader's checkout of kspec; tests/packaging builds a wheel of this one",
    r"make ": "makes an environment of its own from the network; .ci/run runs them",
    r"python -m benchmarks": "takes minutes on a GPU; tests/benchmarks runs its parts",
    r"gdb |\(gdb\)": "a debugger waits for somebody who types",
}
NEEDS_GPU = r"kspec build --arch native|kspec warm( toy_kernels)?$|kspec tune"
# What is done before a command that looks back.
BEFORE = {r"kspec trace$": "kspec trace -- pytest -q tests"}
# What stands for something of the reader's.
MEANT = {"/var/tmp/records": "records", "DIR": "records", "libs/toy": "libs/toy"}

NORMS = """\
doc = "Norms."

[reduction.l2norm]
doc = "Euclidean norm."
inputs = "T x"
outputs = "T y"
map = "x * x"
reduce = "a + b"
post_map = "y = sqrt(a)"
identity = 0
types = { T = ["float32"] }
reference = "np.sqrt((x * x).sum(axis=axis, keepdims=keepdims))"
example = { shapes = { x = [20, 30] }, axis = 1 }

[reduction.rms_scale]
inputs = "T x"
outputs = "T y"
map = "x * x"
reduce = "a + b"
post_map = "y = 1 / (a + 1)"
identity = 0
types = { T = ["float32"] }
reference = "1 / ((x * x).sum(axis=axis, keepdims=keepdims) + 1)"
"""
SCANNED = """\
forms = ["reduce", "scan"]
"""
PROJECT = """\
[build-system]
requires = ["hatchling", "kspec[build]"]
build-backend = "hatchling.build"

[project]
name = "kspec-scratch"
version = "0.1"

[tool.kspec]
package = "generated/kspec_kernels"
archs = ["sm_90", "compute_80"]

[tool.hatch.build]
dev-mode-dirs = ["generated"]

[tool.hatch.build.hooks.kspec]
"""
# Options, not variables: pip passes those on to itself when it makes an environment for a build.
PIP = """\
case $1 in
install) shift; set -- install --no-deps --target installed "$@" ;;
wheel) shift; set -- wheel --no-deps "$@" ;;
esac
"""
BUILD = """\
case "$1 $2" in "-m build") shift 2; set -- -m build --no-isolation "$@" ;; esac
"""
TEST = """\
import numpy as np
from kspec_kernels import norms


def test_l2norm() -> None:
    assert norms.l2norm(np.array([[3, 4]], "f4"), axis=1) == 5
"""
FUSED = """\
import kspec


@kspec.fuse
def function(x):
    return x * x + 1
"""


def shown(page: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield line and commands of each block, then of each command in the text of a page."""
    text = page.read_text(encoding="utf-8")
    for match in _FENCE.finditer(text):
        lines = match[2].splitlines()
        if match[1] == "console" or (match[1] == "text" and lines[0].startswith("$ ")):
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        elif match[1] != "sh":
            continue
        yield text.count("\n", 0, match.start()) + 2, lines
    prose = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    prose = re.sub(r"^#.*$", "", prose, flags=re.MULTILINE)  # headings name things
    prose = prose.partition(_WRITTEN)[0]  # messages, of which some begin with kspec's name
    for match in _SPAN.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, [match[1]]


def _cases() -> list[object]:
    first: dict[tuple[str, ...], str] = {}
    for page in PAGES:
        for line, commands in shown(page):
            first.setdefault(tuple(commands), f"{page.name}:{line}")
    return [pytest.param(commands, id=place) for commands, place in first.items()]


CASES = _cases()


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with the commands; `tests/packaging` has builds in isolation."""
    tools = tmp_path_factory.mktemp("tools")
    for name in ("kspec", "python", "pytest", "pip"):
        module = {"kspec": "-m kspec.build", "python": ""}.get(name, f"-m {name}")
        path = tools / name
        before = {"pip": PIP, "python": BUILD}.get(name, "")
        path.write_text(f'#!/bin/sh\n{before}exec "{sys.executable}" {module} "$@"\n')
        path.chmod(0o755)
    (tools / "home").mkdir()
    return {
        **environment(
            plugin(tools / "plugin"), Path("generated"), Path("libs/toy/generated"), ROOT
        ),
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tools / "home"),
        "SHELL": "/bin/bash",
        "PIP_NO_BUILD_ISOLATION": "0",  # 0: without isolation
        "PIP_NO_INDEX": "1",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
        **{
            f"GIT_{who}_{what}": "x"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }


@pytest.fixture(scope="module")
def built(variables: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a project that was built, committed and recorded before."""
    folder = tmp_path_factory.mktemp("project") / "scratch"
    write_project(folder, norms=NORMS, squares=SQUARES + SCANNED, shifts=SHIFTS)
    write_project(folder / "libs/toy")
    for name, text in {
        "pyproject.toml": PROJECT,
        "tests/test_norms.py": TEST,
        "module.py": FUSED,
        ".gitignore": "__pycache__/\n*.fatbin\n/generated/.*\n/records/\n/.kspec/\n",
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    shutil.copytree(ROOT / "examples", folder / "examples")
    before = "git init -q && kspec schema --write && kspec build && kspec build --project libs/toy"
    before += " && git add -A && git commit -qm all && git tag v1.0 && git tag v2.0"
    before += " && KSPEC_TRACE=records pytest -q tests"
    execute(before, folder, variables)
    return folder


def execute(script: str, folder: Path, variables: dict[str, str]) -> None:
    done = subprocess.run(
        ["bash", "-euc", script],
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    assert "Traceback" not in done.stderr, done.stderr


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("commands", CASES)
def test_every_command_works(
    commands: tuple[str, ...], built: Path, variables: dict[str, str], tmp_path: Path
) -> None:
    lines, reason = [], ""
    for line in commands:
        why = [text for pattern, text in SKIPPED.items() if re.search(pattern, line)]
        if re.search(NEEDS_GPU, line) and len(devices()) == 1:
            why.append("no CUDA device")
        reason = why[0] if why else reason
        if not why:
            lines += [text for pattern, text in BEFORE.items() if re.search(pattern, line)]
            lines.append(line)
    if not any(line.strip() for line in lines):
        pytest.skip(reason)
    script = "\n".join(lines)
    for text, meaning in MEANT.items():
        script = script.replace(text, meaning)
    if "kspec cache" in script:  # it may clear what other tests use
        variables = {**variables, "KSPEC_CACHE_DIR": str(tmp_path / "kspec-cache")}
    folder = tmp_path / "scratch"
    shutil.copytree(built, folder, symlinks=True)
    execute(script, folder, variables)


def test_what_is_skipped_is_shown() -> None:
    text = "\n".join(line for page in PAGES for _, commands in shown(page) for line in commands)
    assert all(re.search(pattern, text) for pattern in (*SKIPPED, NEEDS_GPU))


def sections() -> dict[str, str]:
    """Return the text about each command in docs/cli.md."""
    text = PAGE.read_text(encoding="utf-8")
    parts = re.split(r"^## `kspec(?: ([\w -]+))?`$", text, flags=re.MULTILINE)
    return {name or "": part for name, part in zip(parts[1::2], parts[2::2], strict=True)}


def commands() -> dict[str, set[str]]:
    """Return the long options of each command; of all of them under the empty name."""
    found: dict[str, set[str]] = {}

    def visit(name: str, command: object) -> None:
        options = {
            option
            for parameter in getattr(command, "params", [])
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--") and option != "--help"
        }
        found[name] = options
        for word, inner in getattr(command, "commands", {}).items():
            visit(f"{name} {word}".strip(), inner)

    for module, _ in COMMANDS.values():
        importlib.import_module(f"kspec.build.cli.{module}")
    visit("", typer.main.get_command(app))
    return found


def test_the_page_has_every_command() -> None:
    described, there = sections(), commands()
    groups = {name.rpartition(" ")[0] for name in there if " " in name}
    assert set(described) == set(there) - groups


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_page_has_every_option(name: str) -> None:
    if name not in sections():
        pytest.skip("a group of commands: each has its section")
    text = sections()[name]
    first_cells = re.findall(r"^\| ([^|]+)\|", text, re.MULTILINE)
    # `--project` is described once, for all commands that have it.
    known = commands()[name] - {"--project"} | (set() if name else {"--project"})
    assert set(re.findall(r"`(--[\w-]+)", " ".join(first_cells))) == known


def test_the_page_has_every_exit_status() -> None:
    documented = dict(re.findall(r"^\| (\d) \| (.+) \|$", PAGE.read_text(), re.MULTILINE))
    text = importlib.import_module("kspec.build.cli.app").__doc__ or ""
    assert documented == dict(re.findall(r"^(\d)     (.+)$", text, re.MULTILINE))
