"""The review of a call as a value: data, table, page, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kspec
from kspec.compiler.host.sanitize import sanitize_flags
from kspec.errors import HostFault, NotSupportedError
from kspec.reviews.review import LaunchReview
from kspec.reviews.summary import summary
from tests.projects import ROOT

CODE = r"""
extern "C" __global__ void column(const float* x, float* y, int n) {
  __shared__ float s[1024];
  int i = threadIdx.x;
  s[32 * i] = x[n * i];
  __syncthreads();
  if (i % 2) y[i] = s[32 * i];
}
"""
N = 64


def column() -> kspec.Review:
    x = np.arange(32 * N, dtype="f4")
    return kspec.review(
        kspec.RawKernel(CODE, "column"), (1,), (32,), (x, np.zeros(32, "f4"), np.int32(N))
    )


def test_data_has_a_schema() -> None:
    data = column().to_dict()
    assert json.loads(json.dumps(data)) == data
    assert data["schema"] == 1 and data["kernel"] == "column"
    load = data["lines"][0]
    assert {name: load[name] for name in ("file", "line", "space", "kind")} == {
        "file": "kernel.cu",
        "line": 5,
        "space": "global",
        "kind": "load",
    }
    assert load["requests"] == 1 and load["sectors_per_request"] == 32
    assert load["bytes_used"] == 128 and load["bytes_moved"] == 1024
    shared = [one for one in data["lines"] if one["space"] == "shared"]
    assert [(one["kind"], one["conflict_ways"]) for one in shared] == [("store", 32), ("load", 16)]
    (branch,) = data["branches"]
    assert (branch["line"], branch["diverged"]) == (7, 1.0)
    assert data["launch"]["grid"] == [1, 1, 1] and data["launch"]["block"] == [32, 1, 1]
    gpus = data["launch"]["gpus"]
    assert gpus[0]["machine"] == "H200" and gpus[0]["shared_bytes"] == 4096
    assert [one["arch"] for one in gpus] == ["sm_90", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120"]
    assert all(0 < one["occupancy"] <= 1 and one["registers"] > 0 for one in gpus)
    prediction = data["prediction"]
    assert prediction["microseconds"] > 0 and prediction["bound"] in prediction["busy"]
    assert data["launches"][0]["lines"] == data["lines"]


def test_the_table_fits_a_terminal() -> None:
    text = str(column())
    assert max(map(len, text.splitlines())) <= 80
    assert "           kernel.cu:5 global load            1   32.00  12%  not coalesced" in text
    assert "32.0-way conflicts" in text and "100% diverge" in text


TRANSPOSE = r"""
extern "C" __global__ void transpose(const float* x, float* y, int n) {
  __shared__ float tile[32][%d];
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = x[j * n + i];
  __syncthreads();
  i = blockIdx.y * 32 + threadIdx.x, j = blockIdx.x * 32 + threadIdx.y;
  y[j * n + i] = tile[threadIdx.x][threadIdx.y];
}
"""


COLUMNS = r"""
extern "C" __global__ void transpose(const float* x, float* y, int n) {
  int i = blockIdx.x * 32 + threadIdx.x, j = blockIdx.y * 32 + threadIdx.y;
  float value = x[j * n + i];
  y[i * n + j] = value;
}
"""


def summary_of(code: str, name: str, grid: int, block: tuple[int, ...], *args: object) -> str:
    found = kspec.review(kspec.RawKernel(code, name), (grid, grid), block, args)
    assert str(found).startswith(f"{found.summary()}\n\n{name}  grid ")
    assert max(map(len, found.summary().splitlines())) <= 80
    return " ".join(found.summary().split())


def test_sentences_say_the_limit_and_what_to_change() -> None:
    x = np.zeros((1024, 1024), "f4")
    block = 32, 32
    assert re.fullmatch(
        r"transpose takes about [\d.]+ µs on H200 \(estimated\), 0\.1\d of the speed of a copy\. It "
        r"is limited by the second cache\. kernel\.cu:5 moves 8\.0 times the bytes that it uses; let "
        r"neighbouring threads use neighbouring addresses\.",
        summary_of(COLUMNS, "transpose", 32, block, x, x.copy(), np.int32(1024)),
    )
    conflicts = summary_of(TRANSPOSE % 32, "transpose", 32, block, x, x.copy(), np.int32(1024))
    assert (
        "It is limited by shared memory. kernel.cu:8 takes 32 passes for one, because" in conflicts
    )
    assert "make rows of the array one element longer" in conflicts
    fast = summary_of(TRANSPOSE % 33, "transpose", 32, block, x, x.copy(), np.int32(1024))
    assert fast.endswith(
        "most of it the launch itself: give it more work, or put several launches into a CUDA graph."
    )
    count = (
        'extern "C" __global__ void count(int* y) { for (int k = 0; k < 64; ++k) atomicAdd(y, 1); }'
    )
    atomic = summary_of(count, "count", 16, (256,), np.zeros(1, "i4"))
    assert "less than 0.01 of the speed of a copy. It is limited by atomic operations at" in atomic


@pytest.mark.parametrize("bound", ["memory", "first cache", "blocks", "issue", "constants"])
def test_each_limit_has_a_sentence(bound: str) -> None:
    (one,) = column().launches
    prediction = dataclasses.replace(one.prediction, bound=bound, busy={bound: 9.0})
    text = summary(dataclasses.replace(one, prediction=prediction))
    assert re.fullmatch(r"column takes .* of a copy\. It is limited by .+[.;:] .+\.", text)
    assert (bound == "blocks") == ("they fill 0.024% of the GPU" in text)


def test_the_page_shows_the_source() -> None:
    page = column().html()
    assert "s[32 * i] = x[n * i];" in page and "--warm: 1.000" in page
    assert not re.search(r"https?://", page)


def test_a_gpu_is_chosen_by_name() -> None:
    double = kspec.ElementwiseKernel("T x", "T y", "y = 2 * x", "double_it")
    first = kspec.review(double, np.ones(1 << 16, "f4"), gpu="A100").launches[0]
    assert first.prediction.machine == "A100" and first.residencies[0].arch == "sm_80"
    with pytest.raises(NotSupportedError, match="no figures of a GPU 'H9000'; there are H200"):
        kspec.review(double, np.ones(4, "f4"), gpu="H9000")


def test_a_call_without_a_launch_is_refused() -> None:
    with pytest.raises(
        NotSupportedError, match=r"sorted launched nothing on the host device.*pass NumPy arrays"
    ):
        kspec.review(sorted, [2, 1])


def test_a_fault_of_the_kernel_is_raised() -> None:
    x = np.zeros(8, "f4")
    with pytest.raises(HostFault, match="read of 4 bytes at 224 bytes past the end of argument 0"):
        kspec.review(
            kspec.RawKernel(CODE, "column"), (1,), (32,), (x, np.zeros(32, "f4"), np.int32(N))
        )


def test_checks_are_on_at_the_same_time() -> None:
    racy = kspec.RawKernel(
        'extern "C" __global__ void racy(float* y) { y[0] = threadIdx.x; }', "racy"
    )
    with kspec.checking("race"), pytest.raises(HostFault, match="race: write-after-write hazard"):
        kspec.review(racy, (1,), (32,), (np.zeros(1, "f4"),))
    with kspec.checking("memory,race", order="reverse"):
        (one,) = column().launches
    assert [line.requests for line in one.lines] == [1, 1, 1, 1]


def test_reviews_of_several_threads_are_apart() -> None:
    kernel = kspec.RawKernel(
        'extern "C" __global__ void c(const float* x, float* y, int k) {\n'
        "  int i = blockIdx.x * 256 + threadIdx.x;\n  y[i] = x[k * i];\n}",
        "c",
    )
    x = np.zeros(1 << 20, "f4")

    def sectors(stride: int) -> set[float]:
        r = kspec.review(kernel, (512,), (256,), (x, np.zeros(1 << 17, "f4"), np.int32(stride)))
        return {line.sectors_per_request for line in r.lines if line.kind == "load"}

    strides = [1, 2, 4, 8] * 3
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(sectors, strides)) == [{4.0 * one} for one in strides]


def test_every_launch_of_a_block_is_reviewed() -> None:
    add = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
    with kspec.reviewing() as launches:
        add(np.ones(8, "f4"), np.ones(8, "f4"))
        add(np.ones(8), np.ones(8))
    add(np.ones(8), np.ones(8))
    assert [one.kernel for one in launches] == [
        "add<float, kspec::Flat>",
        "add<double, kspec::Flat>",
    ]
    assert all(isinstance(one, LaunchReview) for one in launches)
    with pytest.raises(dataclasses.FrozenInstanceError):
        launches[0].kernel = "other"  # type: ignore[misc]


@pytest.mark.usefixtures("without_compilers_for_gpus")
def test_a_function_of_several_kernels() -> None:
    add = kspec.ElementwiseKernel("T x, T y", "T z", "z = x + y", "add")
    total = kspec.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    r = kspec.review(lambda x: total(add(x, x)), np.ones(1 << 14, "f4"))
    names = [one.kernel.partition("<")[0] for one in r.launches]
    assert names == ["add", "total"]
    assert r.to_dict()["kernel"] == r.slowest.kernel
    assert len(r.lines) == sum(len(one.lines) for one in r.launches)


def test_a_program_prints_its_reviews() -> None:
    program = (
        "import kspec, numpy as np\n"
        "double = kspec.ElementwiseKernel('T x', 'T y', 'y = 2 * x', 'double_it')\n"
        "for _ in range(2): print(double(np.arange(4.)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "KSPEC_HOST_REVIEW": "1"},
    )
    assert done.stdout == "[0. 2. 4. 6.]\n" * 2
    assert done.stderr.count("double_it<double, kspec::Flat>  grid 1, block") == 1


def test_compilers_that_cannot_are_refused() -> None:
    assert "-fno-tree-sra" in sanitize_flags("gcc", "gcc g++ 12.2.0 x86_64", ("review",))
    assert "-fsanitize-coverage=trace-pc,bb,no-prune" in sanitize_flags(
        "clang", "clang clang++ 17.0.6 x86_64", ("review",)
    )
    with pytest.raises(NotSupportedError, match=r"reviews need g\+\+ 12 or newer, or clang\+\+"):
        sanitize_flags("gcc", "gcc g++ 11.4.0 x86_64", ("review",))
