"""CudaSource in, shared object out: the C++ compiler of this machine as a CUDA compiler.

>>> source = CudaSource("k.cu", "__global__ void k(int* x) { *x = 1; }", name_expressions=("k",))
>>> compile_host(source).symbols
{'k': 'kspec_entry_0'}

The compiler runs twice: as the preprocessor, and on its output as `kspec.compiler.host.rewrite`
changed it. The headers in ``kspec/host/include`` are the CUDA dialect, `kspec.compiler.host.unit`
puts all of it together, and `kspec.host.modules` loads and launches the result.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from kspec import config
from kspec.compiler.headers import is_library, write_headers
from kspec.compiler.host import HostCompiler, find_compiler
from kspec.compiler.host.earlier import Earlier, text_key
from kspec.compiler.host.positions import Positions
from kspec.compiler.host.preprocess import REFUSAL, line_markers
from kspec.compiler.host.sanitize import link_flags, major_version, sanitize_flags
from kspec.compiler.host.unit import (
    INCLUDE_DIRECTORY,
    HostUnit,
    PreparedUnit,
    host_unit,
    prepare_unit,
)
from kspec.compiler.messages import named_once, parse_log
from kspec.compiler.options import STANDARD, include_dirs, pre_includes, raised_standard
from kspec.compiler.programs import run_program
from kspec.compiler.python_words import explained
from kspec.compiler.scratch import scratch_folder
from kspec.compiler.stopped import check_not_stopped, system_errors
from kspec.cpp.call_sites import DIALECT_ROOT, HOST_UNIT, SOURCE_ROOT
from kspec.cpp.options import DEFINE, UNDEFINE, macro_directive, valued_options
from kspec.dataclass import dataclass
from kspec.errors import CompileError, ToolNotFoundError
from kspec.files import ROOT, resolved
from kspec.model.stages import CudaSource, Image, Target

_FOREIGN = (
    "{}:1:1: error: #include of {}, which is in no folder that -I names: name the folder with -I, "
    "and the header by its name below it"
)
_TOOL = "the host compiler"
_INCLUDED = ("rewritten.h", "unchecked.h")  # what a rewritten text includes
_FLAGS = (
    "-g1",  # line tables: a fault knows its file and line
    "-fPIC",
    "-w",
    "-fvisibility=hidden",
    # Shifts, overflow and aliasing behave as on a GPU rather than as undefined.
    "-fwrapv",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",  # an access through null must fault, not vanish
    "-fsigned-char",
    "-U_FORTIFY_SOURCE",  # some compilers define it: copies are checked by our own functions
    "-fno-math-errno",
    "-falign-loops=32",  # a short one may take twice the time where it crosses a line of the cache
    "-fno-finite-loops",  # a kernel that hangs must hang, so that it can be stopped and named
    "-ffp-contract=off",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fstack-clash-protection",  # a frame larger than the guard of a stack meets it
    "-fcheck-new",  # it may return null, as on a GPU
    "-fdiagnostics-color=never",
)
# clang turns 1 / x into a comparison: without this, a divisor of 0 would not fault.
_DIVISION_TRAP = (
    ("-fsanitize=integer-divide-by-zero", "-fsanitize-trap=integer-divide-by-zero")
    if platform.machine() == "x86_64"
    else ()
)
# g++ for ARM takes guards for 64 KiB large, and those of rt/scheduler.h are a page.
_STACK_GUARD = (
    ("--param=stack-clash-protection-guard-size=12",) if platform.machine() == "aarch64" else ()
)
_KIND_FLAGS = {
    # Without -fno-gnu-unique two modules silently share the statics of equal templates.
    # A message inside a macro of ours is about the line that uses it.
    "gcc": (
        *("-fno-gnu-unique", "-fno-diagnostics-show-caret", "-ftrack-macro-expansion=0"),
        *_STACK_GUARD,
    ),
    "clang": ("-fno-caret-diagnostics", *_DIVISION_TRAP),
    "zig": ("-fno-caret-diagnostics", "-fno-sanitize=undefined", *_DIVISION_TRAP),
}
_LINK_FLAGS = {
    "gcc": ("-shared", "-Wl,--as-needed"),
    "clang": ("-shared", "-Wl,--as-needed"),
    # libc and libm come with the Python process; zig would first build a libc++ for 35 seconds.
    "zig": ("-shared", "-nostdlib"),
}
# What stands before and after the object, in the order of trying. Few kernels need libstdc++, whose
# symbols take a linker longer than all the rest.
_WHOLE = ((), ())
_WITHOUT_STD = (("-nodefaultlibs", "-Wl,-z,defs"), ("-lm", "-lc", "-lgcc"))
_LINKS = {"gcc": (_WITHOUT_STD, _WHOLE), "clang": (_WITHOUT_STD, _WHOLE), "zig": (_WHOLE,)}


def _kind_flags(compiler: HostCompiler) -> tuple[str, ...]:
    flags = _KIND_FLAGS[compiler.kind]
    if _DIVISION_TRAP and compiler.kind != "gcc" and major_version(compiler.identity) >= 20:
        # Older ones merge all traps of a function, and forget the lines of them.
        flags += ("-fno-sanitize-merge=integer-divide-by-zero",)
    return flags


def _fixed_flags(compiler: HostCompiler) -> tuple[str, ...]:
    """Return the flags that do not depend on the source."""
    # 3 by default: g++ 12 vectorises loops with uniform tests only there, 1.5 times as fast.
    return (f"-O{config.host_optimization()}", *_FLAGS, *_kind_flags(compiler))


def fingerprint(compiler: HostCompiler, sanitize: tuple[str, ...] = ()) -> str:
    """Return everything beside the source that decides the image, for the cache key."""
    flags = (*_fixed_flags(compiler), *_LINK_FLAGS[compiler.kind])
    flags += (
        *sanitize_flags(compiler.kind, compiler.identity, sanitize),
        *link_flags(sanitize),
    )
    return f"{compiler.key} {' '.join(flags)} {_include_digest()}"


@functools.cache
def _include_digest() -> str:
    """Return the digest of the dialect's headers, and of the modules that rewrite sources."""
    digest = hashlib.sha256()
    for path in sorted([*(ROOT / "compiler").rglob("*.py"), *(ROOT / "cpp").rglob("*.py")]):
        digest.update(path.read_bytes() + b"\0")
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
    earlier: Earlier | None = None,
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
        Checking modes to instrument for (`kspec.model.checks.MODES`), sorted.
    earlier : Earlier, optional
        Where the code may be found that the same text, after rewriting, was compiled to.

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
        When the machine has no C++ compiler, or a program that is none was asked for.
    ToolStoppedError
        When it was killed, or had no memory or space.
    """
    compiler = compiler or find_compiler()
    with system_errors(source.name, _TOOL), scratch_folder("host") as directory:
        unit = prepare_unit(source, _directives(source.options))
        _write_sources(directory, source, unit)
        flags = _flags(source, compiler, unit.needs_std)
        # Not system directories: g++ would move its own behind them.
        system = tuple(f"-idirafter{path}" for path in toolkit_dirs)
        flags += sanitize_flags(compiler.kind, compiler.identity, sanitize)
        linked = link_flags(sanitize)
        run = _Run(source.name, compiler, (*flags, *system), linked, directory, unit.needs_std)
        preprocessed, log, failed = run.preprocess()
        if failed:
            raise _error(log, source, flags)
        toolkits = _toolkits(source, toolkit_dirs)
        foreign = _foreign_file(preprocessed, directory, toolkits)
        if foreign:
            raise _error(_FOREIGN.format(source.name, foreign), source, flags)
        text = host_unit(unit, preprocessed, toolkits, _may_loop(flags, sanitize))
        if text.refusals:
            raise _error(text.refusals, source, flags)
        place = run.key(text.text)
        code = earlier.find(place) if earlier else None
        if code is None:
            text, said, failed = run.compile(text, lambda: host_unit(unit, preprocessed, toolkits))
            log = "\n".join(dict.fromkeys([*log.splitlines(), *said.splitlines()]))
            if failed:
                raise _error(Positions(text.text, source).in_log(log), source, flags)
            code = _shared_object(directory, compiler)
            if earlier and not said:
                earlier.note(place)
        if log:
            log = Positions(text.text, source).in_log(log)
    symbols = {entry.name: entry.symbol for entry in text.entries}
    note = raised_standard(source.options)[1]  # the dialect needs that, whatever is included
    shown = "\n".join(part for part in (note, log) if part)
    return Image("so", str(Target("host", sanitize)), code, symbols, log=shown)


def _may_loop(flags: tuple[str, ...], sanitize: tuple[str, ...]) -> bool:
    """Return whether kernels may run as loops: debuggers and other checks follow each thread."""
    return sanitize == ("bounds",) and "-O0" not in flags


def _shared_object(directory: Path, compiler: HostCompiler) -> bytes:
    path = directory / "kernel.so"
    if not path.exists():
        raise ToolNotFoundError(
            f"no host compiler: {shlex.join(compiler.command)} wrote no shared object; let "
            "KSPEC_CXX name a C++ compiler"
        )
    return path.read_bytes()


def _write_sources(directory: Path, source: CudaSource, unit: PreparedUnit) -> None:
    _write(directory, unit.text)
    root = directory / "include"
    root.mkdir()
    write_headers(root, replace(source, headers=unit.headers))


def _write(directory: Path, text: str) -> None:
    path = directory / HOST_UNIT
    path.write_text(text, encoding="utf-8", errors="surrogateescape")


def _flags(source: CudaSource, compiler: HostCompiler, needs_std: bool) -> tuple[str, ...]:
    # Part of CUDA's own spelling for "let me step through it".
    debug = ("-O0", "-g") if {"-G", "--device-debug"} & set(source.options) else ()
    return (
        f"-std={_standard(source.options)}",
        *_fixed_flags(compiler),
        *debug,
        f"-DKSPEC_HOST_STD={int(needs_std)}",
        # Absolute, because the compiler runs elsewhere.
        *(f"-I{Path(name).absolute()}" for name in include_dirs(source.options)),
    )


def _directives(options: tuple[str, ...]) -> list[str]:
    """Return options of the preprocessor as directives; headers come after all macros."""
    macros = map(macro_directive, valued_options(options, (*DEFINE, *UNDEFINE)))
    return [*macros, *(f'#include "{name}"' for name in pre_includes(options))]


def _standard(options: tuple[str, ...]) -> str:
    """Return the C++ standard asked for, but at least what the dialect headers need."""
    years = [one.value[-2:] for one in valued_options(options, STANDARD)]
    asked = [int(year) for year in years if year.isdigit() and int(year) < 90]
    return f"c++{max([17, *asked])}"


@dataclass(frozen=True)
class _Run:
    """A compiler with its flags, in a directory with a `HOST_UNIT`."""

    name: str
    compiler: HostCompiler
    flags: tuple[str, ...]
    linked: tuple[str, ...]
    directory: Path
    needs_std: bool

    def preprocess(self) -> tuple[str, str, bool]:
        """Return the preprocessed text, the log, and whether it failed."""
        command = [*self._front(), *self._arguments(), "-g0", "-E", HOST_UNIT]
        done = self._call(command)
        return done.stdout, self._log(done), done.returncode != 0

    def key(self, text: str) -> str:
        """Return the key of everything that decides the code of a rewritten text."""
        files = [(INCLUDE_DIRECTORY / "kspec_host" / name).read_text() for name in _INCLUDED]
        words = (self.compiler.key, *self._front(), *self.flags, *self._linker())
        words += (repr(_LINKS[self.compiler.kind]),)
        moved = text.replace(str(self.directory), SOURCE_ROOT)
        return text_key([*words, *files, moved.replace(str(INCLUDE_DIRECTORY), DIALECT_ROOT)])

    def compile(
        self, text: HostUnit, without_loops: Callable[[], HostUnit]
    ) -> tuple[HostUnit, str, bool]:
        """Compile and link a text; return it, the log and whether it failed.

        With loops it may fail where the kernel alone would not: then it is compiled without.
        """
        _write(self.directory, text.text)
        said, failed = self._compile()
        if failed and text.has_loops:  # the kernel's error is to be shown, and once
            text = without_loops()
            _write(self.directory, text.text)
            said, failed = self._compile()
        return text, said, failed

    def _compile(self) -> tuple[str, bool]:
        """Compile and link the `HOST_UNIT`; return the log and whether it failed."""
        done = self._call([*self._front(), *self._arguments(), "-c", "-o", "kernel.o", HOST_UNIT])
        log = self._log(done)
        if done.returncode:
            return log, True
        for before, after in _LINKS[self.compiler.kind]:
            done = self._call([*self._linker(), *before, "-o", "kernel.so", "kernel.o", *after])
            if not done.returncode:
                break
        return log + self._log(done), done.returncode != 0

    def _linker(self) -> tuple[str, ...]:
        zig = self.compiler.kind == "zig"
        # Without -fsanitize: what instrumentation calls is in the dialect.
        command = self.compiler.as_c if zig else self.compiler.command
        return (*command, *_LINK_FLAGS[self.compiler.kind], *self.linked)

    def _front(self) -> list[str]:
        if self.compiler.kind != "zig" or self.needs_std:
            return [*self.compiler.command]
        # `zig c++` knows where the C++ headers are but would also build libc++; `zig cc` links.
        return [*self.compiler.as_c, "-x", "c++"]

    def _arguments(self) -> list[str]:
        return [
            # What the source carries, even a cuComplex.h; then our dialect, even where options
            # lead to a toolkit, whose headers would clash with it.
            "-Iinclude",  # below the directory, whose name is another each time
            f"-I{INCLUDE_DIRECTORY}",
            *self.flags,
            f"-ffile-prefix-map={self.directory}={SOURCE_ROOT}",
            f"-ffile-prefix-map={INCLUDE_DIRECTORY}={DIALECT_ROOT}",
        ]

    def _call(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        done = run_program(command, self.directory)
        check_not_stopped(self.name, _TOOL, done.returncode, done.stderr)
        return done

    def _log(self, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode and not done.stderr:
            return f"exit status {done.returncode}"
        return _readable(done.stderr, self.directory)


def _error(log: str, source: CudaSource, flags: tuple[str, ...]) -> CompileError:
    found = explained(named_once(parse_log(_essence(log), source)), source)
    shown = "\n".join(map(str, found))  # g++ does not show the lines
    return CompileError(shown, source.text, flags, "host", found)


def _toolkits(source: CudaSource, directories: Sequence[Path]) -> list[Path]:
    """Return the directories that have headers of CUDA's own."""
    named = (Path(name).absolute() for name in include_dirs(source.options))
    return [*directories, *filter(is_library, named)]


