"""Compilation through a cache: `compile_source` carries headers, asks the cache, and compiles.

`kspec.compiler` names what others call; `kspec.compiler.memo` has the shorter way to an image.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kspec.compiler import headers, memo
from kspec.compiler.cache import ImageCache
from kspec.compiler.cuda import nvrtc
from kspec.compiler.cuda.cubin import with_code_sizes
from kspec.compiler.key import carried_key, placed_key
from kspec.compiler.messages import compile_error
from kspec.compiler.options import CompileOptions
from kspec.compiler.progress import compiling
from kspec.compiler.target import check_supported
from kspec.errors import CompileError
from kspec.files import check_unpacked
from kspec.model.stages import CudaSource, Image, Target

_UNREADABLE = re.compile("[\\0\ud800-\udfff]")


def compile_source(
    source: CudaSource,
    target: Target,
    cache: ImageCache | None = None,
    also: Sequence[Target] = (),
    note: str = "",
) -> Image:
    """Return the image of a source for one target, from the cache if it is there.

    Parameters
    ----------
    source : CudaSource
        Headers of kspec and of its ``-I`` directories are added if it does not carry them.
    target : Target
        What to compile for.
    cache : ImageCache, optional
        Asked first and given the result; without one nothing is remembered.
    also : sequence of Target, optional
        Others that are made of the same PTX (`Target.ptx`): where the source is compiled now, the
        cache is given their images, or failures, too.
    note : str
        Key under which the cache is told where the image is (`kspec.compiler.memo`).

    Returns
    -------
    Image
        Code and symbols.

    Raises
    ------
    CompileError
        If the compiler refuses the source.  With a cache, the next call raises it again
        without compiling.
    ToolNotFoundError
        If the compiler, or the toolkit headers the source needs, are missing or do not fit.
    ToolStoppedError
        If something stopped the compiler.
    """
    check_unpacked()
    if not target.is_host:
        check_supported(target, source.backend)
    given, (source, collected) = source, headers.carry(source, target)
    _check_characters(source, target)
    if cache is None:
        return with_code_sizes(_compile(source, target))
    key = carried_key(source, target)
    with cache.guard(key):
        failure = cache.failure(placed_key(key, source))
        if failure is not None:
            raise failure
        image = _probe(cache, key, source)
        if image is None:
            # What another process has made meanwhile is there when the lock is.
            with compiling(f"{source.name} for {target}"), cache.alone(key):
                image = cache.probe(placed_key(key, source)) or cache.get(key)
                if image is None:
                    image = _compile_remembering_failure(source, target, cache, key, also)
                    _keep(cache, key, source, image)
        if note and headers.is_settled(given, source, collected, target):
            memo.remember_image(cache, note, _key_of(image, key, source), collected)
        return image


def cached_image(source: CudaSource, target: Target, cache: ImageCache) -> Image | None:
    """Return the image that `compile_source` would find in a cache, or None."""
    source = headers.carry_headers(source, target)
    return _probe(cache, carried_key(source, target), source)


def keep_image(source: CudaSource, target: Target, cache: ImageCache, image: Image) -> None:
    """Put the image of a source into a cache whose folder does not have it."""
    source = headers.carry_headers(source, target)
    key = carried_key(source, target)
    if not any(map(cache.is_stored, (key, placed_key(key, source)))):
        _keep(cache, key, source, image)


def _probe(cache: ImageCache, key: str, source: CudaSource) -> Image | None:
    return cache.probe(key) or cache.probe(placed_key(key, source))


def _keep(cache: ImageCache, key: str, source: CudaSource, image: Image) -> None:
    cache.put(_key_of(image, key, source), image)


def _key_of(image: Image, key: str, source: CudaSource) -> str:
    """Return the key of an image; its warnings say where the source stands in its file."""
    return placed_key(key, source) if image.log else key


def _check_characters(source: CudaSource, target: Target) -> None:
    """Refuse what compilers cannot read: lone surrogates, and NUL, which ends NVRTC's text."""
    parts = {source.name: source.text}
    parts |= {header.name: header.text for header in source.headers}
    words = (*source.options, *source.name_expressions, *parts)
    for name, text in (*parts.items(), *(("<options>", word) for word in words)):
        found = None if text.isascii() and "\0" not in text else _UNREADABLE.search(text)
        if found:
            place = f"{name}:{text.count(chr(10), 0, found.start()) + 1}"
            place = place.encode("utf-8", "backslashreplace").decode()
            log = f"{place}: error: {found[0]!a} is not a character of CUDA text; remove it"
            raise compile_error(log, source, source.options, target.arch)


