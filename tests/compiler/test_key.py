"""Keys, as two tables: what makes them differ, and what does not."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kspec.compiler import headers, key
from kspec.compiler.cuda import nvrtc
from kspec.compiler.key import image_key, placed_key, source_digest
from kspec.model.stages import CudaSource, Header, Target

SM80 = Target("sm_80")
BASE = CudaSource(
    "a.cu",
    '#include "x.cuh"\n#include "y.cuh"\ntemplate <class T> __global__ void k(T*) {}\n',
    ("k<float>", "k<int>"),
    (Header("x.cuh", "// x\n"), Header("y.cuh", "// y\n")),
    ("-DA=1", "-DB=2"),
)

DIFFERS: dict[str, CudaSource] = {
    "text": replace(BASE, text=BASE.text + " "),
    "name": replace(BASE, name="b.cu"),
    "name expression": replace(BASE, name_expressions=("k<float>", "k<double>")),
    "one name expression fewer": replace(BASE, name_expressions=("k<float>",)),
    "name expressions glued": replace(BASE, name_expressions=("k<float>k<int>",)),
    "header text": replace(BASE, headers=(BASE.headers[0], Header("y.cuh", "// z\n"))),
    "header name": replace(BASE, headers=(BASE.headers[0], Header("z.cuh", "// y\n"))),
    "header less": replace(BASE, headers=BASE.headers[:1]),
    "option": replace(BASE, options=("-DA=1", "-DB=3")),
    "order of options": replace(BASE, options=("-DB=2", "-DA=1")),
    "standard": replace(BASE, options=("-std=c++20", *BASE.options)),
    "options become text": replace(BASE, options=(), text=BASE.text + "-DA=1"),
}

SAME: dict[str, CudaSource] = {
    "equal": pickle.loads(pickle.dumps(BASE)),
    "order of headers": replace(BASE, headers=BASE.headers[::-1]),
    "place in the spec file": replace(BASE, text='#line 3 "specs/a.toml"\n' + BASE.text),
}


def test_key_is_a_full_sha256() -> None:
    digest = image_key(BASE, SM80)
    assert len(digest) == 64
    assert int(digest, 16) >= 0


@pytest.mark.parametrize("case", DIFFERS)
def test_differs_on(case: str) -> None:
    assert image_key(DIFFERS[case], SM80) != image_key(BASE, SM80)


@pytest.mark.parametrize("case", SAME)
def test_same_when(case: str) -> None:
    assert image_key(SAME[case], SM80) == image_key(BASE, SM80)


def moved(source: CudaSource) -> CudaSource:
    return replace(source, text='#line 3 "specs/a.toml"\n' + source.text)


@pytest.mark.parametrize(
    "text", ["__LINE__", "assert(x);", "_CCCL_ASSERT(x);", "CubDebug(x);", "__builtin_FILE()"]
)
@pytest.mark.parametrize("where", ["text", "header"])
def test_places_that_are_part_of_the_code(text: str, where: str) -> None:
    header = Header("z.cuh", f"#define Z {text}\n")
    source = replace(BASE, headers=(*BASE.headers, header)) if where == "header" else BASE
    source = replace(source, text=source.text + text) if where == "text" else source
    assert image_key(moved(source), SM80) != image_key(source, SM80)
    assert source_digest(moved(source)) != source_digest(source)


@pytest.mark.parametrize("option", ["-lineinfo", "--generate-line-info", "-G", "--device-debug"])
def test_line_tables_have_places(option: str) -> None:
    source = replace(BASE, options=(option,))
    assert image_key(moved(source), SM80) != image_key(source, SM80)


def test_places_do_not_matter_to_static_assertions_but_to_the_host_device() -> None:
    source = replace(BASE, text=BASE.text + 'static_assert(true, "");')
    assert image_key(moved(source), SM80) == image_key(source, SM80)
    assert image_key(moved(source), Target("host")) != image_key(source, Target("host"))
    assert placed_key("key", moved(source)) != placed_key("key", source)


def test_no_two_different_sources_share_a_key() -> None:
    keys = {image_key(source, SM80) for source in (BASE, *DIFFERS.values())}
    assert len(keys) == 1 + len(DIFFERS)


def test_differs_on_target() -> None:
    keys = {image_key(BASE, Target(arch)) for arch in ("sm_80", "sm_90", "sm_90a", "compute_80")}
    assert len(keys) == 4


@pytest.mark.parametrize(
    ("owner", "attribute", "value"),
    [
        (key, "SCHEMA", key.SCHEMA + 1),
        (nvrtc, "nvrtc_build", lambda: "V13.0.48 CL-1"),
    ],
)
def test_differs_on_schema_and_exact_compiler(
    monkeypatch: pytest.MonkeyPatch, owner: Any, attribute: str, value: Callable[[], str] | int
) -> None:
    before = image_key(BASE, SM80)
    monkeypatch.setattr(owner, attribute, value)
    assert image_key(BASE, SM80) != before


def test_toolkit_version_matters_only_to_sources_that_use_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    half = replace(BASE, text="#include <cuda_fp16.h>\n" + BASE.text)
    before = image_key(BASE, SM80), image_key(half, SM80)
    monkeypatch.setattr(headers, "toolkit_version", lambda directories: "cudart 99.0")
    assert image_key(BASE, SM80) == before[0]
    assert image_key(half, SM80) != before[1]


def test_header_found_through_an_option_is_part_of_the_key(tmp_path: Path) -> None:
    source = CudaSource("a.cu", '#include "mine.cuh"\n', options=(f"-I{tmp_path}",))
    (tmp_path / "mine.cuh").write_text("// one\n")
    before = image_key(source, SM80)
    (tmp_path / "mine.cuh").write_text("// two\n")
    assert image_key(source, SM80) != before


def test_place_and_environment_do_not_matter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = image_key(BASE, SM80)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert image_key(BASE, SM80) == before
