"""Environment variables: the only module that reads them.

Each function reads at call time, so a test or a notebook can change its mind.

=======================  ====================================================================
``KSPEC_JIT``            ``auto``, ``never`` (compiling at run time is an error) or ``always``
                         (precompiled images are ignored); default: what the package says
``NO_COLOR``             no colours, also on a terminal; ``FORCE_COLOR``: colours, also in a file
``GITHUB_WORKSPACE``     what paths in ``--format github`` are relative to; default: this folder
``KSPEC_CACHE_DIR``      where compiled images are kept; default ``$XDG_CACHE_HOME/kspec``
``KSPEC_CACHE_LAYERS``   folders of images that are searched before it and only read, separated
                         like those of the PATH
``KSPEC_CACHE_SIZE``     bytes that the images in it may have, such as ``512M``; default 1 GiB
``CUDA_PATH``            where a CUDA toolkit is, for nvcc; then ``CUDA_HOME``, the PATH, a wheel
``KSPEC_CUDA_OPT``       optimization level of NVRTC and nvcc, 0 to 3 (the default)
``KSPEC_CXX``            C++ compiler of the host device; default ``$CXX``, then the PATH
``KSPEC_GRAPH_LAUNCH``   whether kernels that are launched often become CUDA graphs: ``auto``
                         (default: with drivers from CUDA 13.0 on), ``never`` or ``always``
``KSPEC_HOST_OPT``       optimization level of the host device's compiler, 0 to 3 (the default)
``KSPEC_HOST_ORDER``     order of threads on the host device: ``forward``, ``reverse``,
                         ``random:SEED``
``KSPEC_HOST_SANITIZE``  what the host device checks beyond bounds, such as ``memory,race``;
                         ``none``: not even bounds (`kspec.model.checks`)
``KSPEC_HOST_PRINTF``    bytes that a launch on the host device may print; default: 1M
``KSPEC_HOST_THREADS``   operating-system threads the host device uses; default: all cores
``KSPEC_HOST_TIMEOUT``   seconds after which the host device stops a kernel
``KSPEC_HOST_REVIEW``    ``1``: print the review of each launch on the host device
``KSPEC_POOL_LIMIT``     bytes of device memory that kspec's own arrays leave for later ones;
                         default a quarter of the device's
``KSPEC_FUSE_ROWS``      whether fused functions keep rows in registers: ``auto``, ``never`` or
                         ``always``
``KSPEC_PROGRESS``       a line about a compile that takes long: ``auto`` (on a terminal),
                         ``never`` or ``always``
``KSPEC_TRACE``          a folder: generated packages write there what is asked of them
                         (``kspec trace``)
=======================  ====================================================================
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kspec.errors import KspecError

MODES = ("auto", "never", "always")
# By which GCC and clang, CUDA's tools and nvcc take settings beside their command line.
_COMPILER = (
    *("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX"),
    *("CCC_OVERRIDE_OPTIONS", "SOURCE_DATE_EPOCH"),
)
_TOOLKIT = ("CUDA_PATH", "CUDA_HOME")
_NVCC = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN")
# All that are read here, for those who ask what is set.
VARIABLES = (
    *("KSPEC_JIT", "KSPEC_CACHE_DIR", "KSPEC_CACHE_LAYERS", "KSPEC_CACHE_SIZE", "XDG_CACHE_HOME"),
    *("KSPEC_CXX", "CXX", *_COMPILER, *_TOOLKIT, *_NVCC),
    *(
        "KSPEC_CUDA_OPT",
        "KSPEC_GRAPH_LAUNCH",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM",
    ),
    *("KSPEC_HOST_OPT", "KSPEC_HOST_ORDER", "KSPEC_HOST_SANITIZE", "KSPEC_HOST_PRINTF"),
    *("KSPEC_HOST_THREADS", "KSPEC_HOST_TIMEOUT", "KSPEC_HOST_REVIEW"),
    *("KSPEC_POOL_LIMIT", "KSPEC_PROGRESS", "KSPEC_TRACE"),
    *("KSPEC_FUSE_ROWS", "NO_COLOR", "FORCE_COLOR", "GITHUB_WORKSPACE"),
)
_SIZE = re.compile(r"(\d{1,15})\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_DIGITS = 18  # of a number of bytes that fits in 64 bits
# The host runtime knows 1024 threads, and those of Python that launch kernels are among them.
_MOST_THREADS = 512
_DEFAULT_CACHE_SIZE = 1 << 30
_DEFAULT_PRINTF_SIZE = 1 << 20  # that of CUDA's buffer (cudaLimitPrintfFifoSize)


def jit_mode(package: str = "auto") -> str:
    """Return ``"auto"``, ``"never"`` or ``"always"``; raise `KspecError` for anything else.

    `package`: what the package whose kernel it is says; the environment goes first.
    """
    return _mode("KSPEC_JIT", package)


def allow_compiling(put: Callable[[str, str], None] = os.environ.__setitem__) -> None:
    """Let this process compile whatever packages say, unless the environment forbids it.

    `put` sets a variable.
    """
    if "KSPEC_JIT" not in os.environ:
        put("KSPEC_JIT", "auto")


def graph_launch() -> str:
    """Return ``"auto"``, ``"never"`` or ``"always"``; raise `KspecError` for anything else.

    With ``CUDA_LAUNCH_BLOCKING``, which is for finding the launch that fails, it is ``"never"``.
    """
    if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0":
        return "never"
    return _mode("KSPEC_GRAPH_LAUNCH")


def fuse_rows() -> str:
    """Return the mode of row kernels in fused functions: ``"auto"`` (GPUs), or the others."""
    return _mode("KSPEC_FUSE_ROWS")


def _mode(name: str, default: str = "auto") -> str:
    mode = os.environ.get(name, default)
    if mode not in MODES:
        raise KspecError(f"{name}={mode!r}: expected one of {', '.join(MODES)}")
    return mode


def trace_folder() -> Path | None:
    """Return the folder for records of requests to generated packages; None: no records."""
    folder = os.environ.get("KSPEC_TRACE")
    return Path(folder) if folder else None


def tracing_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a process that shall be traced into a folder, with its children."""
    return {**os.environ, "KSPEC_TRACE": os.path.realpath(folder)}


