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

from kspec.compiler.options import CompileOptions
from kspec.errors import CompileError, ToolNotFoundError
from kspec.stages import CudaSource, Figures, Image, Target

# NVRTC appends one pragma per name expression to the text, in an order of its own.
_BAD_NAME = re.compile(
    r"^__nv_name_map\(\d+\): error: .*\n  #pragma nv_mangled_name (.*)$", re.MULTILINE
)
_NO_HEADER = re.compile(r'(?:could not|cannot) open source file ("[^"]+")')
_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
_PTXAS_REPORT = re.compile(r"^ptxas (?:info\b| +\.).*\n?", re.MULTILINE)
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
        A cubin or PTX target.
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
    """
    flags = CompileOptions.for_source(source, target).flags()
    command = [*flags, *(f"--include-path={directory}" for directory in toolkit_dirs)]
    with _program(source) as (library, program):
        for name in source.name_expressions:
            _check(library, library.nvrtcAddNameExpression(program, name.encode())[0])
        encoded = [flag.encode() for flag in command]
        (result,) = library.nvrtcCompileProgram(program, len(encoded), encoded)
        log = _log(library, program)
        if result != library.nvrtcResult.NVRTC_SUCCESS:
            reason = log or _describe(library, result)
            raise CompileError(_explain(reason, source), source.text, tuple(command), target.arch)
        symbols = {name: _lowered(library, program, name) for name in source.name_expressions}
        code = _code(library, program, "PTX" if target.format == "ptx" else "CUBIN")
    if not code:
        message = f"{source.name}: these options make NVRTC produce no {target.format}"
        raise CompileError(message, source.text, tuple(command), target.arch)
    figures = _by_expression(parse_figures(log), symbols)
    return Image(target.format, target.arch, code, symbols, figures, strip_report(log))


def parse_figures(log: str) -> dict[str, Figures]:
    """Return the resources of each kernel in a ``ptxas -v`` log, by lowered name.

    `Figures.local_bytes` is the stack frame, spilled registers included; `Figures.spill_bytes`
    what the spill stores write, which may be more; `Figures.constant_bytes` the sum over all
    constant banks, -1 on architectures whose ptxas does not report them (sm_90 and later).
    """
    found: dict[str, Figures] = {}
    for report in re.split(r"(?=Compiling entry function ')", log):
        entry = _ENTRY.match(report)
        used = _REGISTERS.search(report)
        if entry is None or used is None:
            continue
        line = report[used.start() :].partition("\n")[0]
        shared = _SHARED.search(line)
        constants = [int(size) for size in _CONSTANT.findall(line)]
        local, spill = _stack_of(entry[1], report)
        found[entry[1]] = Figures(
            registers=int(used[1]),
            shared_bytes=int(shared[1]) if shared else 0,
            local_bytes=local,
            constant_bytes=sum(constants) if constants else -1,
            spill_bytes=spill,
        )
    return found


def strip_report(log: str) -> str:
    """Return a log without the lines in which ptxas reports resources."""
    return _PTXAS_REPORT.sub("", log).strip()


def _stack_of(name: str, report: str) -> tuple[int, int]:
    """Stack frame and spill stores of one function; a report may hold those it calls, too."""
    for match in _PROPERTIES.finditer(report):
        stack = _STACK.search(report, match.end())
        if match[1] == name and stack is not None:
            return int(stack[1]), int(stack[2])
    return -1, -1


def _by_expression(figures: dict[str, Figures], symbols: dict[str, str]) -> dict[str, Figures]:
    if not symbols:
        return figures
    return {name: figures[symbol] for name, symbol in symbols.items() if symbol in figures}


def _explain(log: str, source: CudaSource) -> str:
    """Add to a log what NVRTC does not say: which name expression, where headers come from."""
    absent = _NO_HEADER.search(log)
    if absent is not None:
        return (
            f"{log}\n{absent[1]} is neither carried with the source, nor in a directory given by "
            "-I, nor in the CUDA toolkit, if one is installed (pip install 'kspec[cu13]')"
        )
    names = dict.fromkeys(repr(name.strip()) for name in _BAD_NAME.findall(log))
    if not names:
        return log
    return f"{source.name}: no kernel fits the name expression {', '.join(names)}\n{log}"


def _library() -> ModuleType:
    """Import the bindings and load NVRTC, or say what to install."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:  # cuda.pathfinder's error is a RuntimeError
        raise ToolNotFoundError(
            "NVRTC is not installed: pip install 'kspec[cu13]' (or 'kspec[cu12]' for a "
            f"CUDA 12 driver)\n  cause: {type(error).__name__}: {error}"
        ) from error
    return nvrtc  # type: ignore[no-any-return]


@contextmanager
def _program(source: CudaSource) -> Iterator[tuple[Any, Any]]:
    library: Any = _library()
    result, program = library.nvrtcCreateProgram(
        source.text.encode(),
        source.name.encode(),
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
    return text.rstrip(b"\0").decode(errors="replace").rstrip()


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
