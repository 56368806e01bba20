"""The report of ptxas on each kernel: the log of ``ptxas -v`` in, `Figures` out.

::

    parse_figures(log)["_Z1kPf"].registers    # 12
    strip_report(log)                         # what is left: warnings

NVRTC and nvcc hand the same report through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kspec.model.stages import Figures

_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem\[\d+\]")
# NVRTC marks every line of the report, nvcc not that of the stack.
_PTXAS_REPORT = re.compile(
    r"^(?:ptxas (?:info\b| +\.)| +\d+ bytes stack frame,).*\n?", re.MULTILINE
)


def parse_figures(log: str) -> dict[str, Figures]:
    """Return the resources of each kernel in a ``ptxas -v`` log, by lowered name.

    `Figures.local_bytes` is the stack frame, spilled registers included; `Figures.spill_bytes`
    what the spill stores write, which may be more; `Figures.constant_bytes` the sum over all
    constant banks, -1 on architectures whose ptxas does not report them (sm_90 and later).
    """
    found: dict[str, Figures] = {}
    for report in re.split(r"(?=Compiling entry function ')", log):
        entry = _ENTRY.match(report)
        used = _REGISTERS.search(report)
        if entry is None or used is None:
            continue
        line = report[used.start() :].partition("\n")[0]
        shared = _SHARED.search(line)
        constants = [int(size) for size in _CONSTANT.findall(line)]
        local, spill = _stack_of(entry[1], report)
        found[entry[1]] = Figures(
            registers=int(used[1]),
            shared_bytes=int(shared[1]) if shared else 0,
            local_bytes=local,
            constant_bytes=sum(constants) if constants else -1,
            spill_bytes=spill,
        )
    return found


def by_expression(figures: Mapping[str, Figures], symbols: Mapping[str, str]) -> dict[str, Figures]:
    """Return figures by name expression; by lowered name if there are no `symbols`."""
    if not symbols:
        return dict(figures)
    return {name: figures[symbol] for name, symbol in symbols.items() if symbol in figures}


def strip_report(log: str) -> str:
    """Return a log without the lines in which ptxas reports resources."""
    return _PTXAS_REPORT.sub("", log).strip()


def _stack_of(name: str, report: str) -> tuple[int, int]:
    """Stack frame and spill stores of one function; a report may hold those it calls, too."""
    for match in _PROPERTIES.finditer(report):
        stack = _STACK.search(report, match.end())
        if match[1] == name and stack is not None:
            return int(stack[1]), int(stack[2])
    return -1, -1
