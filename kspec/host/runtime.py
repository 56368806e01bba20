"""The C++ runtime of the host device (``rt/``): built once per machine, loaded with ctypes.

>>> load_runtime().launch   # kspec_host_launch in rt/rt.cc
<...>

The other modules of this package are its only users.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

from kspec import config
from kspec.dataclass import dataclass
from kspec.locks import Turn, make_lock

# A launch and the reading of its outcome belong together; the runtime runs one at a time anyway.
LAUNCHING = Turn()

# Outcome of rt.cc
FAULT, INTERRUPT, PRINTED, RUNS = 1, 2, 4, 8
# Interrupts of rt.cc
LEAVE, TAKE, APART = 0, 1, 2


class FaultRecord(ctypes.Structure):
    """`FaultRecord` of ``rt/state.h``: why a launch failed."""

    _fields_ = (
        ("kind", ctypes.c_char * 40),
        ("message", ctypes.c_char * 4096),
        ("file", ctypes.c_char * 512),
        ("line", ctypes.c_int),
        ("pc", ctypes.c_ulonglong),
        ("in_module", ctypes.c_bool),
        ("has_thread", ctypes.c_bool),
        ("block", ctypes.c_uint * 3),
        ("thread", ctypes.c_uint * 3),
        ("caller_count", ctypes.c_uint),
        ("callers", ctypes.c_ulonglong * 8),
    )


class RegionRecord(ctypes.Structure):
    """`RegionRecord` of ``rt/state.h``: memory of an argument."""

    _fields_ = (
        ("begin", ctypes.c_size_t),
        ("size", ctypes.c_size_t),
        ("name", ctypes.c_char_p),
        ("read_only", ctypes.c_bool),
        ("fresh", ctypes.c_bool),
    )


class BlockRangeRecord(ctypes.Structure):
    """`BlockRange` of ``rt/state.h``."""

    _fields_ = (("first", ctypes.c_ulonglong), ("last", ctypes.c_ulonglong))


class NativeOptions(ctypes.Structure):
    """`LaunchOptions` of ``rt/rt.cc``: what is checked, and in which order threads run."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("order", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("regions", ctypes.POINTER(RegionRecord)),
        ("region_count", ctypes.c_uint),
        ("cooperative", ctypes.c_bool),
        ("blocks", BlockRangeRecord),
        ("runs", ctypes.POINTER(BlockRangeRecord)),
        ("run_count", ctypes.c_uint),
        ("first_run", ctypes.c_uint),
        ("run_events", ctypes.c_uint64),
        ("continues", ctypes.c_bool),
    )


