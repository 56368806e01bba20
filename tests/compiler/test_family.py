"""Architectures that share PTX: which, for which sources, and what is assembled of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kspec.compiler import compile_source
from kspec.compiler.cuda import link, nvrtc
from kspec.compiler.family import share
from kspec.compiler.key import image_key
from kspec.errors import CompileError
from kspec.model.stages import HOST, CudaSource, Header, Target

PLAIN = CudaSource(
    "k.cu",
    "template <class T> __global__ void k(T* x) { x[threadIdx.x] *= 2; }",
    ("k<float>", "k<double>"),
)


def shared(source: CudaSource, *archs: str) -> list[str]:
    return [str(one) for one in share(source, [*map(Target, archs)])]


@pytest.mark.parametrize(
    ("archs", "found"),
    [
        (("sm_90",), ["sm_90"]),
        (("sm_80", "sm_90"), ["sm_80", "sm_90"]),
        (("sm_86", "sm_89"), ["sm_86 via compute_80", "sm_89 via compute_80"]),
        (
            ("sm_100", "sm_80", "sm_120"),
            ["sm_100", "sm_80", "sm_120 via compute_100"],
        ),
        (("sm_80", "sm_86", "compute_80"), ["sm_80", "sm_86 via compute_80", "compute_80"]),
        (("sm_90", "sm_90a", "sm_100f"), ["sm_90", "sm_90a", "sm_100f"]),
        (("sm_75", "compute_90", "host"), ["sm_75", "compute_90", "host"]),
    ],
)
def test_members_of_a_family(archs: tuple[str, ...], found: list[str]) -> None:
    assert shared(PLAIN, *archs) == found


@pytest.mark.parametrize(
    "source",
    [
        replace(PLAIN, text="#if __CUDA_ARCH__ >= 1000\n#endif\n"),
        replace(PLAIN, headers=(Header("a.h", "#ifdef __CUDA_ARCH_FEAT_SM90_ALL"),)),
        replace(PLAIN, options=("-DARCH=__CUDA_ARCH__",)),
        replace(PLAIN, options=("--maxrregcount=32",)),
        replace(PLAIN, options=("-DN=1", "-lineinfo")),
        replace(PLAIN, backend="nvcc"),
    ],
)
def test_sources_that_may_differ_share_nothing(source: CudaSource) -> None:
    assert shared(source, "sm_100", "sm_120") == ["sm_100", "sm_120"]


def test_macros_folders_and_the_standard_are_the_same_for_all() -> None:
    source = replace(PLAIN, options=("-DN=1", "-I", "a", "-std=c++20", "-U", "M"))
    assert shared(source, "sm_100", "sm_120") == ["sm_100", "sm_120 via compute_100"]


def test_the_ptx_of_a_target() -> None:
    pairs = {Target("sm_80"): "compute_80", Target("sm_90a"): "compute_90a", HOST: "host"}
    pairs |= {
        Target("compute_80"): "compute_80",
        Target("sm_120", via="compute_100"): "compute_100",
    }
    assert {one: one.ptx for one in pairs} == pairs


def test_an_assembled_image_is_as_one_that_was_compiled() -> None:
    ptx = nvrtc.compile_cuda(PLAIN, Target("compute_90"))
    made, direct = (
        link.assemble(ptx, Target("sm_90"), "k.cu"),
        nvrtc.compile_cuda(PLAIN, Target("sm_90")),
    )
    assert (made.format, made.arch, made.symbols) == ("cubin", "sm_90", direct.symbols)
    assert made.code[:4] == b"\x7fELF"
    assert made.figures.keys() == direct.figures.keys() == set(PLAIN.name_expressions)
    assert all(1 <= one.registers <= 32 and one.local_bytes == 0 for one in made.figures.values())


def test_ptx_that_the_assembler_refuses() -> None:
    ptx = replace(nvrtc.compile_cuda(PLAIN, Target("compute_90")), code=b".version 9.0\nnothing")
    with pytest.raises(CompileError, match=r"^k\.cu: ptxas .*, line 2; fatal .*Missing \.target"):
        link.assemble(ptx, Target("sm_90"), "k.cu")


def test_keys_tell_how_an_image_is_made() -> None:
    targets = Target("sm_120"), Target("sm_120", via="compute_100"), Target("sm_100")
    assert len({image_key(PLAIN, one) for one in targets}) == 3


@pytest.mark.usefixtures("optimized_code")
def test_what_would_spill_is_compiled_directly() -> None:
    loads = "".join(f"float a{i} = x[{i} * n];" for i in range(64))
    total = " + ".join(f"a{i} * a{(i * 7) % 64}" for i in range(64))
    bounds = "__launch_bounds__(1024, 2)"
    text = f'extern "C" __global__ void {bounds} k(float* x, int n) {{ {loads} __syncthreads(); x[n] = {total}; }}'
    source = CudaSource("k.cu", text, ("k",))
    first, other = share(source, [Target("sm_80"), Target("sm_86")])
    ptx = nvrtc.compile_cuda(source, Target(other.ptx))
    assert link.assemble(ptx, other, "k.cu").figures["k"].spill_bytes > 0
    assert compile_source(source, other).code == compile_source(source, Target("sm_86")).code
    assert str(first) == "sm_80"
