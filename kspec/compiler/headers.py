"""Headers: a CUDA text in, the headers it needs out (ours and the user's as text).

::

    collect_headers('#include "kspec/array.cuh"', []).headers   # (Header('kspec/array.cuh', ...),)
    toolkit_include_dirs((13, 0))                       # (.../include, .../include/cccl)

A carried source is complete but for headers of the toolkit and of the system, which stay on disk:
no compiler searches the user's directories.  `kspec.compiler.carrying` finds the headers, and
`kspec.compiler.compile_source` calls this.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kspec import config
from kspec.compiler.carrying import Collected, collect, read_header
from kspec.compiler.cuda import HEADERS, find_headers, headers_in_wheels
from kspec.compiler.options import (
    CompileOptions,
    defined_macros,
    include_dirs,
    pre_includes,
    without_include_dirs,
)
from kspec.cpp.directives import HeaderName, definitions, header_names, named_by
from kspec.errors import CompileError, ToolNotFoundError
from kspec.files import ROOT, is_file, resolved
from kspec.model.stages import CudaSource, Header, Target

_CUDART_VERSION = re.compile(r"^#define\s+CUDART_VERSION\s+(\d+)", re.MULTILINE)
_CCCL_VERSION = re.compile(r"^#define\s+CCCL_VERSION\s+(\d+)", re.MULTILINE)
_VERSION_HEADER = "cuda_runtime_api.h"
# Files of the toolkit are not read here, and only this one needs headers of the C library.
_INCLUDED_BY_CUDA_H = "#include <stdlib.h>\n#include <stdint.h>\n"
_LIBRARIES = ("curand",)  # wheels of their own, that may have a directory of their own
_CCCL_VERSION_HEADERS = ("cuda/std/__cccl/version.h", "cuda/__cccl_config/version.h")
_CCCL_HEADERS = (*_CCCL_VERSION_HEADERS, "cub/version.cuh", "thrust/version.h")


def package_include_dir() -> Path:
    """Return the directory of kspec's own headers (``kspec/*.cuh``, ``cupy/complex.cuh``)."""
    return ROOT / "include"


def collect_headers(text: str, search: Sequence[Path], options: tuple[str, ...] = ()) -> Collected:
    """Return every header that `text` includes, at any depth, and that is found.

    Parameters
    ----------
    text : str
        CUDA C++.
    search : sequence of Path
        Directories to look in, after the package's own.
    options : tuple of str
        The compiler's, which may define macros.

    Returns
    -------
    Collected
        Headers found nowhere (the toolkit's) are left out.
    """
    roots = (package_include_dir(), *search)
    return collect((text,), roots, macros=defined_macros(options))


def standard_include_dir() -> Path:
    """Return the directory of C++ standard headers for NVRTC, which has none: mostly libcu++'s."""
    return package_include_dir() / "std"


def carry_headers(source: CudaSource, target: Target | None = None) -> CudaSource:
    """Return the first of `carry`."""
    return carry(source, target)[0]


def carry(source: CudaSource, target: Target | None = None) -> tuple[CudaSource, Collected]:
    """Return the source with the headers it does not carry yet but that its options lead to.

    Also return what was collected: the files that were read and looked for.

    Looks in the package's own directory, in those of ``-I`` options, for C++ compilers in those of
    ``CPATH``, for targets that NVRTC compiles for among our standard headers, and for ``cupy/`` in
    an installed CuPy.  The options of directories are left out then.  A directory that holds the
    CUDA toolkit or CCCL is not copied but searched by the compiler.  Carrying twice changes
    nothing.
    """
    named = [Path(name) for name in include_dirs(source.options)]
    own = [path for path in named if not is_library(path)]
    if target is not None:
        own += _further_dirs(source, target)
    given = [source.text, *(header.text for header in source.headers)]
    if any(_is_cupys(name) for text in given for name in header_names(text)):
        own += cupy_include_dirs()
    extra = [f'#include "{name}"' for name in pre_includes(source.options)]
    if "cuda.h" in missing_includes(source):
        extra.append(_INCLUDED_BY_CUDA_H)
    known = frozenset(header.name for header in source.headers)
    macros = defined_macros(source.options)
    roots = (package_include_dir(), *own)
    found = collect([*given, *extra], roots, known, macros)
    carried = (
        Header(header.name, text)
        for header, text in zip(source.headers, found.texts[1:], strict=False)
    )
    result = replace(
        source,
        text=found.texts[0],
        headers=(*carried, *found.headers),
        options=without_include_dirs(source.options, {str(path) for path in own}),
    )
    return source if result == source else result, found


