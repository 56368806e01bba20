"""compile_source: key, cache, compile, in threads and processes."""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kspec.compiler import ImageCache, compile_source, host
from kspec.compiler import host as host_compiler
from kspec.compiler.cuda import nvrtc
from kspec.compiler.family import share
from kspec.errors import CompileError
from kspec.model.stages import HOST, CudaSource, Header, Image, Target

SM80 = Target("sm_80")
SOURCE = CudaSource("k.cu", "template <class T> __global__ void k(T* x) { x[0] = 1; }", ("k<int>",))
BROKEN = CudaSource("b.cu", '#line 3 "specs/b.toml"\nbroken;\n')


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The architectures NVRTC was asked for."""
    asked: list[str] = []
    real = nvrtc.compile_cuda

    def counted(source: CudaSource, target: Target, directories: Any = ()) -> Image:
        asked.append(target.arch)
        return real(source, target, directories)

    both = nvrtc.compile_with_ptx

    def counted_twice(source: CudaSource, target: Target, directories: Any) -> tuple[Image, Image]:
        asked.append(f"{target.arch} and its PTX")
        return both(source, target, directories)

    monkeypatch.setattr(nvrtc, "compile_cuda", counted)
    monkeypatch.setattr(nvrtc, "compile_with_ptx", counted_twice)
    return asked


def test_without_a_cache_it_compiles_each_time(compiles: list[str]) -> None:
    assert compile_source(SOURCE, SM80) == compile_source(SOURCE, SM80)
    assert compiles == ["sm_80", "sm_80"]


def test_a_cache_answers_in_this_and_the_next_process(tmp_path: Path, compiles: list[str]) -> None:
    first = compile_source(SOURCE, SM80, ImageCache(tmp_path))
    assert compile_source(SOURCE, SM80, ImageCache(tmp_path)) == first
    assert first.symbols == {"k<int>": "_Z1kIiEvPT_"}
    assert compiles == ["sm_80"]
    compile_source(SOURCE, Target("sm_90"), ImageCache(tmp_path))
    assert compiles == ["sm_80", "sm_90"]


@pytest.mark.parametrize("limit", [None, 0])
def test_ptx_comes_with_a_cubin(tmp_path: Path, compiles: list[str], limit: int | None) -> None:
    ptx = Target("compute_80", ptx_isa="8.0")
    alone = compile_source(SOURCE, SM80), compile_source(SOURCE, ptx)
    compiles.clear()
    cache = ImageCache(tmp_path, limit=limit)
    assert (
        compile_source(SOURCE, SM80, cache, (ptx,)),
        compile_source(SOURCE, ptx, cache),
    ) == alone
    assert compiles == ["sm_80 and its PTX"]
    assert compile_source(SOURCE, SM80, cache, (ptx,)) == alone[0]
    assert compiles == ["sm_80 and its PTX"]


def test_other_members_of_a_family_come_with_the_first(tmp_path: Path, compiles: list[str]) -> None:
    sm80, sm86, sm89 = share(SOURCE, [Target("sm_80"), Target("sm_86"), Target("sm_89")])
    alone = [compile_source(SOURCE, one) for one in (sm80, sm86, sm89)]
    assert compiles == ["sm_80", "compute_80", "compute_80"]
    compiles.clear()
    cache = ImageCache(tmp_path)
    assert compile_source(SOURCE, sm80, cache, (sm86, sm89)) == alone[0]
    assert [compile_source(SOURCE, one, cache) for one in (sm86, sm89)] == alone[1:]
    assert compiles == ["sm_80 and its PTX"]


def test_ptx_that_cannot_be_so_old(tmp_path: Path, compiles: list[str]) -> None:
    cache, old = ImageCache(tmp_path), Target("compute_80", ptx_isa="6.3")
    assert compile_source(SOURCE, SM80, cache, (old,)) == compile_source(SOURCE, SM80)
    compiles.clear()
    with pytest.raises(CompileError, match=r"^k\.cu: the code for compute_80 cannot be PTX 6\.3"):
        compile_source(SOURCE, old, cache)
    assert compiles == []


def test_a_source_without_a_cubin_has_no_ptx(tmp_path: Path, compiles: list[str]) -> None:
    cache, ptx = ImageCache(tmp_path), Target("compute_80")
    for target in (SM80, ptx, SM80):
        with pytest.raises(CompileError, match=r"specs/b\.toml\(3\)"):
            compile_source(BROKEN, target, cache, (ptx,) if target is SM80 else ())
    assert compiles == ["sm_80 and its PTX", "compute_80"]


def test_a_damaged_entry_is_compiled_again(tmp_path: Path, compiles: list[str]) -> None:
    first = compile_source(SOURCE, SM80, ImageCache(tmp_path))
    (entry,) = tmp_path.glob("*.image")
    entry.write_bytes(entry.read_bytes()[:-10])
    assert compile_source(SOURCE, SM80, ImageCache(tmp_path)) == first
    assert compile_source(SOURCE, SM80, ImageCache(tmp_path)) == first
    assert len(compiles) == 2


def test_a_failure_is_raised_again_without_compiling(tmp_path: Path, compiles: list[str]) -> None:
    cache = ImageCache(tmp_path)
    messages = []
    for _ in range(3):
        with pytest.raises(CompileError, match=r"specs/b\.toml\(3\)") as caught:
            compile_source(BROKEN, SM80, cache)
        messages.append(str(caught.value))
    assert compiles == ["sm_80"]
    assert len(set(messages)) == 1
    assert not list(tmp_path.glob("*.image"))


def test_a_changed_header_is_not_answered_from_the_cache(tmp_path: Path) -> None:
    text = '#include "value.cuh"\nextern "C" __global__ void k(int* x) { x[0] = VALUE; }'
    source = CudaSource("k.cu", text, options=(f"-I{tmp_path}",))
    cache = ImageCache(tmp_path / "cache")
    for value in (41, 42):
        (tmp_path / "value.cuh").write_text(f"#define VALUE {value}\n")
        assert f", {value};".encode() in compile_source(source, Target("compute_80"), cache).code


def test_unsupported_architecture(tmp_path: Path) -> None:
    for cache in (None, ImageCache(tmp_path)):
        with pytest.raises(CompileError, match="sm_20 is not supported by NVRTC"):
            compile_source(SOURCE, Target("sm_20"), cache)


def test_host_goes_to_the_host_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Image("so", "host", b"\x7fELF", {"k<int>": "k"})
    stand_in = SimpleNamespace(
        compile_host=lambda source, **options: made,
        fingerprint=lambda name, sanitize: f"{name} 1",
    )
    monkeypatch.setattr(host_compiler, "find_compiler", lambda: "c++")
    monkeypatch.setitem(sys.modules, "kspec.compiler.host.compile", stand_in)
    monkeypatch.setattr(host, "compile", stand_in, raising=False)
    cache = ImageCache(tmp_path)
    assert compile_source(SOURCE, HOST, cache) is made
    assert compile_source(SOURCE, HOST, cache) is made
    assert cache.statistics.hits == 1


def test_eight_threads_compile_one_source_once(tmp_path: Path, compiles: list[str]) -> None:
    cache = ImageCache(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda _: compile_source(SOURCE, SM80, cache), range(8)))
    assert compiles == ["sm_80"]
    assert all(image is images[0] for image in images)
    assert (cache.statistics.misses, cache.statistics.hits) == (1, 7)


def test_architectures_in_processes(tmp_path: Path) -> None:
    targets = [Target(arch) for arch in ("sm_80", "sm_90", "compute_80", "sm_80")]
    cache = ImageCache(tmp_path)
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        tasks = [pool.submit(compile_source, SOURCE, target, cache) for target in targets]
        images = [task.result(timeout=300) for task in tasks]
        refused = pool.submit(compile_source, BROKEN, SM80, cache).exception(timeout=300)
    assert [image.arch for image in images] == [target.arch for target in targets]
    assert images[0] == images[3] == compile_source(SOURCE, SM80)
    assert isinstance(refused, CompileError) and refused.target == "sm_80"
    assert len(list(tmp_path.glob("*.image"))) == 3


@pytest.mark.parametrize("target", [SM80, HOST], ids=str)
@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"text": "__global__ void k() {}\n// \ud800"}, "k.cu:2"),
        ({"text": "__global__ void k() {} // \0"}, "k.cu:1"),
        ({"options": ("-DA=\udce9",)}, "<options>:1"),
        ({"headers": (Header("größe.cuh", "\n\n// \0"),)}, "größe.cuh:3"),
        ({"name_expressions": ("k<\ud800>",)}, "<options>:1"),
        ({"name": "\ud800.cu"}, "<options>:1"),
    ],
)
def test_what_is_no_text_is_refused(target: Target, changes: dict[str, Any], place: str) -> None:
    """It was a UnicodeEncodeError, and NVRTC left out all that came after a NUL."""
    source = replace(SOURCE, **changes)
    with pytest.raises(CompileError, match="is not a character of CUDA text; remove it") as caught:
        compile_source(source, target)
    assert str(caught.value).startswith(f"{place}: error: '\\")
