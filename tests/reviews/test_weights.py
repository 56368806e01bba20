"""Threads of instructions, weighed by what a GPU's compiler makes of a kernel."""

from __future__ import annotations

import pytest

from kspec.compiler.cuda import nvrtc
from kspec.model.stages import CudaSource, MachineCode, Target
from kspec.reviews.code.loops import find_loops, nests
from kspec.reviews.code.machine_code import read_blocks
from kspec.reviews.review import LaunchReview
from tests.compiling import optimized
from tests.reviews.test_counts import reviewed

__all__ = ["optimized"]

# 256 multiplications one after the other, each an instruction.
LONG = "\n".join("v = v * v + 0.5f;" for _ in range(256))


def bounds(*ways: tuple[int, int]) -> tuple[float, float]:
    """Return the threads of an instruction of ways with so many instructions and threads.

    Around them are some 8 to 40 instructions with all 32.
    """
    size, lanes = sum(n for n, _ in ways), sum(n * lanes for n, lanes in ways)
    return (lanes + 8 * 32) / (size + 8), (lanes + 40 * 32) / (size + 40)


def unweighed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reviews do without the code of a GPU's compiler."""
    monkeypatch.setattr("kspec.reviews.lines.executed_on", lambda launch, arch: None)


def test_a_long_way_weighs_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"float v = x[threadIdx.x];\nif (threadIdx.x < 8) {{\n{LONG}\n}}\ny[threadIdx.x] = v;"
    low, high = bounds((256, 8))
    assert low < reviewed(body).warp_efficiency < high
    unweighed(monkeypatch)
    assert reviewed(body).warp_efficiency > high  # two short blocks of 32 threads, one of 8


def test_ways_that_differ_in_length() -> None:
    other = ["v = v + 0.25f;"] * 64  # the end of alike ways would be joined
    code = (
        "float v = x[threadIdx.x];",
        f"if (threadIdx.x < 8) {{\n{LONG}\n}}",
        "else {\n" + "\n".join(other) + "\n}",
        "y[threadIdx.x] = v;",
    )
    low, high = bounds((256, 8), (64, 24))
    assert low < reviewed("\n".join(code)).warp_efficiency < high


@pytest.mark.usefixtures("optimized_code")
def test_an_unrolled_loop_weighs_as_much() -> None:
    def efficiency(pragma: str) -> float:
        return reviewed(
            "float v = x[threadIdx.x];\nif (threadIdx.x < 8) {\n"
            f"#pragma unroll {pragma}\nfor (int k = 0; k < 64; ++k)\nv = v * v + 0.5f;\n}}\n"
            "y[threadIdx.x] = v;"
        ).warp_efficiency

    low, high = bounds((64, 8))
    assert low < efficiency("64") < high
    low, high = bounds((4 * 64, 8))  # with the counter, its comparison and a branch
    assert low < efficiency("1") < high


def test_each_thread_that_leaves_a_loop_waits_for_the_others() -> None:
    body = (
        "float v = 0;\n#pragma unroll 1\nfor (int k = 0; k <= threadIdx.x; ++k)\n"
        "v += x[k];\ny[threadIdx.x] = v;"
    )
    # 32 trips with 32 to 1 threads, and 32 waits of one thread each, which have no part in it.
    assert 13 < reviewed(body).warp_efficiency < 17.5


@pytest.mark.usefixtures("optimized_code")
def test_a_short_way_is_predicated(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "float v = x[threadIdx.x];\nif (threadIdx.x == 3)\nv = x[99];\ny[threadIdx.x] = v;"
    assert reviewed(body).warp_efficiency == 32
    unweighed(monkeypatch)
    assert reviewed(body).warp_efficiency < 32  # a load of global memory is not taken to be


@pytest.mark.usefixtures("optimized_code")
def test_functions_are_told_apart_by_their_calls() -> None:
    long = "\n".join("v = v * v + 0.5f;" for _ in range(64))
    before = f"__device__ __noinline__ float far(float v) {{\n{long}\nreturn v;\n}}"
    inline = before.replace("__noinline__", "__forceinline__")
    body = (
        "float v = x[threadIdx.x];\nv = far(v);\nif (threadIdx.x < 8)\nv = far(v);\n"
        "y[threadIdx.x] = v;"
    )
    low, high = bounds((64, 32), (64, 8))
    assert low < reviewed(body, before=inline).warp_efficiency < high


@pytest.mark.usefixtures("without_compilers_for_gpus")
def test_without_a_compiler_for_gpus() -> None:
    found: LaunchReview = reviewed(
        "if (threadIdx.x < 8) y[threadIdx.x] = x[threadIdx.x];\nelse y[threadIdx.x] = 0;"
    )
    assert 8 <= found.warp_efficiency < 32


SOURCE = CudaSource(
    "k.cu",
    'extern "C" __global__ void k(const float* x, float* y, int n) {\n'
    "  float v = 0;\n"
    "#pragma unroll 1\n"
    "  for (int i = 0; i < n; ++i)\n"
    "    v += x[i];\n"
    "  y[threadIdx.x] = v;\n"
    "}\n",
    options=("-lineinfo",),
)


def code_of(source: CudaSource, arch: str = "sm_90") -> MachineCode:
    """Return the code of `k`."""
    return MachineCode(nvrtc.compile_cuda(source, Target(arch)).code, arch, "k")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_100", "sm_120"])
def test_blocks_of_machine_code(arch: str) -> None:
    blocks = read_blocks(code_of(SOURCE, arch))
    loops = find_loops([one.successors for one in blocks])
    assert len(loops) == 1
    inside = [one for number in loops[0].body for one in blocks[number].instructions]
    lines = {one.frames[0][1] for one in inside}
    assert lines <= {4, 5}
    assert sum(one.accesses_memory for one in inside) == 1
    assert not any(one.is_slow_path for one in blocks)
    whole = {one.frames[0][1] for block in blocks for one in block.instructions}
    assert {4, 5, 6, 7} <= whole


def test_other_files_are_not_read() -> None:
    cubin = code_of(SOURCE).cubin
    for code in (b"", b"\x7fELF", cubin[:64], cubin[: len(cubin) // 2], b"\x7fELF\x02" + bytes(99)):
        assert read_blocks(MachineCode(code, "sm_90", "k")) == ()
    assert read_blocks(MachineCode(cubin, "sm_90", "other")) == ()


def test_an_image_without_line_tables_is_not_weighed() -> None:
    plain = CudaSource(SOURCE.name, SOURCE.text)
    assert read_blocks(code_of(plain)) == ()


def test_loops_in_loops() -> None:
    flow = [[1], [2], [2, 3], [1, 4], []]
    loops = find_loops(flow)
    assert [sorted(one.body) for one in loops] == [[1, 2, 3], [2]]
    assert nests(5, loops) == [(), (0,), (0, 1), (0,), ()]


def test_loops_that_begin_together() -> None:
    flow = [[1], [1, 2], [1, 3], []]  # from 1 and from 2 back to 1
    assert [sorted(one.body) for one in find_loops(flow)] == [[1, 2]]
    often = {(0, 1): 1, (1, 1): 30, (2, 1): 4}
    assert [sorted(one.body) for one in find_loops(flow, often)] == [[1, 2], [1]]
    seldom = {(0, 1): 1, (1, 1): 4, (2, 1): 30}
    assert [sorted(one.body) for one in find_loops(flow, seldom)] == [[1, 2]]
