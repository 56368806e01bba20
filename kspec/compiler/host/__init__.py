"""The host device's C++ compiler: the environment in, a command and what decides its output out.

>>> find_compiler().kind in ("gcc", "clang", "zig")
True

`kspec.compiler.host.compile` runs it.  A key of the cache has `HostCompiler.key`: the compiler's
version, its flags, and what the compiler says of its own settings.  So a wrapper script, a
configuration file, ``-march=native`` and a variable such as ``CPATH`` change the key as they change
the code.
"""

from __future__ import annotations

import errno
import functools
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from kspec import config
from kspec.dataclass import dataclass
from kspec.errors import ToolNotFoundError, ToolStoppedError
from kspec.files import explain, resolved

# Lines of `-v` that are the command of the compiler proper: GCC's cc1plus, or clang again.
_COMMAND = re.compile(r'^ (?:"([^"\n]+)"|(/\S+)) .*', re.MULTILINE)
# What differs between runs and machines, although the code does not.
_VOLATILE = re.compile(r"COLLECT_GCC=\S+|-dependency-file \S+|(?<=linux)\d+(?:\.\d+)+")
# What the system lacks for now says nothing about the compiler.
_PASSING = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# The head of an ELF file has its build ID; a script is shorter.
_HEAD = 1 << 16


@dataclass(frozen=True)
class HostCompiler:
    """A C++ compiler.

    Attributes
    ----------
    command : tuple of str
        Program and arguments, ready for flags.
    kind : str
        ``"gcc"``, ``"clang"`` or ``"zig"``.
    identity : str
        Version and machine.
    settings : str
        Digest of other settings that decide its output.
    """

    command: tuple[str, ...]
    kind: str
    identity: str
    settings: str = ""

    @property
    def key(self) -> str:
        """Everything about the compiler that decides its output, for cache keys."""
        return f"{self.identity} {self.settings}"

    @property
    def as_c(self) -> tuple[str, ...]:
        """The command of zig that compiles C: ``zig cc`` instead of ``zig c++``."""
        return tuple("cc" if word == "c++" else word for word in self.command)


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
    return describe(_locate())


def describe(command: tuple[str, ...]) -> HostCompiler:
    """Return the compiler that a command runs; it is asked again when its program has changed.

    Raises
    ------
    ToolNotFoundError
        When it does not run.
    """
    program = Path(shutil.which(command[0]) or command[0])
    try:
        status = program.stat()
    except OSError as error:
        raise ToolNotFoundError(f"no host compiler: {program}: {error.strerror}") from None
    stamp = status.st_ino, status.st_size, status.st_mtime_ns
    return _describe(command, program, stamp, config.compiler_environment())


def _locate() -> tuple[str, ...]:
    asked = config.cxx()
    if asked:
        try:
            command = shlex.split(asked)
        except ValueError as error:
            raise ToolNotFoundError(
                f"no host compiler: KSPEC_CXX or CXX asks for {asked!r}: {error}; quote it as for "
                "a shell"
            ) from None
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
    raise ToolNotFoundError(
        "no host compiler: kernels of NumPy arrays are compiled for the CPU, by a C++ compiler; "
        "install g++ or clang++, or `pip install ziglang`"
    )


def _ziglang() -> str | None:
    try:
        import ziglang  # an optional wheel that is nothing but a compiler
    except ImportError:
        return None
    return str(Path(ziglang.__file__).parent / "zig")


@functools.lru_cache(maxsize=16)
def _describe(
    command: tuple[str, ...],
    program: Path,
    stamp: tuple[int, ...],
    environment: tuple[tuple[str, str], ...],
) -> HostCompiler:
    """Ask a compiler; another stamp or environment may make the answer another one."""
    try:
        done = _ask(command, "--version")
        done.check_returncode()
    except (OSError, subprocess.SubprocessError) as error:
        raise ToolNotFoundError(f"no host compiler: {shlex.join(command)}: {error}") from None
    version = done.stdout.splitlines()[0] if done.stdout else "unknown"
    kind = "clang" if "clang" in done.stdout else "gcc"
    if program.stem.startswith("zig") or "ziglang" in command:  # python -m ziglang c++
        kind = "zig"
    identity = f"{kind} {version} {platform.machine()}"
    return HostCompiler(command, kind, identity, _settings(command, program, environment))


def _settings(command: tuple[str, ...], program: Path, environment: object) -> str:
    """Return the digest of flags, environment, programs, and the settings that `-v` prints."""
    try:
        said = _ask(command, "-v", "-E", "-x", "c++", "/dev/null").stderr
    except (OSError, subprocess.SubprocessError):
        said = ""
    programs = {program, *(Path(one or two) for one, two in _COMMAND.findall(said))}
    place = str(resolved(program).parent)
    said = _VOLATILE.sub("", said.replace(place, "").replace(place.lstrip("/"), ""))
    content = repr((command[1:], environment, sorted(map(_digest, programs)), said))
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _ask(command: tuple[str, ...], *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            [*command, *arguments],
            cwd="/",  # clang prints where it runs
            env={**os.environ, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=60,
        )
    except OSError as error:
        if error.errno not in _PASSING:
            raise
        raise ToolStoppedError(
            f"the host compiler was not started by the system: {explain(error)}"
        ) from error


def _digest(program: Path) -> str:
    """Return a digest of a program's version, the same on every machine."""
    try:
        with program.open("rb") as file:
            head = file.read(_HEAD)
            return f"{os.fstat(file.fileno()).st_size} {hashlib.sha256(head).hexdigest()}"
    except OSError:
        return ""
