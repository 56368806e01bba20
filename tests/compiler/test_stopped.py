"""A compiler that was killed, or had no memory or space, says nothing about the text."""

from __future__ import annotations

import errno
import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import ImageCache, compile_source
from kspec.compiler.cuda import nvrtc
from kspec.compiler.host import find_compiler
from kspec.compiler.stopped import stop_reason
from kspec.errors import CompileError, ToolStoppedError
from kspec.host import shared_objects
from kspec.model.stages import HOST, CudaSource, Target

SOURCE = CudaSource("k.cu", "__global__ void k(int* x) { *x = 1; }", ("k",))
# What ends a compilation, and the reason in the message.
ENDS = {
    "kill -KILL $$": r"signal 9 \(Killed\)",
    "kill -TERM $$": r"signal 15 \(Terminated\)",
    "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1": "Killed signal "
    "terminated program cc1plus",
    "echo 'clang: error: unable to execute command: Killed' >&2; exit 254": "unable to execute "
    "command: Killed",
    "echo 'k.cpp:1:1: fatal error: error writing to a.s: No space left on device' >&2; exit 1": "No "
    "space left on device",
    "echo 'cc1plus: out of memory allocating 65536 bytes' >&2; exit 1": "out of memory",
    "ulimit -f 1; %s": "",  # a file of 512 bytes is all that it may write
}


@pytest.fixture
def troubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that does as a file says, as long as there is one."""
    real, script, end = shlex.join(find_compiler().command), tmp_path / "g++", tmp_path / "end"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in *" -o "*) [ -e {end} ] && . {end};; esac\nexec {real} "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("KSPEC_CXX", str(script))
    return end


@pytest.mark.parametrize("how", ENDS)
def test_it_is_not_remembered(how: str, troubled: Path, tmp_path: Path) -> None:
    cache = ImageCache(tmp_path / "cache")
    troubled.write_text(how.replace("%s", ""))
    message = (
        f"k.cu: the host compiler was stopped by the system, not by the text: {ENDS[how]}.*try"
    )
    with pytest.raises(ToolStoppedError, match=message) as caught:
        compile_source(SOURCE, HOST, cache)
    assert not isinstance(caught.value, CompileError)
    troubled.unlink()
    assert compile_source(SOURCE, HOST, cache).symbols == {"k": "kspec_entry_0"}


def test_a_kernel_runs_when_there_is_space_again(
    troubled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = kspec.ElementwiseKernel("T x", "T y", "y = x + 29", "of_little_space")
    x = np.ones(2, np.int16)
    kspec.ElementwiseKernel("T x", "T y", "y = x", "first")(x)  # the runtime is there
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    troubled.write_text("kill -KILL $$")
    with pytest.raises(ToolStoppedError, match="signal 9"):
        kernel(x)
    troubled.unlink()
    np.testing.assert_array_equal(kernel(x), [30, 30])


def test_the_runtime(troubled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    troubled.write_text("kill -KILL $$")
    with pytest.raises(ToolStoppedError, match="the host runtime: the host compiler was stopped"):
        shared_objects.built_runtime()
    assert not list((tmp_path / "cache").glob("*.image"))


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.ENOMEM, errno.EAGAIN])
@pytest.mark.parametrize("where", ["folder", "process"])
def test_errors_of_the_system(
    where: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ImageCache(tmp_path / "cache")
    find_compiler()
    with monkeypatch.context() as patch:

        def fail(*arguments: Any, **options: Any) -> None:
            raise OSError(number, os.strerror(number))

        if where == "folder":
            patch.setattr(tempfile, "mkdtemp", fail)
        else:
            patch.setattr(subprocess, "Popen", fail)
        with pytest.raises(ToolStoppedError, match=rf"k\.cu: .*: {os.strerror(number)}; see that"):
            compile_source(SOURCE, HOST, cache)
    assert compile_source(SOURCE, HOST, cache).symbols == {"k": "kspec_entry_0"}


def test_nvrtc_without_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = nvrtc._library()

    class Library:
        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

        def nvrtcCompileProgram(self, *arguments: Any) -> tuple[Any]:
            return (real.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY,)

    cache, target = ImageCache(tmp_path), Target("compute_80")
    nvrtc.nvrtc_build()
    with monkeypatch.context() as patch:
        patch.setattr(nvrtc, "_library", Library)
        with pytest.raises(ToolStoppedError, match=r"k\.cu: NVRTC was stopped .*: out of memory"):
            compile_source(SOURCE, target, cache)
    assert compile_source(SOURCE, target, cache).symbols == {"k": "_Z1kPi"}


@pytest.mark.parametrize(
    "text",
    [
        "#error out of memory",
        '#error "No space left on device"',
        'static_assert(sizeof(int) == 1, "Cannot allocate memory");',
        '#include "Killed signal terminated program cc1plus"',
    ],
)
def test_a_text_with_such_words_is_remembered(text: str, tmp_path: Path) -> None:
    cache = ImageCache(tmp_path)
    for _ in range(2):
        with pytest.raises(CompileError):
            compile_source(CudaSource("k.cu", text), HOST, cache)


def test_a_compiler_that_crashes_does_so_again() -> None:
    log = "g++: fatal error: Segmentation fault signal terminated program cc1plus"
    assert stop_reason(1, log) == ""
    assert stop_reason(0, "g++: fatal error: Killed signal terminated program cc1plus") == ""
