"""Address of an instruction in, ``file:line`` out: read from the line table of a host image.

::

    source_positions(image.code, [0x11d9])    # {0x11d9: 'norms.cu:12'}

The work is addr2line's or llvm-symbolizer's, called only when a kernel has failed; without them
the answer is empty.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator

from kspec.cpp.call_sites import DIALECT_ROOT, HOST_UNIT, SOURCE_ROOT, position


def source_positions(code: bytes, offsets: Collection[int]) -> dict[int, str]:
    """Return the source positions of instructions, of those that have one."""
    return {offset: frames[0] for offset, frames in source_frames(code, offsets).items()}


def source_frames(code: bytes, offsets: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the source positions of instructions, and of the calls that are inlined there.

    The innermost is first; what the dialect inlines is left out.
    """
    with tempfile.NamedTemporaryFile(prefix="kspec-host-", suffix=".so") as file:
        file.write(code)
        file.flush()
        asked = "".join(f"{offset:#x}\n" for offset in offsets)
        for tool, command in (
            ("addr2line", ["-a", "-i", "-e", file.name]),
            ("llvm-symbolizer", ["-a", "--output-style=GNU", "--obj=" + file.name]),
        ):
            path = shutil.which(tool)
            found = _positions(_output([path, *command], asked)) if path else {}
            if found:
                return found
    return {}


def _positions(output: str) -> dict[int, tuple[str, ...]]:
    """Return the positions of a list: an address, then its frames."""
    parts = re.split(r"^(0x[0-9a-fA-F]+)\n", output, flags=re.M)
    places = {
        int(address, 16): tuple(_own_positions(frames))
        for address, frames in zip(parts[1::2], parts[2::2], strict=True)
    }
    return {address: place for address, place in places.items() if place}


def _output(command: list[str], asked: str) -> str:
    try:
        done = subprocess.run(command, input=asked, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _own_positions(output: str) -> Iterator[str]:
    """Yield the user's lines: frames come innermost first, inlined dialect functions included."""
    for line in output.splitlines():
        match = re.match(r"(.+):(\d+)", line.strip())
        if not match or match.group(2) == "0":
            continue
        if not match.group(1).startswith((DIALECT_ROOT, f"{SOURCE_ROOT}/{HOST_UNIT}", "?")):
            yield position(line.removeprefix(f"{SOURCE_ROOT}/").split(" (")[0])
