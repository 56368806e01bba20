"""`kspec doctor`: what is there, what is not, and what to do; machines that we do not have are fakes."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kspec.build.tools import doctor, doctor_view
from kspec.build.tools.doctor import BROKEN, MISSING, OK, TOO_OLD, Row
from kspec.compiler import headers
from kspec.compiler import host as host_compiler
from kspec.compiler.cuda import fatbin, link, nvcc, nvrtc
from kspec.errors import ToolNotFoundError
from kspec.runtime import driver
from kspec.runtime.driver import memory as driver_memory
from tests.projects import BLOCKED, ROOT, environment


def raising(error: Exception) -> Callable[..., Any]:
    def call(*arguments: object) -> Any:
        raise error

    return call


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Make a machine that has everything."""
    include = tmp_path / "include"
    for name in ("cuda/std/version", "crt/host_defines.h"):
        (include / name).parent.mkdir(parents=True)
        (include / name).write_text("")
    for module, name, value in (
        (driver, "why_unavailable", ""),
        (driver, "driver_version", 13000),
        (driver, "device_count", 1),
        (driver, "device_name", "NVIDIA H200"),
        (driver, "compute_capability", (9, 0)),
        (driver_memory, "total_memory", 140 * 2**30),
        (nvrtc, "nvrtc_version", (13, 0)),
        (nvrtc, "nvrtc_build", "V13.0.88"),
        (nvrtc, "supported_capabilities", (75, 90, 121)),
        (headers, "toolkit_include_dirs", (include,)),
        (headers, "toolkit_version", "cudart 13.0"),
        (fatbin, "nvfatbin_version", (13, 0)),
        (link, "nvjitlink_version", (13, 0)),
        (link, "device_runtime", Path("/lib/libcudadevrt.a")),
        (nvcc, "nvcc_build", "V13.0.88"),
        (nvcc, "find_nvcc", Path("/usr/bin/nvcc")),
        (
            host_compiler,
            "find_compiler",
            host_compiler.HostCompiler(("/usr/bin/g++",), "gcc", "gcc 12"),
        ),
    ):
        monkeypatch.setattr(module, name, lambda *_, value=value: value)
    for name in doctor.config.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KSPEC_CACHE_DIR", str(tmp_path / "cache"))
    return monkeypatch


def row(name: str, project: Path | None = None) -> Row:
    (found,) = (one for one in doctor.examine(project) if one.name == name)
    return found


def test_a_machine_with_everything(machine: pytest.MonkeyPatch, toy: Path) -> None:
    rows = doctor.examine(toy)
    assert {one.state for one in rows} == {OK}
    verdict = doctor.judge(rows)
    assert (verdict.cuda, verdict.host, verdict.build, verdict.ready) == (True,) * 4
    assert row("cuda:0").found == "NVIDIA H200, sm_90, 140 GiB"
    assert row("settings", toy).found == "generated/toy_kernels for sm_90 compute_80"


@pytest.mark.parametrize(
    ("module", "function", "name", "without", "fix"),
    [
        (nvrtc, "supported_capabilities", "NVRTC", "nothing is compiled", "kspec[cu13]"),
        (headers, "toolkit_include_dirs", "CUDA headers", "cuda_fp16.h", "kspec[cu13]"),
        (fatbin, "nvfatbin_version", "nvFatbin", "no package", "kspec[cu13]"),
        (link, "device_runtime", "nvJitLink", "launch kernels", "kspec[cu13]"),
        (nvcc, "find_nvcc", "nvcc", 'backend="nvcc"', "cuda-toolkit[nvcc"),
        (host_compiler, "find_compiler", "C++ compiler", "host device", "g++"),
    ],
)
def test_a_tool_that_is_missing(
    machine: pytest.MonkeyPatch, module: Any, function: str, name: str, without: str, fix: str
) -> None:
    machine.setattr(
        module, function, raising(ToolNotFoundError(f"{name} is not there\n  cause: y"))
    )
    found = row(name)
    assert (found.state, found.found) == (MISSING, f"{name} is not there")
    assert without in found.without and fix in found.fix


def test_the_advice_is_that_of_the_message(machine: pytest.MonkeyPatch) -> None:
    message = "NVRTC (/x/libnvrtc.so.13) cannot be loaded: no memory; install it anew: "
    advice = "pip install --force-reinstall --no-deps nvidia-cuda-nvrtc"
    machine.setattr(nvrtc, "nvrtc_build", raising(ToolNotFoundError(f"{message}{advice}\n x")))
    found = row("NVRTC")
    assert (found.found, found.fix) == (message.removesuffix(": "), advice)


@pytest.mark.parametrize(
    "error", [ImportError("no symbol x"), SystemError("bad\nworse"), OSError()]
)
def test_a_library_that_breaks_is_a_row(machine: pytest.MonkeyPatch, error: Exception) -> None:
    machine.setattr(nvrtc, "nvrtc_build", raising(error))
    found = row("NVRTC")
    assert found.state == BROKEN and type(error).__name__ in found.found
    assert "\n" not in found.found
    assert row("nvFatbin").state == OK and not doctor.judge(doctor.examine()).build


def test_no_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(driver, "why_unavailable", lambda: "no CUDA driver: none; NumPy arrays run")
    assert row("driver").found == "no CUDA driver: none" and "nvidia.com" in row("driver").fix
    verdict = doctor.judge(doctor.examine())
    assert not verdict.cuda and verdict.host and verdict.build and verdict.ready
    machine.setattr(host_compiler, "find_compiler", raising(ToolNotFoundError("none")))
    assert not doctor.judge(doctor.examine()).ready


