"""The CUDA toolkit on this machine: the name of a part in, its place out; libraries are loaded.

::

    find_headers("cudart")       # .../site-packages/nvidia/cu13/include
    find_tool("nvcc")            # None if it is not installed
    with bindings_of("nvrtc"):   # cuda.bindings finds NVRTC, or the error says what to install
        from cuda.bindings import nvrtc

Wheels are looked for along ``sys.path``, as Python looks for the modules in them.  cuda.pathfinder
looks in ``site.getsitepackages()``, which lacks folders that only the path has: those of pip's
isolated builds, of ``pip install --target`` and of ``uv run --with``.  It is asked for what is in
no wheel: conda environments, ``CUDA_PATH``, the system.

The only module that touches ``cuda.pathfinder``; nothing here needs a GPU or a driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from kspec.dataclass import dataclass
from kspec.errors import ToolNotFoundError
from kspec.files import resolved

_AUTHOR = "pip install 'kspec[cu13]' (or 'kspec[cu12]' for a CUDA 12 driver)"
# A part to its folders in the wheels of CUDA 13 and of CUDA 12, and its file in each.
_PARTS = {
    "cudart": (
        ("nvidia/cu13/include", "cuda_runtime.h"),
        ("nvidia/cuda_runtime/include", "cuda_runtime.h"),
    ),
    "cccl": (
        ("nvidia/cu13/include/cccl", "cuda/std/version"),
        ("nvidia/cuda_cccl/include", "cuda/std/version"),
    ),
    "curand": (
        ("nvidia/cu13/include", "curand.h"),
        ("nvidia/curand/include", "curand.h"),
    ),
    "cudadevrt": (
        ("nvidia/cu13/lib", "libcudadevrt.a"),
        ("nvidia/cuda_runtime/lib", "libcudadevrt.a"),
    ),
    "nvcc": (
        ("nvidia/cu13/bin", "nvcc"),
        ("nvidia/cuda_nvcc/bin", "nvcc"),
    ),
}


@dataclass(frozen=True)
class _Library:
    """A shared library that cuda.bindings calls.

    Attributes
    ----------
    title : str
        Its name in messages.
    places : tuple of tuple of str
        Folder and file name (its soname) in the wheels of CUDA 13 and of CUDA 12.
    wheel : str
        The distribution that has it; those for CUDA 12 have a suffix.
    bindings : str
        The oldest releases of cuda-bindings that call it.
    """

    title: str
    places: tuple[tuple[str, str], ...]
    wheel: str
    bindings: str


HEADERS = ("cudart", "cccl", "curand")  # components that have some
_LIBRARIES = {
    "nvrtc": _Library(
        "NVRTC",
        (
            ("nvidia/cu13/lib", "libnvrtc.so.13"),
            ("nvidia/cuda_nvrtc/lib", "libnvrtc.so.12"),
        ),
        "nvidia-cuda-nvrtc",
        "12.9.2",
    ),
    "nvjitlink": _Library(
        "nvJitLink",
        (
            ("nvidia/cu13/lib", "libnvJitLink.so.13"),
            ("nvidia/nvjitlink/lib", "libnvJitLink.so.12"),
        ),
        "nvidia-nvjitlink",
        "12.9.2",
    ),
    "nvfatbin": _Library(
        "nvFatbin",
        (
            ("nvidia/cu13/lib", "libnvfatbin.so.13"),
            ("nvidia/nvfatbin/lib", "libnvfatbin.so.12"),
        ),
        "nvidia-nvfatbin",
        "13.2, or 12.9.6",
    ),
}


def find_headers(component: str) -> Path | None:
    """Return the directory of a component's headers: of cudart, cccl or curand."""
    place = _in_wheels(_PARTS[component])
    return place[0] if place else _elsewhere("find_nvidia_header_directory", component)


def headers_in_wheels() -> tuple[Path | None, ...]:
    """Return a header of each component, of those that `find_headers` finds in wheels."""
    places = (_in_wheels(_PARTS[component]) for component in HEADERS)
    return tuple(place[0] / place[1] if place else None for place in places)


def find_static_library(name: str) -> Path | None:
    """Return a static library: cudadevrt."""
    place = _in_wheels(_PARTS[name])
    return place[0] / place[1] if place else _elsewhere("find_static_lib", name)


