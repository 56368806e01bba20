"""Read a report of Nsight Compute: figures of each launch, and of each line of its source.

::

    launches = read_report(Path("review.ncu-rep"))
    launches["copy"][0]["lines"][0]
    # {'line': 4, 'space': 'global', 'kind': 'load', 'requests': 1048576, 'sectors': 4194304, ...}

The profiler counts for each instruction of the machine code; here instructions of one line that
access one memory in one way are added up.  A case is named by the NVTX range around its launches.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MODULES = ("/opt/nvidia/nsight-compute", "extras/python")
_EXECUTED = "inst_executed"
_LANES = "thread_inst_executed"
_LANES_ON = "thread_inst_executed_true"  # of which the predicate is true
_SECTORS = "memory_l2_theoretical_sectors_global"
_SECTORS_IDEAL = "memory_l2_theoretical_sectors_global_ideal"
_SECTORS_LOCAL = "memory_l2_theoretical_sectors_local"
_TAGS = "memory_l1_tag_requests_global"
_WAVEFRONTS = "memory_l1_wavefronts_shared"
_WAVEFRONTS_IDEAL = "memory_l1_wavefronts_shared_ideal"
_DIVERGENT = "smsp__branch_targets_threads_divergent"
_OF_INSTRUCTIONS = (
    _EXECUTED,
    _LANES,
    _LANES_ON,
    _SECTORS,
    _SECTORS_IDEAL,
    _SECTORS_LOCAL,
    _TAGS,
    _WAVEFRONTS,
    _WAVEFRONTS_IDEAL,
    _DIVERGENT,
)
# Figures of a launch: their names here, and the profiler's.
_OF_LAUNCHES = {
    "nanoseconds": "gpu__time_duration.sum",
    "cycles": "sm__cycles_elapsed.max",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors": "lts__t_sectors_srcunit_tex.sum",
    "l2_missed_sectors": "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    **{
        f"{what}_{name}": f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
        for what in ("requests", "sectors")
        for name, op in (("load", "ld"), ("store", "st"), ("reduce", "red"), ("atomic", "atom"))
    },
    **{
        f"wavefronts_{name}": f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
        for name, op in (("load", "ld"), ("store", "st"), ("atomic", "atom"))
    },
    "bank_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "instructions": "smsp__inst_executed.sum",
    "lanes_per_instruction": "smsp__thread_inst_executed_per_inst_executed.ratio",
    "lanes_on_per_instruction": "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio",
    "occupancy_percent": "sm__maximum_warps_per_active_cycle_pct",
    "achieved_occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "registers": "launch__registers_per_thread",
    "shared_static_bytes": "launch__shared_mem_per_block_static",
    "shared_dynamic_bytes": "launch__shared_mem_per_block_dynamic",
    "shared_driver_bytes": "launch__shared_mem_per_block_driver",
    "shared_config_bytes": "launch__shared_mem_config_size",
    "blocks_by_limit": "launch__occupancy_limit_blocks",
    "blocks_by_registers": "launch__occupancy_limit_registers",
    "blocks_by_shared": "launch__occupancy_limit_shared_mem",
    "blocks_by_warps": "launch__occupancy_limit_warps",
    "waves": "launch__waves_per_multiprocessor",
}
_DIMENSIONS = {size: [f"launch__{size}_dim_{axis}" for axis in "xyz"] for size in ("grid", "block")}
METRICS = (
    *_OF_INSTRUCTIONS,
    *_OF_LAUNCHES.values(),
    *(name for names in _DIMENSIONS.values() for name in names),
)
# By the first part of an instruction's name.
_SPACES = {
    "LDG": ("global", "load"),
    "STG": ("global", "store"),
    "RED": ("global", "atomic"),
    "REDG": ("global", "atomic"),
    "ATOM": ("global", "atomic"),
    "ATOMG": ("global", "atomic"),
    "LDGSTS": ("global", "load"),
    "UBLKCP": ("global", "bulk"),  # nothing is counted of these copies
    "LDS": ("shared", "load"),
    "LDSM": ("shared", "load"),
    "STS": ("shared", "store"),
    "ATOMS": ("shared", "atomic"),
    "LDL": ("local", "load"),
    "STL": ("local", "store"),
    "LD": ("generic", "load"),
    "ST": ("generic", "store"),
    "LDC": ("constant", "load"),
    "ULDC": ("constant", "load"),
}
# Left out where they are equal.
_SAME = {
    "executed": "requests",
    "tags": "requests",
    "ideal_sectors": "sectors",
    "ideal_wavefronts": "wavefronts",
}
# What is added up for accesses to each space.
_COUNTED = {
    "global": {"sectors": _SECTORS, "ideal_sectors": _SECTORS_IDEAL, "tags": _TAGS},
    "shared": {"wavefronts": _WAVEFRONTS, "ideal_wavefronts": _WAVEFRONTS_IDEAL},
    "local": {"sectors": _SECTORS_LOCAL},
    "constant": {},
}
_OPCODE = re.compile(r"\s*(@!?U?P\w+)?\s*([A-Z0-9_]+)((?:\.\w+)*)")
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
# Bank 0 has the parameters of the launch.
_PARAMETERS = "c[0x0]"


@dataclass(frozen=True)
class Instruction:
    """One instruction of the machine code, and what was counted for it.

    Attributes
    ----------
    text : str
        In the notation of the disassembler.
    file : str
        File of its source.
    line : int
        Line in it; 1 is the first.
    counts : mapping of str to int
        By names of metrics.
    """

    text: str
    file: str
    line: int
    counts: Mapping[str, int]

    @property
    def access(self) -> tuple[str, str, int] | None:
        """The space, the kind and the bytes of each lane; None if it reaches no memory."""
        match = _OPCODE.match(self.text)
        if match is None or match[2] not in _SPACES:
            return None
        space, kind = _SPACES[match[2]]
        if space == "constant" and _PARAMETERS in self.text:
            return None
        if space == "generic":  # the address decides
            space = "shared" if self.counts.get(_WAVEFRONTS) else "global"
        widths = [_WIDTHS[part] for part in match[3].split(".") if part in _WIDTHS]
        return space, kind, widths[-1] if widths else 4

    @property
    def requests(self) -> int:
        """How often a warp executed it with at least one lane on.

        The profiler counts all executions.  If a predicate turns lanes off, perhaps all of a
        warp, this is the smaller of executions and cache lines or ideal wavefronts, of which each
        request has one or more.
        """
        executed = self.counts[_EXECUTED]
        match = _OPCODE.match(self.text)
        if match is None or match[1] is None or self.access is None:
            return executed
        least = {"global": _TAGS, "shared": _WAVEFRONTS_IDEAL}.get(self.access[0])
        return min(executed, self.counts.get(least, 0)) if least else executed


def read_report(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the launches of each case, in their order."""
    module = _module()
    found: dict[str, list[dict[str, Any]]] = {}
    report = module.load_report(str(path))
    for part in map(report.range_by_idx, range(report.num_ranges())):
        for action in map(part.action_by_idx, range(part.num_actions())):
            found.setdefault(_case_of(action), []).append(_launch(module, action))
    return found


