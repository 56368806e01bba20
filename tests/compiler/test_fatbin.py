"""Fatbins: members, determinism, what is refused."""

from __future__ import annotations

import builtins
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from kspec.compiler.cuda.fatbin import make_fatbin
from kspec.compiler.cuda.nvrtc import compile_cuda
from kspec.errors import LoadError, ToolNotFoundError
from kspec.model.stages import CudaSource, Image, Target

SOURCE = CudaSource(
    "k.cu", "template <class T> __global__ void k(T* x) { int u; x[0] = 1; }", ("k<float>",)
)
ARCHS = ("sm_80", "sm_90a", "compute_80")
PTX, ELF = 1, 2


@pytest.fixture(scope="module")
def images() -> list[Image]:
    return [compile_cuda(SOURCE, Target(arch)) for arch in ARCHS]


def members(code: bytes) -> Iterator[tuple[int, int]]:
    """Kind and architecture of each member, read from the container."""
    magic, version, header_size, size = struct.unpack_from("<IHHQ", code)
    assert (magic, version) == (0xBA55ED50, 1)
    assert header_size + size == len(code)
    offset = header_size
    while offset < len(code):
        kind, _, member_header, member_size = struct.unpack_from("<HHIQ", code, offset)
        (arch,) = struct.unpack_from("<I", code, offset + 28)
        yield kind, arch
        offset += member_header + member_size


def test_members(images: list[Image]) -> None:
    image = make_fatbin(images)
    assert image.code[:4] == bytes.fromhex("50ed55ba")
    assert sorted(members(image.code)) == [(PTX, 80), (ELF, 80), (ELF, 90)]


def test_image(images: list[Image]) -> None:
    image = make_fatbin(images)
    assert image.format == "fatbin"
    assert image.arch == "sm_80,sm_90a,compute_80"
    assert image.symbols == {"k<float>": "_Z1kIfEvPT_"}
    assert image.figures == images[0].figures and image.figures["k<float>"].registers > 0
    assert image.log.count("warning #177-D") == 1


def test_figures_of_the_first_cubin_even_after_ptx(images: list[Image]) -> None:
    assert make_fatbin(images[::-1]).figures == images[1].figures


def test_compressed(images: list[Image]) -> None:
    assert len(make_fatbin(images).code) < sum(len(image.code) for image in images)


def test_deterministic(images: list[Image]) -> None:
    assert make_fatbin(images) == make_fatbin(list(images))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"symbols": {"k<float>": "other"}}, "do not have the same symbols.*differing: k<float>$"),
        ({"format": "so"}, "cubins and PTX, not so"),
        ({"arch": "sm_80"}, "sm_80 came twice"),
    ],
)
def test_refuses(images: list[Image], change: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        make_fatbin([images[0], replace(images[1], **change)])


def test_refuses_nothing() -> None:
    with pytest.raises(LoadError, match="at least one"):
        make_fatbin([])


def test_missing_library(images: list[Image], monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def blocked(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(ToolNotFoundError, match=r"nvFatbin needs cuda-bindings, .* pip install"):
        make_fatbin(images)
