"""Run the tests that need a GPU under compute-sanitizer, and say what it found in our kernels.

::

    python -m tests.sanitizer                                  every tool, every test
    python -m tests.sanitizer --tool racecheck -- -k columns   one tool; the rest is for pytest

Several of these side by side, each with tests and a GPU of its own, need ``--port``s a thousand
apart: the tool and what it watches talk through them, and mix up their neighbours'.

Each tool runs over all worker processes of pytest, and then over one process with the tests that are
marked ``alone``: a grid whose blocks wait for each other never ends under racecheck when the GPU is
shared with other processes.  What a tool reports about a kernel of
another library (CuPy fills and casts arrays, torch sorts them) is counted apart and is no failure;
every other report is, and so is a test that fails.  Tests that provoke what the tools look for, or
that would take too long and tell them nothing, are marked ``unsanitized`` with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.profiles import FEW

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
WORKERS = 8
PORT = 49152  # compute-sanitizer's own
# One for each process, compilers that a test starts included.  Beyond these (ten, unless it is told
# otherwise) processes wait, and pytest for them, or the tool ends by a segmentation fault.
CONNECTIONS = 512
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
_PASSED = re.compile(r"^=* ?(\d+ (?:passed|failed|error).*?) ?=*$", re.MULTILINE)


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


# The tests that one pass takes, and how many processes share them: as many as are asked for, or one.
_TOGETHER, _ALONE = "gpu and not unsanitized and not alone", "gpu and alone and not unsanitized"
_NO_TESTS = 5  # pytest's exit status when none is selected


@dataclass(frozen=True)
class Setup:
    """How the tests are run under a tool.

    Attributes
    ----------
    workers : int
        Processes of pytest.
    port : int
        The first of those through which the tool talks to them.
    arguments : sequence of str
        More of them for pytest.
    """

    workers: int = WORKERS
    port: int = PORT
    arguments: Sequence[str] = ()


def command(tool: str, setup: Setup, log: Path, marks: str = _TOGETHER) -> list[str]:
    """Return the command that runs the tests with some marks under one tool."""
    sanitizer = [
        *("compute-sanitizer", "--tool", tool, "--target-processes", "all"),
        *("--max-connections", str(CONNECTIONS), "--port", str(setup.port)),
        # Refused calls are what many tests are about.
        *("--report-api-errors", "no", "--log-file", str(log)),
        *("--show-backtrace", "device", "--print-limit", "1000"),
    ]
    if tool == "initcheck":  # copies to the host include the padding of structs
        sanitizer += ["--check-api-memory-access", "no"]
    pytest = [
        *(sys.executable, "-m", "pytest", "-q", "-m", marks),
        *("-n", str(setup.workers), "--timeout", "0", *setup.arguments),
    ]
    return [*sanitizer, *pytest]


def run_tool(tool: str, setup: Setup, folder: Path) -> tuple[bool, str]:
    """Run the tests under one tool; return whether all is well, and a line about it."""
    passes = [
        run_pass(tool, setup, folder / f"{tool}.log", _TOGETHER),
        run_pass(tool, replace(setup, workers=1), folder / f"{tool}.alone.log", _ALONE),
    ]
    foreign = sum(len(one.findings.foreign) for one in passes)
    errors = sum(one.findings.errors for one in passes)
    for one in passes:
        for report, count in one.findings.kinds():
            print(f"{tool}, {count} times: {report}\n", flush=True)
        if not one.is_fine:
            print(one.output[-4000:], flush=True)
    outcome = "; alone: ".join(one.outcome for one in passes)
    return all(one.is_fine for one in passes) and not errors, (
        f"{tool:10} {errors:6} errors  {foreign:6} in other libraries   {outcome}"
    )


@dataclass(frozen=True)
class Pass:
    """What came of a run of pytest under a tool.

    Attributes
    ----------
    findings : Findings
        The tool's.
    status : int
        Pytest's.
    output : str
        What it printed.
    """

    findings: Findings
    status: int
    output: str

    @property
    def is_fine(self) -> bool:
        """Whether no test has failed."""
        return self.status in (0, _NO_TESTS)

    @property
    def outcome(self) -> str:
        """The last line of pytest, or what became of it."""
        passed = _PASSED.findall(self.output)
        if passed:
            return passed[-1]
        return "no tests" if self.status == _NO_TESTS else f"exit status {self.status}"


def run_pass(tool: str, setup: Setup, log: Path, marks: str) -> Pass:
    """Run the tests with some marks under one tool."""
    output = log.with_suffix(".pytest.log")
    log.unlink(missing_ok=True)
    with output.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            command(tool, setup, log, marks),
            env={**os.environ, "HYPOTHESIS_PROFILE": FEW},
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    # Without a test there is nothing to watch, which the tool calls an error.
    is_said = log.exists() and done.returncode != _NO_TESTS
    findings = parse_log(log.read_text(encoding="utf-8", errors="replace") if is_said else "")
    return Pass(findings, done.returncode, output.read_text(encoding="utf-8"))


def main() -> int:
    """Run the tools that are asked for; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitizer", description=__doc__)
    parser.add_argument("--tool", action="append", choices=TOOLS, help="default: all of them")
    parser.add_argument("--workers", type=int, default=WORKERS, help="processes of pytest")
    parser.add_argument("--port", type=int, default=PORT, help="first port of the tool")
    parser.add_argument("--logs", type=Path, default=Path("build/sanitizer"), help="folder")
    parser.add_argument("pytest", nargs="*", help="arguments of pytest, after --")
    given = parser.parse_args()
    if shutil.which("compute-sanitizer") is None:
        print("compute-sanitizer is not on the PATH; it comes with the CUDA toolkit")
        return 2
    given.logs.mkdir(parents=True, exist_ok=True)
    setup = Setup(given.workers, given.port, given.pytest)
    outcomes = []
    for tool in given.tool or TOOLS:
        outcomes.append(run_tool(tool, setup, given.logs))
        print(outcomes[-1][1], flush=True)
    return 0 if all(fine for fine, _ in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
