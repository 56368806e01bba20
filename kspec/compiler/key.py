"""The name of a compilation: a `CudaSource` and a `Target` in, a sha256 out.

::

    image_key(source, Target("sm_90"))    # '5f0c...': equal keys mean equal images

In the key: schema, version of kspec, source (its name too), flags, target, and the exact compiler.
Where the source stands in its spec file (``#line``) is in it only if the code depends on that.
`kspec.compiler.cache` stores under it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from kspec import __version__
from kspec.compiler import headers
from kspec.compiler.cuda import nvrtc
from kspec.compiler.options import CompileOptions, flag_name
from kspec.cpp.directives import without_line_directives
from kspec.model.stages import CudaSource, Target

# Raise when the meaning of an image changes although nothing below does, or how an entry of the
# cache is written (`kspec.compiler.cache.entry`): versions of kspec that share a cache do not meet
# then.
SCHEMA = 3
# Names that make numbers of lines, or names of files, part of the code; some are in macros that
# headers of the toolkit define.
_PLACES = re.compile(
    r"__(?:LINE|FILE|FILE_NAME|BASE_FILE)__|__builtin_(?:LINE|FILE)|source_location|CubDebug"
    r"|(?<!static_)(?<!STATIC_)(?:assert|ASSERT)"
)
_LINE_TABLES = frozenset(["lineinfo", "generate-line-info", "G", "device-debug", "g", "debug"])
# kspec's own headers have such names for the host device alone.
_OWN_HEADERS = ("kspec/", "cupy/")


def image_key(source: CudaSource, target: Target) -> str:
    """Return the hexadecimal sha256 of everything that decides what the image is.

    Raises
    ------
    ToolNotFoundError
        If the compiler is missing, or toolkit headers that do not fit it would be used.
    """
    return carried_key(headers.carry_headers(source, target), target)


def carried_key(source: CudaSource, target: Target) -> str:
    """Return the `image_key` of a source that carries its headers already; errors as there."""
    return _digest(
        {
            "schema": SCHEMA,
            "kspec": __version__,
            **_content(source, has_places=target.is_host or has_places(source)),
            "flags": _flags(source, target),
            "libraries": headers.library_digest(source),
            "target": str(target),
            "compiler": compiler_fingerprint(source, target),
        }
    )


def placed_key(key: str, source: CudaSource) -> str:
    """Return the key of messages about a source, which say where it stands; `key`: its image's."""
    return _digest({"key": key, "text": source.text})


def source_digest(source: CudaSource) -> str:
    """Return the digest of a source, without compiler and target: an equal one, an equal image."""
    source = headers.carry_headers(source)
    content = _content(source, has_places(source))
    return _digest({**content, "options": source.options, "backend": source.backend})


def has_places(source: CudaSource) -> bool:
    """Return whether the code that a GPU runs depends on where its source stands in a file."""
    if any(flag_name(option).lstrip("-") in _LINE_TABLES for option in source.options):
        return True
    foreign = (one.text for one in source.headers if not one.name.startswith(_OWN_HEADERS))
    return any(_PLACES.search(text) for text in (source.text, *foreign))


def _content(source: CudaSource, has_places: bool) -> dict[str, Any]:
    return {
        "name": source.name,
        "text": source.text if has_places else without_line_directives(source.text),
        "headers": sorted([header.name, header.text] for header in source.headers),
        "name_expressions": source.name_expressions,
    }


def _digest(content: dict[str, Any]) -> str:
    # surrogatepass: text that is not valid Unicode must still have a key.
    encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


def compiler_fingerprint(source: CudaSource, target: Target) -> str:
    """Return the exact version of the compiler, and of the toolkit headers the source uses."""
    if target.is_host:
        from kspec.compiler import host as host_compiler
        from kspec.compiler.host import compile as host

        build = host.fingerprint(host_compiler.find_compiler(), target.sanitize)
        directories = headers.host_dirs_for(source)
        return f"{build}, {headers.toolkit_version(directories)}" if directories else build
    if source.backend == "nvcc":
        from kspec.compiler.cuda import nvcc

        return f"nvcc {nvcc.nvcc_build()}"
    builds = [f"nvrtc {nvrtc.nvrtc_build()}"]
    directories = headers.toolkit_dirs_for(source, nvrtc.nvrtc_version())
    if directories:
        builds.append(headers.toolkit_version(directories))
    relocatable = CompileOptions.for_source(source, target).relocatable
    if relocatable or target.via:
        from kspec.compiler.cuda import link

        build = f"{link.assembler_build()} unless it spills"
        builds.append(link.linker_build() if relocatable else build)
    return ", ".join(builds)


def _flags(source: CudaSource, target: Target) -> tuple[str, ...]:
    if target.is_host:  # the host's own flags are part of its fingerprint
        return source.options
    return CompileOptions.for_source(source, target).flags()
