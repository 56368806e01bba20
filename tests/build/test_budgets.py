"""Budgets of specs: what a build says of kernels that take more."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.build.project import build_project
from kspec.build.report.budgets import BudgetError
from kspec.errors import SpecError
from tests.projects import CONFIGURATION, SHIFTS, SQUARES, files_of, write_project, write_specs

SPILLS = """
[raw.many]
no_spills = true
code = '''
extern "C" __global__ void __launch_bounds__(1024) many(double* x) {
  double kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = x[i * 1024 + threadIdx.x];
  for (int j = 0; j < 9; ++j)
    for (int i = 0; i < 64; ++i) kept[i] = kept[i] * kept[(i * 7 + 3) % 64] + x[j];
  for (int i = 0; i < 64; ++i) x[i * 1024 + threadIdx.x] = kept[i];
}
'''
params = "double* x"
"""


def with_budget(line: str, text: str = SQUARES) -> str:
    return text.replace('outputs = "T y"\n', f'outputs = "T y"\n{line}\n', 1)


def problems(toy: Path) -> str:
    with pytest.raises(BudgetError) as caught:
        build_project(toy)
    return str(caught.value)


@pytest.mark.parametrize("line", ["max_registers = 255", "no_spills = true", "max_bytes = 100000"])
def test_within(toy: Path, line: str) -> None:
    write_project(toy, squares=with_budget(line))
    assert build_project(toy).lock.written


def test_everything_that_is_above_is_listed(toy: Path) -> None:
    write_project(
        toy,
        squares=with_budget("max_registers = 4\nmax_bytes = 100"),
        shifts=SHIFTS.replace("params", "max_registers = 1\nparams", 1),
    )
    text = problems(toy)
    lines = text.splitlines()
    heads = [line for line in lines if line.startswith("specs/")]
    assert len(heads) == 21, "ten specializations, two budgets; and one of the other file"
    assert lines[0].startswith("specs/shifts.toml:10:1: error: shift takes ")
    assert lines[0].endswith(" registers on sm_90; max_registers is 1")
    assert lines[1:3] == ["    max_registers = 1", "    ^^^^^^^^^^^^^"]
    assert "specs/squares.toml:7:1: error: square<float, kspec::Flat> takes " in text
    assert "specs/squares.toml:8:1: error: square<int, kspec::Tiles> has " in text
    assert " bytes of code on sm_90; max_bytes is 100\n    max_bytes = 100\n" in text


def test_architectures_share_a_line(tmp_path: Path) -> None:
    toy = write_project(tmp_path, squares=with_budget("max_registers = 4"))
    (toy / "pyproject.toml").write_text(CONFIGURATION.replace('"compute_80"', '"sm_80"'))
    assert " registers on sm_90, " in problems(toy)
    assert problems(toy).splitlines()[0].endswith(" on sm_80; max_registers is 4")


@pytest.mark.usefixtures("optimized_code")
def test_spills(tmp_path: Path) -> None:
    text = problems(write_specs(tmp_path, shifts=SPILLS))
    assert text.startswith("specs/shifts.toml:3:1: error: many spills ")
    assert "bytes of registers on sm_90; no_spills allows none\n" in text


def test_nothing_is_replaced(run, toy: Path) -> None:
    build_project(toy)
    before = files_of(toy)
    write_project(toy, squares=with_budget("max_registers = 4"))
    status, _, err = run("build", "--project", toy)
    assert status == 2 and "max_registers is 4" in err
    after = files_of(toy)
    assert {name for name in after if before.get(name) != after[name]} == {"specs/squares.toml"}
    assert run("build", "--no-compile", "--project", toy)[0] == 0, "text has no figures"


def test_images_that_are_there_already_are_checked(toy: Path) -> None:
    build_project(toy)
    write_project(toy, squares=with_budget("max_bytes = 1"))
    assert "max_bytes is 1" in problems(toy)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_registers = 0", "max_registers = 0"),
        ("max_registers = '32'", "must be an integer, not str"),
        ("max_bytes = -1", "greater than 0"),
        ("no_spills = 1", "must be a boolean, not int"),
        ("max_spills = 1", "unknown key 'max_spills'"),
    ],
)
def test_what_is_no_budget(toy: Path, line: str, message: str) -> None:
    write_project(toy, squares=with_budget(line))
    with pytest.raises(SpecError, match=message):
        build_project(toy)
