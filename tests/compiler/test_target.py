"""Architecture names, and which of them the installed NVRTC can make."""

from __future__ import annotations

import pytest

from kspec.compiler.cuda import nvrtc
from kspec.compiler.target import (
    capability,
    check_supported,
    parse_target,
    parse_targets,
    supported_archs,
    target_for_capability,
)
from kspec.errors import CompileError, SpecError
from kspec.model.stages import HOST, CudaSource, Target


@pytest.mark.parametrize(
    ("text", "format"),
    [
        ("sm_80", "cubin"),
        ("sm_90a", "cubin"),
        ("sm_100f", "cubin"),
        ("compute_80", "ptx"),
        ("compute_90a", "ptx"),
        ("host", "so"),
    ],
)
def test_parse(text: str, format: str) -> None:
    target = parse_target(text)
    assert str(target) == text
    assert target.format == format


@pytest.mark.parametrize(
    "text", ["", "80", "sm80", "sm_8", "sm_80a", "sm_90f", "sm_90x", "SM_80", "sm_80 ", "lto_80"]
)
def test_parse_refuses(text: str) -> None:
    with pytest.raises(SpecError, match="unknown architecture"):
        parse_target(text)


@pytest.mark.parametrize(
    ("text", "archs"),
    [
        ("90-real", ["sm_90"]),
        ("80-virtual", ["compute_80"]),
        ("90", ["sm_90", "compute_90"]),
        ("90a", ["sm_90a", "compute_90a"]),
        ("100f-real", ["sm_100f"]),
        ("120f-virtual", ["compute_120f"]),
        ("sm_90a", ["sm_90a"]),
        ("compute_80", ["compute_80"]),
        ("host", ["host"]),
    ],
)
def test_parse_in_either_spelling(text: str, archs: list[str]) -> None:
    assert [target.arch for target in parse_targets(text)] == archs


@pytest.mark.parametrize(
    "text",
    ["", "9-real", "80a", "90f-real", "90-", "90-both", "sm_90-real", "90-real;80", "native"],
)
def test_parse_in_no_spelling(text: str) -> None:
    with pytest.raises(SpecError, match=r"unknown architecture .*CMake's 80-real"):
        parse_targets(text)


def test_capability() -> None:
    assert capability(Target("sm_90a")) == 90
    assert capability(Target("compute_120")) == 120
    with pytest.raises(SpecError, match="no compute capability"):
        capability(HOST)


def test_supported_archs_are_sorted_and_include_common_ones() -> None:
    archs = supported_archs()
    assert list(archs) == sorted(archs, key=lambda arch: int(arch[3:]))
    assert {"sm_80", "sm_90", "sm_100"} <= set(archs)


@pytest.mark.parametrize(
    "arch", ["sm_90a", "sm_100f", "sm_103f", "sm_110f", "sm_120f", "sm_121a", "compute_100f"]
)
def test_nvrtc_takes_architectures_and_families(arch: str) -> None:
    if capability(parse_target(arch)) not in nvrtc.supported_capabilities():
        pytest.skip(f"this NVRTC does not know {arch}")
    source = CudaSource("f.cu", 'extern "C" __global__ void f(float* x) { *x = 1; }')
    image = nvrtc.compile_cuda(source, Target(arch))
    assert image.arch == arch and image.code


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "compute_80", "sm_100f"])
def test_supported(arch: str) -> None:
    check_supported(Target(arch))


def test_too_old_names_what_is_supported() -> None:
    with pytest.raises(CompileError) as caught:
        check_supported(Target("sm_20"))
    message = str(caught.value)
    assert "sm_20 is not supported by NVRTC" in message
    assert "sm_90" in message and message.endswith("; kspec is for sm_80 and newer")
    assert caught.value.target == "sm_20"


def test_too_new_advises_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "supported_capabilities", lambda: (80, 90))
    with pytest.raises(CompileError, match=r"compile for compute_90.* or update NVRTC"):
        check_supported(Target("sm_100"))


def test_target_for_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "supported_capabilities", lambda: (80, 90, 100))
    assert target_for_capability(9, 0) == Target("sm_90")
    assert target_for_capability(8, 9) == Target("compute_80")
    assert target_for_capability(13, 0) == Target("compute_100")
    with pytest.raises(CompileError, match="sm_70 is not supported"):
        target_for_capability(7, 0)
