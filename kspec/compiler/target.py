"""Architecture names: text in, a checked `Target` out, and which of them a compiler can make.

::

    parse_target("sm_90a")              # Target(arch='sm_90a')
    parse_targets("90-real")            # (Target(arch='sm_90'),), as CMake spells it
    check_supported(Target("sm_70"))    # CompileError: sm_70 is not supported by NVRTC 13.0 ...
    target_for_capability(9, 0)         # Target(arch='sm_90')

`kspec.compiler.cuda.nvrtc` and `kspec.compiler.cuda.nvcc` know what the installed compilers
support.
"""

from __future__ import annotations

import re

from kspec.compiler.cuda import nvrtc
from kspec.errors import CompileError, SpecError
from kspec.model.stages import HOST, Target

OLDEST = 80  # compute capability that kspec is tested for, as docs/compatibility.md says
_ARCH = re.compile(r"(sm|compute)_(\d{2,3})([af]?)")
_ANY = re.compile(r"(?:sm|compute|lto)_(\d{2,3})[af]?")
# CMake's spelling: both without a suffix.
_CMAKE = re.compile(r"(\d{2,3}[af]?)(-real|-virtual)?")
_CMAKE_KINDS = {"-real": ("sm",), "-virtual": ("compute",), None: ("sm", "compute")}
# First architecture with code of its own ("a") and of its family ("f").
_SUFFIX_SINCE = {"": 0, "a": 90, "f": 100}


def parse_target(text: str) -> Target:
    """Return the target an architecture name stands for.

    Parameters
    ----------
    text : str
        ``sm_80``, ``sm_90a`` or ``sm_100f`` (cubin), ``compute_80`` (PTX) or ``host``.

    Raises
    ------
    SpecError
        For anything else.
    """
    if text == HOST.arch:
        return HOST
    match = _ARCH.fullmatch(text)
    if match is None or int(match[2]) < _SUFFIX_SINCE[match[3]]:
        raise SpecError(
            f"unknown architecture {text!r}: expected 'sm_' or 'compute_' and a compute "
            "capability such as sm_80 (an 'a' may follow from 90 on, an 'f' from 100 on); "
            "also CMake's 80-real, 80-virtual or 80 (both), and 'host'"
        )
    return Target(text)


def parse_targets(text: str) -> tuple[Target, ...]:
    """Return the targets a name stands for, in CUDA's spelling or in CMake's.

    >>> [target.arch for target in parse_targets("90a")]
    ['sm_90a', 'compute_90a']

    Parameters
    ----------
    text : str
        As for `parse_target`; or ``90-real`` (cubin), ``90-virtual`` (PTX), ``90`` (both).

    Raises
    ------
    SpecError
        For anything else.
    """
    match = _CMAKE.fullmatch(text)
    if match is None:
        return (parse_target(text),)
    return tuple(parse_target(f"{kind}_{match[1]}") for kind in _CMAKE_KINDS[match[2]])


def capability(target: Target) -> int:
    """Return ten times the compute capability of a CUDA target: 90 for ``sm_90a``."""
    match = _ANY.fullmatch(target.arch)
    if match is None:
        raise SpecError(f"target {target.arch!r} has no compute capability")
    return int(match[1])


def supported_archs(backend: str = "nvrtc") -> tuple[str, ...]:
    """Return the plain architectures of the installed compiler: ``('sm_75', 'sm_80', ...)``."""
    return tuple(f"sm_{number}" for number in _supported(backend))


def check_supported(target: Target, backend: str = "nvrtc") -> None:
    """Raise `CompileError` if the installed compiler cannot make code for a CUDA target."""
    known = _supported(backend)
    if target.format != "ltoir":  # which no package holds
        parse_target(target.arch)
    if capability(target) in known:
        return
    older = [number for number in known if number < capability(target)]
    name = _name(backend)
    advice = (
        f"compile for compute_{max(older)}, which newer devices run too, or update {name}"
        if older
        else f"kspec is for sm_{OLDEST} and newer"
    )
    raise CompileError(
        f"{target.arch} is not supported by {name}, which knows "
        f"{', '.join(supported_archs(backend))}; {advice}",
        target=target.arch,
    )


def target_for_capability(major: int, minor: int, backend: str = "nvrtc") -> Target:
    """Return the best target for a device that the installed compiler can make code for.

    Parameters
    ----------
    major, minor : int
        The device's compute capability.
    backend : {"nvrtc", "nvcc"}
        Which compiler.

    Returns
    -------
    Target
        Its own architecture, or PTX of the nearest older one if the compiler does not know the
        device.
    """
    wanted = 10 * major + minor
    older = [number for number in _supported(backend) if number <= wanted]
    if not older:
        check_supported(Target(f"sm_{wanted}"), backend)
    nearest = max(older)
    return Target(f"sm_{wanted}" if nearest == wanted else f"compute_{nearest}")


def _supported(backend: str) -> tuple[int, ...]:
    if backend == "nvrtc":
        return nvrtc.supported_capabilities()
    from kspec.compiler.cuda import nvcc

    return nvcc.supported_capabilities()


def _name(backend: str) -> str:
    if backend == "nvrtc":
        major, minor = nvrtc.nvrtc_version()
        return f"NVRTC {major}.{minor}"
    from kspec.compiler.cuda import nvcc

    return f"nvcc {nvcc.nvcc_build().partition(' ')[0]}"
