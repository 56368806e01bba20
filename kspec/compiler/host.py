"""CudaSource in, shared object out: the C++ compiler of this machine as a CUDA compiler.

>>> source = CudaSource("k.cu", "__global__ void k(int* x) { *x = 1; }", name_expressions=("k",))
>>> compile_host(source).symbols
{'k': 'kspec_entry_0'}

`kspec.compiler.rewrite` prepares the text, the headers in ``kspec/host/include`` are the CUDA
dialect, and `kspec.host.device` loads and launches the result.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kspec import config
from kspec.compiler.headers import write_headers
from kspec.compiler.messages import parse_log
from kspec.compiler.rewrite import REFUSAL, Entry, HostText, rewrite
from kspec.compiler.sanitize import major_version, sanitize_flags
from kspec.errors import CompileError, ToolNotFoundError
from kspec.name_expressions import normal_form
from kspec.stages import CudaSource, Header, Image, Target

INCLUDE_DIRECTORY = Path(__file__).resolve().parent.parent / "host" / "include"

# Where the line tables say that the sources were: every machine makes the same bytes, and
# kspec.host.locate knows what to take off.
SOURCE_ROOT = "/kspec-source"
DIALECT_ROOT = "/kspec-dialect"

# Standard headers that only define types and constants: they need no KSPEC_HOST_STD.
_LIGHT_HEADERS = frozenset(
    [
        "assert.h",
        "cassert",
        "cfloat",
        "climits",
        "cstddef",
        "cstdint",
        "float.h",
        "limits.h",
        "stddef.h",
        "stdint.h",
    ]
)

_FLAGS = (
    "-O3",  # g++ 12 vectorises loops with uniform tests only from here on: 1.5 times as fast
    "-g1",  # line tables: a fault knows its file and line
    "-fPIC",
    "-w",
    "-fvisibility=hidden",
    # Shifts, overflow and aliasing behave as on a GPU rather than as undefined.
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fsigned-char",
    "-fno-math-errno",
    "-fno-finite-loops",  # a kernel that hangs must hang, so that it can be stopped and named
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fdiagnostics-color=never",
)
# clang turns 1 / x into a comparison: without this, a divisor of 0 would not fault.
_DIVISION_TRAP = (
    ("-fsanitize=integer-divide-by-zero", "-fsanitize-trap=integer-divide-by-zero")
    if platform.machine() == "x86_64"
    else ()
)
_KIND_FLAGS = {
    # Without -fno-gnu-unique two modules silently share the statics of equal templates.
    "gcc": ("-fno-gnu-unique", "-fno-diagnostics-show-caret"),
    "clang": ("-fno-caret-diagnostics", *_DIVISION_TRAP),
    "zig": ("-fno-caret-diagnostics", "-fno-sanitize=undefined", *_DIVISION_TRAP),
}
_LINK_FLAGS = {
    "gcc": ("-shared", "-Wl,--as-needed"),
    "clang": ("-shared", "-Wl,--as-needed"),
    # libc and libm come with the Python process; zig would first build a libc++ for 35 seconds.
    "zig": ("-shared", "-nostdlib"),
}


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler.

    Attributes
    ----------
    command : tuple of str
        What to run, ready for flags.
    kind : str
        ``"gcc"``, ``"clang"`` or ``"zig"``.
    identity : str
        Version and machine, for cache keys.
    """

    command: tuple[str, ...]
    kind: str
    identity: str


def find_compiler() -> HostCompiler:
    """Return the compiler of the host device.

    ``KSPEC_CXX`` or ``CXX`` decides; else c++, g++ and clang++ on the PATH, then the ziglang wheel.

    Raises
    ------
    ToolNotFoundError
        When there is none, or the one asked for does not run.
    """
    if platform.system() != "Linux":
        raise ToolNotFoundError(
            f"the host device runs on Linux for now, and this is {platform.system()}"
        )
    return _describe(_locate())


