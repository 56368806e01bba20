"""CUB as a peer: what is called, what is compared, and what happens where it fails."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks import aggregate_cases, cub, machines
from benchmarks.cases import Case
from benchmarks.cub import Cub, CubError
from benchmarks.machines import CudaMachine, HostMachine
from benchmarks.report import markdown
from benchmarks.results import Results
from benchmarks.throughput import Runner, beside_peers
from kspec.compiler.cuda import nvcc
from kspec.errors import ToolNotFoundError
from tests.benchmarks.fakes import FakeCub, fake_cub, install

CASES = [case for case in aggregate_cases.CASES if case.cub]
BY_NAME = {case.name: case for case in CASES}
SCAN = BY_NAME["scan"]


@pytest.fixture(scope="module")
def machine() -> HostMachine:
    machine = HostMachine(3000)
    machine.cache_bytes, machine.peers = 0, {}
    return machine


@pytest.fixture(scope="module")
def runner(machine: HostMachine) -> Runner:
    return Runner(machine, budget=0)


def test_every_function_is_in_the_source() -> None:
    text = cub.SOURCE.read_text(encoding="utf-8")
    defined = set(re.findall(r"(?:^SCAN(?:_ROWS)?\(| int )(\w+)(?:, \w+\)|\(void)", text, re.M))
    assert {case.cub for case in CASES} == defined - {"name"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_beside_cub(case: Case, runner: Runner, machine: HostMachine) -> None:
    library = FakeCub()
    machine.peers = {"cub": fake_cub(library)}
    row = runner.run(case)
    assert (row.problem, row.notes) == ("", ())
    assert set(row.samples) == {"kspec", "CUB"}
    assert library.asked == [case.cub]
    (figure,) = beside_peers(case, row)
    assert (figure.section, figure.limit) == ("aggregate beside peers", case.times["CUB"])
    assert figure.name == f"{case.name}, times as fast as CUB"


def test_cases_without_a_function_have_no_row(runner: Runner, machine: HostMachine) -> None:
    machine.peers = {"cub": fake_cub(FakeCub())}
    (case,) = [one for one in aggregate_cases.CASES if one.name == "scan of axis 0"]
    assert set(runner.run(case).samples) == {"kspec"}


def test_wrong_results_are_not_counted(runner: Runner, machine: HostMachine) -> None:
    library = FakeCub()
    library.wrong = True
    machine.peers = {"cub": fake_cub(library)}
    row = runner.run(SCAN)
    assert not row.problem and set(row.samples) == {"kspec"}
    assert row.notes == ("CUB: WRONG RESULT, which is not counted",)
    assert list(beside_peers(SCAN, row)) == []


def test_an_error_of_cuda_is_a_note(runner: Runner, machine: HostMachine) -> None:
    library = FakeCub()
    library.error = 700
    machine.peers = {"cub": fake_cub(library)}
    assert runner.run(SCAN).notes == ("CUB: CubError: scan_float32: CUDA error 700",)


def test_a_library_that_fails_is_loaded_once(runner: Runner, machine: HostMachine) -> None:
    attempts = []

    def fails() -> Any:
        attempts.append(0)
        raise OSError("libcudart is missing")

    machine.peers = {"cub": Cub(fails, np.empty, lambda one: 0)}
    for case in (SCAN, BY_NAME["segments of about 8"]):
        assert runner.run(case).notes == ("CUB: CubError: libcudart is missing",)
    assert attempts == [0]


def test_temporary_memory_is_allocated_once() -> None:
    made, seen = [], []

    def scan(memory: int | None, size: Any, *rest: Any) -> int:
        seen.append((memory, rest))
        size._obj.value = 24
        return 0

    def empty(nbytes: int) -> Any:
        made.append(np.empty(nbytes, "uint8"))
        return made[-1]

    x, y = np.zeros(8, "float32"), np.zeros(8, "float32")
    library = SimpleNamespace(scan_float32=scan)
    peer = Cub(lambda: library, empty, lambda one: one.ctypes.data)
    call = peer.prepare("scan_float32", [x, y], elements=8, rows=1)
    assert call() is call() is made[0]
    assert [one.nbytes for one in made] == [24]
    rest = (x.ctypes.data, y.ctypes.data, 8, 1, None)
    assert seen == [(None, rest), *[(made[0].ctypes.data, rest)] * 2]


class TestMachine:
    def test_a_gpu_with_nvcc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        install(monkeypatch)
        library, asked = FakeCub(), []
        monkeypatch.setattr(cub, "missing", lambda: "")
        monkeypatch.setattr(cub, "load", lambda arch: asked.append(arch) or library)
        machine = CudaMachine(4096)
        assert asked == [] and machine.missing[-1].startswith("torch is left out")
        row = Runner(machine, 0).run(SCAN)
        assert (row.problem, row.notes) == ("", ())
        assert asked == ["sm_90"] and library.asked[0] == "scan_float32"
        results = Results("cuda", "GPU", "today", {}, 4096, throughput=(row,))
        assert "| CuPy | torch | CUB | µs |" in markdown(results)

    def test_a_gpu_without_nvcc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def none() -> Path:
            raise ToolNotFoundError("nvcc is not on the PATH")

        monkeypatch.setattr(cub, "find_nvcc", none)
        assert cub.missing() == "CUB is left out: nvcc is not on the PATH"
        install(monkeypatch)
        machine = machines.CudaMachine(4096)
        assert "cub" not in machine.peers
        assert "CUB is left out: not here" in machine.missing


def program(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "nvcc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


class TestLibrary:
    """With a compiler that is a script: nvcc takes half a minute."""

    def test_it_is_compiled_once_for_each_architecture(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = 'echo "$@" >> "$0.log"; while [ "$1" != -o ]; do shift; done; echo x > "$2"'
        compiler = program(tmp_path, script)
        monkeypatch.setattr(cub, "find_nvcc", lambda: compiler)
        monkeypatch.setattr(cub, "nvcc_build", lambda: "V1")
        monkeypatch.setattr(ctypes, "CDLL", lambda path: Path(path))
        folder = tmp_path / "cache"
        first: Any = cub.load("sm_90", folder)
        assert first == cub.load("sm_90", folder) and first.read_text() == "x\n"
        assert cub.load("sm_80", folder) != first
        lines = (tmp_path / "nvcc.log").read_text().splitlines()
        assert [line.split()[0] for line in lines] == ["-arch=sm_90", "-arch=sm_80"]
        assert {path.suffix for path in folder.iterdir()} == {".so"}

    def test_what_nvcc_refuses(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        compiler = program(tmp_path, 'echo "note"; echo "cub.cu(3): error: no CUB" >&2; exit 2')
        monkeypatch.setattr(cub, "find_nvcc", lambda: compiler)
        monkeypatch.setattr(cub, "nvcc_build", lambda: "V1")
        message = r"^nvcc does not compile cub.cu: cub.cu\(3\): error: no CUB$"
        with pytest.raises(CubError, match=message):
            cub.load("sm_90", tmp_path / "cache")
        assert list((tmp_path / "cache").iterdir()) == []

    @pytest.mark.slow
    def test_nvcc_compiles_it(self, tmp_path: Path) -> None:
        try:
            nvcc.find_nvcc()
        except ToolNotFoundError as reason:
            pytest.skip(str(reason))
        library = cub.load("sm_90", tmp_path)
        assert all(hasattr(library, case.cub) for case in CASES)
