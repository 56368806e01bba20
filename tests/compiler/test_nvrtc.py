"""NVRTC: what an image holds, what errors say."""

from __future__ import annotations

import builtins
import struct
from typing import Any

import pytest

from kspec.compiler.cuda import nvrtc
from kspec.errors import CompileError, ToolNotFoundError
from kspec.model.stages import CudaSource, Figures, Header, Target

TEXT = """\
#line 10 "specs/scale.toml"
namespace ks { struct Op {}; }
template <typename T, int N> __global__ void scale(const T* x, T* y) {
    __shared__ T tile[128];
    int unused;
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = tile[127 - threadIdx.x] * N;
}
template <typename F> __global__ void apply(float* x) { x[0] = 1; }
__constant__ float weights[4];
extern "C" __global__ void plain(float* x) { x[0] = weights[1]; }
"""
NAMES = ("scale<float, 4>", "scale<double,2>", "apply<ks::Op>", "plain", "&weights")
SCALE = CudaSource("scale.cu", TEXT, NAMES)
SM80 = Target("sm_80")

EM_CUDA = 190


def test_cubin_is_an_elf_for_its_architecture() -> None:
    for arch, number in (("sm_80", 80), ("sm_90", 90)):
        code = nvrtc.compile_cuda(SCALE, Target(arch)).code
        assert code[:4] == b"\x7fELF"
        assert struct.unpack_from("<H", code, 18) == (EM_CUDA,)
        flags = struct.unpack_from("<I", code, 48)[0]
        assert number in (flags & 0xFF, flags >> 8 & 0xFF)  # old and new ELF put it elsewhere


def test_image_carries_lowered_names() -> None:
    image = nvrtc.compile_cuda(SCALE, SM80)
    assert image.symbols == {
        "scale<float, 4>": "_Z5scaleIfLi4EEvPKT_PS0_",
        "scale<double,2>": "_Z5scaleIdLi2EEvPKT_PS0_",
        "apply<ks::Op>": "_Z5applyIN2ks2OpEEvPf",
        "plain": "plain",
        "&weights": "weights",
    }
    assert (image.format, image.arch) == ("cubin", "sm_80")
    for symbol in image.symbols.values():
        assert symbol.encode() in image.code


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120"])
def test_the_ptx_of_a_cubin_is_that_of_its_architecture(arch: str) -> None:
    image, ptx = nvrtc.compile_with_ptx(SCALE, Target(arch))
    assert image == nvrtc.compile_cuda(SCALE, Target(arch))
    assert ptx == nvrtc.compile_cuda(SCALE, Target(arch.replace("sm_", "compute_")))


def test_figures_by_name_expression() -> None:
    figures = nvrtc.compile_cuda(SCALE, SM80).figures
    assert sorted(figures) == sorted(set(NAMES) - {"&weights"})
    assert figures["scale<float, 4>"].shared_bytes == 128 * 4
    assert figures["scale<double,2>"].shared_bytes == 128 * 8
    assert all(1 <= figure.registers <= 255 for figure in figures.values())
    assert figures["scale<float, 4>"].constant_bytes > 352  # sm_80 keeps parameters there
    assert figures["plain"] == Figures(figures["plain"].registers, 0, 0, 360, 0)


def test_figures_of_a_spilling_kernel() -> None:
    body = "".join(f"float a{i} = x[{i} * n];" for i in range(64))
    total = " + ".join(f"a{i} * a{(i * 7) % 64}" for i in range(64))
    body += f"__syncthreads(); x[n] = {total};"
    text = f'extern "C" __global__ void k(float* x, int n) {{ {body} }}'
    source = CudaSource("k.cu", text, options=("--maxrregcount=32",))
    figures = nvrtc.compile_cuda(source, SM80).figures["k"]
    assert figures.registers == 32
    assert figures.local_bytes > 0
    assert figures.spill_bytes > 0


def test_without_name_expressions_the_driver_looks_names_up() -> None:
    image = nvrtc.compile_cuda(
        CudaSource("p.cu", 'extern "C" __global__ void plain(float* x) { x[0] = 1; }'), SM80
    )
    assert image.symbols == {}
    assert image.figures["plain"].registers > 0
    assert b"plain" in image.code


def test_ptx() -> None:
    image = nvrtc.compile_cuda(SCALE, Target("compute_80"))
    text = image.code.decode().rstrip("\0")
    assert ".target sm_80" in text
    assert f".entry {image.symbols['scale<float, 4>']}(" in text
    assert image.format == "ptx"
    assert image.figures == {}


def test_log_holds_warnings_only_at_their_lines() -> None:
    log = nvrtc.compile_cuda(SCALE, SM80).log
    assert 'specs/scale.toml(13): warning #177-D: variable "unused"' in log
    assert "ptxas" not in log and "registers" not in log
    clean = CudaSource("p.cu", 'extern "C" __global__ void plain(float* x) { x[0] = 1; }')
    assert nvrtc.compile_cuda(clean, SM80).log == ""


