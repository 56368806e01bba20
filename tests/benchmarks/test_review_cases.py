"""Cases of reviews compute what they say, and reports of the profiler are read line by line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.review.case import Case
from benchmarks.review.cases import raw_cases
from benchmarks.review.profile import Instruction, executed_of, lines_of
from benchmarks.review.shipped import Call, shipped_calls

SMALL = 2**16
RAW = raw_cases(SMALL)
SHIPPED = shipped_calls(SMALL)
SOME = ("strided_3", "transpose_swizzled", "shared_columns_padded", "csr_warp_a_row", "compact")


def named(cases: list[Any], some: tuple[str, ...] = ()) -> list[Any]:
    """Return the cases as parameters; all but some of them are slow."""
    slow = pytest.mark.slow
    return [
        pytest.param(case, id=case.name, marks=[] if case.name in some else slow) for case in cases
    ]


def check(got: Any, want: Any) -> None:
    tolerance = 2e-3 if got.dtype == np.float16 else 2e-4
    got, want = (np.asarray(one).astype(np.float64).ravel() for one in (got, want))
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=1e-3)


def measured() -> dict[str, Any]:
    """Return the figures of each case."""
    file = Path(__file__).parents[2] / "benchmarks/review/measured_h200.json"
    return {row["name"]: row for row in json.loads(file.read_text(encoding="utf-8"))["cases"]}


def test_every_case_is_measured() -> None:
    assert list(measured()) == [case.name for case in (*RAW, *SHIPPED)]


@pytest.mark.parametrize("case", raw_cases(), ids=lambda case: case.name)
def test_measured_launches_are_those_of_the_cases(case: Case) -> None:
    (launch,) = measured()[case.name]["launches"]
    ones = (1, 1, 1)
    assert launch["kernel"] == case.name
    assert tuple(launch["grid"]) == (*case.grid, *ones)[:3]
    assert tuple(launch["block"]) == (*case.block, *ones)[:3]
    lines = case.code.split("\n")
    for row in launch["lines"]:  # statements, not declarations
        assert lines[row["line"] - 1].rstrip().endswith((";", ")"))


def test_names_are_unique() -> None:
    names = [case.name for case in (*RAW, *SHIPPED)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", named(RAW, SOME))
def test_raw_kernels_compute_what_they_say(case: Case) -> None:
    arguments = case.arguments()
    with np.errstate(over="ignore"):
        want = case.expected(*(one.copy() for one in arguments))
    case.kernel()(case.grid, case.block, arguments, shared_mem=case.shared_mem)
    check(arguments[case.output], want)


@pytest.mark.parametrize("case", named(SHIPPED, ("squared_diff_transposed",)))
def test_shipped_kernels_compute_what_they_say(case: Call) -> None:
    arguments = case.arguments()
    want = case.expected(*(one.copy() if hasattr(one, "copy") else one for one in arguments))
    case.call(*arguments)
    check(arguments[-1], want)


def executed(text: str, line: int = 1, file: str = "kernel.cu", **more: int) -> Instruction:
    counts = {
        "inst_executed": 10,
        "thread_inst_executed": 320,
        "thread_inst_executed_true": 320,
        **more,
    }
    return Instruction(text, file, line, counts)


@pytest.mark.parametrize(
    ("text", "access"),
    [
        ("      LDG.E R2, desc[UR4][R2.64]", ("global", "load", 4)),
        ("LDG.E.U8.CONSTANT R5, desc[UR4][R4.64]", ("global", "load", 1)),
        ("@!P0 STG.E.128 desc[UR4][R4.64], R8", ("global", "store", 16)),
        ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R7", ("global", "atomic", 4)),
        ("LDS.64 R2, [R4]", ("shared", "load", 8)),
        ("ATOMS.POPC.INC.32 RZ, [R6+URZ]", ("shared", "atomic", 4)),
        ("STL.128 [R1+0x10], R8", ("local", "store", 16)),
        ("LDC R3, c[0x3][R3]", ("constant", "load", 4)),
        ("LDC.64 R2, c[0x0][0x210]", None),
        ("FFMA R1, R2, R3, R4", None),
    ],
)
def test_access_of_an_instruction(text: str, access: tuple[str, str, int] | None) -> None:
    assert executed(text).access == access


def test_lines_add_up_instructions() -> None:
    sectors = {"memory_l2_theoretical_sectors_global": 40, "memory_l1_tag_requests_global": 10}
    rows = lines_of(
        [
            executed("LDG.E R2, desc[UR4][R2.64]", 7, **sectors),
            executed("LDG.E R3, desc[UR4][R2.64+0x80]", 7, **sectors),
            executed("FADD R2, R2, R3", 7),
            executed("LDG.E R9, desc[UR4][R2.64]", 7, "specs/a.toml", **sectors),
        ]
    )
    assert [(row["requests"], row["sectors"], row.get("file")) for row in rows] == [
        (20, 80, None),
        (10, 40, "specs/a.toml"),
    ]


def test_warps_whose_lanes_are_all_off_make_no_request() -> None:
    off = {"thread_inst_executed_true": 96, "memory_l1_tag_requests_global": 3}
    (row,) = lines_of([executed("@P0 LDG.E R2, desc[UR4][R2.64]", **off)])
    assert (row["requests"], row["executed"], row["lanes"]) == (3, 10, 96)


def test_executed_instructions_of_lines() -> None:
    parted = {"smsp__branch_targets_threads_divergent": 4}
    rows = executed_of([executed("BRA 0x100", 3, **parted), executed("FADD R1, R2, R3", 3)])
    assert rows == [[3, 20, 640, 640, 4]]
