"""The name of a compilation: a `CudaSource` and a `Target` in, a sha256 out.

::

    image_key(source, Target("sm_90"))    # '5f0c...': equal keys mean equal images

In the key: schema, version of kspec, source (its name too, which ``__FILE__`` and warnings show),
flags, target, and the exact compiler.  `kspec.compiler.cache.images` stores under it.
"""

from __future__ import annotations

import hashlib
import json

from kspec import __version__
from kspec.compiler import headers
from kspec.compiler.cuda import nvrtc
from kspec.compiler.options import CompileOptions
from kspec.model.stages import CudaSource, Target

# Raise when the meaning of an image changes although nothing below does, or how an entry of the
# cache is written (`kspec.compiler.cache.entry`): versions of kspec that share a cache do not meet
# then.
SCHEMA = 3


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
    content = {
        "schema": SCHEMA,
        "kspec": __version__,
        "name": source.name,
        "text": source.text,
        "headers": sorted([header.name, header.text] for header in source.headers),
        "name_expressions": source.name_expressions,
        "flags": _flags(source, target),
        "libraries": headers.library_digest(source),
        "target": str(target),
        "compiler": compiler_fingerprint(source, target),
    }
    # surrogatepass: text that is not valid Unicode must still have a key.
    encoded = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(encoded.encode("utf-8", "surrogatepass")).hexdigest()


def compiler_fingerprint(source: CudaSource, target: Target) -> str:
    """Return the exact version of the compiler, and of the toolkit headers the source uses."""
    if target.is_host:
        from kspec.compiler.host import command as host_compiler
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

        builds.append(link.linker_build() if relocatable else link.assembler_build())
    return ", ".join(builds)


def _flags(source: CudaSource, target: Target) -> tuple[str, ...]:
    if target.is_host:  # the host's own flags are part of its fingerprint
        return source.options
    return CompileOptions.for_source(source, target).flags()
