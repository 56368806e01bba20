"""What compute-sanitizer's logs say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import gpus
from tests.sanitizer import Outcome, Part, command, parse_log, run_part

OURS = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 8 bytes
=========     at void weighted<double, kspec::ShortLines>(kspec::Reduction<T2, (int)1>)+0x5320
=========     by thread (32,0,0) in block (0,0,0)
=========     Access to 0x7fc4f8842b00 is out of bounds
=========
========= Invalid __global__ read of size 8 bytes
=========     at void weighted<double, kspec::ShortLines>(kspec::Reduction<T2, (int)1>)+0x5320
=========     by thread (33,0,0) in block (0,0,0)
=========     Access to 0x7fc4f8842b08 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
"""
FOREIGN = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at cupy_copy__float32_float32+0x110
=========     by thread (0,0,0) in block (0,0,0)
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void at::native::vectorized_elementwise_kernel<(int)4>(int)+0x110
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 2 errors
"""
HAZARD = """\
========= Error: Race reported between Write access at void f<kspec::Lines>(int)+0x40
=========     and Read access at void f<kspec::Lines>(int)+0x50 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def test_clean() -> None:
    findings = parse_log("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n")
    assert (findings.errors, findings.foreign) == (0, ())


def test_reports_of_one_place_are_one_kind() -> None:
    findings = parse_log(OURS)
    assert findings.errors == 2
    ((report, count),) = findings.kinds()
    assert count == 2
    assert report.startswith("Invalid __global__ read") and "thread (32,0,0)" in report


def test_kernels_of_other_libraries_are_counted_apart() -> None:
    findings = parse_log(FOREIGN + OURS)
    assert (findings.errors, len(findings.foreign)) == (2, 2)


def test_hazards() -> None:
    assert parse_log(HAZARD).errors == 1


def test_errors_that_only_the_summary_counts() -> None:
    assert parse_log("========= Something new\n========= ERROR SUMMARY: 3 errors\n").errors == 3


def test_the_command() -> None:
    part = Part(3, 8, "gpu and some")
    words = command("racecheck", part, Path("r.log"), ["-k", "columns"])
    assert words[:3] == ["compute-sanitizer", "--tool", "racecheck"]
    assert words[-2:] == ["-k", "columns"]
    assert words[words.index("--part") + 1] == "3/8"
    assert "gpu and some" in words
    other = command("racecheck", Part(4, 8), Path("r.log"), [])
    ports = [int(one[one.index("--port") + 1]) for one in (words, other)]
    assert ports[1] - ports[0] == int(words[words.index("--max-connections") + 1])


def run_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, limit: float | None = None
) -> Outcome:
    """Return what comes of a tool that is a shell script, which knows its log as $LOG."""
    tool, log = tmp_path / "compute-sanitizer", tmp_path / "r.log"
    tool.write_text(f"#!/bin/sh\nLOG={log}\n{text}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return run_part("racecheck", Part(), log, [], limit)


def test_no_tests_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = (
        "echo '========= Error: Target application terminated before first instrumented API call'"
    )
    done = run_with(tmp_path, monkeypatch, f"{said} > $LOG; exit 5")
    assert (done.is_fine, done.findings.errors, done.text) == (True, 0, "no tests")
    none = "echo 'collected 103 items / 103 deselected / 0 selected'"
    done = run_with(tmp_path, monkeypatch, f"{none}; {said} > $LOG; exit 255")
    assert (done.is_fine, done.findings.errors, done.text) == (True, 0, "no tests")
    some = "echo 'collected 103 items / 3 deselected / 100 selected'"
    done = run_with(tmp_path, monkeypatch, f"{some}; {said} > $LOG; exit 3")
    assert (done.is_fine, done.findings.errors, done.text) == (False, 1, "exit status 3")


def test_where_a_part_was_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "tests/a.py::one[x y] PASSED   [ 1%%]\\ntests/a.py::two[x y] \\n"
    done = run_with(tmp_path, monkeypatch, f"printf '{lines}'; sleep 600", limit=0.5)
    assert (done.passed, done.text) == (1, "exit status -9 in tests/a.py::two[x y]")


def test_a_tool_that_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run_with(tmp_path, monkeypatch, "echo hello; sleep 600", limit=0.5)
    assert (done.is_fine, done.text) == (False, "exit status -9")
    assert done.output == "hello\n"
    done = run_with(tmp_path, monkeypatch, "echo 1 passed")
    assert (done.is_fine, done.status) == (False, -1)  # it has no log
    done = run_with(tmp_path, monkeypatch, "kill -SEGV $$")
    assert (done.is_fine, done.text) == (False, "exit status -11")


def test_all_parts_are_all_tests(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\n\n"
        "@pytest.mark.parametrize('k', range(7))\n@pytest.mark.gpu\ndef test(k): pass\n\n"
        "def test_other(): pass\n"
    )
    root = Path(__file__).parent.parent
    (tmp_path / "conftest.py").write_text((root / "tests/conftest.py").read_text())
    found: list[str] = []
    for number in range(3):
        pytest_ = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-m", "gpu"]
        done = subprocess.run(
            [*pytest_, "-p", "no:cacheprovider", "--part", f"{number}/3", str(tmp_path)],
            cwd=root,
            capture_output=True,
            text=True,
        )
        found += re.findall(r"test\[\d\]", done.stdout)
    assert sorted(found) == [f"test[{k}]" for k in range(7)]


def test_a_failure_is_shown_at_once(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import os, signal\n\ndef test_a(): assert 1 + 1 == 3\n\n"
        "def test_b(): os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parent.parent
    (tmp_path / "conftest.py").write_text((root / "tests/conftest.py").read_text())
    pytest_ = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*pytest_, "--part", "0/1", str(tmp_path)], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL
    assert "assert (1 + 1) == 3" in done.stdout


def test_gpus_come_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "installed", lambda: 3)
    found = [gpus.in_turn(number)["CUDA_VISIBLE_DEVICES"] for number in range(4)]
    assert found == ["0,1,2", "1,2,0", "2,0,1", "0,1,2"]
    monkeypatch.setattr(gpus, "installed", lambda: 1)
    assert gpus.in_turn(3) == {}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1,2")
    assert gpus.in_turn(3) == {}


def test_an_interrupt_ends_the_tools(tmp_path: Path) -> None:
    tool, alive = tmp_path / "compute-sanitizer", tmp_path / "alive"
    tool.write_text(f"#!/bin/sh\nwhile true; do date >> {alive}; sleep 0.1; done\n")
    tool.chmod(0o755)
    words = [sys.executable, "-m", "tests.sanitizer", "--tool", "memcheck", "--workers", "2"]
    process = subprocess.Popen(
        [*words, "--logs", str(tmp_path / "logs")],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
    )
    while not alive.exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGINT
    time.sleep(0.3)  # what is killed may be writing
    size = alive.stat().st_size
    time.sleep(0.5)
    assert alive.stat().st_size == size
