"""nvcc as the compiler: images, figures, errors at their places, and what happens without it."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kspec.compiler import ImageCache, compile_source, image_key
from kspec.compiler.cuda import nvcc
from kspec.errors import (
    CompileError,
    KspecError,
    SpecError,
    ToolNotFoundError,
    ToolStoppedError,
)
from kspec.model.stages import CudaSource, Header, Image, Target

SM90 = Target("sm_90")
SCALE = CudaSource(
    "scale.cu",
    'extern "C" __global__ void scale(float* x, int n) { x[threadIdx.x] *= n; }\n',
    backend="nvcc",
)


def has_nvcc() -> bool:
    try:
        nvcc.nvcc_build()
    except ToolNotFoundError:
        return False
    return shutil.which("g++") is not None


needs_nvcc = pytest.mark.skipif(not has_nvcc(), reason="there is no nvcc, or no g++ for it")


def compile_text(text: str, *options: str, arch: str = "sm_90") -> Image:
    return nvcc.compile_nvcc(replace(SCALE, text=text, options=options), Target(arch))


def fake_nvcc(root: Path, body: str) -> Path:
    """Write an nvcc that knows its version, and does `body` for everything else."""
    path = root / "bin" / "nvcc"
    path.parent.mkdir(parents=True)
    path.write_text(
        "#!/bin/sh\ncase $1 in\n"
        "--version) echo 'Cuda compilation tools, release 13.0, V13.0.88' ;;\n"
        "--list-gpu-arch) echo compute_80; echo compute_90 ;;\n"
        f"*) {body} ;;\nesac\n"
    )
    path.chmod(0o755)
    return path


@needs_nvcc
def test_cubin_with_figures_by_symbol() -> None:
    image = compile_source(SCALE, SM90)
    assert (image.format, image.arch, image.symbols, image.log) == ("cubin", "sm_90", {}, "")
    assert image.code[:4] == b"\x7fELF" and b"scale" in image.code
    assert image.figures["scale"].registers > 0


@needs_nvcc
def test_ptx() -> None:
    image = compile_source(SCALE, Target("compute_80"))
    assert b".target sm_80" in image.code and b".entry scale" in image.code
    assert image.figures == {}


@needs_nvcc
def test_the_hosts_headers_ours_and_the_users(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    folder.mkdir()
    (folder / "mine.cuh").write_text("#define TWO 2\n")
    text = (
        '#include <type_traits>\n#include <vector>\n#include "mine.cuh"\n'
        "#include <cupy/complex.cuh>\n"
        'static_assert(std::is_same_v<int, int> && TWO == 2);\nextern "C" __global__ '
        "void k(complex<float>* z) { z[0] = z[1] * complex<float>(N, TWO); }\n"
    )
    source = replace(SCALE, text=text, options=("-DN=3", f"-I{folder}"))
    assert compile_source(source, SM90).figures["k"].registers > 0


@needs_nvcc
def test_what_is_carried_comes_before_what_options_name(tmp_path: Path) -> None:
    (tmp_path / "cuComplex.h").write_text("#error not this one\n")
    text = "#include <cuComplex.h>\n__device__ cuComplex f(cuComplex z) { return z * z; }\n"
    ours = Header("cuComplex.h", '#include "kspec/cucomplex.cuh"\n')
    source = replace(SCALE, text=text, headers=(ours,), options=(f"-I{tmp_path}",))
    assert compile_source(source, SM90).log == ""


@needs_nvcc
def test_temporary_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary files"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    compile_source(SCALE, SM90)
    with pytest.raises(CompileError):
        compile_text("broken")
    assert list(folder.iterdir()) == []


@needs_nvcc
def test_the_log_holds_warnings_at_their_lines() -> None:
    image = compile_text('#line 7 "specs/a.toml"\n__global__ void k() { int unused; }\n')
    assert image.log.startswith("specs/a.toml(7): warning #177-D")
    assert "ptxas" not in image.log and "stack frame" not in image.log


@needs_nvcc
def test_errors_are_located_and_have_no_temporary_path() -> None:
    with pytest.raises(CompileError) as caught:
        compile_text("\n__global__ void k(float* x) { x[0] = y; }")
    assert caught.value.log.startswith('scale.cu(2): error: identifier "y" is undefined')
    assert "kspec-nvcc" not in caught.value.log
    assert caught.value.target == "sm_90" and "-arch=sm_90" in caught.value.options


@needs_nvcc
def test_an_error_in_a_header_names_the_header() -> None:
    source = replace(SCALE, text='#include "my/h.cuh"\n', headers=(Header("my/h.cuh", "broken;"),))
    with pytest.raises(CompileError, match=r"^my/h\.cuh\(1\): error"):
        nvcc.compile_nvcc(source, SM90)


@needs_nvcc
@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("#include <nope.h>\n", (), r"nope\.h: No such file[\s\S]*directories of -I"),
        ("", ("--frobnicate",), "Unknown option '--frobnicate'"),
        ('__global__ void k() { asm("frob;"); }', (), "frob"),
    ],
)
def test_what_nvcc_says_is_the_error(text: str, options: tuple[str, ...], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        compile_text(text, *options)


def test_name_expressions_are_nvrtcs() -> None:
    with pytest.raises(SpecError, match="nvrtc"):
        nvcc.compile_nvcc(replace(SCALE, name_expressions=("k<int>",)), SM90)


@needs_nvcc
def test_an_architecture_it_does_not_know() -> None:
    with pytest.raises(CompileError, match=r"sm_20 is not supported by nvcc V\d.*sm_90"):
        compile_source(SCALE, Target("sm_20"))


PARENT = """
__global__ void child(int* x) { x[threadIdx.x] += 1; }
extern "C" __global__ void parent(int* x, int n) { child<<<1, n>>>(x); }
"""


@needs_nvcc
@pytest.mark.parametrize("option", ["-dc", "-rdc=true"])
def test_dynamic_parallelism(option: str) -> None:
    image = compile_text(PARENT, option)
    assert b"parent" in image.code and b"cudaCDP2LaunchDevice" in image.code
    assert image.figures["parent"].registers > 0


@needs_nvcc
def test_a_nested_launch_needs_an_option() -> None:
    with pytest.raises(CompileError, match=r"options=\('-dc',\)"):
        compile_text(PARENT)


@needs_nvcc
def test_the_cache_and_what_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ImageCache(tmp_path)
    first = compile_source(SCALE, SM90, cache)
    monkeypatch.setattr(nvcc, "compile_nvcc", None)
    assert compile_source(SCALE, SM90, ImageCache(tmp_path)) == first
    key = image_key(SCALE, SM90)
    assert key != image_key(replace(SCALE, backend="nvrtc"), SM90)
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-DX")
    assert key != image_key(SCALE, SM90)
    monkeypatch.delenv("NVCC_APPEND_FLAGS")
    monkeypatch.setattr(nvcc, "nvcc_build", lambda: "V12.0.0")
    assert key != image_key(SCALE, SM90)


def test_a_users_header_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "nvcc_build", lambda: "V13.0.88")
    (tmp_path / "a.cuh").write_text("// one\n")
    source = replace(SCALE, text='#include "a.cuh"\n', options=(f"-I{tmp_path}",))
    before = image_key(source, SM90)
    (tmp_path / "a.cuh").write_text("// two\n")
    assert image_key(source, SM90) != before


@pytest.mark.parametrize("variable", ["CUDA_PATH", "CUDA_HOME"])
def test_it_is_where_the_user_says(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_PATH", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    path = fake_nvcc(tmp_path / "my toolkit", "exit 1")
    monkeypatch.setenv(variable, str(path.parent.parent))
    assert nvcc.find_nvcc() == path
    assert nvcc.supported_capabilities() == (80, 90)


def test_it_is_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake_nvcc(tmp_path, "exit 1")
    monkeypatch.setenv("CUDA_PATH", str(tmp_path / "nothing here"))
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(path.parent), prepend=os.pathsep)
    assert nvcc.find_nvcc() == path


def test_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(nvcc, "find_tool", lambda name: None)
    with pytest.raises(ToolNotFoundError, match=r"pip install 'cuda-toolkit\[nvcc,"):
        compile_source(SCALE, SM90)


def failing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> KspecError:
    """Return the error that an nvcc which does `body` leads to; nothing may be kept of it."""
    monkeypatch.setenv("CUDA_PATH", str(fake_nvcc(tmp_path / "cuda", body).parent.parent))
    cache = ImageCache(tmp_path / "cache")
    with pytest.raises(KspecError) as caught:
        compile_source(SCALE, SM90, cache)
    assert cache.failure(image_key(SCALE, SM90)) is None
    assert not list(cache.directory.glob("*"))
    return caught.value


@pytest.mark.parametrize(
    "body", ["kill -9 $$", "echo \"nvcc error : 'cicc' died due to signal 9\" >&2; exit 9"]
)
def test_a_killed_compile_leaves_nothing(
    body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = failing(monkeypatch, tmp_path, body)
    assert isinstance(error, ToolStoppedError)
    assert "nvcc was stopped by the system" in str(error) and "signal 9" in str(error)


def test_no_host_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = "nvcc fatal   : Failed to preprocess host compiler properties."
    error = failing(monkeypatch, tmp_path, f"echo '{says}' >&2; exit 1")
    assert isinstance(error, ToolNotFoundError)
    assert "host C++ compiler (g++)" in str(error)
