"""Fatbins: images of one source for several architectures in, one image out; no nvcc.

::

    make_fatbin([cubin_80, cubin_90, ptx_80]).arch    # 'sm_80,sm_90,compute_80'

The driver picks the member that fits.  The only module that touches ``cuda.bindings.nvfatbin``;
`kspec.compiler.compile_source` makes the members.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kspec.compiler.cuda import bindings_of
from kspec.errors import LoadError
from kspec.model.stages import Image

# Cubins too, not PTX alone. 5.1 MB of 30 kernels for 5 targets become 0.74 MB in 0.03 s of CPU;
# "-compress-mode=size" needs 1.8 s for 0.55 MB (measured, nvFatbin 13.0).
_OPTIONS = ["-compress-all"]
# The same on every machine, so that the bytes are too.
_IDENTIFIER = "kspec"


def nvfatbin_version() -> tuple[int, int]:
    """Return major and minor version of the installed nvFatbin.

    Raises
    ------
    ToolNotFoundError
        If there is none.
    """
    major, minor = _library().version()
    return int(major), int(minor)


def make_fatbin(images: Sequence[Image]) -> Image:
    """Join the cubins and PTX of one source.

    Parameters
    ----------
    images : sequence of Image
        Members, of different architectures and with the same symbols.

    Returns
    -------
    Image
        Its ``arch`` lists the members, in order; its figures are those of the first cubin; its
        log holds each distinct log once.

    Raises
    ------
    LoadError
        If the members do not fit together.
    ToolNotFoundError
        If nvFatbin is not installed.
    """
    _check_members(images)
    library = _library()
    handle = library.create(_OPTIONS, len(_OPTIONS))
    try:
        for image in images:
            _add(library, handle, image)
        buffer = bytearray(library.size(handle))
        library.get(handle, buffer)
    finally:
        library.destroy(handle)
    logs = dict.fromkeys(image.log for image in images if image.log)
    return Image(
        format="fatbin",
        arch=",".join(image.arch for image in images),
        code=bytes(buffer),
        symbols=dict(images[0].symbols),
        figures=next((dict(image.figures) for image in images if image.figures), {}),
        log="\n".join(logs),
    )


def _add(library: Any, handle: int, image: Image) -> None:
    number = image.arch.partition("_")[2]
    if image.format == "ptx":
        library.add_ptx(handle, image.code, len(image.code), number, _IDENTIFIER, "")
    else:
        library.add_cubin(handle, image.code, len(image.code), number, _IDENTIFIER)


def _check_members(images: Sequence[Image]) -> None:
    if not images:
        raise LoadError("a fatbin needs at least one image")
    archs = [image.arch for image in images]
    for image in images:
        if image.format not in ("cubin", "ptx"):
            raise LoadError(f"a fatbin holds cubins and PTX, not {image.format} ({image.arch})")
        if archs.count(image.arch) > 1:
            raise LoadError(f"a fatbin holds one image per architecture; {image.arch} came twice")
        if dict(image.symbols) != dict(images[0].symbols):
            pairs = set(image.symbols.items()) ^ set(images[0].symbols.items())
            raise LoadError(
                f"the images for {archs[0]} and {image.arch} do not have the same symbols, so "
                f"they are not of one source; differing: {', '.join(sorted(dict(pairs)))}"
            )


def _library() -> Any:
    """Import the bindings and load nvFatbin, or say what to install."""
    with bindings_of("nvfatbin"):
        from cuda.bindings import nvfatbin

        nvfatbin.version()
    return nvfatbin