def _foreign_file(preprocessed: str, directory: Path, toolkits: Sequence[Path]) -> str:
    """Return a file that was included but is neither carried nor the system's, if there is one.

    Its text is in no key: a macro's expansion may be a path that no scanner finds.
    """
    allowed = (resolved(directory), INCLUDE_DIRECTORY, *(resolved(path) for path in toolkits))
    for marker in line_markers(preprocessed):
        if "1" not in marker.flags or "3" in marker.flags:
            continue
        path = resolved(directory / marker.path)
        if not any(map(path.is_relative_to, allowed)):
            return marker.path
    return ""


def _readable(log: str, directory: Path) -> str:
    """Remove the machine's paths and our own macros from a log."""
    log = log.replace(f"{directory}/", "")
    log = log.replace(f"{INCLUDE_DIRECTORY}/", "kspec/host/include/")
    log = re.sub(
        rf"^In file included from (.*\n\s+from )*{re.escape(HOST_UNIT)}.*\n", "", log, flags=re.M
    )
    return re.sub(r"^.* note: in \w+ of macro .KSPEC_.*\n?", "", log, flags=re.M).strip()


def _essence(log: str) -> str:
    """Keep only our own messages when there are some: the errors after them are consequences.

    So are those about types of our own, which shared arrays have.
    """
    lines = log.splitlines()
    refusals = [line for line in lines if REFUSAL in line]
    others = [line for line in lines if "kspec_type_" not in line]
    return "\n".join(dict.fromkeys(refusals)) or "\n".join(others) or log
