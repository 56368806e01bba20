"""CUDA C++ through nvcc: a `CudaSource` and a `Target` in, an `Image` out; no GPU, no driver.

::

    image = compile_nvcc(CudaSource("a.cu", text, backend="nvcc"), Target("sm_90"))
    image.figures["axpy"].registers   # 12

For sources that need what NVRTC lacks: host headers, or what nvcc alone understands.  It has no
name expressions: kernels have C linkage, or are asked for by their mangled names.
`kspec.compiler.compile_source` adds the cache.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from kspec import config
from kspec.compiler.cuda import find_tool
from kspec.compiler.cuda.ptxas import parse_figures, strip_report
from kspec.compiler.headers import write_headers
from kspec.compiler.messages import compile_error
from kspec.compiler.options import CompileOptions
from kspec.compiler.scratch import scratch_folder
from kspec.compiler.stopped import check_not_stopped, system_errors
from kspec.cpp.directives import line_directive
from kspec.errors import SpecError, ToolNotFoundError
from kspec.model.stages import CudaSource, Image, Target

_INSTALL = "pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.*'"
_ARCH = re.compile(r"\bcompute_(\d+)\b")
_BUILD = re.compile(r"(V\d[\d.]*)(?:\s+Build (\S+))?")
_NO_HOST_COMPILER = re.compile(
    r"Failed to preprocess host compiler properties|(?:gcc|g\+\+|cc1plus)'?: .*not found"
    r"|Could not (?:open|find) .*host compiler"
)
_LIBRARY_FLAGS = ("-l", "-L")


def find_nvcc() -> Path:
    """Return nvcc: of ``CUDA_PATH`` or ``CUDA_HOME``, on the PATH, or of its wheel.

    Raises
    ------
    ToolNotFoundError
        If there is none.
    """
    for root in config.cuda_roots():
        path = root / "bin" / "nvcc"
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("nvcc") or find_tool("nvcc")
    if found is None:
        raise ToolNotFoundError(
            "nvcc is not on the PATH, not in CUDA_PATH or CUDA_HOME and not installed as a wheel: "
            f"{_INSTALL} (it needs a host C++ compiler, too)"
        )
    return Path(found)


def nvcc_build() -> str:
    """Return the versions that decide nvcc's output: ``"V13.0.88 cuda_13.0..., g++ ..."``.

    That is its build, the host compiler, whose headers it reads, and the options it takes from
    the environment.
    """
    compiler = find_nvcc()
    variables = config.nvcc_environment()
    host = dict(variables).get("NVCC_CCBIN", "g++")
    match = _BUILD.search(_ask(str(compiler), "--version"))
    build = " ".join(part for part in match.groups() if part) if match else "unknown"
    return ", ".join([build, _host_build(host), *(f"{name}={value}" for name, value in variables)])


def supported_capabilities() -> tuple[int, ...]:
    """Return ten times each compute capability that nvcc compiles for: ``(75, 80, ...)``."""
    listed = _ARCH.findall(_ask(str(find_nvcc()), "--list-gpu-arch"))
    return tuple(sorted({int(number) for number in listed}))


def compile_nvcc(source: CudaSource, target: Target) -> Image:
    """Compile a source for one CUDA architecture.

    Parameters
    ----------
    source : CudaSource
        Complete but for the toolkit's and the host compiler's headers.
    target : Target
        A cubin or PTX target.

    Returns
    -------
    Image
        Without symbols; the figures of a cubin are keyed by lowered name. The log holds warnings
        only.

    Raises
    ------
    CompileError
        If nvcc refuses the text.
    SpecError
        If there are name expressions.
    ToolNotFoundError
        If there is no nvcc, or no host C++ compiler for it.
    ToolStoppedError
        If something stopped nvcc.
    """
    if source.name_expressions:
        raise SpecError(f"{source.name}: name expressions need the backend nvrtc, not nvcc")
    compiler = str(find_nvcc())
    options = CompileOptions.for_source(source, target)
    # Its own temporary files are in there, too, so that nothing is left if it is killed.
    with system_errors(source.name, "nvcc"), scratch_folder("nvcc") as directory:
        unit, include = _write(directory, source)
        code, kind = directory / f"kernel.{target.format}", f"-{target.format}"
        # What the source carries comes before the directories that its options name.
        command = [compiler, kind, f"-I{include}", *options.flags(), "-o", str(code), str(unit)]
        log = _run(command, directory, source, target)
        if options.relocatable:
            linked = directory / "linked.cubin"
            link = [compiler, "-dlink", "-cubin", f"-arch={target.arch}", *_libraries(source)]
            log += _run([*link, "-o", str(linked), str(code)], directory, source, target)
            code = linked
        content = code.read_bytes()
    shown = "\n".join(part for part in (options.note, strip_report(log)) if part)
    return Image(target.format, target.arch, content, {}, parse_figures(log), shown)


@functools.cache
def _ask(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolNotFoundError(f"nvcc does not run: {shlex.join(command)}: {error}") from None
    return done.stdout


@functools.cache
def _host_build(compiler: str) -> str:
    try:
        done = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return compiler
    return done.stdout.partition("\n")[0]


def _write(directory: Path, source: CudaSource) -> tuple[Path, Path]:
    """Write the source and the headers it carries; return its file and their directory."""
    unit, include = directory / "kernel.cu", directory / "include"
    unit.write_text(f"{line_directive(1, source.name)}\n{source.text}\n", encoding="utf-8")
    include.mkdir()
    (directory / "tmp").mkdir()
    write_headers(include, source)
    return unit, include


def _libraries(source: CudaSource) -> list[str]:
    """Return the libraries of device code: CUDA's device runtime and the user's."""
    own = [option for option in source.options if option[:2] in _LIBRARY_FLAGS]
    # nvcc of a wheel does not look where the wheel has its libraries.
    return [*own, f"-L{find_nvcc().parent.parent / 'lib'}", "-lcudadevrt"]


def _run(command: list[str], directory: Path, source: CudaSource, target: Target) -> str:
    """Run nvcc and return its log; paths are those of the source."""
    environment = {**os.environ, "TMPDIR": str(directory / "tmp")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    log = done.stdout + done.stderr
    for path in (directory / "include", directory / "tmp", directory):
        log = log.replace(f"{path}/", "")
    if not done.returncode:
        return log
    check_not_stopped(source.name, "nvcc", done.returncode, log)
    if _NO_HOST_COMPILER.search(log):
        raise ToolNotFoundError(f"nvcc needs a host C++ compiler (g++) on the PATH:\n{log.strip()}")
    reason = strip_report(log) or f"nvcc: exit status {done.returncode}"
    raise compile_error(reason, source, tuple(command[1:]), target.arch)