def _module() -> Any:
    """Import `ncu_report`, which comes with Nsight Compute."""
    folder, place = _MODULES
    sys.path.extend(str(found / place) for found in sorted(Path(folder).glob("*"), reverse=True))
    import ncu_report

    return ncu_report


def _case_of(action: Any) -> str:
    state = action.nvtx_state()
    ranges = [one for domain in state.domains() for one in state[domain].push_pop_ranges()]
    return str(ranges[0])


def _launch(module: Any, action: Any) -> dict[str, Any]:
    instructions = list(_instructions(action))
    return {
        "kernel": action.name(module.IAction.NameBase_FUNCTION),
        **{size: [_value(action, name) for name in names] for size, names in _DIMENSIONS.items()},
        **{
            name: value
            for name, metric in _OF_LAUNCHES.items()
            if (value := _value(action, metric))
        },
        "lines": lines_of(instructions),
        "executed": executed_of(instructions),
    }


def _value(action: Any, name: str) -> Any:
    value = action.metric_by_name(name).value()
    if isinstance(value, float):
        return int(value) if value.is_integer() else round(value, 3)
    return value


def _instructions(action: Any) -> Iterator[Instruction]:
    """Yield the instructions that were executed."""
    counts: dict[int, dict[str, int]] = {}
    for name in _OF_INSTRUCTIONS:
        metric = action.metric_by_name(name)
        if metric is None or not metric.has_correlation_ids():  # e.g. none reaches that memory
            continue
        ids = metric.correlation_ids()
        for k in range(metric.num_instances()):
            counts.setdefault(ids.value(k), {})[name] = int(metric.value(k))
    for address, row in sorted(counts.items()):
        source = action.source_info(address)
        if source is not None and row.get(_EXECUTED):
            yield Instruction(
                action.sass_by_pc(address), _relative(source.file_name()), source.line(), row
            )


def _relative(file: str) -> str:
    """Return the name of a file below the folder that the kernels were compiled in."""
    folder = f"{Path.cwd()}/"
    return file.removeprefix(folder)


def lines_of(instructions: list[Instruction]) -> list[dict[str, Any]]:
    """Return the accesses to memory of each line, space and kind."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in instructions:
        if one.access is None or not one.counts.get(_LANES_ON):
            continue
        space, kind, width = one.access
        row = found.setdefault(
            (one.file, one.line, space, kind),
            {"line": one.line, "space": space, "kind": kind, "widths": {}, "requests": 0},
        )
        if one.file != "kernel.cu":  # the text of a raw kernel
            row["file"] = one.file
        row["widths"][width] = row["widths"].get(width, 0) + one.requests
        _add(row, "requests", one.requests)
        _add(row, "executed", one.counts[_EXECUTED])
        _add(row, "lanes", one.counts[_LANES_ON])
        _add(row, "instructions", 1)
        for name, metric in _COUNTED[space].items():
            _add(row, name, one.counts.get(metric, 0))
    return [_compact(found[key]) for key in sorted(found)]


def _compact(row: dict[str, Any]) -> dict[str, Any]:
    """Leave out what other figures tell."""
    widths = row.pop("widths")
    row["bytes"] = next(iter(widths)) if len(widths) == 1 else widths
    for name, same in _SAME.items():
        if row.get(name) == row.get(same):
            row.pop(name, None)
    return row


def _add(row: dict[str, Any], name: str, count: int) -> None:
    row[name] = row.get(name, 0) + count


def executed_of(instructions: list[Instruction]) -> list[list[int]]:
    """Return the executions of each line of a raw kernel.

    Each is the line, instructions of warps, of lanes, of lanes whose predicate is true, and
    branches at which lanes of a warp parted.
    """
    names = (_EXECUTED, _LANES, _LANES_ON, _DIVERGENT)
    found: dict[int, list[int]] = {}
    for one in instructions:
        if one.file == "kernel.cu":
            sums = found.setdefault(one.line, [0] * len(names))
            for k, name in enumerate(names):
                sums[k] += one.counts.get(name, 0)
    return [[line, *found[line]] for line in sorted(found)]
