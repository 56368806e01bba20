"""The program: options, files, exit status, sections, and what is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as program
from benchmarks import coldstart, costs, host_device, suite
from benchmarks.coldstart import STARTS, is_possible, run_start
from benchmarks.machines import HostMachine
from benchmarks.results import Figure, Throughput, load
from tests.projects import ROOT


def run(*arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


class TestProgram:
    def test_a_run_on_the_host(self, tmp_path: Path) -> None:
        json, markdown = tmp_path / "r.json", tmp_path / "R.md"
        status, shown = run(
            *("--device", "host", "--quick", "--only", "row broadcast", "--elements", "5000"),
            *("--json", str(json), "--markdown", str(markdown)),
        )
        assert status == 0
        assert max(map(len, shown.splitlines())) <= 80
        results = load(json.read_text(encoding="utf-8"))
        names = [row.name for row in results.throughput]
        assert names == [
            "row broadcast",
            "f16 row broadcast",
            "int8 row broadcast",
            "row broadcast, odd",
        ]
        assert results.copy_bandwidth and results.copy_after and results.seconds > 0
        assert {"Python", "kspec", "numpy"} <= set(results.versions)
        text = markdown.read_text(encoding="utf-8")
        assert "| int8 row broadcast |" in text and results.date in text

        status, again = run("--load", str(json), "--markdown", str(tmp_path / "again.md"))
        assert status == 0 and again == ""
        assert (tmp_path / "again.md").read_text(encoding="utf-8") == text

    def test_calls_on_the_host(self) -> None:
        status, shown = run("--device", "host", "--quick", "--only", "overhead/2-D")
        assert status == 0
        assert "2-D with 1-D, allocated" in shown and "2-D with 1-D, given" in shown
        assert "output given" not in shown

    def test_no_gpu_is_a_line(self, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
        monkeypatch.setattr(program.kspec, "devices", lambda: ["host"])
        assert program.main(["--device", "cuda", "--only", "nothing at all"]) == 0
        assert "no GPU here: measuring on the host device" in capsys.readouterr().out

    @pytest.mark.parametrize("arguments", [["--elements", "3"], ["--device", "tpu"]])
    def test_bad_options(self, arguments: list[str], capsys: Any) -> None:
        with pytest.raises(SystemExit) as stop:
            program.parse(arguments)
        assert stop.value.code == 2
        assert "error: " in capsys.readouterr().err

    @pytest.mark.slow
    def test_a_wrong_result_fails_the_run_and_the_rest_goes_on(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
    ) -> None:
        original = suite.Runner.run

        def wrong_once(self: Any, case: Any, *more: Any) -> Throughput:
            row = original(self, case, *more)
            if case.name != "f16 row broadcast":
                return row
            return Throughput(**{**vars(row), "samples": {}, "problem": "WRONG RESULT: error 7"})

        monkeypatch.setattr(suite.Runner, "run", wrong_once)
        arguments = ["--device", "host", "--quick", "--only", "row broadcast", "--elements", "2000"]
        assert program.main([*arguments, "--json", str(tmp_path / "r.json")]) == 1
        shown = capsys.readouterr().out
        assert "PROBLEM: elementwise/f16 row broadcast: WRONG RESULT: error 7" in shown
        assert len(load((tmp_path / "r.json").read_text()).throughput) == 4

    @pytest.mark.slow
    def test_interrupted_runs_keep_what_is_there(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
    ) -> None:
        original = suite.Runner.run

        def interrupted(self: Any, case: Any, *more: Any) -> Throughput:
            if case.name == "int8 row broadcast":
                raise KeyboardInterrupt
            return original(self, case, *more)

        monkeypatch.setattr(suite.Runner, "run", interrupted)
        arguments = ["--device", "host", "--quick", "--only", "row broadcast", "--elements", "2000"]
        markdown = tmp_path / "R.md"
        program.main([*arguments, "--markdown", str(markdown)])
        assert "interrupted: what is there is kept" in capsys.readouterr().out
        assert "f16 row broadcast" in markdown.read_text(encoding="utf-8")

    def test_without_matplotlib_plots_are_left_out(
        self, monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path
    ) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        assert (
            program.main(["--device", "host", "--only", "overhead/bound", "--plots", str(tmp_path)])
            == 0
        )
        assert "plots are left out: " in capsys.readouterr().out


class TestColdStart:
    def test_a_process_per_kind(self) -> None:
        machine = HostMachine()
        possible = [start.name for start in STARTS if is_possible(start, machine)]
        assert possible == [
            "Python and NumPy",
            "generated package",
            "lazy, empty cache",
            "lazy, warm cache",
        ]

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["Python and NumPy", "generated package", "lazy, warm cache"])
    def test_starts(self, name: str) -> None:
        (start,) = [start for start in STARTS if start.name == name]
        figures = list(run_start(start, HostMachine(), ROOT / "generated", 1))
        assert [figure.name for figure in figures] == [
            name,
            *(f"{name}: {stage}" for stage in start.stages or ()),
        ]
        assert all(not figure.problem for figure in figures)
        assert figures[0].value > sum(figure.value for figure in figures[1:])

    def test_a_process_that_fails_is_a_figure(self) -> None:
        start = coldstart.Start("broken", "raise RuntimeError('no such thing')")
        (figure,) = run_start(start, HostMachine(), ROOT, 1)
        assert figure.problem == "RuntimeError: no such thing"

    @pytest.mark.slow
    def test_the_package_is_built_elsewhere(self) -> None:
        with coldstart.built_package(HostMachine()) as (folder, figures):
            assert (folder / "kspec_kernels" / "norms.py").is_file()
            assert ROOT not in folder.parents
            assert [figure.problem for figure in figures] == ["", ""]
        assert not folder.exists()


def test_host_costs_go_on_when_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fine = Figure("host device", "launch", 1.0, "us", 15)
    monkeypatch.setattr(host_device, "stacks", lambda: fine)
    monkeypatch.setattr(host_device, "ratios", lambda elements: 1 / 0)
    monkeypatch.setattr(host_device, "raw_kernels", lambda: [fine])
    monkeypatch.setattr(host_device, "costs", lambda: [fine])
    monkeypatch.setattr(host_device, "first_launch", lambda: fine)
    rows = list(host_device.figures())
    assert [row.problem for row in rows] == ["", "ZeroDivisionError: division by zero", "", "", ""]


class TestCosts:
    def test_they_run_only_when_they_are_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        folders: list[Path] = []

        def work(folder: Path) -> list[Figure]:
            folders.append(folder)
            return [Figure(costs.SECTION, "pip install .", 2.5, "CPU s", 30.0)]

        rows = (("pip install", work, False), ("make test", work, True))
        monkeypatch.setattr(costs, "_ROWS", rows)
        assert list(costs.run(None)) == list(costs.run("elementwise")) == []
        assert list(costs.run("costs")) == work(Path())
        assert list(costs.run("costs/make test")) == work(Path())
        assert len(folders) == 4 and not any(one.exists() for one in (folders[0], folders[2]))

    def test_a_command_that_fails_is_a_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(folder: Path) -> list[Figure]:
            raise subprocess.CalledProcessError(2, ["make", "demo"])

        monkeypatch.setattr(costs, "_ROWS", (("demo", fail, False),))
        (row,) = costs.run("costs/demo")
        assert row.problem == "Command '['make', 'demo']' returned non-zero exit status 2."

    def test_what_a_command_and_its_children_take(self, tmp_path: Path) -> None:
        work = "import os; print(os.environ['KSPEC_CACHE_DIR']); sum(range(3_000_000))"
        child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
        cost = costs.spent([sys.executable, "-c", child], tmp_path)
        assert cost.said.strip() == str(tmp_path / "cache")
        assert cost.cpu > 0.01
        assert cost.wall > 0.01
