"""Texts that were compiled before under another key: they are rewritten again, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kspec.compiler import ImageCache, compile_source
from kspec.compiler.host import compile as host_compile
from kspec.model.stages import HOST, CudaSource, Image, Target

SOURCE = CudaSource("k.cu", 'extern "C" __global__ void k(int* x) { *x = 1; }\n')


@pytest.fixture
def cache(tmp_path: Path) -> ImageCache:
    return ImageCache(tmp_path / "cache")


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were compiled since the start of the test."""
    texts: list[str] = []
    real = host_compile._Run.compile

    def compile(self: Any, text: Any, *rest: Any) -> Any:
        texts.append(text.text)
        return real(self, text, *rest)

    monkeypatch.setattr(host_compile._Run, "compile", compile)
    return texts


def edited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the modules that rewrite sources have other comments."""
    monkeypatch.setattr(host_compile, "_include_digest", lambda: "edited")


def compiled(cache: ImageCache, source: CudaSource = SOURCE, target: Target = HOST) -> Image:
    """Compile as another process does."""
    return compile_source(source, target, ImageCache(cache.directory))


def test_an_edit_that_changes_no_text(
    monkeypatch: pytest.MonkeyPatch, cache: ImageCache, compiles: list[str]
) -> None:
    first = compiled(cache)
    edited(monkeypatch)
    assert compiled(cache) == first and len(compiles) == 1
    assert compiled(cache, replace(SOURCE, text=SOURCE.text.replace("\n", " // 1\n"))) == first
    assert len(compiles) == 1


def test_a_text_that_changes(
    monkeypatch: pytest.MonkeyPatch, cache: ImageCache, compiles: list[str]
) -> None:
    first = compiled(cache)
    assert compiled(cache, replace(SOURCE, text=SOURCE.text.replace("1", "2"))) != first
    edited(monkeypatch)
    monkeypatch.setattr(host_compile, "host_unit", other_unit)
    compiled(cache)
    assert len(compiles) == len(set(compiles)) == 3


def other_unit(*arguments: Any) -> Any:
    found = REAL_UNIT(*arguments)
    return replace(found, text=f"{found.text}\nint other;")


REAL_UNIT = host_compile.host_unit


@pytest.mark.parametrize("what", ["flags", "checks", "compiler", "headers"])
def test_whatever_else_decides_the_code(
    monkeypatch: pytest.MonkeyPatch, cache: ImageCache, compiles: list[str], what: str
) -> None:
    compiled(cache)
    edited(monkeypatch)
    target = HOST
    if what == "flags":
        monkeypatch.setenv("KSPEC_HOST_OPT", "0")
    elif what == "checks":
        target = Target("host", ("undefined",))
    elif what == "compiler":
        other = replace(host_compile.find_compiler(), settings="others")
        monkeypatch.setattr(host_compile, "find_compiler", lambda: other)
    else:
        monkeypatch.setattr(host_compile, "_INCLUDED", ("rewritten.h",))
    compiled(cache, target=target)
    assert len(compiles) == 2


def test_an_image_that_is_gone(
    monkeypatch: pytest.MonkeyPatch, cache: ImageCache, compiles: list[str]
) -> None:
    first = compiled(cache)
    for path in cache.directory.glob("*.image"):
        if path.stat().st_size > 4096:
            path.unlink()
    assert compiled(cache) == first and len(compiles) == 2
    edited(monkeypatch)
    assert compiled(cache) == first and len(compiles) == 2
