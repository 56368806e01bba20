"""Run the tests that need a GPU under compute-sanitizer, and say what it found in our kernels.

::

    python -m tests.sanitizer                                  every tool, every test
    python -m tests.sanitizer --tool racecheck -- -k columns   one tool; the rest is for pytest

Each tool runs several times side by side, each time over one process of pytest with a part of the
tests, on the GPUs in turn: of many processes the tool loses some, or ends by a segmentation fault.
Then it runs over the tests that are marked ``alone``: a grid whose blocks wait for each other never
ends under racecheck when the GPU is shared with other processes.  What a tool reports about a
kernel of another library (CuPy fills and casts arrays, torch sorts them) is counted apart and is no
failure; every other report is, and so is a test that fails.  Tests that provoke what the tools look
for, or that would take too long and tell them nothing, are marked ``unsanitized`` with the reason.
Tests marked ``threads`` are not for racecheck and initcheck, which lose track of launches that
several threads make at once.  Under memcheck no library keeps a pool of memory, so that what is
read behind an array's end is nobody's; tests marked ``pools`` are not for it.  Processes that a test starts are not watched: compilers are most of
them, and each takes the tools seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.gpus import in_turn
from tests.profiles import FAST

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
WORKERS = 8
# What a tool and the process that it watches talk through: the first port, and how many of them
# each tool may try.
_PORT, _PORTS = 49152, 256
_PREFIX = re.compile(r"^========= ?", re.MULTILINE)
# A report is a line and what is indented below it.
_REPORT = re.compile(
    r"^(?:Invalid|Misaligned|Uninitialized|Host API|Barrier error|Error: |Program hit|Warning: Race).*"
    r"(?:\n[ \t]+.*)*",
    re.MULTILINE,
)
_SUMMARY = re.compile(
    r"^(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: \d+ hazards? .*\((\d+) error)", re.MULTILINE
)
_FOREIGN = re.compile(r"\b(?:cupy_\w+|cub|thrust|at|c10)(?:::|\()|\bcupy_\w+")
_OURS = re.compile(r"\bkspec::")
_SUMMED = re.compile(r"^=* ?(\d+ (?:passed|failed|error).*?) ?=*$", re.MULTILINE)
_PASSED = re.compile(r" PASSED +\[")
_STARTED = re.compile(r"^tests/\S+::.*$", re.MULTILINE)


@dataclass(frozen=True)
class Findings:
    """What one tool reported.

    Attributes
    ----------
    ours : tuple of str
        Reports about kernels that kspec or a test launched.
    foreign : tuple of str
        Those about kernels of other libraries.
    unread : int
        Errors that the summaries count beyond these.
    """

    ours: tuple[str, ...]
    foreign: tuple[str, ...]
    unread: int

    @property
    def errors(self) -> int:
        """How many count."""
        return len(self.ours) + self.unread

    def kinds(self) -> list[tuple[str, int]]:
        """Return the first report of each kind and place, and how many there are."""
        first: dict[str, list[str]] = {}
        for report in self.ours:
            place = "".join(report.splitlines()[:2])
            first.setdefault(re.sub(r"0x[0-9a-f]+", "", place), []).append(report)
        return [(reports[0], len(reports)) for reports in first.values()]


def parse_log(log: str) -> Findings:
    """Return what a log of compute-sanitizer says."""
    text = _PREFIX.sub("", log)
    reports = [match[0] for match in _REPORT.finditer(text)]
    foreign = [one for one in reports if _FOREIGN.search(one) and not _OURS.search(one)]
    ours = [one for one in reports if one not in foreign]
    counted = sum(int(one or other) for one, other in _SUMMARY.findall(text))
    return Findings(tuple(ours), tuple(foreign), max(0, counted - len(reports)))


# What a tool is not for.
_NOT_FOR = {
    "memcheck": " and not pools",
    "racecheck": " and not threads",
    "initcheck": " and not threads",
}
# Each array has an allocation of its own; tests/conftest.py asks CuPy for the same.
_NO_POOLS = {
    "KSPEC_POOL_LIMIT": "0",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "XLA_PYTHON_CLIENT_ALLOCATOR": "platform",
}
# The tests that are run side by side, and those that are not.
_TOGETHER, _ALONE = "gpu and not unsanitized and not alone", "gpu and alone and not unsanitized"
_NO_TESTS = 5  # pytest's exit status when none is selected; the tool may have another
_NONE_SELECTED = re.compile(r"\bcollected .*\b0 (?:items|selected)$", re.MULTILINE)
_SILENT = -1  # of a tool that has left no log


@dataclass(frozen=True)
class Part:
    """Every `count`-th test with some marks, beginning with number `number`.

    Attributes
    ----------
    number, count : int
        Which, of how many.
    marks : str
        Of the tests.
    """

    number: int = 0
    count: int = 1
    marks: str = _ALONE


def command(tool: str, part: Part, log: Path, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a part of the tests under one tool."""
    sanitizer = [
        *("compute-sanitizer", "--tool", tool, "--target-processes", "application-only"),
        *("--port", str(_PORT + _PORTS * part.number), "--max-connections", str(_PORTS)),
        *("--launch-timeout", "0"),  # with many side by side it takes long to the first CUDA call
        # Refused calls are what many tests are about.
        *("--report-api-errors", "no", "--log-file", str(log)),
        *("--show-backtrace", "device", "--print-limit", "1000"),
    ]
    if tool == "initcheck":  # copies to the host include the padding of structs
        sanitizer += ["--check-api-memory-access", "no"]
    pytest = [
        *(sys.executable, "-m", "pytest", "-v", "-m", part.marks, "-p", "no:xdist"),
        *("--part", f"{part.number}/{part.count}", "--timeout", "0"),
        *("-o", "faulthandler_timeout=60", *arguments),
    ]
    return [*sanitizer, *pytest]


