"""Writes down which kernels of generated packages a program asks for, if somebody wants to know.

With ``KSPEC_TRACE=FOLDER`` each process appends to a file of its own in that folder, one line of
JSON when a kernel is looked up for the first time with some types and layout::

    {"package": "toy_kernels", "module": "squares", "kernel": "square",
     "binding": [["T", "int8"]], "layout": "Flat", "sizes": [],
     "expression": "square<signed char, ...>", "device": "sm_90", "call": "toy/main.py:12"}

Later calls of that kernel do not come here.  `kspec.build.tools.trace` reads the files.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path

from kspec import config
from kspec.files import ROOT
from kspec.model.coverage import layout_text
from kspec.model.neighbours.windows import BoundSizes
from kspec.model.stages import RawSymbol, Specialization
from kspec.runtime import driver
from kspec.runtime.driver.device import Device

_KSPEC = str(ROOT)


def record(folder: Path, module: str, wanted: Specialization | RawSymbol, device: Device) -> None:
    """Append that a kernel is asked for; do nothing unless ``KSPEC_TRACE`` says where.

    Parameters
    ----------
    folder : Path
        Of the generated package.
    module : str
        Which of its modules.
    wanted : Specialization or RawSymbol
        The kernel.
    device : Device
        Where it shall run.
    """
    place = config.trace_folder()
    if place is None:
        return
    kernel, layout = "", ""
    sizes: BoundSizes = ()
    if isinstance(wanted, Specialization):
        kernel, layout = wanted.kernel, layout_text(wanted.layout, wanted.raw_ndims)
        sizes = wanted.sizes
    line = {
        "package": folder.name,
        "module": module,
        "kernel": kernel,
        "binding": wanted.binding,
        "layout": layout,
        "sizes": sizes,
        "expression": wanted.name_expression,
        "device": _arch(device),
        "call": _call(str(folder)),
    }
    try:
        place.mkdir(parents=True, exist_ok=True)
        # One write to the end of a file that no other process has: lines stay whole.
        handle = os.open(
            place / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
        )
        try:
            os.write(handle, f"{json.dumps(line)}\n".encode())
        finally:
            os.close(handle)
    except OSError as error:
        # A program must not fail because it is watched.
        print(f"kspec: {place} cannot be written: {error.strerror}", file=sys.stderr)


def _arch(device: Device) -> str:
    if device.is_host:
        return "host"
    major, minor = driver.compute_capability(device.ordinal)
    return f"sm_{major}{minor}"


def _call(package: str) -> str:
    """Return file and line of the nearest caller that is neither kspec nor the package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_inside(frame.f_code.co_filename, package):
        frame = frame.f_back
    path = Path(frame.f_code.co_filename)
    with contextlib.suppress(ValueError, OSError):  # of somewhere else; the folder is gone
        path = path.relative_to(Path.cwd())
    return f"{path.as_posix()}:{frame.f_lineno}"


def _is_inside(name: str, package: str) -> bool:
    return name.startswith((f"{_KSPEC}{os.sep}", f"{package}{os.sep}"))
