"""Architecture names: text in, a checked `Target` out, and which of them NVRTC can make.

::

    parse_target("sm_90a")              # Target(arch='sm_90a')
    check_supported(Target("sm_70"))    # CompileError: sm_70 is not supported by NVRTC 13.0 ...
    target_for_capability(9, 0)         # Target(arch='sm_90')

`kspec.compiler.nvrtc` knows what the installed compiler supports.
"""

from __future__ import annotations

import re

from kspec.compiler import nvrtc
from kspec.errors import CompileError, SpecError
from kspec.stages import HOST, Target

_ARCH = re.compile(r"(sm|compute)_(\d{2,3})([af]?)")
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
            "capability such as sm_80 (an 'a' may follow from 90 on, an 'f' from 100 on), "
            "or 'host'"
        )
    return Target(text)


def capability(target: Target) -> int:
    """Return ten times the compute capability of a CUDA target: 90 for ``sm_90a``."""
    match = _ARCH.fullmatch(target.arch)
    if match is None:
        raise SpecError(f"target {target.arch!r} has no compute capability")
    return int(match[2])


def supported_archs() -> tuple[str, ...]:
    """Return the plain architectures of the installed NVRTC: ``('sm_75', 'sm_80', ...)``."""
    return tuple(f"sm_{number}" for number in nvrtc.supported_capabilities())


def check_supported(target: Target) -> None:
    """Raise `CompileError` if the installed NVRTC can not make code for a CUDA target."""
    known = nvrtc.supported_capabilities()
    if capability(parse_target(target.arch)) in known:
        return
    major, minor = nvrtc.nvrtc_version()
    older = capability(target) < min(known)
    advice = (
        "an older toolkit is needed: pip install 'kspec[cu12]'"
        if older
        else f"compile for compute_{max(known)}, which newer devices run too, or update NVRTC"
    )
    raise CompileError(
        f"{target.arch} is not supported by NVRTC {major}.{minor}, which knows "
        f"{', '.join(supported_archs())}; {advice}",
        target=target.arch,
    )


def target_for_capability(major: int, minor: int) -> Target:
    """Return the best target for a device that the installed NVRTC can compile for.

    Parameters
    ----------
    major, minor : int
        The device's compute capability.

    Returns
    -------
    Target
        Its own architecture, or PTX of the nearest older one if NVRTC does not know the device.
    """
    wanted = 10 * major + minor
    older = [number for number in nvrtc.supported_capabilities() if number <= wanted]
    if not older:
        check_supported(Target(f"sm_{wanted}"))
    nearest = max(older)
    return Target(f"sm_{wanted}" if nearest == wanted else f"compute_{nearest}")
