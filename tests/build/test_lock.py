"""``kspec.lock``: what it says, when it is written, and when it is stale."""

from __future__ import annotations

from pathlib import Path

import pytest

from kspec.build.images import images_key
from kspec.build.package import files
from kspec.build.plan import group_source
from kspec.build.project import build_project, plan_project
from kspec.build.report import lock as locks
from kspec.build.report import locking
from kspec.build.report.lock import Lock, LockedKernel, LockRow
from kspec.compiler.cuda.nvrtc import nvrtc_build
from kspec.errors import ManifestError
from kspec.model.stages import Figures
from tests.projects import ROOT, SHIFTS, SQUARES, write_project

LOCK = Lock(
    (
        LockedKernel(
            "norms",
            "l2norm",
            'nvrtc "x"',
            "5f0c",
            (
                LockRow("l2norm<float>", "sm_90", Figures(40, 32, 16, -1, 8, 1920)),
                LockRow("l2norm<float>", "compute_80"),
            ),
        ),
        LockedKernel("norms", "größe", "nvrtc", "aa", ()),
    )
)


def lock_of(project: Path) -> Lock:
    found = locks.read_lock(project)
    assert found is not None
    return found


class TestText:
    def test_loading_undoes_dumping(self) -> None:
        assert locks.load(locks.dump(LOCK)) == LOCK
        assert locks.load(locks.dump(Lock())) == Lock()

    def test_a_line_for_each_specialization_and_architecture(self) -> None:
        lines = locks.dump(LOCK).splitlines()
        assert (
            '  { name = "l2norm<float>", arch = "sm_90", registers = 40, spills = 8, '
            "stack = 16, shared = 32, bytes = 1920 }," in lines
        )
        assert '  { name = "l2norm<float>", arch = "compute_80" },' in lines

    @pytest.mark.parametrize(
        "text", ["", "lock-version = ", "lock-version = 1\n[a]\nb = 1", "lock-version = 'x'"]
    )
    def test_damaged(self, text: str) -> None:
        with pytest.raises(ManifestError, match=r"kspec.lock is damaged"):
            locks.load(text)

    def test_of_a_newer_kspec(self) -> None:
        with pytest.raises(ManifestError, match="version 2, this kspec knows 1: upgrade"):
            locks.load("lock-version = 2")


class TestBuild:
    def test_what_it_says(self, built: Path) -> None:
        kernels = {kernel.key: kernel for kernel in lock_of(built).kernels}
        assert list(kernels) == [
            ("shifts", "shift"),
            ("squares", "square"),
            ("squares", "total"),
        ]
        square = kernels["squares", "square"]
        assert square.compiler.startswith("nvrtc V")
        assert {row.arch for row in square.rows} == {"sm_90", "compute_80"}
        assert len(square.rows) == 20
        for row in square.rows:
            known = row.numbers
            if row.arch == "compute_80":
                assert known == {}
            else:
                assert known["registers"] > 0 and known["bytes"] > 0 and known["spills"] == 0

    def test_it_is_deterministic(self, built: Path, tmp_path: Path) -> None:
        other = write_project(tmp_path / "other")
        build_project(other)
        name = locks.FILE_NAME
        assert (other / name).read_bytes() == (built / name).read_bytes()

    def test_it_is_written_when_it_changes(self, built: Path) -> None:
        path = built / locks.FILE_NAME
        before = path.stat().st_mtime_ns
        assert not build_project(built).lock.written
        assert path.stat().st_mtime_ns == before
        path.unlink()
        assert build_project(built).lock.written
        assert not [one for one in built.iterdir() if "staging" in one.name]

    def test_not_by_a_build_for_something_else(self, toy: Path) -> None:
        report = build_project(toy, ["sm_80"])
        assert not report.lock.written and "all configured archs" in report.lock.note
        assert not build_project(toy, compiling=False).lock.note
        assert not (toy / locks.FILE_NAME).exists()
        assert build_project(toy, ["80-virtual", "90-real"]).lock.written

    def test_lines_of_one_kernel_change_alone(self, built: Path) -> None:
        before = (built / locks.FILE_NAME).read_text().splitlines()
        path = built / "specs/squares.toml"
        path.write_text("# a line more\n" + SQUARES.replace("y = x * x", "y = x * x * x"))
        build_project(built)
        after = (built / locks.FILE_NAME).read_text().splitlines()
        changed = [number for number, line in enumerate(after) if before[number] != line]
        start = next(i for i, line in enumerate(after) if line == "[squares.square]")
        end = next(i for i, line in enumerate(after) if line == "[squares.total]")
        assert changed and start < min(changed) and max(changed) < end

    def test_another_compiler_is_told(self, run, built: Path) -> None:
        path = built / locks.FILE_NAME
        path.write_text(path.read_text().replace("nvrtc V", "nvrtc older V"))
        status, _, err = run("build", "--project", built)
        assert status == 0
        assert "kspec: kspec.lock now records another compiler: nvrtc V" in err
        assert "before: nvrtc older V" in err

    def test_kernels_without_types_have_no_compiler(self, run, built: Path) -> None:
        for path in (built / "specs").glob("*.toml"):
            kept = [line for line in path.read_text().splitlines() if not line.startswith("types")]
            path.write_text("\n".join(kept))
        (built / "specs/shifts.toml").unlink()
        status, _, err = run("build", "--project", built)
        assert (status, err) == (0, "")
        assert "[squares" not in (built / locks.FILE_NAME).read_text()


