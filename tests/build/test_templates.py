"""The templates of `kspec init`: what each makes works at once, and one is asked for on a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from kspec.build import scaffold
from kspec.build.project import build_project, check_project
from kspec.render.environment import template_folder
from tests.packaging.builds import pytest_in
from tests.projects import ROOT, environment, files_of

TEXTS = template_folder() / "project"
# Number of tests of each; test_init.py has the library.
TESTS = {"script": 3, "torch": 2}
CLUTTER = (
    ".cache/kspec/entry",
    ".coverage",
    ".hypothesis/examples/0",
    ".kspec-cache/entry",
    ".mypy_cache/0",
    ".pytest_cache/README.md",
    ".ruff_cache/0",
    ".venv/bin/python",
    "build/lib/demo.py",
    "demo-0.1.0-py3-none-any.whl",
    "demo.egg-info/PKG-INFO",
    "dist/demo-0.1.0.tar.gz",
    "docs-html/index.html",
    "generated/.demo_kernels.lock",
    "generated/demo_kernels/__pycache__/kspec-stamp.json",
    "generated/demo_kernels/demo.squared_diff.fatbin",
    "report.html",
    "site/index.html",
)
COMMITTED = (
    "generated/demo_kernels/demo.cu",
    "generated/demo_kernels/demo.py",
    "generated/demo_kernels/manifest.json",
    "kspec.lock",
)


@pytest.mark.parametrize("template", TESTS)
def test_the_first_run_of_pytest_passes(run, tmp_path: Path, template: str) -> None:
    folder = tmp_path / "demo"
    assert run("init", "demo", "--folder", folder, "--template", template)[0] == 0
    done = pytest_in(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = Counter(
        {word: int(n) for n, word in re.findall(r"(\d+) (passed|skipped)", done.stdout)}
    )
    assert counts["passed"] + counts["skipped"] == TESTS[template]
    assert counts["skipped"] == (template == "torch" and not find_spec("torch"))
    if template != "script":
        assert not check_project(folder)


def test_what_is_printed_about_a_script(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("init", "fit-rates", "--template", "script") == (
        0,
        "fit-rates: a script with its kernels, fit_rates.py\n"
        "next: cd fit-rates && python fit_rates.py\n",
        "",
    )
    status, out, err = run("build", "--project", "fit-rates")
    assert (status, out) == (2, "") and "pyproject.toml cannot be read" in err
    monkeypatch.chdir("fit-rates")
    _, _, err = run("build")
    assert err == (
        "kspec: no pyproject.toml in fit-rates or above; use --project DIR, or write a new project "
        "with `kspec init`\n"
    )


def test_a_script_runs_and_says_what_it_requires(tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo", "script"), tmp_path)
    done = subprocess.run(
        [sys.executable, "demo.py"],
        cwd=tmp_path,
        env=environment(ROOT),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("best: 0.30\n"), done.stderr
    # The block of PEP 723, which uv and pipx read.
    text = (tmp_path / "demo.py").read_text()
    (block,) = re.findall(r"^# /// script\n((?:# .*\n)+)# ///$", text, re.MULTILINE)
    required = tomllib.loads(re.sub("^# ", "", block, flags=re.MULTILINE))
    assert required == {"requires-python": ">=3.11", "dependencies": ["kspec[cu13]"]}


def test_the_torch_template_has_operators_and_a_gradient(tmp_path: Path) -> None:
    scaffold.write_project(scaffold.new_project("demo", "torch"), tmp_path)
    plan = build_project(tmp_path, compiling=False).plan
    assert plan.settings.torch
    (spec,) = [spec for spec in plan.specs if spec.name == "gated_silu"]
    assert set(spec.backward) == {"x", "gate"}
    assert "def gated_silu(" in (tmp_path / "generated/demo_kernels/torch.py").read_text()
    document = tomllib.loads((tmp_path / "pyproject.toml").read_text())
    assert document["project"]["optional-dependencies"] == {"torch": ["torch>=2.6"]}


@pytest.mark.parametrize("template", scaffold.TEMPLATES)
def test_git_adds_sources_and_no_clutter(tmp_path: Path, template: str) -> None:
    scaffold.write_project(scaffold.new_project("demo", template), tmp_path)
    sources = {*files_of(tmp_path), *COMMITTED}
    for name in (*CLUTTER, *COMMITTED):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    listed = subprocess.run(
        ["git", "ls-files"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert set(listed.stdout.split()) == sources


def test_every_text_is_used() -> None:
    used = {text for template in scaffold.TEMPLATES.values() for text in template.files.values()}
    for path in TEXTS.rglob("*.j2"):
        used |= set(re.findall(r'{% (?:extends|include) "project/(.+)\.j2" %}', path.read_text()))
    names = {path.relative_to(TEXTS).as_posix().removesuffix(".j2") for path in TEXTS.rglob("*.j2")}
    assert used == names


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("scirpt", "expected one of library, script, torch; did you mean 'script'?"),
        ("notebook", "expected one of library, script, torch"),
        ("", "expected one of library, script, torch"),
    ],
)
def test_templates_that_there_are_not(run, tmp_path: Path, template: str, message: str) -> None:
    status, out, err = run("init", "demo", "--folder", tmp_path / "demo", "--template", template)
    assert (status, out) == (2, "")
    assert err == f"kspec: unknown template {template!r}; {message}\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "template", "message"),
    [
        ("random", "script", "random.py would hide the module 'random'; try 'my-random'"),
        ("numpy", "script", "numpy.py would hide the module 'numpy'; try 'my-numpy'"),
        ("conftest", "script", "conftest.py would hide the module 'conftest'; try 'my-conftest'"),
        ("torch", "torch", "kspec needs the name 'torch' itself; try 'my-torch'"),
        ("kernel-names", "torch", "kspec needs the name 'kernel_names' itself; try"),
    ],
)
def test_names_that_one_template_cannot_have(
    run, tmp_path: Path, name: str, template: str, message: str
) -> None:
    status, out, err = run("init", name, "--folder", tmp_path / "new", "--template", template)
    assert (status, out) == (2, "") and err.startswith(f"kspec: {name!r}: {message}")
    assert not list(tmp_path.iterdir())
    scaffold.new_project("random", "library")


def on_a_terminal(folder: Path, answers: str, *arguments: str) -> tuple[int, str]:
    """Run ``kspec init demo`` on a terminal where somebody types."""
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "kspec.build", "init", *arguments]
    process = subprocess.Popen(
        command, cwd=folder, env=environment(ROOT), stdin=follower, stdout=follower, stderr=follower
    )
    os.close(follower)
    os.write(leader, answers.encode())
    printed = b""
    try:
        while part := os.read(leader, 4096):
            printed += part
    except OSError:  # Linux has this at the end, not an empty part
        pass
    os.close(leader)
    return process.wait(), printed.decode().replace("\r\n", "\n")


def test_a_terminal_is_asked_until_the_answer_fits(tmp_path: Path) -> None:
    status, printed = on_a_terminal(tmp_path, "tourch\ntorch\n", "demo")
    assert status == 0
    for name, template in scaffold.TEMPLATES.items():
        assert f"\n  {name:8} {template.summary}\n" in printed
    assert "expected one of library, script, torch; did you mean 'torch'?" in printed
    assert printed.count("Template [library]: ") == 2
    assert "torch = true" in (tmp_path / "demo/pyproject.toml").read_text()


def test_an_empty_answer_is_the_library(tmp_path: Path) -> None:
    status, printed = on_a_terminal(tmp_path, "\n", "demo")
    assert status == 0 and "next: cd demo && kspec demo" in printed
    assert files_of(tmp_path / "demo") == {
        name: text.encode() for name, text in scaffold.new_project("demo").files.items()
    }


@pytest.mark.parametrize(
    ("arguments", "answers", "status"),
    [
        (("demo", "--template", "script"), "", 0),
        (("a b",), "", 2),
        (("demo", "--folder", "none/demo"), "", 2),
        (("demo",), "\4", 1),  # the end of the input
    ],
)
def test_questions_that_are_not_asked_or_not_answered(
    tmp_path: Path, arguments: tuple[str, ...], answers: str, status: int
) -> None:
    found, printed = on_a_terminal(tmp_path, answers, *arguments)
    assert found == status, printed
    assert ("Template [library]" in printed) == bool(answers)
    assert list(tmp_path.iterdir()) == ([tmp_path / "demo"] if status == 0 else [])
    assert "Traceback" not in printed
