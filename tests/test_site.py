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
    missing = [name for name in pages if name not in _listed(pages["index"]) | _UNLISTED]
    assert not missing, "every page is in a list of contents"
    kernel = tmp_path / "site/_generated/kspec.ElementwiseKernel.html"
    assert "no_return" in kernel.read_text(encoding="utf-8")


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


_UNLISTED = {"index", "genindex", "search"}


def _listed(index: str) -> set[str]:
    return set(re.findall(r'href="([\w-]+)\.html"', index))