def hide_progress() -> None:
    """Let this process, and those that it starts, show no lines: it has a bar of its own."""
    os.environ["KSPEC_PROGRESS"] = "never"


def cache_dir() -> Path:
    """Return the directory of compiled images (it need not exist).

    Without a home directory that is a folder for temporary files, and one warning says so.
    """
    explicit = os.environ.get("KSPEC_CACHE_DIR")
    if explicit:
        return _expanded("KSPEC_CACHE_DIR", explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return _expanded("XDG_CACHE_HOME", base) / "kspec"
    try:
        return Path("~/.cache").expanduser() / "kspec"
    except RuntimeError:  # no HOME, and a user that the system does not know
        return _temporary_cache()


@functools.cache
def _temporary_cache() -> Path:
    """Return the cache of a user without a home directory; a process warns once."""
    import tempfile  # rare, and what only imports kernels does not pay for it
    import warnings

    folder = Path(tempfile.gettempdir()) / f"kspec-{os.geteuid()}"
    warnings.warn(
        f"kspec: cache: HOME is not set and user {os.geteuid()} has no home directory, so compiled "
        f"kernels are kept in {folder}; KSPEC_CACHE_DIR names another place",
        RuntimeWarning,
        stacklevel=4,
    )
    return folder


def _expanded(name: str, text: str) -> Path:
    """Return the path that a variable names."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise KspecError(
            f"{name}={text!r}: the home directory of ~ is not known; write an absolute path"
        ) from None


def wants_colour(terminal: bool) -> bool:
    """Return whether to print in colour: on a terminal, unless the environment says otherwise."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def shows_progress(terminal: bool) -> bool:
    """Return whether to show what is being compiled: on a terminal, unless told otherwise."""
    mode = _mode("KSPEC_PROGRESS")
    return terminal if mode == "auto" else mode == "always"


def workspace() -> Path:
    """Return the folder that annotations of a GitHub workflow count from."""
    return Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())


def cache_layers() -> tuple[Path, ...]:
    """Return the folders of images that are searched before `cache_dir`, in order."""
    names = os.environ.get("KSPEC_CACHE_LAYERS", "").split(os.pathsep)
    return tuple(_expanded("KSPEC_CACHE_LAYERS", name) for name in names if name)


