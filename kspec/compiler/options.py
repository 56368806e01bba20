"""The flags one compilation gets: the user's and ours in, the compiler's command line out.

::

    CompileOptions("sm_90", ("-DN=4",)).flags()
    # ('-arch=sm_90', '--std=c++17', '-default-device', '-Xptxas=-v', '-DN=4')

`kspec.compiler.cuda.nvrtc` and `kspec.compiler.cuda.nvcc` compile with `CompileOptions.flags` and
`kspec.compiler.key` hashes the same tuple, so that no flag can be missing from the key.
Directories of toolkit headers are not flags here: where a toolkit lies does not change the code,
and its version is in the key.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from pathlib import Path

from kspec import config
from kspec.cpp.directives import header_names
from kspec.cpp.options import DEFINE, UNDEFINE, valued_options
from kspec.dataclass import dataclass
from kspec.errors import SpecError
from kspec.model.stages import CudaSource, Target

STANDARD = ("-std", "--std")
_OLDEST = 17  # the year of the C++ standard that headers need
_ARCH_FLAGS = ("-arch", "--gpu-architecture", "-gencode", "--generate-code")
_INCLUDE_FLAGS = ("-I", "--include-path", "-include-path", "-isystem", "--system-include")
_PRE_INCLUDE_FLAGS = ("-include", "--pre-include", "-pre-include")
_RELOCATABLE_FLAGS = ("-dc", "--device-c")
_RELOCATABLE_SWITCHES = ("-rdc", "--relocatable-device-code")
_LIMIT_GROUPS = "_CG_LIMIT_INCLUDED_DEPENDENCIES"
_GROUPS = "cooperative_groups.h"
_UNROLL_LIMIT = "_CCCL_META_UNROLL_LIMIT"
# Headers that include much of libcu++, CUDA's C++ library.
_LIBRARY = ("cooperative_groups", "cuda/", "cub/", "thrust/", "curand")
_FAST_COMPILE_FLAGS = ("--Ofast-compile", "-Ofast-compile", "-Ofc")
_FAST_COMPILE = ("max", "mid", "min")  # by `config.cuda_optimization`
_DEFAULT_DEVICE_FLAGS = ("-default-device", "--device-as-default-execution-space")


@dataclass(frozen=True)
class CompileOptions:
    """Everything that decides how NVRTC or nvcc compiles a text.

    Deliberately absent: ``-ftz`` (CuPy forces ``-ftz=true``, which flushes float32 denormals;
    kspec computes what NumPy computes) and ``-lineinfo`` (it puts file names into the code).

    Attributes
    ----------
    arch : str
        ``"sm_90"`` (cubin), ``"compute_80"`` (PTX) or ``"lto_90"`` (LTO-IR).
    user : tuple of str
        The user's own flags; they come last. All spellings of ``-dc`` become ``-rdc=true``.
    default_device : bool
        Whether functions without ``__host__`` and ``__device__`` are device functions.
    small_groups : bool
        Whether cooperative_groups.h leaves out what only its asynchronous copies and reductions
        need: 35 instead of 540 ms, and a tenth of the code (measured, NVRTC 13.0).
    short_lists : bool
        Whether libcu++ unrolls lists of 10 types, as it does with nvcc, rather than of 16, as with
        NVRTC: that alone takes 350 ms (measured, CCCL 3.0), and changes no code.
    optimization : int
        3, or less to compile faster (`kspec.config.cuda_optimization`; CUDA 12.9 or newer).
    """

    arch: str
    user: tuple[str, ...] = ()
    default_device: bool = True
    small_groups: bool = False
    short_lists: bool = False
    optimization: int = 3
    note: str = ""

    @classmethod
    def for_source(cls, source: CudaSource, target: Target) -> CompileOptions:
        """Return the options that `source` gets on `target`.

        Raises
        ------
        SpecError
            If the user's options name an architecture, which is the target's to say, or if they
            ask for PTX that is linked, which there is not.
        """
        for option in source.options:
            if flag_name(option) in _ARCH_FLAGS:
                raise SpecError(
                    f"{source.name}: option {option!r} names an architecture; the target decides "
                    f"that (here {target.arch}), so leave the option out"
                )
        if target.format == "ptx" and _relocatable(source.options)[0]:
            raise SpecError(
                f"{source.name}: -dc links code for one architecture, such as sm_90, but "
                f"{target.arch} is PTX: leave it out of the architectures"
            )
        library = _includes(source)
        small = library == {_GROUPS} and not _names(source, _LIMIT_GROUPS)
        long = library and not small and not _names(source, _UNROLL_LIMIT)
        is_nvrtc = source.backend == "nvrtc"
        user, note = source.options, ""
        # Before C++17, ??/ continues a line: headers could be included that no key has.
        if header_names(source.text) or "??/" in source.text:
            user, note = raised_standard(source.options)
        return cls(
            target.arch,
            user,
            default_device=is_nvrtc,
            small_groups=small,
            short_lists=bool(is_nvrtc and long),
            optimization=config.cuda_optimization(),
            note=note,
        )

    def flags(self) -> tuple[str, ...]:
        """Return the command line, without toolkit directories."""
        return tuple(self._flags())

    @property
    def relocatable(self) -> bool:
        """Whether the code is to be linked with other device code, as CUDA's device runtime."""
        return _relocatable(self.user)[0]

    def _flags(self) -> Iterator[str]:
        relocatable, user = _relocatable(self.user)
        named = {flag_name(option) for option in self.user}
        linked = self.arch.startswith("lto_")
        yield f"-arch={self.arch.replace('lto_', 'compute_')}"
        if linked:
            yield "-dlto"
        if named.isdisjoint(STANDARD):
            yield f"--std=c++{_OLDEST}"
        if self.default_device and named.isdisjoint(_DEFAULT_DEVICE_FLAGS):
            yield "-default-device"
        if self.arch.startswith("sm_"):
            yield "-Xptxas=-v"  # registers and memory
        if self.small_groups:
            yield f"-D{_LIMIT_GROUPS}"
        if self.short_lists:
            yield f"-D{_UNROLL_LIMIT}=10"
        if self.optimization < 3 and named.isdisjoint(_FAST_COMPILE_FLAGS):
            yield f"--Ofast-compile={_FAST_COMPILE[self.optimization]}"
        if relocatable or linked:
            yield "-rdc=true"
        yield from user


