"""Architecture names, and which of them the installed NVRTC can make."""

from __future__ import annotations

import pytest

from kspec.compiler import nvrtc
from kspec.compiler.target import (
    capability,
    check_supported,
    parse_target,
    supported_archs,
    target_for_capability,
)
from kspec.errors import CompileError, SpecError
from kspec.stages import HOST, Target


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


def test_capability() -> None:
    assert capability(Target("sm_90a")) == 90
    assert capability(Target("compute_120")) == 120
    with pytest.raises(SpecError, match="no compute capability"):
        capability(HOST)


def test_supported_archs_are_sorted_and_include_common_ones() -> None:
    archs = supported_archs()
    assert list(archs) == sorted(archs, key=lambda arch: int(arch[3:]))
    assert {"sm_80", "sm_90", "sm_100"} <= set(archs)


@pytest.mark.parametrize("arch", ["sm_90", "sm_90a", "compute_80", "sm_100f"])
def test_supported(arch: str) -> None:
    check_supported(Target(arch))


def test_too_old_names_what_is_supported_and_what_to_install() -> None:
    with pytest.raises(CompileError) as caught:
        check_supported(Target("sm_20"))
    message = str(caught.value)
    assert "sm_20 is not supported by NVRTC" in message
    assert "sm_90" in message and "kspec[cu12]" in message
    assert caught.value.target == "sm_20"


def test_too_new_advises_ptx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "supported_capabilities", lambda: (80, 90))
    with pytest.raises(CompileError, match="compile for compute_90"):
        check_supported(Target("sm_100"))


def test_target_for_capability(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "supported_capabilities", lambda: (80, 90, 100))
    assert target_for_capability(9, 0) == Target("sm_90")
    assert target_for_capability(8, 9) == Target("compute_80")
    assert target_for_capability(13, 0) == Target("compute_100")
    with pytest.raises(CompileError, match="sm_70 is not supported"):
        target_for_capability(7, 0)
