"""Which C++ compiler the host device uses, and what of it decides the key of an image."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.compiler import host as host_compiler
from kspec.compiler import image_key, key
from kspec.compiler.host import HostCompiler, find_compiler
from kspec.compiler.host.compile import compile_host
from kspec.errors import ToolNotFoundError, ToolStoppedError
from kspec.host import shared_objects
from kspec.model.stages import HOST, CudaSource, Target

SOURCE = CudaSource("k.cu", "__global__ void k(int* x) { *x = 1; }", ("k",))


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("KSPEC_CXX", raising=False)
    monkeypatch.setattr(host_compiler.shutil, "which", lambda name: None)
    monkeypatch.setattr(host_compiler, "_ziglang", lambda: None)
    with pytest.raises(ToolNotFoundError) as caught:
        find_compiler()
    message = (
        "no host compiler: kernels of NumPy arrays are compiled for the CPU, by a C++ compiler; "
        "install g++ or clang++, or `pip install ziglang`"
    )
    assert str(caught.value) == message


def test_the_compiler_asked_for_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_CXX", "no-such-compiler -O1")
    with pytest.raises(ToolNotFoundError, match="no-such-compiler -O1"):
        find_compiler()


def test_a_program_that_is_not_a_compiler(tmp_path: Path) -> None:
    """It was said that the system had stopped it."""
    silent = tmp_path / "c++"
    silent.write_text("#!/bin/sh\n")
    silent.chmod(0o755)
    compiler = host_compiler.describe((str(silent),))
    with pytest.raises(ToolNotFoundError, match=r"wrote no shared object; let KSPEC_CXX name a"):
        compile_host(SOURCE, compiler)


def test_a_command_with_an_open_quote_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSPEC_CXX", "g++ '-O1")
    match = r"""asks for "g\+\+ '-O1": No closing quotation; quote it as for a shell"""
    with pytest.raises(ToolNotFoundError, match=match):
        find_compiler()


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EAGAIN])
@pytest.mark.parametrize("option", ["--version", "-v"])
def test_a_compiler_that_the_system_does_not_start_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, option: str, number: int
) -> None:
    """It was said to be missing, or its settings were missing in keys."""
    command, run = (str(script(tmp_path / "c++", "")),), subprocess.run

    def fail(arguments: list[str], **options: Any) -> Any:
        if option in arguments:
            raise OSError(number, os.strerror(number))
        return run(arguments, **options)

    with monkeypatch.context() as context:
        context.setattr(host_compiler.subprocess, "run", fail)
        with pytest.raises(ToolStoppedError, match=f"{os.strerror(number)}; raise the limit on"):
            host_compiler.describe(command)
    assert host_compiler.describe(command).settings


def test_other_systems_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_compiler.platform, "system", lambda: "Darwin")
    with pytest.raises(ToolNotFoundError, match="Linux for now, and this is Darwin"):
        find_compiler()


def keyed(monkeypatch: pytest.MonkeyPatch, command: str) -> str:
    """Return the key of a kernel with a compiler."""
    monkeypatch.setenv("KSPEC_CXX", command)
    return image_key(SOURCE, HOST)


def script(path: Path, flags: str) -> Path:
    """Write a wrapper of the compiler."""
    real = shutil.which(find_compiler().command[0])
    assert real is not None
    path.write_text(f'#!/bin/sh\nexec {shlex.quote(real)} {flags} "$@"\n')
    path.chmod(0o755)
    return path


def value(name: str) -> int:
    """Run a kernel that writes the macro MINE of the compiler's command."""
    kernel = kspec.RawKernel(f'extern "C" __global__ void {name}(int* x) {{ *x = MINE; }}', name)
    x = np.zeros(1, np.int32)
    kernel((1,), (1,), (x,))
    return int(x[0])


class TestKeys:
    """Whatever makes the compiler's output another one is in the key."""

    def test_flags(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = shlex.join(find_compiler().command)
        commands = [real, *(f"{real} {flag}" for flag in ("-ffast-math", "-DA=1", "-DA=2"))]
        assert len({keyed(monkeypatch, command) for command in commands}) == 4

    def test_flags_decide_what_runs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = shlex.join(find_compiler().command)
        for number in (1, 2):
            monkeypatch.setenv("KSPEC_CXX", f"{real} -DMINE={number}")
            assert value("of_flags") == number

    def test_a_wrapper_that_is_edited(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        wrapper = tmp_path / "g++"
        monkeypatch.setenv("KSPEC_CXX", str(wrapper))
        for number in (1, 2):
            with monkeypatch.context() as context:
                context.delenv("KSPEC_CXX")
                script(wrapper, f"-DMINE={number}")
            assert value("of_wrapper") == number

    def test_what_a_wrapper_does_besides(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """A script may do what the compiler cannot report."""
        wrapper = script(tmp_path / "g++", "")
        before = keyed(monkeypatch, str(wrapper))
        wrapper.write_text(wrapper.read_text() + "# another script\n")
        assert keyed(monkeypatch, str(wrapper)) != before

    @pytest.mark.parametrize("name", ["CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"])
    def test_variables_of_compilers(
        self, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.delenv(name, raising=False)
        before = image_key(SOURCE, HOST)
        monkeypatch.setenv(name, str(tmp_path))
        assert image_key(SOURCE, HOST) != before

    def test_not_where_the_compiler_is(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        """Machines that have one compiler in two places share a cache."""
        command = find_compiler().command
        real = shutil.which(command[0])
        assert real is not None
        link = tmp_path / Path(real).name
        link.symlink_to(real)
        monkeypatch.chdir(tmp_path)
        assert keyed(monkeypatch, shlex.join([str(link), *command[1:]])) == keyed(
            monkeypatch, shlex.join(command)
        )

    @pytest.mark.parametrize("target", [HOST, Target("sm_90")], ids=str)
    def test_the_version_of_kspec(self, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
        before = image_key(SOURCE, target)
        monkeypatch.setattr(key, "__version__", "0.0.1")
        assert image_key(SOURCE, target) != before

    def test_the_host_runtime(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path))
        real = shlex.join(find_compiler().command)
        built: list[tuple[str, ...]] = []

        def build(compiler: HostCompiler) -> bytes:
            built.append(compiler.command)
            return os.urandom(8)

        monkeypatch.setattr(shared_objects, "_build", build)
        codes = []
        for command in (real, f"{real} -O1", real):
            monkeypatch.setenv("KSPEC_CXX", command)
            codes.append(shared_objects.built_runtime())
        assert len(built) == 2 and codes[0] == codes[2] != codes[1]


def test_zig_compiles_c_with_the_same_flags() -> None:
    compiler = HostCompiler(("zig", "c++", "-O1"), "zig", "zig 1")
    assert compiler.as_c == ("zig", "cc", "-O1")
    compiler = HostCompiler(("python", "-m", "ziglang", "c++"), "zig", "")
    assert compiler.as_c == ("python", "-m", "ziglang", "cc")


def test_zig_as_a_module_of_python() -> None:
    """As ``zig c++`` it would first build a libc++, for a minute and a half."""
    pytest.importorskip("ziglang")
    assert host_compiler.describe((sys.executable, "-m", "ziglang", "c++")).kind == "zig"