def _relocatable(options: tuple[str, ...]) -> tuple[bool, tuple[str, ...]]:
    """Return whether options ask for relocatable code, and the others."""
    relocatable, others = False, []
    words = iter(options)
    for word in words:
        name, equals, value = word.strip().partition("=")
        if name in _RELOCATABLE_FLAGS:
            relocatable = True
        elif name in _RELOCATABLE_SWITCHES:
            relocatable = (value if equals else next(words, "")) == "true"
        else:
            others.append(word)
    return relocatable, tuple(others)


def raised_standard(options: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return options with a C++ standard that headers compile in, and what the log says of it.

    >>> raised_standard(("-std=c++11", "-lineinfo"))[0]
    ('-std=c++17', '-lineinfo')
    """
    raised = [*options]
    asked = ""
    for one in valued_options(options, STANDARD):
        year = one.value[-2:]
        if year.isdigit() and (int(year) < _OLDEST or int(year) > 90):
            asked = " ".join(options[place] for place in one.places)
            newer = f"c++{_OLDEST}"
            raised[one.places[-1]] = f"{one.flag}={newer}" if len(one.places) == 1 else newer
    note = f"kspec: {asked} was raised to c++{_OLDEST}, which headers need" if asked else ""
    return tuple(raised), note


def _includes(source: CudaSource) -> frozenset[str]:
    """Return the headers with libcu++ that a source includes."""
    names = (name.name for text in _texts(source) for name in header_names(text) if name.is_literal)
    return frozenset(name for name in names if name.startswith(_LIBRARY))


def _names(source: CudaSource, macro: str) -> bool:
    """Return whether a source has a macro itself."""
    return any(macro in text for text in (*_texts(source), *source.options))


def _texts(source: CudaSource) -> Iterator[str]:
    yield source.text
    yield from (header.text for header in source.headers)


def flag_name(option: str) -> str:
    """Return the part of an option before ``=``: ``"-std"`` of ``"-std=c++17"``."""
    return option.strip().partition("=")[0]


def include_dirs(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the directories that compiler options add to the header search, in order.

    >>> include_dirs(("-Ia", "-I", "b", "--include-path=c", "-DX"))
    ('a', 'b', 'c')
    """
    return tuple(one.value for one in valued_options(options, _INCLUDE_FLAGS) if one.value)


def without_include_dirs(options: tuple[str, ...], directories: Container[str]) -> tuple[str, ...]:
    """Return the options without those that name some directories, as `include_dirs` has them.

    >>> without_include_dirs(("-Ia", "-I", "b", "-DX"), {"b"})
    ('-Ia', '-DX')
    """
    dropped = {
        place
        for one in valued_options(options, _INCLUDE_FLAGS)
        if not one.value or str(Path(one.value)) in directories
        for place in one.places
    }
    return tuple(word for place, word in enumerate(options) if place not in dropped)


def are_plain(options: tuple[str, ...]) -> bool:
    """Return whether options are macros, header folders and the standard, and nothing else.

    >>> [are_plain(one) for one in (("-DN=4", "-I", "b"), ("-lineinfo",))]
    [True, False]
    """
    flags = (*DEFINE, *UNDEFINE, *_INCLUDE_FLAGS, *STANDARD)
    named = {place for one in valued_options(options, flags) for place in one.places}
    return named.issuperset(range(len(options)))


def pre_includes(options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the headers that options include in front of the text.

    >>> pre_includes(("-include=a.h", "--pre-include", "b.h"))
    ('a.h', 'b.h')
    """
    return tuple(one.value for one in valued_options(options, _PRE_INCLUDE_FLAGS) if one.value)


def defined_macros(options: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return the macros that options define, each with its replacement.

    >>> defined_macros(("-DN=4", "-D", "H=<h.cuh>", "--define-macro=X"))
    (('N', '4'), ('H', '<h.cuh>'), ('X', '1'))
    """
    parts = (one.value.partition("=") for one in valued_options(options, DEFINE))
    return tuple((name, text if equals else "1") for name, equals, text in parts)
