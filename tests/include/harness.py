"""Compile device headers for the host and for CUDA, and run them on arrays.

The text is ordinary C++ with ``extern "C"`` functions; what a kernel launch adds is not needed
to test arithmetic.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import nvrtc

import kspec

PACKAGE = Path(kspec.__file__).parent
COMPILER = shutil.which("g++") or shutil.which("c++") or shutil.which("clang++")


class Library:
    """Functions ``void name(long n, <one pointer per array>)`` in C++."""

    def __init__(self, text: str, folder: Path) -> None:
        assert COMPILER is not None
        source, library = folder / "source.cc", folder / "source.so"
        source.write_text(text)
        includes = [f"-I{PACKAGE / 'include'}", f"-I{PACKAGE / 'host' / 'include'}"]
        flags = ["-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
        command = [COMPILER, *flags, *includes, "-include", "kspec_host.h", str(source)]
        result = subprocess.run(
            [*command, "-o", str(library)], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr[:4000]
        self.library = ctypes.CDLL(str(library))

    def __call__(self, name: str, out: Any, *arrays: Any) -> Any:
        """Call a function on inputs of one length; return the output, of dtype `out`."""
        arrays = tuple(np.ascontiguousarray(array) for array in arrays)
        result = np.empty(arrays[0].shape, out)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, result)]
        getattr(self.library, name)(ctypes.c_long(result.size), *pointers)
        return result


def compile_cuda(text: str, arch: str, *options: str) -> tuple[bool, str]:
    """Compile with NVRTC; return whether it succeeded, and the log."""
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"test.cu", 0, [], [])
    flags = [f"--gpu-architecture={arch}", "-std=c++17", f"-I{PACKAGE / 'include'}", *options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytearray(size)
    nvrtc.nvrtcGetProgramLog(program, log)
    return status == nvrtc.nvrtcResult.NVRTC_SUCCESS, bytes(log).decode().rstrip("\0")
