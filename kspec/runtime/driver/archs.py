"""Choice of the image member that runs on a GPU, and the description of a GPU and its driver.

>>> best_arch(("sm_80", "sm_90", "compute_80"), (9, 0))
'sm_90'
>>> best_arch(("sm_80", "sm_90", "compute_80"), (12, 0))
'compute_80'
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kspec.runtime import driver

_ARCH = re.compile(r"(sm|compute)_(\d+)(\d)([af]?)")


def best_arch(archs: Iterable[str], capability: tuple[int, int]) -> str | None:
    """Return the member of an image that the driver takes, or None if none runs.

    Code of the device itself, or of the nearest older minor version; without any, PTX of the
    nearest older device, which the driver compiles.  Members for one device alone (``sm_90a``) or
    for its family (``sm_100f``) go before those that run on more.
    """
    ranks = {arch: rank for arch in archs if (rank := _rank(arch, capability)) is not None}
    return max(ranks, key=lambda arch: ranks[arch], default=None)


def fits(archs: Iterable[str], capability: tuple[int, int]) -> bool:
    """Return whether an image with these members runs on a device."""
    return best_arch(archs, capability) is not None


def device_arch(ordinal: int) -> str:
    """Return the architecture of a device: ``"sm_90"``."""
    major, minor = driver.compute_capability(ordinal)
    return f"sm_{major}{minor}"


def device_text(ordinal: int) -> str:
    """Return GPU and driver in words: ``NVIDIA H200 (sm_90) under a driver for CUDA 13.0``."""
    version = driver.driver_version()
    release = f"{version // 1000}.{version % 1000 // 10}"
    gpu = f"{driver.device_name(ordinal)} ({device_arch(ordinal)})"
    return f"{gpu} under a driver for CUDA {release}"


def _rank(arch: str, capability: tuple[int, int]) -> tuple[bool, tuple[int, int], str] | None:
    """Return the sort key of a member, the best last; None if it does not run on the device."""
    match = _ARCH.fullmatch(arch)
    if match is None:
        return None
    kind, version, suffix = match[1], (int(match[2]), int(match[3])), match[4]
    if suffix == "a":
        runs = version == capability
    elif kind == "compute" and not suffix:
        runs = version <= capability
    else:
        runs = version[0] == capability[0] and version[1] <= capability[1]
    preference = {"": "0", "f": "1", "a": "2"}[suffix]
    return (kind == "sm", version, preference) if runs else None
