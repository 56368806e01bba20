"""``kspec docs``: one page that needs nothing else, says everything, and whose examples run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kspec.build.package.catalogue import make_page, render_catalogue
from kspec.build.package.highlight import CLASSES, Code
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
        exec(compile(kernel.example.text, kernel.anchor, "exec"), {})


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
    assert square.steps == (("operation", Code("y = x * x", "cuda")),)
    assert square.place == "specs/squares.toml, line 3"
    assert square.spec.text.startswith("[elementwise.square]")
    assert "reduction" not in square.spec.text
    assert total.spec.text.endswith("axis = 1 }")
    assert [row.name for row in total.arguments] == ["x", "y"]
    assert "template <" in square.source.text and "total" not in square.source.text
    assert square.signature.text.endswith(") -> ArrayT")


def test_prose_is_rendered(tmp_path: Path, shipped: str) -> None:
    doc = 'doc = """Square ``x`` of each <b>.\\n\\nNotes\\n-----\\n* one\\n* two"""'
    spec = SQUARES.replace('doc = "Square of each element."', doc)
    text = render_catalogue(plan_of(write_project(tmp_path, squares=spec)))
    assert (
        "<p>Square <code>x</code> of each &lt;b&gt;.</p>\n<h4>Notes</h4>\n<ul><li>one</li><li>two</li></ul>\n"
    ) in text
    assert '<span class="faint">Square <code>x</code> of each &lt;b&gt;.</span>' in text
    outside = re.sub(r"<pre>.*?</pre>", "", shipped, flags=re.DOTALL)  # of specs and sources
    assert "``" not in outside and "<code>v * Phi(v)</code>" in outside


def test_code_has_colours(shipped: str) -> None:
    page = re.sub(r"<details>.*?</details>", "", shipped, flags=re.DOTALL)
    assert '<b class="key">import</b> numpy <b class="key">as</b> np' in page
    assert '<pre>y = min(max(x, <b class="num">0.0</b>), cap)</pre>' in page
    assert '<b class="key">__global__</b> <b class="type">void</b> gelu_bias(' in shipped
    assert '<b class="key">[elementwise.gelu_bias]</b>' in shipped
    used = set(re.findall(r'<b class="(\w+)">', shipped))
    assert used == set(CLASSES)
    for name in CLASSES:
        assert f".{name} {{ color: var(--{name}); }}" in shipped
        assert shipped.count(f" --{name}: #") == 2, "a colour for light and one for dark"


def test_forms_have_signatures() -> None:
    modules = {one.name: one for one in make_page(plan_of(ROOT)).modules}
    (biquad,) = modules["filters"].kernels
    total = next(one for one in modules["statistics"].kernels if one.name == "total")
    assert not biquad.signature and [one.name for one in biquad.forms] == ["biquad.scan"]
    assert biquad.forms[0].signature.text.startswith("biquad.scan(\n    x: ArrayT | Scalar,\n")
    assert total.signature and "total.window" in [one.name for one in total.forms]
    assert total.forms[0].summary.text == "Reduce each element with all before it along an axis."


def test_the_command(run, toy: Path, tmp_path: Path) -> None:
    status, out, _ = run("docs", "--project", toy, "--output", tmp_path / "site")
    assert (status, out) == (0, f"{tmp_path}/site/index.html: 3 kernels in 2 modules\n")
    status, _, _ = run("docs", "--project", toy, "--output", tmp_path / "kernels.html")
    assert status == 0
    first, second = (tmp_path / name for name in ("site/index.html", "kernels.html"))
    assert first.read_bytes() == second.read_bytes()
    assert re.match(rb"<!DOCTYPE html>\n", first.read_bytes())
