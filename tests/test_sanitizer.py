"""What compute-sanitizer's logs say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.sanitizer import Pass, Setup, command, parse_log, run_pass

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
    words = command("racecheck", Setup(3, 50_000, ["-k", "columns"]), Path("r.log"))
    assert words[:3] == ["compute-sanitizer", "--tool", "racecheck"]
    assert words[words.index("--port") + 1] == "50000"
    assert words[-2:] == ["-k", "columns"]
    assert "gpu and not unsanitized and not alone" in words


def run_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, status: int) -> Pass:
    """Return what comes of a tool that says something and ends with a status."""
    tool = tmp_path / "compute-sanitizer"
    log = tmp_path / "r.log"
    tool.write_text(f"#!/bin/sh\nprintf '%s' '{said}' > {log}\nexit {status}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return run_pass("racecheck", Setup(), log, "gpu")


def test_no_tests_are_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = "========= Error: Target application terminated before first instrumented API call\n"
    done = run_with(tmp_path, monkeypatch, said, 5)
    assert (done.is_fine, done.findings.errors, done.outcome) == (True, 0, "no tests")
    done = run_with(tmp_path, monkeypatch, said, 3)
    assert (done.is_fine, done.findings.errors, done.outcome) == (False, 1, "exit status 3")
