"""Faults of the host device: what the runtime recorded in, a `HostFault` with its place out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from kspec.errors import HostFault
from kspec.host import runtime

# The runtime writes offsets in the module, only we can look them up: "read by thread 3<@1a2b>".
_PLACE = re.compile("<@([0-9a-f]+)>")
_FIRST_PLACE = re.compile(r" at (\S.*?:\d+)\b")


def fault_of(
    record: runtime.FaultRecord,
    kernel: str,
    code: bytes,
    line_of: Callable[[str, int], str] | None,
) -> HostFault:
    """Return the exception for a record of the runtime.

    Parameters
    ----------
    record : FaultRecord
        Why a launch failed.
    kernel : str
        The kernel's name.
    code : bytes
        The image that it is from.
    line_of : callable or None
        Returns the text of a line of a file.
    """
    from kspec.cpp import call_sites

    kind, message = record.kind.decode(), record.message.decode(errors="replace")
    where = _position(record, code)
    message = _PLACE.sub(lambda found: _place(code, int(found[1], 16)), message)
    headline, newline, details = message.partition("\n")
    text = f"{kernel}: {kind}: {headline}"
    if where:
        text += f" at {where}"
    if record.has_thread:
        text += f" [block {_triple(record.block)} thread {_triple(record.thread)}]"
    if not where:  # of two accesses that conflict, the one that found it
        where = next(iter(_FIRST_PLACE.findall(headline)), "")
    path, _, line = call_sites.position(where).rpartition(":")
    shown = line_of(path, int(line)) if line_of and path else ""
    text = call_sites.readable(text + newline + details)
    return HostFault(kind, text, path, int(line or 0), shown)


def _place(code: bytes, offset: int) -> str:
    where = _source_position(code, offset)
    return f" at {where}" if where else ""


def _triple(values: Any) -> str:
    return f"({values[0]},{values[1]},{values[2]})"


def _position(record: Any, code: bytes) -> str:
    """Return ``file:line`` of a fault, or an empty string."""
    if record.line:
        return f"{record.file.decode(errors='replace')}:{record.line}"
    # The instruction that failed has the address; a call's return address would be one further.
    places = [record.pc] if record.in_module else []
    return _source_position(code, *places, *record.callers[: record.caller_count])


def _source_position(code: bytes, *offsets: int) -> str:
    # Lazy on purpose: only what has failed is looked up.
    from kspec.host.locate import source_positions

    found = source_positions(code, offsets) if offsets else {}
    return next((found[offset] for offset in offsets if offset in found), "")