class SiteRecord(ctypes.Structure):
    """`ReviewSite` of ``rt/review_state.h``: one instruction that accesses memory."""

    _fields_ = (
        ("pc", ctypes.c_uint32),
        ("access", ctypes.c_uint8),
        ("space", ctypes.c_uint8),
        ("size", ctypes.c_uint16),
        ("requests", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
        ("sectors", ctypes.c_uint64),
        ("tags", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("wavefronts", ctypes.c_uint64),
        ("ideal", ctypes.c_uint64),
        ("contention", ctypes.c_uint64),
        ("misaligned", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
    )


class BasicBlockRecord(ctypes.Structure):
    """`ReviewBlock` of ``rt/review_state.h``."""

    _fields_ = (
        ("pc", ctypes.c_uint32),
        ("successors", ctypes.c_uint32),
        ("visits", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
        ("diverged", ctypes.c_uint64),
        ("groups", ctypes.c_uint64),
        ("join", ctypes.c_uint32),
        ("call", ctypes.c_uint32),
        ("outer", ctypes.c_uint32),
    )


class EdgeRecord(ctypes.Structure):
    """`ReviewEdge` of ``rt/review_state.h``: a way between basic blocks."""

    _fields_ = (
        ("before", ctypes.c_uint32),
        ("after", ctypes.c_uint32),
        ("visits", ctypes.c_uint64),
        ("lanes", ctypes.c_uint64),
    )


class TrafficRecord(ctypes.Structure):
    """`ReviewRegion` of ``rt/review_state.h``: what the memory of an array has to do."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("begin", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("l2_loads", ctypes.c_uint64),
        ("l2_stores", ctypes.c_uint64),
        ("l2_atomics", ctypes.c_uint64),
        ("atomic_lanes", ctypes.c_uint64),
        ("dram_loads", ctypes.c_uint64),
        ("dram_stores", ctypes.c_uint64),
        ("dram_partial", ctypes.c_uint64),
        ("again", ctypes.c_uint64 * 16),
    )


class WaitsRecord(ctypes.Structure):
    """`ReviewWaits` of ``rt/review_state.h``: how often warps wait for what they load."""

    _fields_ = (("steps", ctypes.c_uint64), ("turns", ctypes.c_uint64))


class ReviewRecord(ctypes.Structure):
    """`ReviewSummary` of ``rt/review_state.h``."""

    _fields_ = (
        ("blocks", ctypes.c_uint64),
        ("sampled", ctypes.c_uint64),
        ("skipped", ctypes.c_uint64),
        ("threads", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("kept", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
        ("warps", ctypes.c_uint64),
        ("barriers", ctypes.c_uint64),
        ("block_lanes", ctypes.c_uint64),
        ("request_lanes", ctypes.c_uint64),
        ("global_", WaitsRecord),
        ("shared", WaitsRecord),
        ("sites", ctypes.POINTER(SiteRecord)),
        ("basic_blocks", ctypes.POINTER(BasicBlockRecord)),
        ("regions", ctypes.POINTER(TrafficRecord)),
        ("edges", ctypes.POINTER(EdgeRecord)),
        ("site_count", ctypes.c_uint32),
        ("basic_block_count", ctypes.c_uint32),
        ("region_count", ctypes.c_uint32),
        ("edge_count", ctypes.c_uint32),
        ("tiled", ctypes.c_bool),
    )


@dataclass(frozen=True)
class Runtime:
    """The runtime's functions; `rt/rt.cc` documents each."""

    bind: Callable[[Any], int]
    launch: Callable[..., int]
    wait: Callable[[], int]
    cancel: Callable[[], None]
    fault: Callable[[], Any]
    looped: Callable[[], int]
    review: Callable[[], Any]
    printed: Callable[[], bytes]
    allocate: Callable[[int, int], int | None]
    address: Callable[[int], int]
    free: Callable[[int], None]
    check_canaries: Callable[[], int]
    has_shadow: Callable[[], int]
    unload: Callable[[int, int], None]
    begin_load: Callable[[], None]
    end_load: Callable[[], None]


_LOADING = make_lock()


def load_runtime() -> Runtime:
    """Return the runtime of this process, building it if this machine has none yet.

    Raises
    ------
    ToolNotFoundError
        When it has to be built and there is no C++ compiler.
    """
    with _LOADING:  # there must not be two in one process
        return _load_runtime()


@functools.cache
def _load_runtime() -> Runtime:
    # Lazy on purpose, as in `load_library`: what runs on GPUs only would import 8 ms for nothing.
    from kspec.host.shared_objects import built_runtime

    # Kernels built without the C library find its mathematical functions in the process.
    ctypes.CDLL("libm.so.6", mode=ctypes.RTLD_GLOBAL)
    library = load_library(built_runtime(), "runtime")
    size, pointer, unsigned = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_uint
    launch_types = (pointer, pointer, *([unsigned] * 8), pointer, unsigned)
    launch_types += (ctypes.c_int, ctypes.c_double, ctypes.POINTER(NativeOptions))
    # The result of each function, and its arguments.
    types: dict[str, tuple[Any, ...]] = {
        "bind": (unsigned, pointer),
        "launch": (ctypes.c_int, *launch_types),
        "wait": (ctypes.c_int,),
        "cancel": (None,),
        "fault": (ctypes.POINTER(FaultRecord),),
        "looped": (ctypes.c_ulonglong,),
        "review": (ctypes.POINTER(ReviewRecord),),
        "allocate": (pointer, size, size),
        "address": (pointer, pointer),
        "free": (None, pointer),
        "check_canaries": (ctypes.c_int,),
        "has_shadow": (ctypes.c_int,),
        "unload": (None, pointer, pointer),
        "begin_load": (None,),
        "end_load": (None,),
    }
    functions = {name: _declared(library, name, *one) for name, one in types.items()}
    _declared(library, "limit_printed", None, size)(config.host_printf_size())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(
            before=_declared(library, "before_fork", None),
            after_in_parent=_declared(library, "after_fork_in_parent", None),
            after_in_child=_declared(library, "after_fork_in_child", None),
        )
    text = _declared(library, "printed", pointer)
    text_size = _declared(library, "printed_size", size)
    return Runtime(printed=lambda: ctypes.string_at(text(), text_size()), **functions)


def _declared(library: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of the runtime, with its types."""
    function = getattr(library, f"kspec_host_{name}")
    function.restype = result
    function.argtypes = arguments
    return function  # type: ignore[no-any-return]


def load_library(code: bytes, name: str) -> ctypes.CDLL:
    """Load a shared object from its bytes; raise `LoadError` if it is none."""
    from kspec.host import shared_objects

    return shared_objects.load_library(code, name)