class TestCheck:
    def test_fresh(self, run, built: Path) -> None:
        assert run("check", "--project", built)[0] == 0

    def test_a_project_that_was_never_compiled_needs_none(self, run, toy: Path) -> None:
        build_project(toy, compiling=False)
        assert run("check", "--project", toy)[0] == 0
        build_project(toy, ["sm_80"])
        assert run("check", "--project", toy)[0] == 0

    def test_without_the_compiler(self, run, built: Path, monkeypatch) -> None:
        monkeypatch.setattr("kspec.compiler.cuda.nvrtc._library", None)
        assert run("check", "--project", built)[0] == 0

    def stale(self, run, project: Path) -> str:
        status, out, err = run("check", "--project", project)
        assert status == 1 and "run `kspec build`" in err
        return out

    def test_missing(self, run, built: Path) -> None:
        (built / locks.FILE_NAME).unlink()
        assert "--- /dev/null\n+++ kspec.lock (by kspec build)\n" in self.stale(run, built)

    def test_newer(self, run, built: Path) -> None:
        (built / locks.FILE_NAME).write_bytes(b"lock-version = 9\n")
        status, _, err = run("check", "--project", built)
        assert status == 1
        assert err == "kspec: kspec.lock has version 9, this kspec knows 1: upgrade kspec\n"

    @pytest.mark.parametrize("data", [b"", b"\xff"])
    def test_damaged(self, run, built: Path, data: bytes) -> None:
        (built / locks.FILE_NAME).write_bytes(data)
        assert "-(damaged)\n" in self.stale(run, built)

    def test_changed_cuda(self, run, built: Path) -> None:
        write_project(built, squares=SQUARES.replace("y = x * x", "y = x + x"))
        build_project(built, compiling=False)
        lines = self.stale(run, built).splitlines()
        changed = [line for line in lines if line[0] in "+-" and line[:3] not in ("---", "+++")]
        assert [line[:10] for line in changed] == ["-source = ", "+source = "]

    def test_another_layout_of_the_spec_is_none(self, run, built: Path) -> None:
        write_project(built, squares="# more\n\n" + SQUARES)
        build_project(built, compiling=False)
        assert run("check", "--project", built)[0] == 0

    def test_changed_header(self, run, built: Path) -> None:
        (built / "specs/amount.cuh").write_text("#define AMOUNT 4\n")
        build_project(built, compiling=False)
        assert "[shifts.shift]" in self.stale(run, built)

    def test_changed_coverage(self, run, built: Path) -> None:
        write_project(built, squares=SQUARES.replace('"int32"', '"int64"'))
        build_project(built, compiling=False)
        difference = self.stale(run, built)
        assert '-  { name = "square<int, kspec::Flat>", arch = "sm_90", registers' in difference
        assert '+  { name = "square<long long, kspec::Flat>", arch = "sm_90" }' in difference

    def test_other_archs(self, run, built: Path) -> None:
        path = built / "pyproject.toml"
        path.write_text(path.read_text().replace("sm_90", "sm_80"))
        assert '+  { name = "shift", arch = "sm_80" },' in self.stale(run, built)


def test_a_digest_does_not_depend_on_other_kernels(toy: Path) -> None:
    def digests() -> dict[tuple[str, str], str]:
        lock = locking.expected_lock(plan_project(toy), Lock())
        return {kernel.key: kernel.source for kernel in lock.kernels}

    before = digests()
    write_project(toy, shifts=SHIFTS + SHIFTS.replace("shift", "other"))
    after = digests()
    assert before.items() <= after.items() and ("shifts", "other") in after
    assert len(set(after.values())) == len(after)
    assert all(len(one) == 32 for one in after.values())


class TestShipped:
    """The lock of this repository; nobody sees otherwise that it is old."""

    def test_it_is_what_the_manifest_says(self) -> None:
        plan = plan_project(ROOT)
        lock = lock_of(ROOT)
        assert lock == locking.make_lock(plan, files.read_images(plan.settings.package_folder))
        unknown = [row for _, row in lock.rows if row.arch.startswith("sm_") and not row.numbers]
        assert not unknown, "run `kspec build`, and commit what it wrote"

    @pytest.mark.usefixtures("optimized_code")
    def test_the_manifest_is_of_this_text(self) -> None:
        plan = plan_project(ROOT)
        images = files.read_images(plan.settings.package_folder)
        compilers = {one.entry.compiler for one in images.values()}
        if not all(nvrtc_build() in one for one in compilers):
            pytest.skip(f"needs {compilers}, not NVRTC {nvrtc_build()}")
        old = [
            group.name
            for unit in plan.units
            for group in unit.groups
            if images[group.name].entry.key
            != images_key(group_source(plan.settings, unit, group), plan.targets)
        ]
        assert not old, "run `kspec build`, and commit generated/"
