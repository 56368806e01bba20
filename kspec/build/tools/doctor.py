"""The tools and libraries that kspec finds: this machine in, a row for each of them out.

::

    for row in examine(project=None):
        print(row.name, row.state, row.found, row.fix)

Every probe stands alone: its failure is its row.  Nothing here needs more than the standard
library, and array libraries are looked up, not imported, since that would start CUDA.
`kspec.build.tools.doctor_view` prints rows.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from kspec import config
from kspec.build.tools import cache
from kspec.dataclass import dataclass
from kspec.errors import KspecError

OK, MISSING, TOO_OLD, BROKEN = "ok", "missing", "too old", "broken"

_CU13 = "pip install 'kspec[cu13]'  (for a CUDA 12 driver: 'kspec[cu12]')"
_DRIVER = "install NVIDIA's driver: https://www.nvidia.com/drivers"
_OLDEST_GPU = (8, 0)
# Distribution, oldest version that works, what needs it.
_PACKAGES = (
    ("numpy", "2", "kspec does not run"),
    ("cuda-bindings", "12.9.2", "no kernel is compiled for a GPU or runs on one"),
    ("pydantic", "2.7", "no spec is read, so nothing is built"),
    ("jinja2", "3.1", "no spec is rendered, so nothing is built"),
    ("typer", "0.16", "there is no command but `kspec doctor`"),
    ("rich", "13", "there is no command but `kspec doctor`"),
)
# Used when they are there; nothing is wrong without them.
_LIBRARIES = ("cupy", "torch", "jax", "numba", "ml-dtypes", "cuda-core", "hatchling", "ziglang")
_AUTHOR = ("pydantic", "jinja2", "typer", "rich", "cuda-bindings", "NVRTC", "nvFatbin")


@dataclass(frozen=True)
class Row:
    """One thing.

    Attributes
    ----------
    section : str
        What it belongs to.
    name : str
        What it is.
    state : str
        ``"ok"``, ``"missing"``, ``"too old"`` or ``"broken"``.
    found : str
        Version and place, or what is wrong.
    without : str
        What does not work, if it is not ok.
    fix : str
        What to do then.
    """

    section: str
    name: str
    state: str
    found: str
    without: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Verdict:
    """Verdict on all rows.

    Attributes
    ----------
    cuda, host, build : bool
        Whether kernels run on a GPU, on the host device, and can be built ahead of time.
    project : bool
        Whether there is a project to be built.
    """

    cuda: bool
    host: bool
    build: bool
    project: bool

    @property
    def ready(self) -> bool:
        """Whether what is to be done here can be: building the project, or running kernels."""
        return self.build if self.project else self.cuda or self.host


def examine(project: Path | None = None) -> tuple[Row, ...]:
    """Return a row for each thing that kspec uses.

    Parameters
    ----------
    project : Path, optional
        Folder of a ``pyproject.toml`` to look at, too.
    """
    rows = [row for probe in _PROBES for row in _guarded(*probe)]
    if project is not None:
        rows += _guarded("project", project.name, lambda: _project(project))
    return tuple(rows)


def judge(rows: Iterable[Row]) -> Verdict:
    """Return the verdict."""
    rows = tuple(rows)
    good = {row.name for row in rows if row.state == OK}
    numpy = "numpy" in good
    return Verdict(
        cuda=numpy and "driver" in good and any(name.startswith("cuda:") for name in good),
        host=numpy and "C++ compiler" in good,
        build=good.issuperset(_AUTHOR) and all(one.state == OK for one in _of(rows, "project")),
        project=bool(_of(rows, "project")),
    )


def _of(rows: Iterable[Row], section: str) -> list[Row]:
    return [row for row in rows if row.section == section]


def _guarded(section: str, name: str, probe: Callable[[], Iterable[Row]]) -> list[Row]:
    """Run a probe; whatever it raises is a row."""
    try:
        return list(probe())
    except Exception as error:  # libraries raise what they like when they are half installed
        first = str(error).partition("\n")[0]
        text = first if isinstance(error, KspecError) else f"{type(error).__name__}: {first}"
        without = f"what {name} is for"
        return [Row(section, name, BROKEN, text, without, "install it anew, or see the message")]


def _driver() -> Iterable[Row]:
    from kspec.runtime import driver
    from kspec.runtime.driver import memory as driver_memory

    without = "no kernel runs on a GPU; NumPy arrays run on the host device"
    reason = driver.why_unavailable()
    if reason:
        fix = "pip install cuda-bindings" if "cuda-bindings" in reason else _DRIVER
        yield Row("GPU", "driver", MISSING, _reason(reason.partition(";")[0]), without, fix)
        return
    version = driver.driver_version()
    supported = version // 1000, version % 1000 // 10
    compiler = _version_of_nvrtc()
    if compiler and compiler[0] > supported[0]:
        found = f"for CUDA {_dotted(supported)}, and NVRTC is version {_dotted(compiler)}"
        fix = f"pip install 'kspec[cu{supported[0]}]', or a newer driver"
        yield Row("GPU", "driver", TOO_OLD, found, "what is compiled here does not load", fix)
    else:
        yield Row("GPU", "driver", OK, f"for CUDA {_dotted(supported)}")
    for ordinal in range(driver.device_count()):
        capability = driver.compute_capability(ordinal)
        memory = driver_memory.total_memory(ordinal) / 2**30
        found = (
            f"{driver.device_name(ordinal)}, sm_{capability[0]}{capability[1]}, {memory:.0f} GiB"
        )
        if capability < _OLDEST_GPU:
            fix = f"a GPU of compute capability {_dotted(_OLDEST_GPU)} or newer"
            yield Row("GPU", f"cuda:{ordinal}", TOO_OLD, found, without, fix)
        else:
            yield Row("GPU", f"cuda:{ordinal}", OK, found)


def _version_of_nvrtc() -> tuple[int, int] | None:
    from kspec.compiler.cuda import nvrtc

    try:
        return nvrtc.nvrtc_version()
    except KspecError:
        return None


def _tool(
    name: str, find: Callable[[], str], without: str, fix: str
) -> tuple[str, str, Callable[[], Iterable[Row]]]:
    """Return a probe for a tool: what `find` says, or that the thing is missing.

    `fix` is for messages that do not say what to install.
    """

    def probe() -> Iterable[Row]:
        try:
            yield Row("compiling", name, OK, find())
        except KspecError as error:
            yield Row("compiling", name, MISSING, _reason(error), without, _advice(error) or fix)

    return "compiling", name, probe


def _reason(error: KspecError | str) -> str:
    """Return the first line of a message, without the advice that has a field of its own."""
    return str(error).partition("\n")[0].partition(": pip install")[0]


def _advice(error: KspecError) -> str:
    """Return the installation advice in the first line of a message; empty if there is none."""
    _, pip, what = str(error).partition("\n")[0].partition(": pip install")
    return f"{pip[2:]}{what}"


def _nvrtc() -> str:
    from kspec.compiler.cuda import nvrtc

    newest = max(nvrtc.supported_capabilities())
    return f"{nvrtc.nvrtc_build()}, up to sm_{newest}"


def _nvfatbin() -> str:
    from kspec.compiler.cuda import fatbin

    return _dotted(fatbin.nvfatbin_version())


def _nvjitlink() -> str:
    from kspec.compiler.cuda import link

    return f"{_dotted(link.nvjitlink_version())}, {link.device_runtime()}"


def _nvcc() -> str:
    from kspec.compiler.cuda import nvcc

    return f"{nvcc.nvcc_build()} ({nvcc.find_nvcc()})"


def _cxx() -> str:
    from kspec.compiler import host as host_compiler

    compiler = host_compiler.find_compiler()
    return f"{compiler.identity} ({' '.join(compiler.command)})"


def _headers() -> Iterable[Row]:
    from kspec.compiler import headers

    without = "raw kernels cannot include the toolkit's headers (cuda_fp16.h, cub/cub.cuh, ...)"
    version = _version_of_nvrtc()
    if version is None:
        yield Row("compiling", "CUDA headers", MISSING, "no NVRTC to find them for", without, _CU13)
        return
    try:
        places = headers.toolkit_include_dirs(version)
    except KspecError as error:
        state = TOO_OLD if "version" in str(error) else MISSING
        yield Row("compiling", "CUDA headers", state, _reason(error), without, _CU13)
        return
    yield Row("compiling", "CUDA headers", OK, f"{headers.toolkit_version(places)} ({places[0]})")
    for name, file in (("cccl", "cuda/std/version"), ("crt", "crt/host_defines.h")):
        found = [place for place in places if (place / file).is_file()]
        if found:
            yield Row("compiling", f"{name} headers", OK, str(found[0]))
        else:
            yield Row("compiling", f"{name} headers", MISSING, f"no {file}", without, _CU13)


def _packages() -> Iterable[Row]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield Row("Python", "python", OK, f"{python} ({sys.executable})")
    for name, oldest, without in _PACKAGES:
        version = _installed(name)
        if not version:
            yield Row("Python", name, MISSING, "not installed", without, _install(name, oldest))
        elif _numbers(version) < _numbers(oldest):
            found = f"{version}, older than {oldest}"
            yield Row("Python", name, TOO_OLD, found, without, _install(name, oldest))
        else:
            yield Row("Python", name, OK, version)


def _install(name: str, oldest: str) -> str:
    return f"pip install '{name}>={oldest}'"


def _libraries() -> Iterable[Row]:
    for name in _LIBRARIES:
        version = _installed(name)
        if version:
            yield Row("also found", name, OK, version)


def _installed(name: str) -> str:
    """Return the version of a distribution; CuPy's have CUDA's version in their names."""
    names = (name, *(f"cupy-cuda{major}x" for major in (12, 13))) if name == "cupy" else (name,)
    for one in names:
        try:
            return importlib.metadata.version(one)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _cache() -> Iterable[Row]:
    folder = config.cache_dir()
    without = "kernels are compiled again by each process"
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        what = "cannot be written to" if nearest == folder else f"cannot be made in {nearest}"
        fix = "export KSPEC_CACHE_DIR=/a/folder/of/yours"
        yield Row("cache", "folder", BROKEN, f"{folder} {what}", without, fix)
        return
    report = cache.examine(folder, (), 0).folder
    free = shutil.disk_usage(nearest).free / 2**20
    found = f"{folder}: {report.entries} images, {report.size / 2**20:.0f} MiB"
    found += f"; {free / 1024:.0f} GiB free"
    if free < 1:
        yield Row("cache", "folder", BROKEN, found, without, "make room, or set KSPEC_CACHE_DIR")
    else:
        yield Row("cache", "folder", OK, found)


def _variables() -> Iterable[Row]:
    for name in config.VARIABLES:
        if os.environ.get(name):
            yield Row("environment", name, OK, os.environ[name])
    for check in (config.jit_mode, config.graph_launch, config.host_threads, config.pool_limit):
        try:
            check()
        except KspecError as error:
            name, _, rest = str(error).partition("=")
            without = "calls that ask for it fail"
            yield Row("environment", name, BROKEN, rest, without, f"unset {name}")


def _project(project: Path) -> Iterable[Row]:
    from kspec.build.settings import load_settings

    try:
        settings = load_settings(project)
    except KspecError as error:
        problems, fix = "; ".join(str(error).splitlines()), "correct [tool.kspec]"
        yield Row("project", "settings", BROKEN, problems, "nothing is built", fix)
        return
    archs = " ".join(target.arch for target in settings.targets)
    yield Row("project", "settings", OK, f"{settings.package} for {archs}")
    specs = len(list(settings.spec_folder.glob("*.toml")))
    if specs:
        yield Row("project", "specs", OK, f"{specs} files in {settings.specs}")
    else:
        found = f"no *.toml in {settings.specs}"
        yield Row(
            "project", "specs", MISSING, found, "nothing is built", "write one, or `kspec init`"
        )


def _numbers(version: str) -> tuple[int, ...]:
    """Return the numbers a version starts with; what follows them never decides here."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


_PROBES: tuple[tuple[str, str, Callable[[], Iterable[Row]]], ...] = (
    ("Python", "packages", _packages),
    ("GPU", "driver", _driver),
    _tool("NVRTC", _nvrtc, "nothing is compiled for GPUs", _CU13),
    ("compiling", "CUDA headers", _headers),
    _tool("nvFatbin", _nvfatbin, "no package is built", _CU13),
    _tool("nvJitLink", _nvjitlink, "kernels cannot launch kernels (-dc)", _CU13),
    _tool(
        "nvcc",
        _nvcc,
        'no kernel with backend="nvcc" is compiled',
        "pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.*'",
    ),
    _tool(
        "C++ compiler",
        _cxx,
        "no kernel runs on the host device",
        "apt-get install g++, or pip install 'kspec[host]'",
    ),
    ("cache", "folder", _cache),
    ("also found", "libraries", _libraries),
    ("environment", "variables", _variables),
)
