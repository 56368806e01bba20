"""Checking modes in, flags of a host compiler out.

>>> sanitize_flags("gcc", "gcc g++ 12.2.0 x86_64", ("undefined",))[0]
'-DKSPEC_HOST_CHECK_UNDEFINED=1'

The compilers' own instrumentation is used, without their run-time libraries: what it calls is in
``kspec/host/include/kspec_host/check_*.h`` and ends in ``kspec/host/rt/check.h``.
"""

from __future__ import annotations

import re

from kspec.errors import NotSupportedError
from kspec.model.checks import AS_GPU, REVIEW

# -fsanitize=thread makes every load and store visible, whatever is checked about them.
_ACCESS_MODES = ("init", "memory", "race", REVIEW)

_ACCESS_FLAGS = (
    "-DKSPEC_HOST_CHECK_ACCESS=1",
    "-fsanitize=thread",
    # An access of the source is one that is checked; and it compiles in two thirds of the time.
    "-O1",
)
# Where each thread goes, and structs copied as a whole, as the compilers of GPUs copy them.
_REVIEW_FLAGS = ("-DKSPEC_HOST_REVIEW=1",)
_AS_GPU_FLAGS = ("-DKSPEC_HOST_AS_GPU=1",)  # kspec/include/kspec/chunked.cuh
_REVIEW_GCC = ("-fsanitize-coverage=trace-pc", "-fno-tree-sra", "-fno-ipa-sra")
_REVIEW_CLANG = ("-fsanitize-coverage=trace-pc,bb,no-prune",)
_UNDEFINED = (
    "bounds",
    "shift-exponent",
    "signed-integer-overflow",
    "integer-divide-by-zero",
    "float-cast-overflow",
    "alignment",
    "null",
    "bool",
    "return",
    "unreachable",
    "vla-bound",
)
# Each access against the variable that it is computed from, before the compiler uses up what is
# undefined: it would leave out a write past a local array that nothing reads.
_OBJECTS = "object-size"
# Checks of the shadow memory that kspec/host/rt/shadow.h keeps, inline; stacks and variables get
# room between arrays.
_SHADOW_OFFSET = 0x100000000000  # that of kspec/host/include/kspec_host/abi.h
_BOUNDS_FLAGS = ("-DKSPEC_HOST_CHECK_BOUNDS=1", "-fno-sanitize-address-use-after-scope")
_BOUNDS_GCC = (
    "-fsanitize=kernel-address",
    f"-fasan-shadow-offset={_SHADOW_OFFSET:#x}",
    "--param=asan-instrumentation-with-call-threshold=1000000",
    "--param=asan-stack=1",
    "--param=asan-use-after-return=1",  # local arrays in memory of their own
    "--param=asan-globals=1",
)
# clang's kernel-address keeps local arrays on the stack. Its address, told to go on after a report,
# calls the same hooks, and some for copies (check_bounds.h).
_BOUNDS_CLANG = (
    "-fsanitize=address",
    "-fsanitize-recover=address",
    *(
        word
        for option in (
            f"mapping-offset={_SHADOW_OFFSET:#x}",
            "instrumentation-with-call-threshold=1000000",
            "use-after-return=always",
            "guard-against-version-mismatch=0",
        )
        for word in ("-mllvm", f"-asan-{option}")
    ),
)
# Functions that follow pointers and are not compiled with checks (check_bounds.h has ours), and
# linker's tables that no kernel may write.
_COPY = ("memcpy", "memmove", "memset")
_FOLLOW_POINTERS = (
    *_COPY,
    *("sincos", "sincosf", "modf", "modff", "frexp", "frexpf", "remquo", "remquof"),
)
_BOUNDS_LINK = (
    *(f"-Wl,--wrap={name}" for name in _FOLLOW_POINTERS),
    *("-Wl,-z,relro", "-Wl,-z,now"),
)
# Instrumentation does not see copies that a compiler writes in the place of calls.
_ACCESS_CALLS = tuple(f"-fno-builtin-{name}" for name in _COPY)
_ACCESS_LINK = tuple(f"-Wl,--wrap={name}" for name in _COPY)
# new and delete: plain, of arrays, and each of an alignment; device_heap.h has ours.
_HEAP = (
    "malloc",
    "free",
    *(
        f"_Z{operator}{size}{aligned}{nothrow}"
        for operators, sizes, nothrows in (
            (("nw", "na"), ("m",), ("", "RKSt9nothrow_t")),
            (("dl", "da"), ("Pv", "Pvm"), ("",)),
        )
        for operator in operators
        for size in sizes
        for aligned in ("", "St11align_val_t")
        for nothrow in nothrows
    ),
)
_HEAP_LINK = tuple(f"-Wl,--wrap={name}" for name in _HEAP)
# A read that is moved in front of a loop comes before the loop's first write.
_INIT_GCC = ("-fno-tree-loop-im",)
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
        Of `kspec.model.checks.MODES`, ``"bounds"``, `REVIEW` and `AS_GPU`.

    Raises
    ------
    NotSupportedError
        For reviews, with a g++ that cannot leave functions out.
    """
    flags: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    if "undefined" in modes:
        # What wraps around is not looked at.
        flags += ("-DKSPEC_HOST_CHECK_UNDEFINED=1", "-fno-wrapv")
        checked += _UNDEFINED
    if REVIEW not in modes and any(mode in modes for mode in ("bounds", *_ACCESS_MODES)):
        flags += ("-DKSPEC_HOST_CHECK_OBJECTS=1",)
        checked += (_OBJECTS,)
    if checked:
        flags += (f"-fsanitize={','.join(checked)}",)
        if kind != "gcc":
            flags += (f"-fno-sanitize-trap={','.join(checked)}",)
        flags += (f"-fsanitize-recover={','.join(_recoverable(checked))}",)
    if "bounds" in modes:
        flags += (*_BOUNDS_FLAGS, *(_BOUNDS_GCC if kind == "gcc" else _BOUNDS_CLANG))
    if any(mode in modes for mode in _ACCESS_MODES):
        flags += _ACCESS_FLAGS
        if REVIEW not in modes:
            flags += _ACCESS_CALLS
        if kind != "gcc":
            flags += _VOLATILE_CLANG
        elif major_version(identity) >= 11:
            flags += _VOLATILE_GCC
    if "init" in modes and kind == "gcc":
        flags += _INIT_GCC
    if REVIEW in modes or AS_GPU in modes:
        flags += _AS_GPU_FLAGS
    if REVIEW in modes:
        if kind == "gcc" and 0 < major_version(identity) < 12:
            raise NotSupportedError(
                f"reviews need g++ 12 or newer, or clang++, and this is {identity}; let KSPEC_CXX "
                "name one of these"
            )
        flags += (*_REVIEW_FLAGS, *(_REVIEW_GCC if kind == "gcc" else _REVIEW_CLANG))
    return flags


def link_flags(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the flags that link a kernel instrumented for modes; the heap is that of all."""
    if "bounds" in modes:
        return (*_HEAP_LINK, *_BOUNDS_LINK)
    checks_access = REVIEW not in modes and any(mode in modes for mode in _ACCESS_MODES)
    return (*_HEAP_LINK, *(_ACCESS_LINK if checks_access else ()))


def _recoverable(checked: tuple[str, ...]) -> list[str]:
    """Return the checks whose handlers may return; ours never do, but they have simpler names."""
    return [name for name in checked if name not in ("return", "unreachable")]


def major_version(identity: str) -> int:
    """Return the major version in a compiler's version text, 0 if there is none."""
    found = re.search(r"(\d+)\.\d+\.\d+", identity)
    return int(found[1]) if found else 0
