"""Shared objects on disk: the runtime's (``rt/``), built once per machine, and each image's.

`kspec.host.runtime` loads them; a process that runs kernels on GPUs only never imports this.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kspec import config
from kspec.errors import CompileError, LoadError

if TYPE_CHECKING:
    from kspec.compiler.host import HostCompiler

RUNTIME_DIRECTORY = Path(__file__).resolve().parent / "rt"
INCLUDE_DIRECTORY = Path(__file__).resolve().parent / "include"

_FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-w",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
)
_COMPILE = {"gcc": (), "clang": (), "zig": ("-fno-sanitize=undefined",)}
_LINK = {
    "gcc": ("-shared", "-Wl,--as-needed", "-lpthread"),
    "clang": ("-shared", "-Wl,--as-needed", "-lpthread"),
    "zig": ("-shared", "-nostdlib"),  # libc and pthreads are those of the Python process
}


def scratch_directory() -> Path:
    """Return a private directory for shared objects: in the cache, or a temporary one."""
    directory = config.cache_dir() / "host"
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return _temporary_directory()
    return directory if os.access(directory, os.W_OK) else _temporary_directory()


@functools.cache
def _temporary_directory() -> Path:
    return Path(tempfile.mkdtemp(prefix="kspec-host-"))


def built_runtime() -> Path:
    """Return the path of the runtime's shared object, compiling it when it is not there."""
    digest = hashlib.sha256(repr((_FLAGS, _COMPILE, _LINK)).encode())
    for path in sorted([*RUNTIME_DIRECTORY.glob("*"), *INCLUDE_DIRECTORY.glob("kspec_host/abi.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    # A seam: a process that only imports kernels does not load the compiler's modules.
    from kspec.compiler.host import find_compiler

    compiler = find_compiler()
    digest.update(compiler.identity.encode())
    path = scratch_directory() / f"runtime-{digest.hexdigest()[:24]}.so"
    if not path.exists():
        _build(path, compiler)
    return path


def _build(path: Path, compiler: HostCompiler) -> None:
    """Compile the runtime next to `path` and move it there, so that nobody sees half a file."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as name:
        built = Path(name) / "runtime.so"
        command = [*compiler.command]
        if compiler.kind == "zig":
            command = [compiler.command[0], "cc", "-x", "c++"]
        command += [*_FLAGS, *_COMPILE[compiler.kind], f"-I{INCLUDE_DIRECTORY}"]
        command += ["-o", str(built), str(RUNTIME_DIRECTORY / "rt.cc"), *_LINK[compiler.kind]]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise CompileError(f"the host runtime does not compile:\n{done.stderr}", target="host")
        built.replace(path)


def load_library(code: bytes, name: str) -> ctypes.CDLL:
    """Load a shared object from its bytes.

    The file is only there while it is loaded: the loader takes two files of one name for one
    library, and nobody would remove them.
    """
    handle, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".so", dir=scratch_directory())
    os.close(handle)
    try:
        Path(path).write_bytes(code)
        return ctypes.CDLL(path)
    except OSError as error:
        raise LoadError(f"the host image can not be loaded: {error}") from None
    finally:
        Path(path).unlink()
