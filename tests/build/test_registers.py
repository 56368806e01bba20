"""No shipped kernel takes more registers, or spills any, without somebody having seen it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kspec.build.files import read_manifest
from kspec.build.images import unit_key
from kspec.build.project import plan_project
from kspec.compiler.nvrtc import nvrtc_build
from kspec.manifest import Manifest
from tests.registers import TABLE, Registers, Use, growth, parse_registers, registers_of

PROJECT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def shipped() -> Manifest:
    found = read_manifest(PROJECT / "generated" / "kspec_kernels")
    assert found is not None
    return found


def test_the_manifest_is_of_this_text(shipped: Manifest) -> None:
    """Its figures are compared below; nobody sees otherwise that they are old."""
    if nvrtc_build() not in registers_of(shipped).compiler:
        pytest.skip(f"needs NVRTC {registers_of(shipped).compiler}, not {nvrtc_build()}")
    plan = plan_project(PROJECT)
    old = [
        unit.stem
        for unit in plan.units
        if (image := shipped.module(unit.stem).image) is None
        or image.key != unit_key(unit, plan.targets)
    ]
    assert not old, "run `kspec build`, and commit generated/"


def test_no_figure_grows(shipped: Manifest, update_golden: bool) -> None:
    now = registers_of(shipped)
    if update_golden:
        TABLE.write_text(str(now), encoding="utf-8")
    recorded = parse_registers(TABLE.read_text(encoding="utf-8"))
    problems = "\n".join(growth(recorded, now))
    assert not problems, f"see --update-golden\n{problems}"


class TestTable:
    TABLE = Registers(
        "nvrtc V1.2.3 CL-4",
        ("sm_80", "sm_90"),
        {"norms.f<float, Lines>": (Use(38, 0), Use(40, 8)), "raw.g": (Use(8, 0), Use(9, 0))},
    )

    def with_use(self, use: Use) -> Registers:
        return replace(self.TABLE, uses={**self.TABLE.uses, "raw.g": (Use(8, 0), use)})

    def test_printing_undoes_parsing(self) -> None:
        text = str(self.TABLE)
        assert text.splitlines() == [
            "nvrtc V1.2.3 CL-4        sm_80    sm_90",
            "norms.f<float, Lines>       38     40+8",
            "raw.g                        8        9",
        ]
        assert parse_registers(text) == self.TABLE

    @pytest.mark.parametrize(
        ("use", "line"),
        [
            (Use(9, 0), None),
            (Use(7, 0), None),
            (Use(10, 0), "sm_90 raw.g: 10, recorded 9"),
            (Use(7, 4), "sm_90 raw.g: 7+4, recorded 9"),
        ],
    )
    def test_growth(self, use: Use, line: str | None) -> None:
        assert list(growth(self.TABLE, self.with_use(use))) == ([line] if line else [])

    def test_another_compiler(self) -> None:
        other = replace(self.with_use(Use(99, 0)), compiler="nvrtc V2")
        assert not list(growth(self.TABLE, other))
        other = replace(self.with_use(Use(9, 16)), compiler="nvrtc V2")
        assert list(growth(self.TABLE, other)) == ["sm_90 raw.g: 9+16, recorded 9"]

    def test_a_new_kernel(self) -> None:
        less = replace(self.TABLE, uses={"raw.g": self.TABLE.uses["raw.g"]})
        assert list(growth(less, self.TABLE)) == [
            "sm_80 norms.f<float, Lines>: 38, nothing recorded",
            "sm_90 norms.f<float, Lines>: 40+8, nothing recorded",
        ]
