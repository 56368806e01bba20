"""The line about a compile that takes long: on a terminal, and gone at the end."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from kspec.compiler import ImageCache, compile_source, progress
from kspec.compiler.progress import compiling
from kspec.model.stages import HOST, CudaSource

LINE = "kspec: compiling norms.cu for sm_90 ..."


class Screen(io.StringIO):
    """Standard error; a terminal or not."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def screen(monkeypatch: pytest.MonkeyPatch, terminal: bool = True) -> Screen:
    found = Screen(terminal)
    monkeypatch.setattr(sys, "stderr", found)
    return found


def wait_for(stream: Screen, text: str) -> None:
    until = time.monotonic() + 60
    while text not in stream.getvalue() and time.monotonic() < until:
        time.sleep(0.001)


def shown(stream: Screen) -> str:
    with compiling("norms.cu for sm_90"):
        wait_for(stream, "...")
    return stream.getvalue()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setenv("KSPEC_PROGRESS", "auto")


def test_a_line_that_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(screen(monkeypatch)) == f"\r{LINE}\r{' ' * len(LINE)}\r"


def test_an_error_leaves_none_either(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = screen(monkeypatch)
    with pytest.raises(KeyboardInterrupt), compiling("norms.cu for sm_90"):
        wait_for(stream, "...")
        raise KeyboardInterrupt
    assert stream.getvalue().endswith(f"\r{' ' * len(LINE)}\r")


def test_it_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    size = os.terminal_size((30, 24))
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: size)
    stream = screen(monkeypatch)
    with compiling("..." * 20):
        wait_for(stream, "...")
    assert stream.getvalue().split("\r")[1] == f"kspec: compiling {'...' * 20}"[:29]


def test_a_short_compile_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 600.0)
    stream = screen(monkeypatch)
    with compiling("norms.cu for sm_90"):
        pass
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("mode", "terminal", "lines"),
    [("auto", False, False), ("never", True, False), ("always", False, True)],
)
def test_who_sees_it(
    monkeypatch: pytest.MonkeyPatch, mode: str, terminal: bool, lines: bool
) -> None:
    monkeypatch.setenv("KSPEC_PROGRESS", mode)
    stream = screen(monkeypatch, terminal)
    with compiling("norms.cu for sm_90"):
        if lines:
            wait_for(stream, "...")
    assert (LINE in stream.getvalue()) == lines


def test_a_process_without_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with compiling("norms.cu for sm_90"):
        pass


def test_kernels_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    stream = screen(monkeypatch)
    source = CudaSource("k.cu", 'extern "C" __global__ void k(int* x) { *x = 1; }')
    compile_source(source, HOST, ImageCache(tmp_path))
    assert "\rkspec: compiling k.cu for host ..." in stream.getvalue()