def find_tool(name: str) -> Path | None:
    """Return a program of the toolkit: nvcc."""
    place = _in_wheels(_PARTS[name])
    if place and os.access(place[0] / place[1], os.X_OK):
        return place[0] / place[1]
    return _elsewhere("find_nvidia_binary_utility", name)


def _elsewhere(function: str, name: str) -> Path | None:
    """Return the answer of a function of cuda.pathfinder, if it has one."""
    try:
        from cuda import pathfinder
    except ImportError:  # not installed, so that what needs it says
        return None
    try:
        found = getattr(pathfinder, function)(name)
    except pathfinder.StaticLibNotFoundError:
        return None
    return Path(found) if found else None


@contextlib.contextmanager
def bindings_of(name: str) -> Iterator[None]:
    """Load a library for cuda.bindings, and say what to install if the block fails for want of it.

    Parameters
    ----------
    name : str
        Module of cuda.bindings: nvrtc, nvjitlink or nvfatbin.  The block imports it and makes a
        first call, which has cuda.bindings load the library: it takes one that is loaded.

    Raises
    ------
    ToolNotFoundError
        If the library or cuda-bindings is missing, or they do not work together.
    """
    library = _LIBRARIES[name]
    found = _load(library)
    try:
        yield
    except ImportError as error:
        raise ToolNotFoundError(_without_bindings(library, error)) from error
    except RuntimeError as error:  # cuda.pathfinder's and the bindings' errors are RuntimeErrors
        cause = f"\n  cause: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
        problem = "is not installed"
        if found is not None:
            problem = f"({found}) does not work with cuda-bindings {_version()}"
        raise ToolNotFoundError(f"{library.title} {problem}: {_AUTHOR}{cause}") from error


def _load(library: _Library) -> Path | None:
    """Load a library unless one of its name is loaded; return the file, None if no wheel has it.

    Its handle is never closed.
    """
    place = _in_wheels(library.places)
    if place is None:
        return None
    folder, file = place
    path = folder / file
    if any(_is_loaded(soname) for _, soname in library.places):
        return path
    try:
        # NVRTC opens its builtins by name, and in some wheels has no search path for them.  They
        # come first: a thread that finds NVRTC loaded calls it.
        for builtins in sorted(folder.glob(f"{file.partition('.')[0]}-builtins.so.*")):
            ctypes.CDLL(str(builtins))
        ctypes.CDLL(str(path))
    except OSError as error:
        raise ToolNotFoundError(
            f"{library.title} ({path}) cannot be loaded: {error}; install it anew: "
            f"pip install --force-reinstall --no-deps {_installed_wheel(library, file)}"
        ) from error
    return path


def library_file(name: str) -> Path | None:
    """Return the file of a library that is loaded, or that would be; None if that is not known."""
    library = _LIBRARIES[name]
    sonames = tuple(soname for _, soname in library.places)
    if any(map(_is_loaded, sonames)):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
        paths = {line.split(maxsplit=5)[-1] for line in maps.splitlines()}
        found = [Path(one) for one in paths if Path(one).name.startswith(sonames)]
        return found[0] if len(found) == 1 else None
    place = _in_wheels(library.places)
    return resolved(place[0] / place[1]) if place else None


def _is_loaded(soname: str) -> bool:
    try:
        ctypes.CDLL(soname, mode=os.RTLD_NOLOAD)
    except OSError:
        return False
    return True


def _in_wheels(places: tuple[tuple[str, str], ...]) -> tuple[Path, str] | None:
    """Return folder and file of the first place that exists below an entry of the path."""
    for entry in sys.path:
        for folder, file in places:
            path = Path(entry, folder)
            if (path / file).is_file():
                return resolved(path), file
    return None


def _without_bindings(library: _Library, error: ImportError) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name in ("cuda", "cuda.bindings"):
        return f"{library.title} needs cuda-bindings, which is not installed: {_AUTHOR}"
    problem = f"needs cuda-bindings {library.bindings}, or newer; version {_version()} has no "
    problem += "module for it that can be imported"
    return f"{library.title} {problem}: {_AUTHOR}\n  cause: {type(error).__name__}: {error}"


def _version() -> str:
    """Return the version of the installed cuda-bindings."""
    import importlib.metadata  # for messages only, and it imports the parser of e-mails

    try:
        return importlib.metadata.version("cuda-bindings")
    except importlib.metadata.PackageNotFoundError:  # on the path without its metadata
        return "unknown"


def _installed_wheel(library: _Library, file: str) -> str:
    return library.wheel if file.endswith(".13") else f"{library.wheel}-cu12"
