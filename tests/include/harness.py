"""Compile device headers for the host and for CUDA, and run them on arrays.

The text is ordinary C++ with ``extern "C"`` functions; what a kernel launch adds is not needed
to test arithmetic. Libraries are kept beside the cache of images, by their text and all headers.
"""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import nvrtc

import kspec
from tests.own_cache import FOLDER

PACKAGE = Path(kspec.__file__).parent
INCLUDES = [PACKAGE / "include", PACKAGE / "host" / "include"]
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


class Library:
    """Functions ``void name(long n, <one pointer per array>)`` in C++."""

    def __init__(self, text: str) -> None:
        assert COMPILER is not None
        flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command = [COMPILER, *flags, *(f"-I{one}" for one in INCLUDES), "-include", "kspec_host.h"]
        library = FOLDER.parent / "include" / f"{_digest(command, text)}.so"
        if not library.exists():
            library.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=library.parent) as folder:
                made = Path(folder, "source.so")
                command += ["-x", "c++", "-", "-o", str(made)]
                result = subprocess.run(
                    command, input=text, capture_output=True, text=True, check=False
                )
                assert result.returncode == 0, result.stderr[:4000]
                made.replace(library)
        self.library = ctypes.CDLL(str(library))

    def __call__(self, name: str, out: Any, *arrays: Any) -> Any:
        """Call a function on inputs of one length; return the output, of dtype `out`."""
        arrays = tuple(np.ascontiguousarray(array) for array in arrays)
        result = np.empty(arrays[0].shape, out)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, result)]
        getattr(self.library, name)(ctypes.c_long(result.size), *pointers)
        return result


def _digest(command: list[str], text: str) -> str:
    version = subprocess.run([COMPILER, "--version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(repr((command, version, text)).encode())
    for path in sorted(path for folder in INCLUDES for path in folder.rglob("*")):
        if path.is_file():
            digest.update(f"{path}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def compile_cuda(text: str, arch: str, *options: str) -> tuple[bool, str]:
    """Compile with NVRTC; return whether it succeeded, and the log."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"test.cu", 0, [], [])
    flags = [f"--gpu-architecture={arch}", "-std=c++17", f"-I{PACKAGE / 'include'}", *options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return status == nvrtc.nvrtcResult.NVRTC_SUCCESS, bytes(log).decode().rstrip("\0")
