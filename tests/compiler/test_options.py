"""The flags of a compilation: defaults, what the user overrides, what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kspec.compiler.options import CompileOptions, include_dirs
from kspec.errors import SpecError
from kspec.model.stages import CudaSource, Target
from tests.compiling import optimized

__all__ = ["optimized"]

DEFAULTS = ("--std=c++17", "-default-device", "-Xptxas=-v")


def flags(*user: str, arch: str = "sm_90") -> tuple[str, ...]:
    return CompileOptions.for_source(CudaSource("a.cu", "", options=user), Target(arch)).flags()


def test_defaults() -> None:
    assert flags() == ("-arch=sm_90", *DEFAULTS)


def test_ptx_has_no_ptxas_report() -> None:
    assert flags(arch="compute_80") == ("-arch=compute_80", "--std=c++17", "-default-device")


def test_user_flags_come_last_in_their_order() -> None:
    assert flags("-DB=2", "-DA=1")[-2:] == ("-DB=2", "-DA=1")


@pytest.mark.parametrize("standard", ["-std=c++14", "--std=c++20"])
def test_the_user_names_the_standard_once(standard: str) -> None:
    assert [flag for flag in flags(standard) if "std" in flag] == [standard]


@pytest.mark.parametrize(
    ("asked", "given", "named"),
    [
        (("-std=c++11",), ("-std=c++17",), "-std=c++11"),
        (("--std=c++14", "-G"), ("--std=c++17", "-G"), "--std=c++14"),
        (("-std", "c++11"), ("-std", "c++17"), "-std c++11"),
        (("-std=c++98",), ("-std=c++17",), "-std=c++98"),
        (("-std=c++20",), ("-std=c++20",), ""),
        (("-std=c++17",), ("-std=c++17",), ""),
        (("-DN=11",), ("-DN=11",), ""),
    ],
)
def test_old_standards_are_raised_for_headers(
    asked: tuple[str, ...], given: tuple[str, ...], named: str
) -> None:
    source = CudaSource("a.cu", "  #include <cmath>\n", options=asked)
    options = CompileOptions.for_source(source, Target("sm_90"))
    assert options.user == given
    note = f"kspec: {named} was raised to c++17, which headers need" if named else ""
    assert options.note == note
    without = CompileOptions.for_source(CudaSource("a.cu", "", options=asked), Target("sm_90"))
    assert (without.user, without.note) == (asked, "")


def test_optimization(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KSPEC_CUDA_OPT", raising=False)
    assert not [flag for flag in flags() if "Ofast" in flag]
    for level, fast in enumerate(("max", "mid", "min")):
        monkeypatch.setenv("KSPEC_CUDA_OPT", str(level))
        assert [flag for flag in flags() if "Ofast" in flag] == [f"--Ofast-compile={fast}"]
    assert [flag for flag in flags("-Ofc=mid") if "Of" in flag] == ["-Ofc=mid"]


def test_denormals_are_not_flushed_and_no_line_info() -> None:
    assert not [flag for flag in flags() if "ftz" in flag or "lineinfo" in flag]


@pytest.mark.parametrize("option", ["-arch=sm_80", "--gpu-architecture=sm_80", "-arch"])
def test_architecture_is_the_targets(option: str) -> None:
    with pytest.raises(SpecError, match=r"a\.cu: option .* the target decides.*sm_90"):
        flags(option)


def test_options_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        CompileOptions("sm_80").arch = "sm_90"  # type: ignore[misc]


def test_include_dirs() -> None:
    options = ("-I/a", "-I", "/b", "--include-path=/c", "-DX", "-include-path=/d", "-I /e", "-I")
    assert include_dirs(options) == ("/a", "/b", "/c", "/d", "/e")


GROUPS = "#include <cooperative_groups.h>\n"


@pytest.mark.parametrize(
    ("text", "options", "small"),
    [
        (GROUPS, (), True),
        (f"#include <cuda_fp16.h>\n{GROUPS}", ("-DX",), True),
        ("", (), False),
        (f"{GROUPS}#include <cooperative_groups/reduce.h>\n", (), False),
        (f"{GROUPS}#include <cuda/std/complex>\n", (), False),
        (f"#define _CG_LIMIT_INCLUDED_DEPENDENCIES\n{GROUPS}", (), False),
        (GROUPS, ("-D_CG_LIMIT_INCLUDED_DEPENDENCIES",), False),
    ],
)
def test_cooperative_groups_without_what_only_larger_parts_need(
    text: str, options: tuple[str, ...], small: bool
) -> None:
    source = CudaSource("a.cu", text, options=options)
    assert CompileOptions.for_source(source, Target("sm_90")).small_groups is small
    found = [flag for flag in flags(*options) if "_CG_LIMIT" in flag]
    assert len(found) <= 1


LIBRARY = "#include <cuda/std/tuple>\n"


@pytest.mark.parametrize(
    ("text", "fields", "short"),
    [
        (LIBRARY, {}, True),
        (GROUPS + LIBRARY, {}, True),
        ("#include <cub/block/block_scan.cuh>\n", {}, True),
        ("#include <curand_kernel.h>\n", {}, True),
        (f"#define _CG_LIMIT_INCLUDED_DEPENDENCIES\n{GROUPS}", {}, True),
        (GROUPS, {}, False),
        ("#include <cuda_fp16.h>\n#include <kspec/complex.cuh>\n", {}, False),
        (LIBRARY, {"backend": "nvcc"}, False),
        (LIBRARY, {"options": ("-D_CCCL_META_UNROLL_LIMIT=4",)}, False),
    ],
)
def test_libcudacxx_unrolls_as_with_nvcc(text: str, fields: dict[str, Any], short: bool) -> None:
    options = CompileOptions.for_source(CudaSource("a.cu", text, **fields), Target("sm_90"))
    assert options.short_lists is short
    assert ("-D_CCCL_META_UNROLL_LIMIT=10" in options.flags()) is short


@pytest.mark.parametrize(
    "user",
    [
        ("-dc", "-DA"),
        ("--device-c", "-DA"),
        ("-rdc=true", "-DA"),
        ("-rdc", "true", "-DA"),
        ("--relocatable-device-code=true", "-DA"),
    ],
)
def test_relocatable_code_has_one_spelling(user: tuple[str, ...]) -> None:
    options = CompileOptions("sm_90", user)
    assert options.relocatable
    assert options.flags()[-2:] == ("-rdc=true", "-DA")


@pytest.mark.parametrize("user", [(), ("-rdc=false",), ("-rdc=true", "-rdc", "false")])
def test_code_that_is_not_relocatable(user: tuple[str, ...]) -> None:
    assert not CompileOptions("sm_90", user).relocatable
    assert "-rdc=true" not in CompileOptions("sm_90", user).flags()


def test_only_nvrtc_takes_functions_for_device_functions() -> None:
    source = CudaSource("a.cu", "", backend="nvcc")
    flags = CompileOptions.for_source(source, Target("sm_90")).flags()
    assert "-default-device" not in flags and "-arch=sm_90" in flags
