"""Device linking: what -dc asks for, with NVRTC and nvJitLink."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kspec.compiler import ImageCache, compile_source, image_key
from kspec.compiler.cuda import link
from kspec.errors import CompileError, SpecError, ToolNotFoundError
from kspec.model.stages import CudaSource, Target

SM90 = Target("sm_90")
SOURCE = CudaSource(
    "parent.cu",
    """
template <class T> __global__ void child(T* x) { x[threadIdx.x] += 1; }
template <class T> __global__ void parent(T* x, int n) {
  child<T><<<1, n>>>(x);
  if (cudaGetLastError() != cudaSuccess) x[0] = -1;
}
""",
    ("parent<int>", "parent<float>"),
    options=("-dc",),
)


def has_linker() -> bool:
    try:
        link.linker_build()
    except ToolNotFoundError:
        return False
    return True


needs_linker = pytest.mark.skipif(not has_linker(), reason="there is no nvJitLink or cudadevrt")


@needs_linker
@pytest.mark.parametrize(
    "options",
    [
        ("-dc",),
        ("--device-c",),
        ("-rdc=true",),
        ("-rdc", "true"),
        ("--relocatable-device-code=true",),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_a_cubin_with_the_device_runtime(arch: str, options: tuple[str, ...]) -> None:
    image = compile_source(replace(SOURCE, options=options), Target(arch))
    assert image.arch == arch and image.code[:4] == b"\x7fELF"
    assert b"cudaCDP2LaunchDevice" in image.code
    assert image.symbols["parent<int>"].encode() in image.code
    assert image.figures["parent<int>"].registers > 0


@needs_linker
def test_linked_images_are_cached_by_the_linkers_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = compile_source(SOURCE, SM90, ImageCache(tmp_path))
    monkeypatch.setattr(link, "link_device", None)
    assert compile_source(SOURCE, SM90, ImageCache(tmp_path)) == first
    key = image_key(SOURCE, SM90)
    monkeypatch.setattr(link, "linker_build", lambda: "nvjitlink 99.0")
    assert image_key(SOURCE, SM90) != key


@needs_linker
def test_what_is_defined_nowhere_is_named() -> None:
    text = 'extern __device__ int f(int); extern "C" __global__ void k(int* x) { x[0] = f(1); }'
    with pytest.raises(CompileError, match=r"^f\.cu: error.*'_Z1fi' in 'f\.cu'"):
        compile_source(CudaSource("f.cu", text, options=("-dc",)), SM90)


@pytest.mark.parametrize(
    "text",
    [
        "__global__ void k() {}\n__global__ void launch() { k<<<1, 1>>>(); }",
        "__global__ void k(int* x) { x[0] = cudaDeviceGetLimit; }",
    ],
)
def test_without_the_option_the_error_names_it(text: str) -> None:
    with pytest.raises(CompileError, match=r"error[\s\S]*options=\('-dc',\)"):
        compile_source(CudaSource("k.cu", text), SM90)


def test_ptx_can_not_be_linked() -> None:
    with pytest.raises(SpecError, match="compute_80 is PTX"):
        compile_source(SOURCE, Target("compute_80"))


def test_no_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvjitlink

    def absent() -> None:
        raise RuntimeError('Failure finding "libnvJitLink.so"')

    monkeypatch.setattr(nvjitlink, "version", absent)
    with pytest.raises(ToolNotFoundError, match=r"pip install 'kspec\[cu13\]'[\s\S]*libnvJitLink"):
        compile_source(SOURCE, SM90)


def test_no_device_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "find_static_library", lambda name: None)
    with pytest.raises(ToolNotFoundError, match="device runtime, which -dc links with"):
        link.device_runtime()
