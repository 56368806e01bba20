"""docs/gallery.md: its script draws every picture that it shows, and it has every kernel and example."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from kspec_kernels import kernel_names

from tests.projects import ROOT

PAGE = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")


def test_every_picture_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    script = runpy.run_path(str(ROOT / "docs/gallery.py"))

    def with_few_stars(name: str) -> dict[str, Any]:
        there: dict[str, Any] = script["example"](name)
        if name == "n_body":  # a hundredth of the pairs
            there["main"].__globals__["STARS"] = 99
        return there

    script["main"].__globals__["example"] = with_few_stars
    script["main"](tmp_path)
    shown = set(re.findall(r"\]\(images/([\w.]+)\)", PAGE))
    assert {path.name for path in tmp_path.iterdir()} == shown == set(script["PICTURES"])
    assert shown == {path.name for path in (ROOT / "docs/images").iterdir()}
    assert all(path.stat().st_size > 1000 for path in tmp_path.iterdir())


def test_every_example_is_there() -> None:
    linked = set(re.findall(r"\]\(\.\./examples/(\w+\.py)\)", PAGE))
    assert linked == {path.name for path in (ROOT / "examples").glob("*.py")}


def test_every_written_kernel_is_there() -> None:
    """Kernels that are made of `backward` need no line of their own."""
    for name in kernel_names():
        module, _, kernel = name.partition(".")
        if kernel.endswith(("_backward", "_gradient")):
            continue
        row = next(
            line
            for line in PAGE.splitlines()
            if f"(../specs/{module}.toml)" in line and "|" in line
        )
        assert f"`{kernel}`" in row
