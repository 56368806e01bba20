"""Counts of small kernels that are known by hand: one warp, or a few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kspec
from kspec.reviews.lines import AccessedLine
from kspec.reviews.review import LaunchReview

pytestmark = pytest.mark.usefixtures("without_compilers_for_gpus")

INDICES = {
    "i": (4, 128),
    "i + 1": (5, 128),  # begins within a sector, ends within another
    "i + 8": (4, 128),
    "2 * i": (8, 128),
    "3 * i": (12, 128),
    "8 * i": (32, 128),
    "32 * i": (32, 128),
    "31 - i": (4, 128),
    "i / 2": (2, 64),
    "0": (1, 4),
    "i ^ 1": (4, 128),
}
CONFLICTS = {
    "s[i]": 1,
    "s[2 * i]": 2,
    "s[3 * i]": 1,
    "s[4 * i]": 4,
    "s[32 * i]": 32,
    "s[33 * i]": 1,
    "s[0]": 1,
    "s[i / 4]": 1,
    "s[16 * i]": 16,
}
# Halves that want the same words go one after the other all the same: i % 8.
WIDE_PASSES = {"i": (2, 1), "2 * i": (4, 2), "0": (1, 1), "i / 2": (1, 1), "i % 8": (2, 1)}
PASSES_OF_FOUR = {"i": 4, "0": 2, "i / 2": 2, "i % 4": 4, "2 * i": 8}
WAITS = {
    "y[i] = x[i] + x[i + 64] + x[i + 128];": 1,
    "y[i] = x[i];\ny[i + 32] = x[i + 64];": 2,  # the store may change what is loaded next
    "float s = 0;\nfor (int k = 0; k < 16; k++)\n  s += x[32 * k + i];\ny[i] = s;": 1,
    "for (int k = 0; k < 16; k++)\n  y[32 * k + i] = x[32 * k + i];": 16,
    "float a = x[i];\n__syncthreads();\ny[i] = a + x[i + 32];": 2,
    "y[i] = 1;": 0,
}
LOAD = "int i = threadIdx.x;\nfloat v = x[{}];\ny[i] = v;"
SHARED = (
    "__shared__ float s[1056];\nint i = threadIdx.x;\ns[i] = x[i];\n__syncthreads();\ny[i] =\n  {};"
)
WIDE = (
    "__shared__ double s[64];\nint i = threadIdx.x;\ns[i] = i;\n__syncthreads();\ny[i] =\n  s[{}];"
)
FOUR = (
    "__shared__ float4 s[64];\nint i = threadIdx.x;\n"
    "s[i] = make_float4(i, 0, 0, 0);\n__syncthreads();\nfloat4 v =\n  s[{}];\ny[i] = v.x + v.w;"
)
WAIT = "int i = threadIdx.x;\n{}"
TABLES = {LOAD: INDICES, SHARED: CONFLICTS, WIDE: WIDE_PASSES, FOUR: PASSES_OF_FOUR, WAIT: WAITS}
# The bodies of one translation unit.
TOGETHER = [body.format(one) for body, table in TABLES.items() for one in table]


def reviewed(
    body: str,
    *arguments: Any,
    grid: tuple[int, ...] = (1,),
    block: tuple[int, ...] = (32,),
    parameters: str = "const float* x, float* y",
    before: str = "",
    **keywords: Any,
) -> LaunchReview:
    """Return the review of one launch of a kernel with this body."""
    bodies = TOGETHER if body in TOGETHER else [body]
    code = before + "".join(
        f'\nextern "C" __global__ void k{number}({parameters}) {{\n{one}\n}}\n'
        for number, one in enumerate(bodies)
    )
    name = f"k{bodies.index(body)}"
    arguments = arguments or (np.arange(4096, dtype="f4"), np.zeros(4096, "f4"))
    (launch,) = kspec.review(
        kspec.RawKernel(code, name), grid, block, arguments, **keywords
    ).launches
    return launch


def line(launch: LaunchReview, space: str, kind: str) -> AccessedLine:
    """Return the only line with accesses of a kind."""
    (found,) = (one for one in launch.lines if (one.space, one.kind) == (space, kind))
    return found


@pytest.mark.parametrize("index", INDICES)
def test_sectors_of_a_load(index: str) -> None:
    sectors, nbytes = INDICES[index]
    body = LOAD.format(index)
    launch = reviewed(body)
    load = line(launch, "global", "load")
    assert (load.requests, load.lanes, load.sectors_per_request) == (1, 32, sectors)
    assert (load.bytes_used, load.bytes_moved) == (nbytes, 32 * sectors)
    assert load.efficiency == nbytes / (32 * sectors)
    # Each kernel before it has its body, a line around it on either side, and an empty one.
    before = sum(one.count("\n") + 4 for one in TOGETHER[: TOGETHER.index(body)])
    assert (load.file, load.line) == ("kernel.cu", before + 4)
    assert line(launch, "global", "store").sectors_per_request == 4


def test_arrays_begin_where_a_gpu_would_have_them() -> None:
    memory = np.zeros(4097, "f4")
    body = "y[threadIdx.x] = x[threadIdx.x];"
    odd = reviewed(body, memory[1:], np.zeros(64, "f4"))
    assert line(odd, "global", "load").sectors_per_request == 5
    assert line(odd, "global", "load").misaligned == 1
    even = reviewed(body, memory[:4096], np.zeros(64, "f4"))
    assert line(even, "global", "load").sectors_per_request == 4
    assert line(even, "global", "load").misaligned == 0


@pytest.mark.parametrize(("kind", "sectors"), [("char", 1), ("short", 2), ("double", 8)])
def test_sectors_of_other_sizes(kind: str, sectors: int) -> None:
    array = np.zeros(64, {"char": "i1", "short": "i2", "double": "f8"}[kind])
    launch = reviewed(
        "y[threadIdx.x] = x[threadIdx.x];",
        array,
        array.copy(),
        parameters=f"const {kind}* x, {kind}* y",
    )
    assert line(launch, "global", "load").sectors_per_request == sectors
    assert line(launch, "global", "store").sectors_per_request == sectors


def test_a_vector_is_one_request() -> None:
    launch = reviewed("y[threadIdx.x] = x[threadIdx.x];", parameters="const float4* x, float4* y")
    load = line(launch, "global", "load")
    assert (load.requests, load.sectors_per_request, load.bytes_used) == (1, 16, 512)


def test_a_struct_is_copied_in_pieces() -> None:
    launch = reviewed(
        "y[threadIdx.x] = x[threadIdx.x];",
        before="struct Three { float a, b, c; };",
        parameters="const Three* x, Three* y",
    )
    load = line(launch, "global", "load")
    assert (load.requests, load.lanes, load.sectors_per_request) == (3, 96, 12)


@pytest.mark.parametrize("element", CONFLICTS)
def test_conflicts_of_shared_memory(element: str) -> None:
    launch = reviewed(SHARED.format(element))
    load = line(launch, "shared", "load")
    assert (load.requests, load.conflict_ways, load.passes) == (
        1,
        CONFLICTS[element],
        CONFLICTS[element],
    )
    assert line(launch, "shared", "store").conflict_ways == 1


@pytest.mark.parametrize("index", WIDE_PASSES)
def test_passes_of_wide_words(index: str) -> None:
    load = line(reviewed(WIDE.format(index)), "shared", "load")
    assert (load.passes, load.conflict_ways) == WIDE_PASSES[index]


@pytest.mark.parametrize("index", PASSES_OF_FOUR)
def test_passes_of_sixteen_bytes(index: str) -> None:
    found = line(reviewed(FOUR.format(index)), "shared", "load")
    assert found.passes == PASSES_OF_FOUR[index]


def test_dynamic_shared_memory_counts_alike() -> None:
    launch = reviewed(
        "extern __shared__ float s[];\nint i = threadIdx.x;\n"
        "s[i] = x[i];\n__syncthreads();\ny[i] = s[8 * i % 64];",
        shared_mem=4096,
    )
    assert line(launch, "shared", "load").conflict_ways == 2  # eight words
    assert launch.shared_mem == 4096


def test_threads_part_and_meet_again() -> None:
    launch = reviewed(
        "int i = threadIdx.x;\nif (i % 2)\n  y[i] = 1;\nelse\n  y[i] = x[i];\ny[i + 64] = 2;"
    )
    stores = [one for one in launch.lines if one.kind == "store"]
    assert [(one.line, one.requests, one.lanes) for one in stores] == [
        (5, 1, 16),
        (7, 1, 16),
        (8, 1, 32),
    ]
    (branch,) = launch.branches
    assert (branch.line, branch.visits, branch.diverged, branch.active) == (4, 1, 1.0, 32)


def test_warps_that_go_together_do_not_part() -> None:
    launch = reviewed(
        "int i = threadIdx.x;\nif (i < 32)\n  y[i] = x[i];\nelse\n  y[i] = 1;", block=(64,)
    )
    assert launch.branches == ()
    assert [one.active for one in launch.lines if one.kind == "store"] == [32, 32]


def test_a_loop_goes_on_as_long_as_its_longest_thread() -> None:
    launch = reviewed(
        "int i = threadIdx.x;\nfloat sum = 0;\nfor (int k = 0; k <= i; k++)\n"
        "  sum += x[64 * k + i];\ny[i] = sum;"
    )
    load = line(launch, "global", "load")
    assert (load.requests, load.lanes) == (32, 32 * 33 // 2)
    store = line(launch, "global", "store")
    assert (store.requests, store.lanes) == (1, 32)


def test_threads_of_nested_loops_meet_in_each_turn() -> None:
    launch = reviewed(
        "int i = threadIdx.x;\nfloat sum = 0;\nfor (int n = 0; n < 4; n++)\n"
        "  for (int k = 0; k < (i + 8 * n) % 32; k++)\n    sum += x[32 * k + i];\ny[i] = sum;"
    )
    # In each turn, the longest of the inner loops is 31.
    assert line(launch, "global", "load").requests == 4 * 31


def test_threads_that_return_early() -> None:
    launch = reviewed(
        "int i = threadIdx.x;\nif (i >= 20) return;\ny[i] = x[i];\nif (i >= 10) return;\ny[i + 64] = 1;"
    )
    stores = [one for one in launch.lines if one.kind == "store"]
    assert [(one.line, one.requests, one.lanes) for one in stores] == [(5, 1, 20), (7, 1, 10)]


@pytest.mark.parametrize(
    ("call", "kind"),
    [("atomicAdd(y, 1.f)", "float"), ("atomicAdd(y, 1)", "int"), ("atomicMax(y, 3)", "int")],
)
def test_an_atomic_is_one_request(call: str, kind: str) -> None:
    launch = reviewed(
        f"{call};", np.zeros(4, "f4" if kind == "float" else "i4"), parameters=f"{kind}* y"
    )
    (atomic,) = launch.lines
    assert (atomic.space, atomic.kind, atomic.requests) == ("global", "atomic", 1)
    assert (atomic.sectors_per_request, atomic.contention) == (1, 32)


def test_contention_of_a_histogram() -> None:
    keys = np.repeat(np.arange(8, dtype="i4"), 4)
    launch = reviewed(
        "__shared__ int bins[8];\nif (threadIdx.x < 8) bins[threadIdx.x] = 0;\n"
        "__syncthreads();\natomicAdd(&bins[x[threadIdx.x]], 1);",
        keys,
        parameters="const int* x",
    )
    assert line(launch, "shared", "atomic").contention == 4


def test_a_failed_compare_and_swap_is_an_atomic() -> None:
    launch = reviewed("atomicCAS(y, 5, 6);", np.zeros(1, "i4"), parameters="int* y")
    (atomic,) = launch.lines
    assert (atomic.kind, atomic.requests, atomic.lanes) == ("atomic", 1, 32)


def test_constants_are_not_global() -> None:
    launch = reviewed(
        "y[threadIdx.x] = c[threadIdx.x % 8] + d[threadIdx.x];",
        before="__constant__ float c[8]; __device__ float d[32];",
    )
    assert line(launch, "constant", "load").lanes == 32
    assert line(launch, "global", "load").sectors_per_request == 4


def test_a_grid_is_sampled_and_scaled() -> None:
    x = np.zeros(1 << 20, "f4")
    launch = reviewed(
        "int i = blockIdx.x * 256 + threadIdx.x;\ny[i] = x[i] + 1;",
        x,
        np.zeros_like(x),
        grid=(4096,),
        block=(256,),
    )
    assert (launch.blocks, launch.sampled) == (4096, 64)
    assert line(launch, "global", "load").requests == 32768


def test_results_are_those_of_a_plain_launch() -> None:
    x, y = np.arange(1 << 20, dtype="f4"), np.zeros(1 << 20, "f4")
    reviewed(
        "int i = blockIdx.x * 256 + threadIdx.x;\ny[i] = x[i] + blockIdx.x;",
        x,
        y,
        grid=(4096,),
        block=(256,),
    )
    np.testing.assert_array_equal(y, x + np.arange(4096).repeat(256))


def test_blocks_of_a_grid_that_meet() -> None:
    code = (
        "#include <cooperative_groups.h>\n"
        'extern "C" __global__ void k(float* x, float* y) {\n'
        "  int i = blockIdx.x * 32 + threadIdx.x;\n  x[i] = i;\n"
        "  cooperative_groups::this_grid().sync();\n  y[i] = x[127 - i];\n}"
    )
    kernel = kspec.RawKernel(code, "k", enable_cooperative_groups=True)
    x, y = np.zeros(128, "f4"), np.zeros(128, "f4")
    (launch,) = kspec.review(kernel, (4,), (32,), (x, y)).launches
    np.testing.assert_array_equal(y, np.arange(128)[::-1])
    assert [(one.kind, one.requests, one.sectors_per_request) for one in launch.lines] == [
        ("store", 4, 4),
        ("load", 4, 4),
        ("store", 4, 4),
    ]


@pytest.mark.parametrize("body", WAITS)
def test_waits_for_loads(body: str) -> None:
    assert reviewed(WAIT.format(body)).waits == WAITS[body]


@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_a_loaded_address_is_a_wait(dtype: str) -> None:
    order = np.random.default_rng(3).permutation(64).astype(dtype)
    kind = {"i4": "int", "i8": "long long"}[dtype]
    gathered = reviewed(
        "y[threadIdx.x] = x[index[threadIdx.x]];",
        np.arange(64, dtype="f4"),
        order,
        np.zeros(64, "f4"),
        parameters=f"const float* x, const {kind}* index, float* y",
    )
    assert gathered.waits == 2
    chased = reviewed(
        f"{kind} at = threadIdx.x;\nfor (int k = 0; k < 20; k++)\n  at = x[at];\ny[threadIdx.x] = at;",
        order,
        np.zeros(32, "f4"),
        parameters=f"const {kind}* x, float* y",
    )
    assert chased.waits == 20
    alone = reviewed(
        f"{kind} at = 1;\nfor (int k = 0; k < 20; k++)\n  at = x[at];\ny[0] = at;",
        (np.arange(64) * 5 + 2).astype(dtype) % 64,
        np.zeros(32, "f4"),
        parameters=f"const {kind}* x, float* y",
        block=(1,),
    )
    assert alone.waits == 20


def test_loads_that_count_lanes_are_no_addresses() -> None:
    launch = reviewed(
        "y[threadIdx.x] = x[threadIdx.x] + z[threadIdx.x];",
        np.arange(32, dtype="i4"),
        np.arange(32, dtype="i4"),
        np.zeros(32, "f4"),
        parameters="const int* x, const int* z, float* y",
    )
    assert launch.waits == 1


def test_busy_blocks_are_fewer() -> None:
    x, y = np.zeros(256, "f4"), np.zeros(64 * 256, "f4")
    launch = reviewed(
        "float s = 0;\nfor (int k = 0; k < 1000; k++)\n  s += x[threadIdx.x ^ k & 7];\n"
        "y[blockIdx.x * 256 + threadIdx.x] = s + 1;",
        x,
        y,
        grid=(64,),
        block=(256,),
    )
    assert launch.blocks == 64
    assert 1 <= launch.sampled <= 8  # each keeps half a million events
    assert line(launch, "global", "load").requests == 64 * 8 * 1000
    np.testing.assert_array_equal(y, np.ones_like(y))


def test_what_a_thread_does_beyond_is_taken_to_be_alike() -> None:
    launch = reviewed(
        "float s = 0;\nfor (int k = 0; k < 400000; k++)\n  s += x[k & 1023];\ny[threadIdx.x] = s;"
    )
    assert launch.lost == 32
    assert line(launch, "global", "load").requests == pytest.approx(400_000, rel=1e-3)
    assert "32 threads did more than was looked at" in str(kspec.Review((launch,)))


def test_threads_meet_again_where_none_is_seen_to_return() -> None:
    launch = reviewed(
        "float s = 0;\nfor (int k = 0; k < 400000; k++) {\n"
        "  if (threadIdx.x % 2) s += y[k & 31]; else s -= y[k & 31];\n"
        "  s += x[k & 1023];\n}\ny[threadIdx.x] = s;"
    )
    assert launch.lost == 32
    together = max(line.active for line in launch.lines if line.kind == "load")
    assert together == pytest.approx(32, rel=1e-3)