def test_a_driver_older_than_the_compiler(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(driver, "driver_version", lambda: 12090)
    found = row("driver")
    assert (found.state, found.found) == (TOO_OLD, "for CUDA 12.9, and NVRTC is version 13.0")
    assert "kspec[cu12]" in found.fix and not doctor.judge(doctor.examine()).cuda


def test_an_old_gpu(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(driver, "compute_capability", lambda ordinal: (7, 5))
    assert row("cuda:0").state == TOO_OLD and "8.0" in row("cuda:0").fix
    assert not doctor.judge(doctor.examine()).cuda


def test_headers_of_another_version(machine: pytest.MonkeyPatch) -> None:
    error = ToolNotFoundError("NVRTC is version 13.0 but the CUDA headers are version 12.9")
    machine.setattr(headers, "toolkit_include_dirs", raising(error))
    assert row("CUDA headers").state == TOO_OLD


def test_headers_that_a_toolkit_lacks(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "include/crt/host_defines.h").unlink()
    assert row("crt headers").state == MISSING and row("cccl headers").state == OK


def test_versions_of_packages(machine: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "rich":
            raise importlib.metadata.PackageNotFoundError(name)
        return {"jinja2": "3.0.9", "pydantic": "2.10.0rc1"}.get(name) or real(name)

    machine.setattr(importlib.metadata, "version", version)
    assert row("jinja2").state == TOO_OLD and row("jinja2").found == "3.0.9, older than 3.1"
    assert row("pydantic").state == OK
    assert row("rich").state == MISSING and row("rich").fix == "pip install 'rich>=13'"
    assert not doctor.judge(doctor.examine()).build


def test_versions_are_those_of_the_project() -> None:
    table = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = table["optional-dependencies"]
    declared = extras["author"] + extras["cu13"] + table["dependencies"]
    oldest = dict(re.findall(r"([\w-]+)>=([\d.]+)", " ".join(declared)))
    assert {name: version for name, version, _ in doctor._PACKAGES}.items() <= oldest.items()


def test_array_libraries_are_found_and_not_imported(
    machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("torch", "cupy_cuda13x"):
        folder = tmp_path / f"{name}-9.9.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.9\n")
    machine.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    assert row("torch").found == "9.9" and row("cupy").found == "9.9"
    assert not {"torch", "cupy"} & (set(sys.modules) - before)


def test_the_cache(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert row("folder").state == OK and not (tmp_path / "cache").exists()
    (tmp_path / "file").write_text("")
    machine.setenv("KSPEC_CACHE_DIR", str(tmp_path / "file/cache"))
    assert row("folder").state == BROKEN and "KSPEC_CACHE_DIR" in row("folder").fix
    machine.setenv("KSPEC_CACHE_DIR", str(tmp_path))
    machine.setattr(os, "access", lambda *_: False)
    assert "cannot be written to" in row("folder").found


def test_variables(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("KSPEC_JIT", "never")
    assert row("KSPEC_JIT") == Row("environment", "KSPEC_JIT", OK, "never")
    machine.setenv("KSPEC_JIT", "sometimes")
    wrong = [one for one in doctor.examine() if one.state == BROKEN]
    assert [one.fix for one in wrong] == ["unset KSPEC_JIT"]
    assert "expected one of auto, never, always" in wrong[0].found


def test_a_project_that_can_not_be_built(machine: pytest.MonkeyPatch, toy: Path) -> None:
    (toy / "pyproject.toml").write_text("[tool.kspec]\narchs = 3\n")
    rows = doctor.examine(toy)
    assert row("settings", toy).state == BROKEN and not doctor.judge(rows).ready
    (toy / "pyproject.toml").write_text("[tool.kspec]\nspecs = 'none'\n")
    assert row("specs", toy).state == MISSING


def test_what_is_printed(run, machine: pytest.MonkeyPatch, toy: Path, tmp_path: Path) -> None:
    machine.chdir(tmp_path)
    status, out, err = run("doctor")
    assert (status, err) == (0, "") and out.endswith("kspec build                     works\n")
    short = [line for line in out.splitlines() if "/" not in line]
    assert max(map(len, short)) <= 80 and "project" not in out
    machine.chdir(toy)
    assert "\nproject\n" in run("doctor")[1]
    machine.setattr(nvrtc, "nvrtc_build", raising(ToolNotFoundError("none")))
    assert run("doctor")[0] == 3 and run("doctor", "--project", toy)[0] == 3
    machine.chdir(tmp_path)
    status, out, _ = run("doctor", "--format", "json")
    table = json.loads(out)
    assert status == 0 and table["works"] == {"cuda": True, "host": True, "build": False}
    (found,) = (one for one in table["rows"] if one["name"] == "NVRTC")
    assert found["state"] == "missing" and set(found) == set(Row.__dataclass_fields__)
    assert run("doctor", "--format", "xml")[0] == 2


def test_where_nothing_else_is_installed(tmp_path: Path) -> None:
    code = f"{BLOCKED}\nBLOCKED += ('cuda',)\n"
    code += "import sys; sys.argv = ['kspec', 'doctor', '--format', 'json']\n"
    code += "from kspec.build.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**environment(ROOT), "KSPEC_CACHE_DIR": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    table = json.loads(done.stdout)
    states = {one["name"]: one["state"] for one in table["rows"]}
    assert states["NVRTC"] == states["driver"] == "missing"
    assert done.returncode == (0 if states["C++ compiler"] == "ok" else 3), done.stderr


def test_the_view_keeps_to_its_width() -> None:
    rows = [Row("GPU", "driver", MISSING, "word " * 40, "nothing " * 20, "do " * 60)]
    lines = doctor_view.as_text(rows).splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) > 8
