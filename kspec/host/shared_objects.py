"""Shared objects: the runtime's (``rt/``), built once for each cache, and each image's.

`kspec.host.runtime` loads them; a process that runs kernels on GPUs only never imports this.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from kspec import config
from kspec.errors import CompileError, LoadError
from kspec.files import check_unpacked
from kspec.model.stages import Image

if TYPE_CHECKING:
    from kspec.compiler.host import HostCompiler

RUNTIME_DIRECTORY = Path(__file__).resolve().parent / "rt"
INCLUDE_DIRECTORY = Path(__file__).resolve().parent / "include"

_FLAGS = (
    "-std=c++17",
    "-g0",  # zig adds debug symbols by default, a fifth of its time
    "-fPIC",
    "-w",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
)
# -O1 halves the time of g++; scheduler.h, services.h and warp.h raise it to -O2 for themselves.
_COMPILE = {"gcc": ("-O1",), "clang": ("-O2",), "zig": ("-O2", "-fno-sanitize=undefined")}
_LINK = {
    "gcc": ("-shared", "-Wl,--as-needed", "-lpthread"),
    "clang": ("-shared", "-Wl,--as-needed", "-lpthread"),
    "zig": ("-shared", "-nostdlib"),  # libc and pthreads are those of the Python process
}


def built_runtime() -> bytes:
    """Return the runtime's shared object, from the cache or compiled.

    It is an entry of the cache like any image: damaged ones are compiled again, and a read-only
    layer may have it.
    """
    check_unpacked()
    digest = hashlib.sha256(repr((_FLAGS, _COMPILE, _LINK)).encode())
    for path in sorted([*RUNTIME_DIRECTORY.glob("*"), *INCLUDE_DIRECTORY.glob("kspec_host/abi.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    # A seam: a process that only imports kernels does not load the compiler's modules.
    from kspec.compiler import ImageCache
    from kspec.compiler.host import find_compiler

    compiler = find_compiler()
    digest.update(compiler.key.encode())
    cache, key = ImageCache.configured(), digest.hexdigest()
    image = cache.probe(key)
    if image is None:
        from kspec.compiler.progress import compiling

        with compiling("the host runtime"), cache.alone(key):
            image = cache.get(key)
            if image is None:
                image = Image("so", "host", _build(compiler), {})
                cache.put(key, image)
    return image.code


def _build(compiler: HostCompiler) -> bytes:
    """Compile the runtime."""
    from kspec.compiler.programs import run_program
    from kspec.compiler.scratch import scratch_folder
    from kspec.compiler.stopped import check_not_stopped, system_errors

    name, tool = "the host runtime", "the host compiler"
    with system_errors(name, tool), scratch_folder("host") as folder:
        built = folder / "runtime.so"
        command = [*compiler.command]
        if compiler.kind == "zig":
            command = [*compiler.as_c, "-x", "c++"]
        command += [*_FLAGS, *_COMPILE[compiler.kind], f"-I{INCLUDE_DIRECTORY}"]
        command += ["-o", str(built), str(RUNTIME_DIRECTORY / "rt.cc"), *_LINK[compiler.kind]]
        done = run_program(command)
        check_not_stopped(name, tool, done.returncode, done.stderr)
        if done.returncode:
            raise CompileError(f"the host runtime does not compile:\n{done.stderr}", target="host")
        return built.read_bytes()


def load_library(code: bytes, name: str) -> ctypes.CDLL:
    """Load a shared object from its bytes.

    The file is only there while it is loaded: the loader takes two files of one name for one
    library, and the files would stay there.  Where files cannot be executed (``noexec``), other
    places are tried, and at last memory.

    Raises
    ------
    LoadError
        If they are not a shared object for this machine, or cannot be written anywhere.
    """
    problems = []
    for place in (_scratch, tempfile.gettempdir):
        try:
            path = _written(code, name, place())
        except OSError as error:
            problems.append(f"{error.strerror or error}")
            continue
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            problems.append(str(error))
        finally:
            path.unlink()
    try:
        return _loaded_from_memory(code, name)
    except OSError as error:
        problems.append(str(error))
    raise LoadError(
        f"the host image cannot be loaded: {'; '.join(dict.fromkeys(problems))}; KSPEC_CACHE_DIR "
        "and TMPDIR name folders in which shared objects can be written and executed"
    )


def _scratch() -> str:
    """Return the folder for such files beside the cache's entries; no other user can write there.

    Raises
    ------
    OSError
        If others can, or it cannot be made.
    """
    from kspec.compiler.cache.folder import SCRATCH
    from kspec.compiler.cache.trust import check_own_folder

    cache = config.cache_dir()
    place = cache / SCRATCH
    cache.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_own_folder(cache, follow=True)  # the user's choice may be a link
    place.mkdir(exist_ok=True, mode=0o700)
    check_own_folder(place)
    return str(place)


def _written(code: bytes, name: str, place: str) -> Path:
    """Return a new file with these bytes."""
    handle, path = tempfile.mkstemp(prefix=f"{name}-", suffix=".so", dir=place)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(code)
    except OSError:
        Path(path).unlink()
        raise
    return Path(path)


def _loaded_from_memory(code: bytes, name: str) -> ctypes.CDLL:
    """Load a shared object without a file.

    Its descriptor stays open: the loader would take a later one of the same number for this one.
    """
    handle = os.memfd_create(f"{name}.so")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(code)
        return ctypes.CDLL(f"/proc/self/fd/{handle}")
    except OSError:
        os.close(handle)
        raise
