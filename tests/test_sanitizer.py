"""What compute-sanitizer's logs say."""

from __future__ import annotations

from pathlib import Path

from tests.sanitizer import command, parse_log

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
    words = command("racecheck", 3, Path("r.log"), ["-k", "columns"])
    assert words[:3] == ["compute-sanitizer", "--tool", "racecheck"]
    assert words[-2:] == ["-k", "columns"]
    assert "gpu and not unsanitized and not alone" in words