def _locate() -> tuple[str, ...]:
    asked = config.cxx()
    if asked:
        command = shlex.split(asked)
        if command and shutil.which(command[0]):
            return tuple(command)
        raise ToolNotFoundError(f"no host compiler: KSPEC_CXX or CXX asks for {asked!r}, not found")
    for name in ("c++", "g++", "clang++"):
        path = shutil.which(name)
        if path:
            return (path,)
    zig = _ziglang()
    if zig:
        return (zig, "c++")
    raise ToolNotFoundError("no host compiler: install g++ or clang++, or `pip install ziglang`")


def _ziglang() -> str | None:
    try:
        import ziglang  # an optional wheel that is nothing but a compiler
    except ImportError:
        return None
    return str(Path(ziglang.__file__).parent / "zig")


@functools.cache
def _describe(command: tuple[str, ...]) -> HostCompiler:
    try:
        done = subprocess.run(
            [*command, "--version"], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolNotFoundError(f"no host compiler: {shlex.join(command)}: {error}") from None
    version = done.stdout.splitlines()[0] if done.stdout else "unknown"
    kind = "clang" if "clang" in done.stdout else "gcc"
    if Path(command[0]).stem.startswith("zig"):
        kind = "zig"
    return HostCompiler(command, kind, f"{kind} {version} {platform.machine()}")


def _kind_flags(compiler: HostCompiler) -> tuple[str, ...]:
    flags = _KIND_FLAGS[compiler.kind]
    if _DIVISION_TRAP and compiler.kind != "gcc" and major_version(compiler.identity) >= 20:
        # Older ones merge all traps of a function, and forget the lines of them.
        flags += ("-fno-sanitize-merge=integer-divide-by-zero",)
    return flags


def fingerprint(compiler: HostCompiler, sanitize: tuple[str, ...] = ()) -> str:
    """Return everything beside the source that decides the image, for the cache key."""
    flags = (*_FLAGS, *_kind_flags(compiler), *_LINK_FLAGS[compiler.kind])
    flags += sanitize_flags(compiler.kind, compiler.identity, sanitize)
    return f"{compiler.identity} {' '.join(flags)} {_include_digest()}"


@functools.cache
def _include_digest() -> str:
    digest = hashlib.sha256()
    for name in ("rewrite.py", "lexer.py", "shared_memory.py"):  # what is rewritten how, counts too
        digest.update(Path(__file__).with_name(name).read_bytes() + b"\0")
    for path in sorted(INCLUDE_DIRECTORY.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(INCLUDE_DIRECTORY)}\0".encode())
            digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()[:32]


def compile_host(
    source: CudaSource,
    compiler: HostCompiler | None = None,
    toolkit_dirs: Sequence[Path] = (),
    sanitize: tuple[str, ...] = (),
) -> Image:
    """Compile CUDA C++ for the CPU.

    Parameters
    ----------
    source : CudaSource
        The text, its headers, and the name expressions to instantiate. Plain kernels and global
        variables need no name expression.
    compiler : HostCompiler, optional
        Default: `find_compiler`.
    toolkit_dirs : sequence of Path
        Where CUDA's own headers are looked for (``cuda/std/...``), after the dialect's.
    sanitize : tuple of str
        Checking modes to instrument for (`kspec.checks.MODES`), sorted.

    Returns
    -------
    Image
        Format ``"so"``. Symbols of kernels start with ``kspec_entry_``, those of global variables
        with ``kspec_global_``.

    Raises
    ------
    CompileError
        With the compiler's log, positions those of the text (``#line`` directives count).
    ToolNotFoundError
        When the machine has no C++ compiler.
    """
    compiler = compiler or find_compiler()
    with tempfile.TemporaryDirectory(prefix="kspec-host-") as name:
        directory = Path(name)
        unit = _translation_unit(source)
        _write_sources(directory, source, unit)
        flags = _flags(source, compiler, unit.needs_std)
        # Not system directories: g++ would move its own behind them.
        system = tuple(f"-idirafter{path}" for path in toolkit_dirs)
        flags += sanitize_flags(compiler.kind, compiler.identity, sanitize)
        log, failed = _run(compiler, (*flags, *system), directory, unit.needs_std)
        log = _readable(log, directory)
        if failed:
            found = parse_log(
                _essence(log), source, replace(source, text=unit.text, headers=unit.headers)
            )
            shown = "\n".join(map(str, found))  # g++ does not show the lines
            raise CompileError(shown, source.text, flags, "host", found)
        code = (directory / "kernel.so").read_bytes()
    symbols = {
        entry.name: entry.symbol
        for entry in unit.entries
        if entry.symbol.encode() + b"\0" in code  # the preprocessor may have dropped it
    }
    return Image("so", str(Target("host", sanitize)), code, symbols, log=log)


@dataclass(frozen=True)
class _Unit:
    """Everything that goes into one compile."""

    text: str
    headers: tuple[Header, ...]
    entries: tuple[Entry, ...]
    needs_std: bool


def _translation_unit(source: CudaSource) -> _Unit:
    known = [expression.strip().lstrip("&") for expression in source.name_expressions]
    number = len(known)
    main = rewrite(source.text, number, known)
    number += len(main.entries)
    headers: list[tuple[str, HostText]] = []
    for header in source.headers:
        headers.append((header.name, rewrite(header.text, number, known)))
        number += len(headers[-1][1].entries)
    # The user's macros come after the dialect, which they must not rewrite (-DN=4).
    lines = ['#include "kspec_host.h"', *_user_macros(source.options)]
    lines += [f"#line 1 {_quoted(source.name)}", main.text]
    found = [*main.entries, *(entry for _, text in headers for entry in text.entries)]
    variables = {one.name: one.symbol for one in found if one.symbol.startswith("kspec_global_")}
    texts = [main, *(text for _, text in headers)]
    templates = {name for text in texts for name in text.variable_templates}
    named = []
    for index, (expression, name) in enumerate(zip(source.name_expressions, known, strict=True)):
        plain = normal_form(expression)
        if plain in variables:
            named.append(Entry(expression, variables[plain]))
            continue
        lines.append(f"#line 1 {_quoted(f'<name expression {expression}>')}")
        if plain.partition("<")[0] in templates:
            lines.append(f"KSPEC_HOST_GLOBAL({index}, {name})")
            named.append(Entry(expression, f"kspec_global_{index}"))
        else:
            lines.append(f"KSPEC_HOST_KERNEL({index}, &{name})")
            named.append(Entry(expression, f"kspec_entry_{index}"))
    return _Unit(
        "\n".join(lines) + "\n",
        tuple(Header(name, f"#line 1 {_quoted(name)}\n{text.text}") for name, text in headers),
        (*found, *named),
        _needs_std(texts, {header.name for header in source.headers}),
    )


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _needs_std(texts: list[HostText], own: set[str]) -> bool:
    """Return whether a header from outside is included, which then comes before our dialect."""
    included = {name for text in texts for name in text.includes}
    foreign = included - own - _LIGHT_HEADERS
    return any(not (INCLUDE_DIRECTORY / name).is_file() for name in foreign)


def _write_sources(directory: Path, source: CudaSource, unit: _Unit) -> None:
    (directory / "kernel.cpp").write_text(unit.text)
    root = directory / "include"
    root.mkdir()
    write_headers(root, replace(source, headers=unit.headers))


def _flags(source: CudaSource, compiler: HostCompiler, needs_std: bool) -> tuple[str, ...]:
    includes = [value for option, value in _user_options(source.options) if option == "-I"]
    # Of CUDA's own spelling for "let me step through it".
    debug = ("-O0", "-g") if {"-G", "--device-debug"} & set(source.options) else ()
    return (
        f"-std={_standard(source.options)}",
        *_FLAGS,
        *_kind_flags(compiler),
        *debug,
        f"-DKSPEC_HOST_STD={int(needs_std)}",
        # Absolute, because the compiler runs elsewhere.
        *(f"-I{Path(value).absolute()}" for value in includes),
    )


# The options a host compiler understands too; all others are for a device compiler.
_LONG_OPTIONS = {"--define-macro": "-D", "--undefine-macro": "-U", "--include-path": "-I"}


def _user_options(options: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return the options we honour as pairs such as ``("-D", "N=4")``."""
    pairs = []
    remaining = iter(options)
    for option in remaining:
        name, _, value = option.partition("=")
        if option in ("-D", "-I", "-U"):
            pairs.append((option, next(remaining, "")))
        elif option[:2] in ("-D", "-I", "-U"):
            pairs.append((option[:2], option[2:]))
        elif name in _LONG_OPTIONS:
            pairs.append((_LONG_OPTIONS[name], value))
        elif name in ("-std", "--std"):
            pairs.append(("-std", value))
    return pairs


def _user_macros(options: tuple[str, ...]) -> list[str]:
    lines = []
    for option, value in _user_options(options):
        name, equals, text = value.partition("=")
        if option == "-D":
            lines.append(f"#define {name} {text if equals else 1}")
        elif option == "-U":
            lines.append(f"#undef {name}")
    return lines


def _standard(options: tuple[str, ...]) -> str:
    """Return the C++ standard asked for, but at least what the dialect headers need."""
    years = [
        int(value[-2:])
        for option, value in _user_options(options)
        if option == "-std" and value[-2:].isdigit()
    ]
    return f"c++{max([17, *(year for year in years if year < 90)])}"


def _run(
    compiler: HostCompiler, flags: tuple[str, ...], directory: Path, needs_std: bool
) -> tuple[str, bool]:
    """Compile and link in `directory`; return the log and whether it failed."""
    arguments = [
        # What the source carries, even a cuComplex.h; then our dialect, even where options lead to
        # a toolkit, whose headers would clash with it.
        f"-I{directory / 'include'}",
        f"-I{INCLUDE_DIRECTORY}",
        *flags,
        f"-ffile-prefix-map={directory}={SOURCE_ROOT}",
        f"-ffile-prefix-map={INCLUDE_DIRECTORY}={DIALECT_ROOT}",
    ]
    link = _LINK_FLAGS[compiler.kind]
    separate = ["-c", "-o", "kernel.o", "kernel.cpp"]
    if compiler.kind != "zig" and not any(flag.startswith("-fsanitize") for flag in flags):
        commands = [[*compiler.command, *arguments, *link, "-o", "kernel.so", "kernel.cpp"]]
    elif compiler.kind != "zig":
        # Linked without -fsanitize: what instrumentation calls is in the dialect.
        commands = [
            [*compiler.command, *arguments, *separate],
            [*compiler.command, *link, "-o", "kernel.so", "kernel.o"],
        ]
    else:
        # `zig c++` knows where the C++ headers are but would also build libc++; `zig cc` links.
        zig = compiler.command[0]
        front = [zig, "c++"] if needs_std else [zig, "cc", "-x", "c++"]
        commands = [
            [*front, *arguments, *separate],
            [zig, "cc", *link, "-o", "kernel.so", "kernel.o"],
        ]
    log = ""
    for command in commands:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        log += done.stderr
        if done.returncode:
            return log or f"exit status {done.returncode}", True
    return log, False


def _readable(log: str, directory: Path) -> str:
    """Remove the machine's paths and our own macros from a log."""
    log = log.replace(f"{directory}/include/", "").replace(f"{directory}/", "")
    log = log.replace(f"{INCLUDE_DIRECTORY}/", "kspec/host/include/")
    log = re.sub(r"^In file included from (.*\n\s+from )*kernel\.cpp.*\n", "", log, flags=re.M)
    return re.sub(r"^.* note: in \w+ of macro .KSPEC_.*\n?", "", log, flags=re.M).strip()


def _essence(log: str) -> str:
    """Keep only our own messages when there are some: the errors after them are consequences."""
    refusals = [line for line in log.splitlines() if REFUSAL in line]
    return "\n".join(dict.fromkeys(refusals)) or log
