"""CUDA C++ through NVRTC: a `CudaSource` and a `Target` in, an `Image` out; no GPU, no driver.

::

    image = compile_cuda(CudaSource("a.cu", text, ("axpy<float>",)), Target("sm_90"))
    image.symbols["axpy<float>"]             # '_Z4axpyIfEvPT_'
    image.figures["axpy<float>"].registers   # 12

The only module that touches ``cuda.bindings.nvrtc``.  NVRTC serialises inside a process, so
several architectures go to several processes.  `kspec.compiler.compile_source` adds the cache.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from kspec.compiler.cuda import bindings_of
from kspec.compiler.cuda.ptxas import by_expression, parse_figures, strip_report
from kspec.compiler.messages import compile_error
from kspec.compiler.options import CompileOptions
from kspec.compiler.stopped import check_not_stopped
from kspec.cpp.directives import line_directive
from kspec.errors import CompileError
from kspec.model.stages import CudaSource, Image, Target

# NVRTC looks for headers beside the source: in a folder that no machine has, not where the
# process runs.
_NOWHERE = "/dev/null/"
# What NVRTC calls the formats.
_CODES = {"cubin": "CUBIN", "ptx": "PTX", "ltoir": "LTOIR"}
_BUILD = re.compile(r"// Compiler Build ID: (\S+)\s*// Cuda compilation tools,.*?(V[\d.]+)")


def nvrtc_version() -> tuple[int, int]:
    """Return major and minor version of the installed NVRTC.

    Raises
    ------
    ToolNotFoundError
        If there is none.
    """
    library = _library()
    result, major, minor = library.nvrtcVersion()
    _check(library, result)
    return int(major), int(minor)


@functools.cache
def nvrtc_build() -> str:
    """Return the exact build, such as ``"V13.0.88 CL-36424714"``; a process has only one.

    NVRTC has no call for the patch version, but writes it into the PTX of any program.
    """
    arch = f"compute_{supported_capabilities()[0]}"
    with _program(CudaSource("empty.cu", "")) as (library, program):
        _check(library, library.nvrtcCompileProgram(program, 1, [f"-arch={arch}".encode()])[0])
        text = _code(library, program, "PTX").decode()
    match = _BUILD.search(text)
    major, minor = nvrtc_version()
    return f"{match[2]} {match[1]}" if match else f"V{major}.{minor}"


def supported_capabilities() -> tuple[int, ...]:
    """Return ten times each compute capability that NVRTC compiles for: ``(75, 80, ...)``."""
    library = _library()
    result, numbers = library.nvrtcGetSupportedArchs()
    _check(library, result)
    return tuple(sorted(int(number) for number in numbers))


def compile_cuda(source: CudaSource, target: Target, toolkit_dirs: Sequence[Path] = ()) -> Image:
    """Compile a source for one CUDA architecture.

    Parameters
    ----------
    source : CudaSource
        Complete but for toolkit headers.
    target : Target
        A cubin, PTX or LTO-IR target.
    toolkit_dirs : sequence of Path
        Directories searched for headers that `source` does not carry.

    Returns
    -------
    Image
        With the lowered name of each name expression.  The figures of a cubin are keyed by name
        expression, or by symbol when there are no name expressions; PTX has none.  The log
        holds warnings only.

    Raises
    ------
    CompileError
        If NVRTC refuses the text or a name expression.
    ToolNotFoundError
        If NVRTC is not installed.
    ToolStoppedError
        If it had no memory.
    """
    (image,) = _compile(source, (target,), toolkit_dirs)
    return image


def compile_with_ptx(
    source: CudaSource, target: Target, toolkit_dirs: Sequence[Path] = ()
) -> tuple[Image, Image]:
    """Compile a source for one CUDA architecture; also return the PTX that its cubin is made of.

    Parameters and errors as for `compile_cuda`; `target` is a cubin's.

    Returns
    -------
    tuple of Image
        The images of `target` and of its PTX: both the same as `compile_cuda` makes them, except
        that the second has the warnings of the first.
    """
    image, text = _compile(source, (target, Target(target.ptx)), toolkit_dirs)
    return image, text


def _compile(
    source: CudaSource, targets: Sequence[Target], toolkit_dirs: Sequence[Path]
) -> Iterator[Image]:
    """Yield an image for each target; they have an architecture, that of the first, in common."""
    target = targets[0]
    options = CompileOptions.for_source(source, target)
    command = [*options.flags(), *(f"--include-path={directory}" for directory in toolkit_dirs)]
    with _program(source) as (library, program):
        for name in source.name_expressions:
            _check(library, library.nvrtcAddNameExpression(program, name.encode())[0])
        encoded = [flag.encode() for flag in command]
        (result,) = library.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _log(library, program)
        if result == library.nvrtcResult.NVRTC_ERROR_OUT_OF_MEMORY:
            check_not_stopped(source.name, "NVRTC", 1, f"out of memory\n{log}")
        if result != library.nvrtcResult.NVRTC_SUCCESS:
            reason = log or _describe(library, result)
            raise compile_error(reason, source, tuple(command), target.arch)
        symbols = {name: _lowered(library, program, name) for name in source.name_expressions}
        codes = [_code(library, program, _CODES[one.format]) for one in targets]
    figures = by_expression(parse_figures(log), symbols)
    shown = "\n".join(part for part in (options.note, strip_report(log)) if part)
    for one, code in zip(targets, codes, strict=True):
        if not code:
            message = f"{source.name}: these options make NVRTC produce no {one.format}"
            raise CompileError(message, source.text, tuple(command), one.arch)
        measured = figures if one.format == "cubin" else {}
        yield Image(one.format, one.arch, code, symbols, measured, shown)


def _library() -> ModuleType:
    """Import the bindings and load NVRTC, or say what to install."""
    with bindings_of("nvrtc"):
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    return nvrtc  # type: ignore[no-any-return]


@contextmanager
def _program(source: CudaSource) -> Iterator[tuple[Any, Any]]:
    library: Any = _library()
    result, program = library.nvrtcCreateProgram(
        f"{line_directive(1, source.name)}\n{source.text}".encode(),
        f"{_NOWHERE}{source.name}".encode(),
        len(source.headers),
        [header.text.encode() for header in source.headers],
        [header.name.encode() for header in source.headers],
    )
    _check(library, result)
    try:
        yield library, program
    finally:
        library.nvrtcDestroyProgram(program)


def _lowered(library: Any, program: Any, name: str) -> str:
    result, lowered = library.nvrtcGetLoweredName(program, name.encode())
    _check(library, result)
    return str(lowered.decode())


def _log(library: Any, program: Any) -> str:
    text = _read(library, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog, program)
    return text.rstrip(b"\0").decode(errors="replace").rstrip().replace(_NOWHERE, "")


def _code(library: Any, program: Any, kind: str) -> bytes:
    size, get = getattr(library, f"nvrtcGet{kind}Size"), getattr(library, f"nvrtcGet{kind}")
    return _read(library, size, get, program)


def _read(
    library: Any, size_of: Callable[[Any], Any], get: Callable[[Any, Any], Any], program: Any
) -> bytes:
    result, size = size_of(program)
    _check(library, result)
    buffer = bytearray(size)
    if size:
        _check(library, get(program, buffer)[0])
    return bytes(buffer)


def _describe(library: Any, result: Any) -> str:
    return str(library.nvrtcGetErrorString(result)[1].decode())


def _check(library: Any, result: Any) -> None:
    """Raise for a failed call that is not about the user's text."""
    if result != library.nvrtcResult.NVRTC_SUCCESS:
        raise CompileError(f"NVRTC: {_describe(library, result)}")
