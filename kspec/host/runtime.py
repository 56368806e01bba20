"""The C++ runtime of the host device (``rt/``): built once per machine, loaded with ctypes.

>>> load_runtime().launch   # kspec_host_launch in rt/rt.cc
<...>

`kspec.host.device` is the only user.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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

# Outcome of rt.cc
FAULT, INTERRUPT, PRINTED = 1, 2, 4


class Fault(ctypes.Structure):
    """`Fault` of ``rt/state.h``: why a launch failed."""

    _fields_ = (
        ("kind", ctypes.c_char * 40),
        ("message", ctypes.c_char * 4096),
        ("file", ctypes.c_char * 512),
        ("line", ctypes.c_int),
        ("pc", ctypes.c_ulonglong),
        ("in_module", ctypes.c_bool),
        ("has_thread", ctypes.c_bool),
        ("block", ctypes.c_uint * 3),
        ("thread", ctypes.c_uint * 3),
    )


class Region(ctypes.Structure):
    """`Region` of ``rt/check_state.h``: memory that a checked kernel may touch."""

    _fields_ = (
        ("begin", ctypes.c_size_t),
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
    )


class LaunchOptions(ctypes.Structure):
    """`LaunchOptions` of ``rt/rt.cc``: what is checked, and in which order threads run."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("regions", ctypes.POINTER(Region)),
        ("region_count", ctypes.c_uint),
        ("cooperative", ctypes.c_bool),
    )


@dataclass(frozen=True)
class Runtime:
    """The runtime's functions; `rt/rt.cc` documents each."""

    bind: Callable[[Any], int]
    launch: Callable[..., int]
    fault: Callable[[], Any]
    printed: Callable[[], bytes]
    allocate: Callable[[int, int], int | None]
    address: Callable[[int], int]
    free: Callable[[int], None]
    check_canaries: Callable[[], int]


@functools.cache
def load_runtime() -> Runtime:
    """Return the runtime of this process, building it if this machine has none yet.

    Raises
    ------
    ToolNotFoundError
        When it has to be built and there is no C++ compiler.
    """
    # Kernels built without the C library find its mathematical functions in the process.
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    library = ctypes.CDLL(str(_built_runtime()))
    size, pointer, unsigned = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint
    launch_types = (pointer, pointer, *([unsigned] * 8), pointer, unsigned)
    launch_types += (ctypes.c_int, ctypes.c_double, ctypes.POINTER(LaunchOptions))
    _declare(library.kspec_host_bind, unsigned, pointer)
    _declare(library.kspec_host_launch, ctypes.c_int, *launch_types)
    _declare(library.kspec_host_fault, ctypes.POINTER(Fault))
    _declare(library.kspec_host_printed, pointer)
    _declare(library.kspec_host_printed_size, size)
    _declare(library.kspec_host_allocate, pointer, size, size)
    _declare(library.kspec_host_address, pointer, pointer)
    _declare(library.kspec_host_free, None, pointer)
    _declare(library.kspec_host_check_canaries, ctypes.c_int)

    def printed() -> bytes:
        return ctypes.string_at(library.kspec_host_printed(), library.kspec_host_printed_size())

    return Runtime(
        bind=library.kspec_host_bind,
        launch=library.kspec_host_launch,
        fault=library.kspec_host_fault,
        printed=printed,
        allocate=library.kspec_host_allocate,
        address=library.kspec_host_address,
        free=library.kspec_host_free,
        check_canaries=library.kspec_host_check_canaries,
    )


def _declare(function: Any, result: Any, *arguments: Any) -> None:
    function.restype = result
    function.argtypes = arguments


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


def _built_runtime() -> Path:
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
