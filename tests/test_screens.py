"""Pages on screens: nothing runs out of the window or is cut off, and all text can be read.

The site, the catalogue and the report are opened in Chromium as on a phone and on a desk, in both
colour schemes.  A page as a whole must not scroll sideways; wide tables, pictures and code scroll
by themselves.  Contrasts are those of WCAG 2.1: 4.5, and 3 for large text.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from kspec.build.package.catalogue import write_catalogue
from kspec.build.project import plan_project
from kspec.build.report.heat import heat_sections
from kspec.build.report.lock import Lock, read_lock
from kspec.build.report.page import render_page
from kspec.build.report.saved import FIGURES, SavedLine, SavedReview
from kspec.build.report.table import make_report
from tests.browser import Browser, browser, find_chromium
from tests.projects import ROOT

PROGRAM = find_chromium()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="needs Chromium on the PATH"),
]

SITE = ("index", "tutorial/1-formula", "reference", "gallery", "_generated/kspec.ElementwiseKernel")
WIDTHS = (400, 1400)
SCHEMES = ("light", "dark")

# A list of faults, as text. A colour may be transparent: then what is below it is seen too.
FAULTS = """
(() => {
  const still = document.createElement("style");
  still.textContent = "* { transition: none !important; animation: none !important; }";
  document.head.append(still);
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  const faults = new Set();
  const root = document.scrollingElement;
  if (root.scrollWidth > innerWidth) faults.add(`page: ${root.scrollWidth} of ${innerWidth} px`);
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    const scale = text.startsWith("color(") ? 1 : 255;
    return [r / scale, g / scale, b / scale, a];
  };
  const over = (top, below) => [0, 1, 2].map(k => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
  const cached = new Map();
  const paper = element => {
    if (element === null) return parse("rgb(255, 255, 255)");
    if (!cached.has(element)) {
      const own = parse(getComputedStyle(element).backgroundColor);
      cached.set(element, own[3] === 1 ? own : over(own, paper(element.parentElement)));
    }
    return cached.get(element);
  };
  const light = colour => {
    const [r, g, b] = colour.map(x => x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // What holds the page's heading is the page, though it may scroll by itself.
  const title = document.querySelector("h1");
  const scrolls = element => element !== null && !element.contains(title) && (
    ["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  for (let node; (node = walker.nextNode());) {
    const element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({visibilityProperty: true})) continue;
    const name = `${element.tagName.toLowerCase()}.${element.className}`;
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (box.width <= 1 || getComputedStyle(element).textOverflow === "ellipsis") continue;
    if (box.right > innerWidth + 1 && !scrolls(element)) faults.add(`${name}: cut off: ${node.data.trim()}`);
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const ground = paper(element), ink = over(parse(style.color), ground);
    const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    const large = size >= 24 || size >= 18.6 && style.fontWeight >= 700;
    const key = name + style.color + ground;
    if (contrast < (large ? 3 : 4.5) && !seen.has(key)) {
      seen.add(key);
      faults.add(`${name}: contrast ${contrast.toFixed(2)}: ${node.data.trim().slice(0, 40)}`);
    }
  }
  return [...faults];
})()
"""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert PROGRAM is not None
    with browser(PROGRAM, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def faults_of(chromium: Browser, page: Path) -> list[str]:
    found: list[str] = []
    for width in WIDTHS:
        for scheme in SCHEMES:
            chromium.open(page, width, scheme)
            assert chromium.evaluate("innerWidth") == width
            dark = chromium.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
            assert dark == (scheme == "dark")
            faults = chromium.evaluate(FAULTS)
            found += [f"{page.name}: {width} px, {scheme}: {fault}" for fault in faults]
    return found


def test_the_catalogue(chromium: Browser, tmp_path: Path) -> None:
    page = write_catalogue(plan_project(ROOT), tmp_path)
    assert not faults_of(chromium, page)
    paper = "getComputedStyle(document.body).backgroundColor"
    chromium.open(page, WIDTHS[0], "light")
    light = chromium.evaluate(paper)
    chromium.open(page, WIDTHS[0], "dark")
    assert light == "rgb(255, 255, 255)" and chromium.evaluate(paper) == "rgb(20, 23, 26)"


def _reviewed(lock: Lock) -> Lock:
    """Return a lock with a saved review of ``raw.matmul``."""
    text = (ROOT / "specs/matmul.cu").read_text(encoding="utf-8").splitlines()
    lines = tuple(
        SavedLine(
            "specs/matmul.cu",
            number,
            text[number - 1].strip(),
            "global load, 4.0 sectors",
            number * 100,
            4.0,
        )
        for number in (13, 15, 18, 23)
    )
    figures = dict.fromkeys(FIGURES, 1.0)
    kernels = [
        replace(one, reviews=(SavedReview("H200", ("float32[9,9]",), one.source, figures, lines),))
        if one.name == "matmul"
        else one
        for one in lock.kernels
    ]
    return Lock(tuple(kernels))


def test_the_report(chromium: Browser, tmp_path: Path) -> None:
    plan, lock = plan_project(ROOT), read_lock(ROOT)
    assert lock is not None
    report = make_report(plan, lock, ("norms.l2norm", "activations.gelu_bias", "raw.matmul"))
    page = tmp_path / "report.html"
    sections = heat_sections(plan, _reviewed(lock), report.kernels)
    assert len(sections) == 1 and "--warm: 1.000" in sections[0].tables
    page.write_text(render_page(report, "kspec_kernels", sections), encoding="utf-8")
    assert not faults_of(chromium, page)
    chromium.open(page, WIDTHS[0], "light")
    widest = "Math.max(...[...document.querySelectorAll('figure i')].map(one => one.offsetWidth))"
    assert chromium.evaluate(widest) > WIDTHS[0] / 2, "bars have room on a phone"


def test_the_site(chromium: Browser, tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-d", tmp_path / "kept"]
    subprocess.run([*command, ROOT / "docs", tmp_path / "site"], check=True)
    found = [
        fault for name in SITE for fault in faults_of(chromium, tmp_path / "site" / f"{name}.html")
    ]
    assert not found


def test_faults_are_found(chromium: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<!DOCTYPE html><title>t</title><main style='overflow-x: auto'><h1>"
        + "T" * 99
        + "</h1></main>"
        "<p style='width: 900px'>wide</p><pre style='overflow-x: auto'>" + "code " * 200 + "</pre>"
        "<div style='overflow: hidden; white-space: nowrap'><b>" + "cut " * 200 + "</b></div>"
        "<p style='color: #999'>faint</p><details><p style='color: #00f8'>hidden</p></details>"
    )
    chromium.open(page, 400, "light")
    faults = chromium.evaluate(FAULTS)
    assert [fault[:20] for fault in faults] == [
        "page: 908 of 400 px",
        "h1.: cut off: TTTTTT",
        "b.: cut off: cut cut",
        "p.: contrast 2.85: f",
        "p.: contrast 3.58: h",
    ]
