"""Code that is not ready in, code that can be loaded out: linker and assembler of nvJitLink.

::

    link_device(image, "k.cu")                   # linked with CUDA's device runtime
    assemble(ptx, Target("sm_100"), "k.cu")      # a cubin of PTX

Linking is what ``-dc`` asks for: kernels that launch kernels call CUDA's device runtime, a static
library of the toolkit.  The only module that touches ``cuda.bindings.nvjitlink``; no GPU and no
driver.
"""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from kspec.compiler.cuda import bindings_of, find_static_library
from kspec.compiler.cuda.ptxas import by_expression, parse_figures
from kspec.errors import CompileError, ToolNotFoundError
from kspec.model.stages import Image, Target

# Makes the assembler stop once it has read and checked a text: it makes no code of one with errors.
_STOP = b"\n.func kspec_end() { bra kspec_end_of_text; }\n"
_STOPPED = re.compile(r"^.*Unknown symbol 'kspec_end_of_text'\n?", re.MULTILINE)
_ERROR = re.compile(r"\b(?:error|fatal) *: (?!Ptx assembly aborted)")


def nvjitlink_version() -> tuple[int, int]:
    """Return major and minor version of the installed nvJitLink.

    Raises
    ------
    ToolNotFoundError
        If there is none.
    """
    library: Any = _library()
    major, minor = library.version()
    return int(major), int(minor)


def link_device(image: Image, name: str) -> Image:
    """Link a relocatable image with CUDA's device runtime.

    Parameters
    ----------
    image : Image
        A cubin.
    name : str
        Of its source, for messages.

    Raises
    ------
    CompileError
        If a function or variable is defined nowhere.
    ToolNotFoundError
        If nvJitLink or the device runtime is missing.
    """
    _library()  # what is said first, if both are missing
    inputs: list[tuple[str, bytes | Path]] = [("CUBIN", image.code), ("LIBRARY", device_runtime())]
    linked, _ = _linked([f"-arch={image.arch}"], inputs, name, image.arch)
    return replace(image, code=linked)


def assemble(ptx: Image, target: Target, name: str) -> Image:
    """Return the cubin that the assembler makes of PTX.

    Parameters
    ----------
    ptx : Image
        The PTX, for the same or an older architecture.
    target : Target
        A cubin's.
    name : str
        Of the source, for messages.

    Returns
    -------
    Image
        With the symbols and warnings of the PTX, and figures as of `nvrtc.compile_cuda`.

    Raises
    ------
    CompileError
        If the assembler refuses the text.
    ToolNotFoundError
        If nvJitLink is missing.
    """
    text = ptx.code.rstrip(b"\0")  # NVRTC ends its text with a NUL
    options = [f"-arch={target.arch}", "-verbose"]
    code, report = _linked(options, [("PTX", text)], name, target.arch)
    figures = by_expression(parse_figures(report), ptx.symbols)
    return Image("cubin", target.arch, code, ptx.symbols, figures, ptx.log)


def _linked(
    options: list[str], inputs: list[tuple[str, bytes | Path]], name: str, arch: str
) -> tuple[bytes, str]:
    """Return the cubin that nvJitLink makes of inputs, each of a kind, and its report."""
    library: Any = _library()
    handle = library.create(len(options), options)
    try:
        for kind, one in inputs:
            if isinstance(one, bytes):
                library.add_data(handle, getattr(library.InputType, kind), one, len(one), name)
            else:
                library.add_file(handle, getattr(library.InputType, kind), str(one))
        library.complete(handle)
        code = bytearray(library.get_linked_cubin_size(handle))
        library.get_linked_cubin(handle, code)
        report = bytearray(library.get_info_log_size(handle))
        library.get_info_log(handle, report)
    except library.nvJitLinkError as error:
        log = _log(library, handle, name) or str(error)
        raise CompileError(f"{name}: {log}", options=tuple(options), target=arch) from error
    finally:
        library.destroy(handle)
    return bytes(code), report.decode(errors="replace")


def assembler_errors(ptx: bytes, arch: str, name: str) -> str:
    """Return the assembler's errors for a text of PTX, or an empty string.

    Parameters
    ----------
    ptx : bytes
        The text.
    arch : str
        Its architecture: ``"compute_80"``.
    name : str
        Of its source, for messages.

    Raises
    ------
    ToolNotFoundError
        If nvJitLink is missing.

    Notes
    -----
    The text is read and not assembled, which takes 0.4 instead of 7.3 s for 2.3 MB (measured,
    nvJitLink 13.0).  Errors of the language, and of its version, are found by reading.
    """
    library: Any = _library()
    options = [f"-arch={arch.replace('compute', 'sm')}", "-O0"]
    text = ptx.rstrip(b"\0") + _STOP  # NVRTC ends its text with a NUL
    handle = library.create(len(options), options)
    try:
        library.add_data(handle, library.InputType.PTX, text, len(text), name)
        library.complete(handle)
    except library.nvJitLinkError as error:
        log = _log(library, handle, name)
        others = _STOPPED.sub("", log)
        if others != log and not _ERROR.search(others):
            return ""
        return others or str(error)
    finally:
        library.destroy(handle)
    return ""


def assembler_build() -> str:
    """Return the version of nvJitLink, for cache keys."""
    major, minor = _library().version()
    return f"nvjitlink {major}.{minor}"


def linker_build() -> str:
    """Return the versions of nvJitLink and of CUDA's device runtime, for cache keys."""
    return f"{assembler_build()}, cudadevrt {_digest(device_runtime())}"


def device_runtime() -> Path:
    """Return CUDA's device runtime, ``libcudadevrt.a``.

    Raises
    ------
    ToolNotFoundError
        If no toolkit has it.
    """
    path = find_static_library("cudadevrt")
    if path is None:
        raise ToolNotFoundError(
            "CUDA's device runtime, which -dc links with, is not installed: "
            "pip install 'kspec[cu13]' (or 'kspec[cu12]' for a CUDA 12 driver)"
        )
    return path


def _library() -> ModuleType:
    """Import the bindings and load nvJitLink, or say what to install."""
    with bindings_of("nvjitlink"):
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    return nvjitlink  # type: ignore[no-any-return]


def _log(library: Any, handle: int, name: str) -> str:
    buffer = bytearray(library.get_error_log_size(handle))
    if buffer:
        library.get_error_log(handle, buffer)
    log = buffer.rstrip(b"\0").decode(errors="replace").strip()
    # The bindings free the name of an input before the linker reads it.
    return re.sub(r"(?<= in ')[^']*", lambda _: name, log)


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
