"""What a project may write as ``archs`` and ``ptx_isa``, and what ``--arch`` takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.build.project import build_project
from kspec.build.settings import load_settings
from kspec.compiler.cuda import nvrtc
from kspec.compiler.target import capability
from kspec.errors import SpecError, ToolNotFoundError
from kspec.model import manifest
from kspec.model.stages import Target
from kspec.runtime import driver
from kspec.runtime.driver.archs import fits
from tests.projects import CONFIGURATION


@pytest.fixture
def toy(toy: Path) -> Path:
    """Return a project of one small kernel."""
    (toy / "specs/squares.toml").unlink()
    return toy


def configured(toy: Path, archs: str, more: str = "") -> Path:
    line = 'archs = ["sm_90", "compute_80"]'
    text = CONFIGURATION.replace(line, f"archs = {archs}\n{more}")
    (toy / "pyproject.toml").write_text(text)
    return toy


def archs_of(toy: Path, *arguments: str) -> list[str]:
    return [str(target) for target in load_settings(toy, arguments).targets]


class TestConfigured:
    def test_spellings(self, toy: Path) -> None:
        configured(toy, '["90-real", "sm_100f", "80-virtual", "120", "sm_90"]')
        assert archs_of(toy) == ["sm_90", "sm_100f", "compute_80", "sm_120", "compute_120"]

    @pytest.mark.parametrize(
        ("archs", "message"),
        [
            ('["native"]', "'native' would make the package depend on the machine"),
            ('["all-major"]', "'all-major' depends on the compiler's version"),
            ('["90-fake"]', "unknown architecture '90-fake'"),
            ('["sm_89a", "80f"]', "unknown architecture 'sm_89a'"),
            ('["host"]', "leave 'host' out"),
        ],
    )
    def test_refused(self, toy: Path, archs: str, message: str) -> None:
        with pytest.raises(SpecError, match=message):
            load_settings(configured(toy, archs))

    @pytest.mark.usefixtures("optimized_code")
    def test_an_older_ptx(self, run, toy: Path) -> None:
        configured(toy, '["sm_90", "compute_80"]', 'ptx_isa = "7.0"')
        assert archs_of(toy) == ["sm_90", "compute_80@7.0"]
        assert archs_of(toy, "80-virtual") == ["compute_80@7.0"]
        status, out, err = run("build", "--project", toy)
        assert status == 0, err
        assert "for sm_90 compute_80; " in out
        image = manifest.load((toy / "generated/toy_kernels/manifest.json").read_text()).modules[0]
        assert {one.archs for one in image.images} == {("sm_90", "compute_80")}
        configured(toy, '["sm_90", "compute_80"]')
        assert "shifts.shift.fatbin" in build_project(toy).changed

    @pytest.mark.parametrize(
        ("archs", "isa", "message"),
        [
            ('["compute_80"]', '"old"', "ptx_isa: must be a version of PTX such as '8.0'"),
            ('["compute_80"]', "8.0", "must be a version of PTX such as '8.0', not 8.0"),
            ('["sm_90"]', '"8.0"', "ptx_isa: archs has no PTX, such as 'compute_80'"),
        ],
    )
    def test_no_ptx_isa(self, toy: Path, archs: str, isa: str, message: str) -> None:
        with pytest.raises(SpecError, match=message):
            load_settings(configured(toy, archs, f"ptx_isa = {isa}"))

    def test_a_ptx_that_is_too_old(self, run, toy: Path) -> None:
        configured(toy, '["compute_90"]', 'ptx_isa = "7.0"')
        status, _, err = run("build", "--project", toy)
        assert status == 2 and "the code for compute_90 cannot be PTX 7.0" in err


class TestAsked:
    def test_spellings(self, toy: Path) -> None:
        assert archs_of(toy, "90-real;80-virtual", "sm_100") == ["sm_90", "compute_80", "sm_100"]
        assert archs_of(toy) == ["sm_90", "compute_80"]

    @pytest.mark.parametrize(
        ("arch", "runs_on", "not_on"),
        [
            ("sm_100f", [(10, 0), (10, 3)], [(9, 0), (11, 0), (12, 0)]),
            ("compute_100f", [(10, 0), (10, 3)], [(9, 0), (11, 0), (12, 0)]),
            ("sm_103", [(10, 3)], [(10, 0), (11, 0)]),
            ("sm_103a", [(10, 3)], [(10, 0), (10, 4)]),
            ("sm_110", [(11, 0)], [(10, 3), (12, 0)]),
            ("sm_110f", [(11, 0)], [(10, 3), (12, 0)]),
            ("sm_120f", [(12, 0), (12, 1)], [(10, 3), (13, 0)]),
            ("sm_121", [(12, 1)], [(12, 0)]),
        ],
    )
    def test_blackwell(
        self,
        run,
        toy: Path,
        arch: str,
        runs_on: list[tuple[int, int]],
        not_on: list[tuple[int, int]],
    ) -> None:
        if capability(Target(arch)) not in nvrtc.supported_capabilities():
            pytest.skip(f"this NVRTC does not know {arch}")
        status, out, err = run("build", "--arch", arch, "--project", toy)
        assert status == 0, err
        assert f"for {arch}; " in out
        module = manifest.load((toy / "generated/toy_kernels/manifest.json").read_text()).modules[0]
        assert {one.archs for one in module.images} == {(arch,)}
        assert [one for one in (*runs_on, *not_on) if fits((arch,), one)] == runs_on

    def test_unknown_to_the_compiler(self, run, toy: Path) -> None:
        status, _, err = run("build", "--arch", "sm_85", "--project", toy)
        assert status == 2
        assert err.startswith("kspec: sm_85 is not supported by NVRTC ")
        assert "; compile for compute_80, which newer devices run too, or update NVRTC " in err

    @pytest.mark.parametrize("arch", ["90-fake", "", "host", "all"])
    def test_refused(self, run, toy: Path, arch: str) -> None:
        status, _, err = run("build", "--arch", arch, "--project", toy)
        assert status == 2 and err.startswith("kspec: --arch: ")

    def test_native(self, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        found = {0: (9, 0), 1: (8, 6), 2: (9, 0)}
        monkeypatch.setattr(driver, "why_unavailable", lambda: "")
        monkeypatch.setattr(driver, "device_count", lambda: len(found))
        monkeypatch.setattr(driver, "compute_capability", found.__getitem__)
        assert archs_of(toy, "native") == ["sm_86", "sm_90"]
        assert archs_of(toy, "compute_80;native") == ["compute_80", "sm_86", "sm_90"]

    def test_native_without_a_gpu(self, run, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(driver, "why_unavailable", lambda: "no CUDA driver: none here")
        with pytest.raises(ToolNotFoundError):
            load_settings(toy, ["native"])
        status, _, err = run("build", "--arch", "native", "--project", toy)
        assert status == 3
        assert "--arch native: no CUDA driver: none here\nname the architecture instead" in err

    @pytest.mark.gpu
    def test_native_on_a_gpu(self, run, toy: Path) -> None:
        major, minor = driver.compute_capability(0)
        status, out, err = run("build", "--arch", "native", "--project", toy)
        assert status == 0, err
        assert f"sm_{major}{minor}" in out
        assert "kspec.lock is not written" in err