def is_settled(
    given: CudaSource, carried: CudaSource, collected: Collected, target: Target
) -> bool:
    """Return whether options, the compiler and the headers of `carry` decide an image.

    They do not if several programs compile the source, or if it includes headers of CuPy or of a
    toolkit that is not in wheels: these have search rules of their own.
    """
    if any(is_library(Path(name)) for name in include_dirs(given.options)):
        return False
    missing = missing_includes(carried)
    if any(name.startswith("cupy/") for name in missing) or _reads_cupys(collected):
        return False
    if target.is_host:
        return not any(name.startswith("cuda/") for name in missing)
    relocatable = CompileOptions.for_source(carried, target).relocatable
    if given.backend != "nvrtc" or relocatable or target.via:
        return False
    known = zip(HEADERS, headers_in_wheels(), strict=True)
    return not missing or all(found or find_headers(part) is None for part, found in known)


def _reads_cupys(collected: Collected) -> bool:
    names = [path for path in collected.looked_at if "cupy" in path.parts]
    return bool(names) and any(
        path.is_relative_to(place) for place in cupy_include_dirs() for path in names
    )


def _further_dirs(source: CudaSource, target: Target) -> Iterator[Path]:
    """Yield the folders that a compiler searches for headers beside its options."""
    if target.is_host or source.backend == "nvcc":
        yield from config.include_path()
    else:
        yield standard_include_dir()


def _is_cupys(name: HeaderName) -> bool:
    return name.is_literal and name.name.startswith("cupy/")


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
    root = resolved(directory)
    for header in source.headers:
        path = resolved(directory / header.name)
        if not path.is_relative_to(root):
            raise CompileError(f"header name {header.name!r} leads out of the source", source.text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(header.text, encoding="utf-8")


def missing_includes(source: CudaSource) -> tuple[str, ...]:
    """Return the sorted names that a source includes but does not carry."""
    carried = {header.name for header in source.headers}
    texts = (source.text, *(header.text for header in source.headers))
    names = [name for text in texts for name in header_names(text)]
    wanted = {name.name for name in names if name.is_literal}
    unsettled = [name.text for name in names if not name.is_literal]
    if unsettled:
        macros = [*defined_macros(source.options)]
        macros += [one for text in texts for one in definitions(text)]
        spelled = (name for macro in unsettled for name in named_by(macro, macros) or ())
        wanted.update(name[1:-1].strip() for name in spelled)
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
    if not any(is_file(place / name) for place in places for name in missing):
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
            match = _CCCL_VERSION.search(_text_of(directory / name))
            if match is not None:
                return f"{runtime}, cccl {match[1]}"
    return runtime


def is_library(directory: Path) -> bool:
    """Return whether a directory is left to the compiler: it has CUDA's headers, or CCCL's."""
    return any(is_file(directory / name) for name in (_VERSION_HEADER, *_CCCL_HEADERS))


def library_digest(source: CudaSource) -> str:
    """Return a digest that changes with the user's own CCCL; empty without one.

    A toolkit goes by its version.  CCCL by the names, sizes and times of its files.
    """
    named = map(Path, include_dirs(source.options))
    chosen = [path for path in named if is_library(path) and not _is_toolkit(path)]
    if not chosen:
        return ""
    digest = hashlib.sha256()
    for path in (path for directory in chosen for path in sorted(directory.rglob("*"))):
        status = path.stat(follow_symlinks=False)
        digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def _is_toolkit(directory: Path) -> bool:
    return is_file(directory / _VERSION_HEADER)


def _cudart_version(directory: Path) -> tuple[int, int]:
    match = _CUDART_VERSION.search(_text_of(directory / _VERSION_HEADER))
    number = int(match[1]) if match else 0
    return number // 1000, number % 1000 // 10


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _text_of(path: Path) -> str:
    """Return the text of a file, empty where there is none."""
    return read_header(path) if is_file(path) else ""
