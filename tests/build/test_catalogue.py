"""``kspec docs``: one page that needs nothing else, says everything, and whose examples run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kspec.build.package.catalogue import make_page, render_catalogue
from kspec.build.plan import BuildPlan, make_plan
from kspec.build.settings import load_settings
from tests.projects import ROOT, SQUARES, write_project

_VOID = ("meta", "br", "hr", "input", "link", "img")


class _Page(HTMLParser):
    """Collects tags, anchors and text, and checks that what is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open += [] if tag in _VOID else [tag]
        values = dict(attrs)
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values["href"] or ""] if "href" in values else []
        assert "src" not in values

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def plan_of(folder: Path) -> BuildPlan:
    return make_plan(load_settings(folder))


@pytest.fixture(scope="module")
def shipped() -> str:
    return render_catalogue(plan_of(ROOT))


def test_it_needs_nothing_else(shipped: str) -> None:
    page = _Page(shipped)
    assert not page.open
    assert not page.tags & {"script", "link", "img", "iframe"}
    assert "@import" not in shipped and "url(" not in shipped
    assert all(link.startswith("#") for link in page.links)
    assert "prefers-color-scheme: dark" in shipped and 'name="viewport"' in shipped


def test_every_kernel_has_an_anchor(shipped: str) -> None:
    page = _Page(shipped)
    assert len(set(page.ids)) == len(page.ids)
    assert {link[1:] for link in page.links} == set(page.ids)
    for unit in plan_of(ROOT).units:
        for spec in unit.spec_file.specs:
            assert f"{unit.stem}.{spec.name}" in page.ids
            assert f".{getattr(spec, 'forward', '') or spec.name}]" in page.words


def test_the_same_specs_make_the_same_bytes(shipped: str) -> None:
    assert render_catalogue(plan_of(ROOT)) == shipped
    assert str(ROOT) not in shipped


def test_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "generated"))
    kernels = [one for module in make_page(plan_of(ROOT)).modules for one in module.kernels]
    assert all(kernel.example for kernel in kernels)
    for kernel in kernels:
        exec(compile(kernel.example, kernel.anchor, "exec"), {})


def test_text_of_specs_is_escaped(tmp_path: Path) -> None:
    spec = SQUARES.replace("Square of each", "<script>alert(1)</script> & 'each'")
    spec = spec.replace('x * x"', 'x < x ? x : x * x"', 1)
    text = render_catalogue(plan_of(write_project(tmp_path, squares=spec)))
    page = _Page(text)
    assert "script" not in page.tags
    assert "<script>alert(1)</script> & 'each'" in page.words
    assert "y = x < x ? x : x * x" in page.words


def test_what_it_says_of_a_kernel(tmp_path: Path) -> None:
    (_, squares) = make_page(plan_of(write_project(tmp_path))).modules
    square, total = squares.kernels
    assert square.coverage == ("T = float32", "T = int32") and square.archs == "sm_90, compute_80"
    assert square.steps == (("operation", "y = x * x"),)
    assert square.place == "specs/squares.toml, line 3"
    assert square.spec.startswith("[elementwise.square]") and "reduction" not in square.spec
    assert total.spec.endswith("axis = 1 }")
    assert [row.name for row in total.arguments] == ["x", "y"]
    assert "template <" in square.source and "total" not in square.source
    assert square.signature.endswith(") -> ArrayT")


def test_the_command(run, toy: Path, tmp_path: Path) -> None:
    status, out, _ = run("docs", "--project", toy, "--output", tmp_path / "site")
    assert (status, out) == (0, f"{tmp_path}/site/index.html: 3 kernels in 2 modules\n")
    status, _, _ = run("docs", "--project", toy, "--output", tmp_path / "kernels.html")
    assert status == 0
    first, second = (tmp_path / name for name in ("site/index.html", "kernels.html"))
    assert first.read_bytes() == second.read_bytes()
    assert re.match(rb"<!DOCTYPE html>\n", first.read_bytes())