@dataclass(frozen=True)
class Outcome:
    """What came of a part.

    Attributes
    ----------
    findings : Findings
        The tool's.
    status : int
        Pytest's, or minus the signal that ended it.
    output : str
        What it printed.
    """

    findings: Findings
    status: int
    output: str

    @property
    def is_fine(self) -> bool:
        """Whether it came to its end, and no test has failed."""
        return self.status in (0, _NO_TESTS)

    @property
    def text(self) -> str:
        """The last line of pytest, or what became of it."""
        if summed := _SUMMED.findall(self.output):
            return str(summed[-1])
        if self.status == _NO_TESTS:
            return "no tests"
        started = _STARTED.findall(self.output)
        return f"exit status {self.status}" + (f" in {started[-1].strip()}" if started else "")

    @property
    def passed(self) -> int:
        """How many tests have."""
        return len(_PASSED.findall(self.output))


def run_part(
    tool: str, part: Part, log: Path, arguments: Sequence[str], limit: float | None = None
) -> Outcome:
    """Run a part of the tests under one tool, for a limited time."""
    output = log.with_suffix(".pytest.log")
    log.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "HYPOTHESIS_PROFILE": FAST,
        "XLA_FLAGS": "--xla_gpu_autotune_level=0",  # it would try kernels for minutes
        **in_turn(part.number),
        **(_NO_POOLS if tool == "memcheck" else {}),
    }
    with output.open("w", encoding="utf-8") as file:
        with _STARTING:
            process = subprocess.Popen(
                command(tool, part, log, arguments),
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            _RUNNING.add(process)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            end(process)
            status = process.wait()
        _RUNNING.discard(process)
    said = output.read_text(encoding="utf-8", errors="replace")
    if status == _NO_TESTS or _NONE_SELECTED.search(said):
        # There is nothing to watch, which the tool calls an error.
        return Outcome(parse_log(""), _NO_TESTS, said)
    if not log.exists():
        return Outcome(parse_log(""), status or _SILENT, said)
    return Outcome(parse_log(log.read_text(encoding="utf-8", errors="replace")), status, said)


# In sessions of their own, so that what they start ends with them; an interrupt does not reach them.
_RUNNING: set[subprocess.Popen[bytes]] = set()
_STARTING = threading.Lock()  # never held by the main thread, which is interrupted


def end(process: subprocess.Popen[bytes]) -> None:
    """End a tool with everything that it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run_tool(
    tool: str, workers: int, folder: Path, arguments: Sequence[str], limit: float | None = None
) -> tuple[bool, str]:
    """Run the tests under one tool; return whether all is well, and a line about it."""
    marks = _TOGETHER + _NOT_FOR.get(tool, "")
    parts = [Part(number, workers, marks) for number in range(workers)]
    with ThreadPoolExecutor(workers) as pool:

        def run(part: Part) -> Outcome:
            name = part.number if part.marks == marks else "alone"
            return run_part(tool, part, folder / f"{tool}.{name}.log", arguments, limit)

        outcomes = list(pool.map(run, parts))
        outcomes += pool.map(run, [Part()])
    for one in outcomes:
        for report, count in one.findings.kinds():
            print(f"{tool}, {count} times: {report}\n", flush=True)
        if not one.is_fine:
            print(one.output[-4000:], flush=True)
    foreign = sum(len(one.findings.foreign) for one in outcomes)
    errors = sum(one.findings.errors for one in outcomes)
    passed = sum(one.passed for one in outcomes)
    others = [one.text for one in outcomes if not one.is_fine]
    return not others and not errors, (
        f"{tool:10} {errors:6} errors  {foreign:6} in other libraries  {passed:6} tests passed"
        + "".join(f"; {one}" for one in others)
    )


def _interrupted(number: int, frame: object) -> None:
    _STARTING.acquire()  # for good: nothing starts any more
    for process in list(_RUNNING):
        end(process)
    os._exit(128 + number)  # threads wait for the rest


def main() -> int:
    """Run the tools that are asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizer", description=__doc__)
    parser.add_argument("--tool", action="append", choices=TOOLS, help="default: all of them")
    parser.add_argument("--workers", type=int, default=WORKERS, help="tools side by side")
    parser.add_argument("--limit", type=float, help="seconds after which a part is ended")
    parser.add_argument("--logs", type=Path, default=Path("build/sanitizer"), help="folder")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
        return 2
    given.logs.mkdir(parents=True, exist_ok=True)
    outcomes = []
    signal.signal(signal.SIGINT, _interrupted)
    for tool in given.tool or TOOLS:
        outcomes.append(run_tool(tool, given.workers, given.logs, given.pytest, given.limit))
        print(outcomes[-1][1], flush=True)
    return 0 if all(fine for fine, _ in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