def is_compiled(source: CudaSource, target: Target, cache: ImageCache) -> bool:
    """Return whether `compile_source` would find the image, or the failure, in the cache."""
    source = headers.carry_headers(source, target)
    key = carried_key(source, target)
    failure = cache.failure(placed_key(key, source))
    return failure is not None or _probe(cache, key, source) is not None


def _compile_remembering_failure(
    source: CudaSource, target: Target, cache: ImageCache, key: str, also: Sequence[Target]
) -> Image:
    try:
        if not also or source.backend != "nvrtc":
            return with_code_sizes(_compile(source, target, cache, key))
        image, ptx = _compile_with_ptx(source, target)
    except CompileError as error:
        cache.put_failure(placed_key(key, source), error)
        raise
    for one in also:
        own_key = carried_key(source, one)
        try:
            _keep(cache, own_key, source, with_code_sizes(_made_of(ptx, one, source)))
        except CompileError as error:
            cache.put_failure(placed_key(own_key, source), error)
    return with_code_sizes(image)


def _compile_with_ptx(source: CudaSource, target: Target) -> tuple[Image, Image]:
    """Return the image of a target for GPUs, and the PTX that it is made of."""
    directories = headers.toolkit_dirs_for(source, nvrtc.nvrtc_version())
    if target.format == "cubin" and not target.via:
        return nvrtc.compile_with_ptx(source, target, directories)
    ptx = nvrtc.compile_cuda(source, Target(target.ptx), directories)
    return _made_of(ptx, target, source), ptx


def _made_of(ptx: Image, target: Target, source: CudaSource) -> Image:
    """Return the image of a target whose PTX this is.

    NVRTC's own way to a cubin spills less than the assembler does: 24 and 196 bytes of a product of
    sparse matrices (measured, NVRTC 13.0).  Where registers suffice, both are as good.
    """
    if target.format == "ptx":
        return _in_isa(ptx, target, source)
    from kspec.compiler.cuda import link

    image = link.assemble(ptx, target, source.name)
    if not any(one.spill_bytes > 0 for one in image.figures.values()):
        return image
    directories = headers.toolkit_dirs_for(source, nvrtc.nvrtc_version())
    return nvrtc.compile_cuda(source, replace(target, via=""), directories)


def _compile(
    source: CudaSource, target: Target, cache: ImageCache | None = None, key: str = ""
) -> Image:
    if target.is_host:
        from kspec.compiler.host import compile as host
        from kspec.compiler.host.earlier import Earlier

        earlier = Earlier(cache, key) if cache else None

        directories = headers.host_dirs_for(source)
        return host.compile_host(
            source, toolkit_dirs=directories, sanitize=target.sanitize, earlier=earlier
        )
    return _in_isa(_compile_for_gpu(source, target), target, source)


def _in_isa(image: Image, target: Target, source: CudaSource) -> Image:
    """Return an image in the version of PTX that its target is limited to."""
    if not target.ptx_isa:
        return image
    from kspec.compiler.cuda import ptx

    return ptx.with_isa(image, target.ptx_isa, source.name)


def _compile_for_gpu(source: CudaSource, target: Target) -> Image:
    if source.backend == "nvcc":
        from kspec.compiler.cuda import nvcc

        return nvcc.compile_nvcc(source, target)
    if target.via:
        return _compile_with_ptx(source, target)[0]
    directories = headers.toolkit_dirs_for(source, nvrtc.nvrtc_version())
    image = nvrtc.compile_cuda(source, target, directories)
    if not CompileOptions.for_source(source, target).relocatable:
        return image
    from kspec.compiler.cuda import link

    return link.link_device(image, source.name)
