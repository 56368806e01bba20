"""PTX in an older version of its language."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kspec
from kspec.compiler import compile_source, image_key
from kspec.compiler.cuda.link import assembler_errors
from kspec.compiler.cuda.ptx import parse_isa, with_isa
from kspec.errors import CompileError, ToolNotFoundError
from kspec.model.stages import CudaSource, Target
from kspec.runtime.modules.image_text import contents_of

SOURCE = CudaSource("f.cu", 'extern "C" __global__ void f(float* x) { x[threadIdx.x] += 1; }')
# The compiler hints which bytes of the packs are used.
PACKS = CudaSource(
    "p.cu",
    """
    extern "C" __global__ void f(const uint4* x, unsigned* y) {
      uint4 pack = x[threadIdx.x];
      y[threadIdx.x] = pack.x + pack.w;
    }
    """,
)
NEW = CudaSource(
    "new.cu",
    'extern "C" __global__ void f(int* x) { asm volatile("griddepcontrol.wait;"); *x = 1; }',
)


def version_of(code: bytes) -> tuple[int, int]:
    found = contents_of(code).ptx_version
    assert found is not None
    return found


@pytest.mark.parametrize("isa", ["7.0", "7.4", "8.0"])
@pytest.mark.parametrize("source", [SOURCE, PACKS], ids=["plain", "hints"])
def test_an_older_version(source: CudaSource, isa: str) -> None:
    newest = compile_source(source, Target("compute_80"))
    image = compile_source(source, Target("compute_80", ptx_isa=isa))
    assert version_of(image.code) == parse_isa(isa) < version_of(newest.code)
    assert b"used_bytes_mask" not in image.code
    assert contents_of(image.code).archs == ("compute_80",)
    same = re.sub(rb'(?m)^(\s*\.version .*|\s*\.pragma "used_bytes_mask.*)\n', b"", newest.code)
    assert same == re.sub(rb"(?m)^\s*\.version .*\n", b"", image.code)


def test_what_is_old_enough_stays() -> None:
    newest = compile_source(SOURCE, Target("compute_80"))
    assert with_isa(newest, "99.0", "f.cu") is newest
    assert with_isa(newest, ".".join(map(str, version_of(newest.code))), "f.cu") is newest
    cubin = compile_source(SOURCE, Target("sm_80"))
    assert with_isa(cubin, "7.0", "f.cu") is cubin


@pytest.mark.parametrize(
    ("source", "arch", "isa", "reason"),
    [
        (NEW, "compute_90", "7.4", "griddepcontrol"),
        (SOURCE, "compute_80", "6.3", "does not support .target sm_80"),
        (SOURCE, "compute_100", "8.0", "does not support .target sm_100"),
    ],
)
def test_what_the_older_version_has_not(
    source: CudaSource, arch: str, isa: str, reason: str
) -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(source, Target(arch, ptx_isa=isa))
    message = str(caught.value)
    head = f"{source.name}: the code for {arch} cannot be PTX {isa}, as ptx_isa in [tool.kspec]"
    assert message.startswith(head) and reason in message
    assert "aborted" not in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b".entry f() { ret; }\n\0", ""),
        (b".entry f() { bra end; }", "Unknown symbol 'end'"),
        (b".entry f() { ret; ", "syntax error"),
        (b".entry f() { griddepcontrol.wait; }", "requires .target sm_90 or higher"),
    ],
)
def test_errors_of_the_assembler(text: bytes, reason: str) -> None:
    head = b".version 8.0\n.target sm_80\n.address_size 64\n"
    log = assembler_errors(head + text, "compute_80", "f.cu")
    assert reason in log and bool(log) is bool(reason)
    assert "kspec_end_of_text" not in log


def test_it_is_part_of_the_key() -> None:
    keys = {image_key(SOURCE, Target("compute_80", ptx_isa=isa)) for isa in ("", "7.0", "8.0")}
    assert len(keys) == 3


def test_without_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cuda.bindings.nvjitlink", None)
    monkeypatch.delattr("cuda.bindings.nvjitlink", raising=False)
    with pytest.raises(ToolNotFoundError, match="nvJitLink"):
        compile_source(SOURCE, Target("compute_80", ptx_isa="7.0"))


@pytest.mark.gpu
@pytest.mark.parametrize("isa", ["7.0", "8.0"])
@pytest.mark.parametrize("source", [SOURCE, PACKS], ids=["plain", "hints"])
def test_it_runs(source: CudaSource, isa: str, tmp_path) -> None:
    path = tmp_path / "f.ptx"
    path.write_bytes(compile_source(source, Target("compute_80", ptx_isa=isa)).code)
    kernel = kspec.RawModule(path=str(path)).get_function("f")
    if source is SOURCE:
        x = kspec.asarray(np.arange(8, dtype=np.float32), device="cuda:0")
        kernel((1,), (8,), (x,))
        assert kspec.asnumpy(x).tolist() == list(range(1, 9))
        return
    packs = kspec.asarray(np.arange(32, dtype=np.uint32), device="cuda:0")
    sums = kspec.asarray(np.zeros(8, np.uint32), device="cuda:0")
    kernel((1,), (8,), (packs, sums))
    assert kspec.asnumpy(sums).tolist() == [8 * k + 3 for k in range(8)]
