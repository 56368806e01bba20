"""README and docs: every Python snippet runs, every TOML snippet is accepted.

A Python snippet says behind its language what it needs: modules (```` ```python torch ````), or a
GPU (```` ```python cupy gpu ````). It runs where that is, after the snippets before it.

A TOML snippet that begins with ``# specs/<name>.toml`` is a spec file of the package `my_kernels`,
which the Python snippets of its page may import.
"""

from __future__ import annotations

import doctest
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kspec.build.project import build_project
from kspec.build.settings import load_settings
from kspec.runtime.driver import device
from kspec.spec.loader import load_spec_file

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
_FENCE = re.compile(r"^```(\w+)([\w. ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS
_SPEC = re.compile(r"# (specs/\w+\.toml)\n")
_PROJECT = '[project]\nname = "my"\n[tool.kspec]\npackage = "generated/my_kernels"\n'

Needs = frozenset[str]  # modules, and "gpu"


def snippets(page: Path, language: str) -> list[tuple[int, Needs, str]]:
    """Return line, needs and text of the fenced blocks of a language."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, match.start(3)) + 1, frozenset(match[2].split()), match[3])
        for match in _FENCE.finditer(text)
        if match[1] == language
    ]


def _runs() -> Iterator[Any]:
    """Yield every page with each set of needs of its snippets."""
    for page in PAGES:
        for needs in sorted(
            {frozenset(), *(one[1] for one in snippets(page, "python"))}, key=sorted
        ):
            marks = [pytest.mark.gpu] if "gpu" in needs else []
            yield pytest.param(page, needs, marks=marks, id="-".join((page.name, *sorted(needs))))


def _build_specs(page: Path, project: Path) -> Path:
    """Build the spec files of a page, without images; return the folder to import them from."""
    files = {
        match[1]: text
        for _, _, text in snippets(page, "toml")
        if (match := _SPEC.match(text)) is not None
    }
    if files:
        (project / "specs").mkdir()
        for name, text in {**files, "pyproject.toml": _PROJECT}.items():
            (project / name).write_text(text, encoding="utf-8")
        build_project(project, compiling=False)
    return project / "generated"


@pytest.mark.parametrize(("page", "given"), list(_runs()))
def test_python_snippets(
    page: Path, given: Needs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for need in sorted(given - {"gpu"}):
        pytest.importorskip(need)
    monkeypatch.syspath_prepend(str(ROOT / "generated"))
    monkeypatch.syspath_prepend(str(_build_specs(page, tmp_path)))
    for name in [name for name in sys.modules if name.partition(".")[0] == "my_kernels"]:
        monkeypatch.delitem(sys.modules, name)
    runner = doctest.DocTestRunner(optionflags=_FLAGS)
    names: dict[str, object] = {}
    report: list[str] = []
    for line, needs, text in snippets(page, "python"):
        if not needs <= given:
            continue
        if ">>>" not in text:
            exec(compile(text, f"{page.name}:{line}", "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line - 1)
        runner.run(test, out=report.append, clear_globs=False)
        names.update(test.globs)
    assert not runner.failures, "".join(report)


TOML = [
    pytest.param(text, id=f"{page.name}:{line}")
    for page in PAGES
    for line, _, text in snippets(page, "toml")
]


@pytest.mark.parametrize("text", TOML)
def test_toml_snippets(text: str, tmp_path: Path) -> None:
    if "tool" in tomllib.loads(text):
        (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
        assert load_settings(tmp_path).targets
        return
    path = tmp_path / "snippet.toml"
    path.write_text(text, encoding="utf-8")
    assert load_spec_file(path, tmp_path).specs


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", re.sub(r"`[^`]*`", "", text)):
        assert (page.parent / target).exists(), target


EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
_UNSANITIZED = {"dynamic_parallelism": "kernels that launch kernels are not supported by the tools"}


def _example(path: Path) -> Any:
    reason = _UNSANITIZED.get(path.stem)
    marks = [pytest.mark.unsanitized(reason)] if reason else []
    if "cooperative" in path.stem:
        marks.append(pytest.mark.alone)
    return pytest.param(path, marks=marks, id=path.stem)


@pytest.mark.parametrize("place", ["host", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("example", [_example(path) for path in EXAMPLES])
def test_examples(
    example: Path,
    place: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On the host device alone, as without a GPU; on a machine with GPUs also on them."""
    if place == "host":
        monkeypatch.setattr(device, "devices", lambda: (device.HOST,))
    monkeypatch.syspath_prepend(str(ROOT / "generated"))
    runpy.run_path(str(example), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines and not any("WRONG" in line for line in lines)


def test_examples_are_listed() -> None:
    listed = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert {path.name for path in EXAMPLES} == set(re.findall(r"\[(\w+\.py)\]\(\1\)", listed))
