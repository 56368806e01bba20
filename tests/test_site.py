"""`make docs`: the pages are a site without a warning, with highlighted sessions and the API."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import kspec
from tests.projects import ROOT


@pytest.mark.slow
def test_the_site_is_made_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", str(tmp_path / "kept"), str(ROOT / "docs"), str(tmp_path / "site")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    pages = {page.stem: page.read_text(encoding="utf-8") for page in tmp_path.glob("site/*.html")}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} <= set(pages)
    assert "highlight-pycon" in pages["fuse"], "sessions are told from programs"
    heads = re.findall(r'<a class="nav-link nav-internal" href="([\w-]+)\.html">', pages["index"])
    assert list(dict.fromkeys(heads)) == list(PARTS)
    kernel = tmp_path / "site/_generated/kspec.ElementwiseKernel.html"
    text = kernel.read_text(encoding="utf-8")
    assert "no_return" in text and "mappingproxy" not in text
    assert 'id="kspec.ElementwiseKernel.__call__"' in text, "methods have descriptions"
    assert "with_outputs" not in text, "only those for callers"
    reduction = tmp_path / "site/_generated/kspec.ReductionKernel.html"
    shown = re.findall(r'id="kspec.ReductionKernel\.(\w+)"', reduction.read_text(encoding="utf-8"))
    assert {"scan", "segments", "window", "by_key", "bind", "identity"} <= set(shown)
    assert not [name for name in shown if name.startswith(("prepare", "with_", "check_"))]


PARTS = ("tutorial", "how-to", "reference", "explanation", "gallery")


def test_each_page_is_in_one_part() -> None:
    """Each part lists its pages twice, for readers and for the navigation, in the same order."""
    docs = ROOT / "docs"
    texts = {path.stem: path.read_text(encoding="utf-8") for path in docs.glob("*.md")}
    assert _contents(texts["index"]) == list(PARTS)
    assert re.findall(r"\*\*\[[^]]+\]\(([\w-]+)\.md\)", texts["index"]) == list(PARTS)
    listed: list[str] = []
    for part in PARTS[:-1]:
        contents = _contents(texts[part])
        shown = re.findall(r"^(?:\*|\d+\.) \[[^]]+\]\(([\w/-]+)\.md\)", texts[part], re.MULTILINE)
        assert shown == contents
        listed += contents
    pages = {path.relative_to(docs).with_suffix("").as_posix() for path in docs.rglob("*.md")}
    assert sorted(listed) == sorted(pages - {"index", *PARTS})


def test_the_api_has_all_public_names() -> None:
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"^   (\w+)$", page, re.MULTILINE))
    public = {name: getattr(kspec, name) for name in kspec.__all__}
    described = {
        name
        for name, one in public.items()
        if not isinstance(one, ModuleType)
        and not (isinstance(one, type) and issubclass(one, Exception))
    }
    assert described <= listed | {"HostFault"}
    assert listed <= set(public)


def _contents(text: str) -> list[str]:
    """Return the pages of the lists for the navigation."""
    lists = re.findall(r"```\{toctree\}\n(?::\w+:.*\n)*\n(.*?)```", text, re.DOTALL)
    return "".join(lists).split()