def cache_size() -> int:
    """Return the bytes of images that the cache keeps; K, M, G and T are powers of 1024."""
    return _size("KSPEC_CACHE_SIZE", _DEFAULT_CACHE_SIZE)


def host_printf_size() -> int:
    """Return the bytes of ``printf`` output that a launch on the host device keeps."""
    return _size("KSPEC_HOST_PRINTF", _DEFAULT_PRINTF_SIZE)


def _size(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    match = _SIZE.fullmatch(text)
    if match is None:
        raise KspecError(f"{name}={text!r}: expected bytes, such as 512M or 2G; 0: none")
    return int(match[1]) << 10 * " KMGT".index(match[2].upper() or " ")


def cxx() -> str | None:
    """Return the C++ compiler the user asked for, or None to search."""
    return os.environ.get("KSPEC_CXX") or os.environ.get("CXX") or None


def compiler_environment() -> tuple[tuple[str, str], ...]:
    """Return the variables by which GCC and clang take settings beside their command line."""
    return tuple((name, os.environ[name]) for name in _COMPILER if os.environ.get(name))


def include_path() -> tuple[Path, ...]:
    """Return the folders of headers that GCC and clang are given by the environment."""
    texts = (os.environ.get(name, "") for name in ("CPATH", "CPLUS_INCLUDE_PATH"))
    return tuple(Path(name) for text in texts for name in text.split(os.pathsep) if name)


def cuda_roots() -> tuple[Path, ...]:
    """Return the CUDA toolkits that the user points at."""
    named = (os.environ.get(name) for name in _TOOLKIT)
    return tuple(Path(name) for name in named if name)


def nvcc_environment() -> tuple[tuple[str, str], ...]:
    """Return the variables by which nvcc takes options beside its command line."""
    return tuple((name, os.environ[name]) for name in _NVCC if os.environ.get(name))


def host_threads() -> int:
    """Return the number of operating-system threads for the blocks of a host launch."""
    text = _variable("KSPEC_HOST_THREADS")
    if not text:
        return _cores()
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise KspecError(f"KSPEC_HOST_THREADS={text!r}: expected a positive integer")
    return min(count, _MOST_THREADS)


def host_optimization() -> int:
    """Return the optimization level of the host device's compiler, as in its option ``-O``."""
    return _optimization("KSPEC_HOST_OPT")


def cuda_optimization() -> int:
    """Return the optimization level of the compilers for GPUs; below 3 they compile faster."""
    return _optimization("KSPEC_CUDA_OPT")


def _optimization(variable: str) -> int:
    text = os.environ.get(variable, "") or "3"
    if text not in ("0", "1", "2", "3"):
        raise KspecError(f"{variable}={text!r}: expected 0, 1, 2 or 3")
    return int(text)


def pool_limit() -> int | None:
    """Return the bytes of each CUDA device's memory kept for arrays; None: the default."""
    text = os.environ.get("KSPEC_POOL_LIMIT", "")
    if not text:
        return None
    if not text.isdecimal() or len(text) > _DIGITS:
        raise KspecError(f"KSPEC_POOL_LIMIT={text!r}: expected a number of bytes")
    return int(text)


def host_checks() -> tuple[str, str, str, str]:
    """Return ``KSPEC_HOST_SANITIZE``, ``_ORDER``, ``_TIMEOUT`` and ``_REVIEW``, unparsed."""
    return (
        _variable("KSPEC_HOST_SANITIZE"),
        _variable("KSPEC_HOST_ORDER"),
        _variable("KSPEC_HOST_TIMEOUT"),
        _variable("KSPEC_HOST_REVIEW"),
    )


def _variable(name: str) -> str:
    """Return a variable that every launch on the host device asks for; empty if it is not set.

    `os.environ` encodes the name at each question: five take as long as a small kernel.
    """
    known = getattr(os.environ, "_data", None)
    if known is not None and _encoded(name) not in known:
        return ""
    return os.environ.get(name, "")


@functools.cache
def _encoded(name: str) -> Any:
    return os.environ.encodekey(name)


@functools.cache
def per_thread_default_stream() -> bool:
    """Return whether the driver's bindings take stream 0 for that of the thread; they read once."""
    return os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0")


@functools.cache
def _cores() -> int:
    # Asked for at every launch; the operating system takes microseconds to answer.
    return min(os.cpu_count() or 1, _MOST_THREADS)
