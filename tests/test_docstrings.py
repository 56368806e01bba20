"""Every example in a docstring of kspec gives what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((ROOT / "kspec").rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
# Packages of kspec that need the library they are for.
LIBRARIES = ("torch", "jax", "dask")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    part = name.split(".")[1] if "." in name else ""
    if part in LIBRARIES:
        pytest.importorskip(part)
    monkeypatch.syspath_prepend(str(ROOT / "generated"))
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert not result.failed
