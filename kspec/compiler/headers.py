"""Headers: a CUDA text in, the headers it needs out (ours and the user's as text).

::

    collect_headers('#include "kspec/array.cuh"', [])   # (Header('kspec/array.cuh', ...), ...)
    toolkit_include_dirs((13, 0))                       # (.../include, .../include/cccl)

NVRTC looks a header given in memory up by the exact spelling of its ``#include`` and does not
try the includer's directory (measured, 13.0), so a header found beside its includer is renamed
to its path below the search directory, in the including text too.
`kspec.compiler.compile_source` calls this; toolkit headers stay on disk.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kspec.compiler.options import include_dirs
from kspec.compiler.toolkit import find_headers
from kspec.errors import CompileError, SpecError, ToolNotFoundError
from kspec.limits import SOURCE_BYTES
from kspec.stages import CudaSource, Header, Target

_INCLUDE = re.compile(r'^([ \t]*#[ \t]*include[ \t]*)(["<])([^">\n]+)([">])', re.MULTILINE)
_CUPY = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]cupy/', re.MULTILINE)
_CUDART_VERSION = re.compile(r"^#define\s+CUDART_VERSION\s+(\d+)", re.MULTILINE)
_CCCL_VERSION = re.compile(r"^#define\s+CCCL_VERSION\s+(\d+)", re.MULTILINE)
_VERSION_HEADER = "cuda_runtime_api.h"
# Files of the toolkit are not read here, and only this one needs headers of the C library.
_INCLUDED_BY_CUDA_H = "#include <stdlib.h>\n#include <stdint.h>\n"
_LIBRARIES = ("curand",)  # wheels of their own, that may have a directory of their own
_CCCL_VERSION_HEADERS = ("cuda/std/__cccl/version.h", "cuda/__cccl_config/version.h")


@dataclass(frozen=True)
class _Found:
    """A header on disk: the name it is carried under, its file and its search directory."""

    name: str
    path: Path
    root: Path


def package_include_dir() -> Path:
    """Return the directory of kspec's own headers (``kspec/*.cuh``, ``cupy/complex.cuh``)."""
    return Path(__file__).resolve().parent.parent / "include"


def collect_headers(text: str, search: Sequence[Path]) -> tuple[Header, ...]:
    """Return every header that `text` includes, at any depth, and that is found.

    Parameters
    ----------
    text : str
        CUDA C++.
    search : sequence of Path
        Directories to look in, after the package's own.

    Returns
    -------
    tuple of Header
        In the order of inclusion, each once.  Headers found nowhere (the toolkit's) and those
        named by a macro are left out.
    """
    return _collect((text,), (package_include_dir(), *search), frozenset())


def standard_include_dir() -> Path:
    """Return the directory of C++ standard headers for NVRTC, which has none: mostly libcu++'s."""
    return package_include_dir() / "std"


def carry_headers(source: CudaSource, target: Target | None = None) -> CudaSource:
    """Return the source with the headers it does not carry yet but that its options lead to.

    Looks in the package's own directory, in those of ``-I`` options, for targets that NVRTC
    compiles for among our standard headers, and for ``cupy/`` in an installed CuPy.  A directory
    that holds the CUDA toolkit is not copied but searched by the compiler.  Carrying twice changes
    nothing.
    """
    dirs = [Path(name) for name in include_dirs(source.options)]
    own = [path for path in dirs if not _is_toolkit(path)]
    if target is not None and not target.is_host and source.backend == "nvrtc":
        own.append(standard_include_dir())
    texts = [source.text, *(header.text for header in source.headers)]
    if any(_CUPY.search(text) for text in texts):
        own += cupy_include_dirs()
    if "cuda.h" in missing_includes(source):
        texts.append(_INCLUDED_BY_CUDA_H)
    known = frozenset(header.name for header in source.headers)
    found = _collect(texts, (package_include_dir(), *own), known)
    return replace(source, headers=(*source.headers, *found)) if found else source


@functools.cache
def cupy_include_dirs() -> tuple[Path, ...]:
    """Return the directory of an installed CuPy's headers, for those that kspec has none of.

    CuPy is found, not imported: that would start its driver.
    """
    spec = importlib.util.find_spec("cupy")
    places = spec.submodule_search_locations or () if spec is not None else ()
    found = (Path(place) / "_core" / "include" for place in places)
    return tuple(path for path in found if path.is_dir())


def write_headers(directory: Path, source: CudaSource) -> None:
    """Write the headers that a source carries below a directory, for compilers that read files.

    Raises
    ------
    CompileError
        If a header's name leads out of the directory.
    """
    root = directory.resolve()
    for header in source.headers:
        path = (directory / header.name).resolve()
        if not path.is_relative_to(root):
            raise CompileError(f"header name {header.name!r} leads out of the source", source.text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header.text, encoding="utf-8")


def missing_includes(source: CudaSource) -> tuple[str, ...]:
    """Return the sorted names that a source includes but does not carry."""
    carried = {header.name for header in source.headers}
    texts = (source.text, *(header.text for header in source.headers))
    wanted = {match[3].strip() for text in texts for match in _INCLUDE.finditer(text)}
    return tuple(sorted(wanted - carried))


