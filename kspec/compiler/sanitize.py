"""Checking modes in, flags of a host compiler out.

>>> sanitize_flags("gcc", "gcc g++ 12.2.0 x86_64", ("undefined",))[0]
'-DKSPEC_HOST_CHECK_UNDEFINED=1'

The compilers' own instrumentation is used, without their run-time libraries: what it calls is in
``kspec/host/include/kspec_host/check_*.h`` and ends in ``kspec/host/rt/check.h``.
"""

from __future__ import annotations

import re

# -fsanitize=thread makes every load and store visible, whatever is checked about them.
_ACCESS_MODES = ("init", "memory", "race")

_ACCESS_FLAGS = (
    "-DKSPEC_HOST_CHECK_ACCESS=1",
    "-fsanitize=thread",
    # An access of the source is one that is checked; and it compiles in two thirds of the time.
    "-O1",
)
_UNDEFINED = (
    "bounds",
    "shift-exponent",
    "integer-divide-by-zero",
    "float-cast-overflow",
    "alignment",
    "null",
    "bool",
    "return",
    "unreachable",
    "vla-bound",
)
_VOLATILE_GCC = ("--param=tsan-distinguish-volatile=1",)
_VOLATILE_CLANG = ("-mllvm", "-tsan-distinguish-volatile=1")


def sanitize_flags(kind: str, identity: str, modes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags that instrument a kernel.

    Parameters
    ----------
    kind : str
        ``"gcc"``, ``"clang"`` or ``"zig"``.
    identity : str
        The compiler's version text.
    modes : tuple of str
        Of `kspec.checks.MODES`.
    """
    flags: tuple[str, ...] = ()
    if "undefined" in modes:
        flags += ("-DKSPEC_HOST_CHECK_UNDEFINED=1", f"-fsanitize={','.join(_UNDEFINED)}")
        if kind != "gcc":
            flags += (f"-fno-sanitize-trap={','.join(_UNDEFINED)}",)
        flags += (f"-fsanitize-recover={','.join(_recoverable())}",)
    if any(mode in modes for mode in _ACCESS_MODES):
        flags += _ACCESS_FLAGS
        if kind != "gcc":
            flags += _VOLATILE_CLANG
        elif major_version(identity) >= 11:
            flags += _VOLATILE_GCC
    return flags


def _recoverable() -> list[str]:
    """Return the checks whose handlers may return; ours never do, but they have simpler names."""
    return [name for name in _UNDEFINED if name not in ("return", "unreachable")]


def major_version(identity: str) -> int:
    """Return the major version in a compiler's version text, 0 if there is none."""
    found = re.search(r"(\d+)\.\d+\.\d+", identity)
    return int(found[1]) if found else 0
