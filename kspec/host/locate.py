"""Address of an instruction in, ``file:line`` out: read from the line table of a host image.

::

    source_position(image.code, 0x11d9)    # 'norms.cu:12'

The work is addr2line's or llvm-symbolizer's, called only when a kernel has failed; without them
the answer is an empty string.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile

from kspec.cpp.call_sites import DIALECT_ROOT, SOURCE_ROOT, position


def source_position(code: bytes, offset: int) -> str:
    """Return the source position of the instruction at `offset` of an image, or ""."""
    with tempfile.NamedTemporaryFile(prefix="kspec-host-", suffix=".so") as file:
        file.write(code)
        file.flush()
        for tool, command in (
            ("addr2line", ["-i", "-e", file.name, hex(offset)]),
            ("llvm-symbolizer", ["--output-style=GNU", "--obj=" + file.name, hex(offset)]),
        ):
            path = shutil.which(tool)
            position = _first_position(_output([path, *command])) if path else ""
            if position:
                return position
    return ""


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _first_position(output: str) -> str:
    """Return the user's line: frames come innermost first, inlined dialect functions included."""
    for line in output.splitlines():
        match = re.match(r"(.+):(\d+)", line.strip())
        if not match or match.group(2) == "0":
            continue
        if not match.group(1).startswith((DIALECT_ROOT, "?")):
            return position(line.removeprefix(f"{SOURCE_ROOT}/").split(" (")[0])
    return ""