def test_same_source_same_bytes_whatever_its_name() -> None:
    first = nvrtc.compile_cuda(SCALE, SM80)
    again = nvrtc.compile_cuda(CudaSource("other.cu", TEXT, NAMES), SM80)
    assert first.code == again.code


def test_headers_in_memory() -> None:
    source = CudaSource(
        "h.cu",
        '#include "kspec/a.cuh"\nextern "C" __global__ void k(int* x) { x[0] = answer(); }',
        headers=(
            Header("kspec/a.cuh", "#include <kspec/b.cuh>\n"),
            Header("kspec/b.cuh", "__device__ inline int answer() { return 42; }\n"),
        ),
    )
    ptx = nvrtc.compile_cuda(source, Target("compute_80")).code.decode()
    assert ", 42;" in ptx


def test_functions_without_space_are_device_functions() -> None:
    text = 'float one() { return 1; }\nextern "C" __global__ void k(float* x) { x[0] = one(); }'
    assert nvrtc.compile_cuda(CudaSource("d.cu", text), SM80).code[:4] == b"\x7fELF"


def test_float32_denormals_are_kept() -> None:
    text = 'extern "C" __global__ void k(float* x) { x[0] = x[1] * x[2]; }'
    ptx = nvrtc.compile_cuda(CudaSource("d.cu", text), Target("compute_80")).code
    assert b"mul.f32" in ptx and b"ftz" not in ptx


def test_error_at_the_position_of_the_spec() -> None:
    text = '#line 7 "specs/norms.toml"\nextern "C" __global__ void k(float* x) { x[0] = y; }\n'
    source = CudaSource("norms.cu", text, options=("-DN=1",))
    with pytest.raises(CompileError) as caught:
        nvrtc.compile_cuda(source, SM80)
    error = caught.value
    assert 'specs/norms.toml(7): error: identifier "y" is undefined' in str(error)
    assert error.source == text
    assert error.target == "sm_80"
    assert "-DN=1" in error.options and "-arch=sm_80" in error.options


def test_error_in_a_header_names_the_header() -> None:
    source = CudaSource("h.cu", '#include "a.cuh"\n', headers=(Header("a.cuh", "\nnonsense\n"),))
    with pytest.raises(CompileError, match=r"a\.cuh\(2\): error"):
        nvrtc.compile_cuda(source, SM80)


@pytest.mark.parametrize("bad", ["nope<float>", "scale<", "scale<float>"])
def test_error_names_the_name_expression(bad: str) -> None:
    source = CudaSource("scale.cu", TEXT, ("plain", bad, "scale<float, 4>"))
    with pytest.raises(CompileError) as caught:
        nvrtc.compile_cuda(source, SM80)
    first = str(caught.value).partition("\n")[0]
    have = "(the code has: scale, apply, plain)"
    assert first == f"scale.cu: no kernel fits the name expression {bad!r} {have}"


def test_error_for_a_header_that_is_nowhere() -> None:
    with pytest.raises(
        CompileError, match=r'"foo\.h" is not in the carried headers, .* or in the CUDA toolkit'
    ):
        nvrtc.compile_cuda(CudaSource("h.cu", "#include <foo.h>\n"), SM80)


def test_options_that_make_no_cubin() -> None:
    source = CudaSource("p.cu", "__global__ void k() {}", options=("-dlto",))
    with pytest.raises(CompileError, match=r"p\.cu.*no cubin|NVRTC"):
        nvrtc.compile_cuda(source, SM80)


def test_bad_option() -> None:
    with pytest.raises(CompileError, match="no-such-flag"):
        nvrtc.compile_cuda(CudaSource("p.cu", "", options=("--no-such-flag",)), SM80)


def test_version_and_build_agree() -> None:
    major, minor = nvrtc.nvrtc_version()
    assert major >= 12
    assert nvrtc.nvrtc_build().startswith(f"V{major}.{minor}.")


def test_missing_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def blocked(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", blocked)
    advice = r"NVRTC needs cuda-bindings, which is not installed: pip install 'kspec\[cu13\]'"
    with pytest.raises(ToolNotFoundError, match=advice):
        nvrtc.nvrtc_version()


def test_missing_library(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc as bindings

    def absent() -> None:
        raise RuntimeError('Failure finding "libnvrtc.so"')

    monkeypatch.setattr(bindings, "nvrtcVersion", absent)
    with pytest.raises(ToolNotFoundError, match=r"kspec\[cu12\][\s\S]*libnvrtc\.so"):
        nvrtc.compile_cuda(SCALE, SM80)