def toolkit_include_dirs(nvrtc_version: tuple[int, int]) -> tuple[Path, ...]:
    """Return the toolkit's header directories, after checking that they fit NVRTC.

    Parameters
    ----------
    nvrtc_version : tuple of int
        Major and minor version of the compiler.

    Raises
    ------
    ToolNotFoundError
        If there are no headers, or those found are of another version than NVRTC: CUDA's
        headers only work with the compiler they come with.
    """
    runtime = find_headers("cudart")
    extra = f"kspec[cu{nvrtc_version[0]}]"
    if runtime is None:
        raise ToolNotFoundError(
            f"the CUDA toolkit's headers are not installed: pip install '{extra}'"
        )
    found = _cudart_version(runtime)
    if found != nvrtc_version:
        raise ToolNotFoundError(
            f"NVRTC is version {_dotted(nvrtc_version)} but the CUDA headers in {runtime} are "
            f"version {_dotted(found)}; they only work together: pip install '{extra}' "
            f"'cuda-toolkit[nvrtc,cudart,cccl]=={_dotted(nvrtc_version)}.*'"
        )
    cccl = find_headers("cccl")
    return (runtime,) if cccl is None or cccl == runtime else (runtime, cccl)


def toolkit_dirs_for(source: CudaSource, nvrtc_version: tuple[int, int]) -> tuple[Path, ...]:
    """Return the toolkit directories that a source needs: none if it carries all it includes.

    A toolkit among the user's ``-I`` directories is used unchecked.  A source may include
    toolkit headers for one target only (``#ifdef``), so a toolkit that is not installed, or
    lacks the header, is left to the compiler to miss.

    Raises
    ------
    ToolNotFoundError
        If the source would use installed headers of another version than NVRTC.
    """
    missing = missing_includes(source)
    if not missing:
        return ()
    chosen = [path for path in map(Path, include_dirs(source.options)) if _is_toolkit(path)]
    if chosen:
        return tuple(place for path in chosen for place in (path, path / "cccl") if place.is_dir())
    libraries = _library_dirs(missing)
    toolkit = (find_headers("cudart"), find_headers("cccl"))
    places = (*(place for place in toolkit if place is not None), *libraries)
    if not any((place / name).is_file() for place in places for name in missing):
        return ()
    found = toolkit_include_dirs(nvrtc_version)
    return (*found, *(place for place in libraries if place not in found))


def _library_dirs(names: Iterable[str]) -> tuple[Path, ...]:
    """Return the directories of libraries beside the toolkit whose headers are among `names`."""
    wanted = {one for one in _LIBRARIES for name in names if name.startswith(one)}
    places = (find_headers(library) for library in sorted(wanted))
    return tuple(place for place in places if place is not None)


def host_dirs_for(source: CudaSource) -> tuple[Path, ...]:
    """Return the toolkit directories a source needs on the host device: libcu++, if it includes it.

    Only that: the toolkit's other headers would clash with the host device's dialect.
    """
    names = missing_includes(source)
    cccl = find_headers("cccl") if any(name.startswith("cuda/") for name in names) else None
    return () if cccl is None else (cccl,)


def toolkit_version(directories: Sequence[Path]) -> str:
    """Return the version of the headers in `directories`: ``"cudart 13.0, cccl 3000001"``."""
    runtime = f"cudart {_dotted(_cudart_version(directories[0]))}"
    for directory in directories:
        for name in _CCCL_VERSION_HEADERS:
            match = _CCCL_VERSION.search(_read(directory / name))
            if match is not None:
                return f"{runtime}, cccl {match[1]}"
    return runtime


def _collect(
    texts: Sequence[str], roots: Sequence[Path], known: frozenset[str]
) -> tuple[Header, ...]:
    headers: dict[str, Header] = {}

    def visit(text: str, includer: _Found | None) -> None:
        for found in _included(text, includer, roots):
            if found.name in known or found.name in headers:
                continue
            body = _read(found.path)
            headers[found.name] = Header(found.name, _renamed(body, found, roots))
            visit(body, found)

    for text in texts:
        visit(text, None)
    return tuple(headers.values())


def _included(text: str, includer: _Found | None, roots: Sequence[Path]) -> Iterator[_Found]:
    for match in _INCLUDE.finditer(text):
        found = _resolve(match[3].strip(), match[2], includer, roots)
        if found is not None:
            yield found


def _resolve(
    name: str, quote: str, includer: _Found | None, roots: Sequence[Path]
) -> _Found | None:
    """Find a header as a C++ compiler does: beside the includer if quoted, then in the roots."""
    if quote == '"' and includer is not None:
        path = includer.path.parent / name
        if path.is_file():
            return _beside(path, includer.root, roots)
    return _search(name, roots)


def _search(name: str, roots: Sequence[Path]) -> _Found | None:
    for root in roots:
        if (root / name).is_file():
            return _Found(name, root / name, root)
    return None


def _beside(path: Path, root: Path, roots: Sequence[Path]) -> _Found:
    """Name a header by its path below its root, unless that name means another file."""
    name = Path(os.path.relpath(path, root)).as_posix()
    first = _search(name, roots)
    if first is not None and not first.path.samefile(path):
        name = f"_{roots.index(root)}/{name}"
    return _Found(name, path, root)


def _renamed(text: str, includer: _Found, roots: Sequence[Path]) -> str:
    """Spell each include of `text` by the name its header is carried under."""

    def respell(match: re.Match[str]) -> str:
        found = _resolve(match[3].strip(), match[2], includer, roots)
        return match[0] if found is None else f"{match[1]}{match[2]}{found.name}{match[4]}"

    return _INCLUDE.sub(respell, text)


def _is_toolkit(directory: Path) -> bool:
    return (directory / _VERSION_HEADER).is_file()


def _cudart_version(directory: Path) -> tuple[int, int]:
    match = _CUDART_VERSION.search(_read(directory / _VERSION_HEADER))
    number = int(match[1]) if match else 0
    return number // 1000, number % 1000 // 10


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _read(path: Path) -> str:
    """Return a header's text, empty where there is none.

    Raises
    ------
    SpecError
        If it is larger than any header.
    """
    try:
        if path.stat().st_size > SOURCE_BYTES:
            raise SpecError(f"the header {path.name} has more than {SOURCE_BYTES} bytes")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
