"""Bounds of kernels on NumPy arrays: what they may touch by default, and the faults of the rest."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import kspec
from kspec.errors import CheckOptionError
from tests.host import fuzz_bounds
from tests.host.checked import fault_of

CODE = r"""
__constant__ float weights[3] = {1, 2, 3};
__device__ int table[5];
struct Fits { float values[7000]; };
extern "C" __global__ void square(float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i] = x[i] * x[i];
}
extern "C" __global__ void put(float* x, long long i) { x[i] = 1; }
extern "C" __global__ void get(float* x, float* y, long long i) { y[0] = x[i]; }
extern "C" __global__ void get_const(const float* x, float* y, long long i) { y[0] = x[i]; }
extern "C" __global__ void constant(float* y, long long i) { y[0] = weights[i]; }
extern "C" __global__ void variable(float* y, long long i) { table[i] = 1; y[0] = 1; }
extern "C" __global__ void shared(float* y, long long i) {
  __shared__ float tile[10];
  tile[i] = 1;
  y[0] = tile[i];
}
extern "C" __global__ void dynamic(float* y, long long i) {
  extern __shared__ float tile[];
  tile[i] = 1;
  y[0] = tile[i];
}
extern "C" __global__ void local(float* y, long long i) {
  float tile[10];
  for (int k = 0; k < 10; k++) tile[k] = k;
  tile[i] = 1;
  y[0] = tile[i / 2];
}
extern "C" __global__ void heap(float* y, long long i, float** keep) {
  float* x = (float*)malloc(40);
  *keep = x;
  __threadfence();  // else the compiler drops the allocation
  x[i] = 1;
  y[0] = x[i];
  __threadfence();
  free(x);
}
extern "C" __global__ void release(float* y) { free(y); }
extern "C" __global__ void add(int* x, long long i) { atomicAdd(x + i, 1); }
extern "C" __global__ void four(float4* x, long long i) { x[i] = make_float4(1, 2, 3, 4); }
extern "C" __global__ void copy(char* to, const char* from, long long n) { memcpy(to, from, n); }
extern "C" __global__ void sine(float* y, long long i) { sincosf(1.0f, y + i, y); }
extern "C" __global__ void take(Fits s, float* y) { y[threadIdx.x] = s.values[threadIdx.x]; }
extern "C" __global__ void turn(float* x) {
  __shared__ float s[64];
  s[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = s[63 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def module() -> kspec.RawModule:
    return kspec.RawModule(code=CODE)


@pytest.mark.parametrize("size", [100, 3])
def test_the_first_element_beside_an_array(module: kspec.RawModule, size: int) -> None:
    fault = fault_of(module.get_function("square"), (1,), (128,), (np.ones(size, np.float32),))
    assert fault.kind == "illegal-address"
    assert f"0 bytes past the end of argument 0 ({4 * size} bytes)" in str(fault)
    assert f"thread ({size},0,0)" in str(fault)
    assert fault.line == 7


@pytest.mark.parametrize(
    ("index", "words"),
    [
        (12, "0 bytes past the end of argument 0 (48 bytes)"),
        (-1, "4 bytes before argument 0"),
        (10**6, "3999952 bytes past the end of argument 0"),
        (-(10**9), "4000000000 bytes before argument 0"),
        (10**11, "399999999952 bytes past the end of argument 0"),
        (2**60, "an address that no memory can have"),
    ],
)
def test_near_and_far(module: kspec.RawModule, index: int, words: str) -> None:
    x = np.zeros(12, np.float32)
    assert words in str(fault_of(module.get_function("put"), (1,), (1,), (x, index)))
    assert not x.any()


@pytest.mark.parametrize("size", [1, 2, 3, 8, 1000, 70_000, 3_000_000])
def test_the_last_byte_counts(module: kspec.RawModule, size: int) -> None:
    put = module.get_function("put")
    whole = np.zeros(4 * size + 12, np.uint8)
    for shift in range(4):  # addresses that are not aligned
        raw = bytearray(4 * size + shift)
        x = np.frombuffer(raw, np.float32, offset=shift, count=size)
        put((1,), (1,), (x, size - 1))
        put((1,), (1,), (x, 0))
        assert x[0] == x[-1] == 1
        assert "0 bytes past" in str(fault_of(put, (1,), (1,), (x, size)))
    part = whole[4 : 4 + 4 * size].view(np.float32)  # the array behind a view counts
    put((1,), (1,), (part, size))
    assert whole[4 + 4 * size : 8 + 4 * size].any()


def test_the_array_behind_a_view_may_be_a_memmap(
    module: kspec.RawModule, tmp_path: pathlib.Path
) -> None:
    put = module.get_function("put")
    mapped = np.memmap(tmp_path / "mapped", np.float32, "w+", shape=10_000)
    part = np.asarray(mapped[4000:4100])
    for index in (2000, 2000, 2000, 2000):  # repeated calls take another way
        put((1,), (1,), (part, index))
    assert mapped[6000] == 1


def test_strides(module: kspec.RawModule) -> None:
    put = module.get_function("put")
    x = np.zeros(10, np.float32)
    put((1,), (1,), (x[::-1], 0))
    assert x[9] == 1
    put((1,), (1,), (x[::-1], -9))
    assert x[0] == 1
    assert "past the end" in str(fault_of(put, (1,), (1,), (x[::-1], 1)))
    empty = np.zeros(0, np.float32)
    assert fault_of(put, (1,), (1,), (empty, 0)).kind == "illegal-address"


@pytest.mark.parametrize(
    ("name", "last", "words"),
    [
        ("constant", 2, "variable weights (12 bytes)"),
        ("variable", 4, "variable table (20 bytes)"),
        ("shared", 9, "__shared__ tile (40 bytes)"),
        ("local", 9, "local variable tile (40 bytes)"),
    ],
)
def test_memory_of_the_kernel(module: kspec.RawModule, name: str, last: int, words: str) -> None:
    kernel, y = module.get_function(name), np.zeros(1, np.float32)
    kernel((1,), (1,), (y, last))
    assert f"0 bytes past the end of {words}" in str(fault_of(kernel, (1,), (1,), (y, last + 1)))
    assert fault_of(kernel, (1,), (1,), (y, 10**8)).kind == "illegal-address"
    kernel((1,), (1,), (y, 0))  # the next launch is unharmed


@pytest.mark.parametrize("name", ["constant", "variable", "shared", "dynamic", "local"])
def test_a_far_index_ends_nowhere(module: kspec.RawModule, name: str) -> None:
    y = np.zeros(1, np.float32)
    code = 'extern "C" __global__ void wait(float* y) { __syncthreads(); y[0] = 1; }'
    kspec.RawKernel(code, "wait")((64,), (40,), (y,))  # 40 stacks a worker
    late = kspec.RawModule(code=f"{CODE}// loaded beside the stacks, for {name}\n")
    kernel = late.get_function(name)
    for step in range(1, 120):
        for index in (step * 1_000_003, -step * 1_000_003):
            assert fault_of(kernel, (1,), (1,), (y, index)).kind == "illegal-address", index


LOCALS = r"""
extern "C" __global__ void flat(float* y, long long i) {
  float a[4];
  for (int k = 0; k < 4; k++) a[k] = k;
  a[i] = 1;
  y[0] = a[i & 3] + a[i];
}
__device__ __noinline__ float inner(float* y, long long i, int depth) {
  float a[4];
  for (int k = 0; k < 4; k++) a[k] = k;
  a[i] = 1;
  if (depth) y[1] += inner(y, (long long)a[0] & 1, depth - 1);
  return a[i & 3] + a[i];
}
extern "C" __global__ void nested(float* y, long long i) { y[0] = inner(y, i, 2); }
extern "C" __global__ void waiting(float* y, long long i) {
  float a[4];
  for (int k = 0; k < 4; k++) a[k] = k;
  __syncthreads();
  a[threadIdx.x == 1 ? i : 0] = 1;
  __syncthreads();
  if (threadIdx.x == 1) y[0] = a[i & 3] + a[i];
}
extern "C" __global__ void neighbours(float* y, long long* places, long long i) {
  float a[4];
  for (int k = 0; k < 4; k++) a[k] = threadIdx.x + k;
  places[threadIdx.x] = (long long)a;
  __syncthreads();
  if (threadIdx.x == 1) a[i] = 100;
  __syncthreads();
  y[threadIdx.x] = a[3];
}
extern "C" __global__ void large(float* y, long long i) {
  float a[5000];
  for (int k = 0; k < 5000; k++) a[k] = y[1];
  a[i] = 1;
  y[0] = a[i] + a[i / 2];
}
__device__ __noinline__ int down(int* y, int depth) {
  int a[40];
  for (int k = 0; k < 40; k++) a[k] = y[k & 1] + k + depth;
  int below = depth ? down(y, depth - 1) : 0;
  return below + a[(depth + y[1]) % 40];
}
extern "C" __global__ void deep(int* y, long long depth) { y[2] = down(y, depth); }
"""


@pytest.mark.parametrize("name", ["flat", "nested", "waiting"])
def test_every_index_beside_a_local_array(name: str) -> None:
    # None of them may reach a return address or a register that a function saved.
    kernel = kspec.RawModule(code=LOCALS).get_function(name)
    threads = 4 if name == "waiting" else 1
    far = [sign * k for sign in (1, -1) for k in (500, 5000, 65_536, 10**6, 10**9, 2**45, 2**59)]
    for index in (*range(-100, 101), *far):
        y = np.zeros(2, np.float32)
        if 0 <= index < 4:
            kernel((1,), (threads,), (y, index))
            assert y[0] == 2
            continue
        fault = fault_of(kernel, (1,), (threads,), (y, index))
        assert fault.kind == "illegal-address", fault
        assert fault.line, fault
        if -8 <= index < 12:
            assert "of local variable a" in str(fault) or "before local variable a" in str(fault)


def test_local_arrays_of_other_threads_that_wait() -> None:
    kernel = kspec.RawModule(code=LOCALS).get_function("neighbours")
    y, places = np.zeros(64, np.float32), np.zeros(64, np.int64)
    kernel((1,), (64,), (y, places, 0))
    assert y.tolist() == list(range(3, 67))
    assert len(set(places)) == 64
    for thread in (0, 2, 3, 31, 63):
        distance = (places[thread] - places[1]) // 4
        fault = fault_of(kernel, (1,), (64,), (y, places, distance + 2))
        assert fault.kind == "illegal-address"
        assert "thread (1,0,0)" in str(fault)
    kernel((3,), (64,), (y, places, 3))
    assert y.tolist() == [3, 100, *range(5, 67)]


def test_large_local_arrays_and_many_of_them() -> None:
    module = kspec.RawModule(code=LOCALS)
    y = np.zeros(2, np.float32)
    module.get_function("large")((4,), (64,), (y, 4999))
    assert y[0] == 1
    fault = fault_of(module.get_function("large"), (1,), (1,), (y, 5000))
    assert "0 bytes past the end of local variable a (20000 bytes)" in str(fault)
    for depth in (0, 10, 200):
        z = np.array([0, 0, 0], np.int32)
        module.get_function("deep")((1,), (1,), (z, depth))
        assert z[2] == sum(k % 40 + k for k in range(depth + 1))
    assert fault_of(module.get_function("deep"), (1,), (1,), (z, 10**6)).kind == "stack-overflow"
    module.get_function("deep")((1,), (1,), (z, 3))  # the abandoned stack is used again
    assert z[2] == 12


def test_shared_memory_of_an_earlier_launch_is_closed(module: kspec.RawModule) -> None:
    x = np.arange(64, dtype=np.float32)
    module.get_function("turn")((1,), (64,), (x,))  # its variable is larger
    fault_of(module.get_function("shared"), (1,), (1,), (x, 10))


def test_dynamic_shared_memory(module: kspec.RawModule) -> None:
    kernel, y = module.get_function("dynamic"), np.zeros(1, np.float32)
    kernel((1,), (1,), (y, 4), shared_mem=20)
    fault = fault_of(kernel, (1,), (1,), (y, 5), shared_mem=20)
    assert "0 bytes past the end of dynamic shared memory (20 bytes)" in str(fault)
    fault = fault_of(kernel, (1,), (1,), (y, 0))  # shared_mem= is forgotten
    assert "0 bytes past the end of dynamic shared memory (0 bytes)" in str(fault)
    fault = fault_of(kernel, (1,), (1,), (y, 1023))
    assert "4092 bytes past the end of dynamic shared memory (0 bytes)" in str(fault)


def test_the_heap_of_the_device(module: kspec.RawModule) -> None:
    kernel, y, keep = module.get_function("heap"), np.zeros(1, np.float32), np.zeros(1, np.uint64)
    kernel((1,), (1,), (y, 9, keep))
    assert y[0] == 1
    fault = fault_of(kernel, (1,), (1,), (y, 10, keep))
    assert "0 bytes past the end of memory from malloc() (40 bytes)" in str(fault)
    fault = fault_of(module.get_function("release"), (1,), (1,), (y,))
    assert "which malloc() did not return" in str(fault)


def test_accesses_of_other_sorts(module: kspec.RawModule) -> None:
    x = np.zeros(16, np.int32)
    module.get_function("add")((1,), (8,), (x, 15))
    assert x[15] == 8
    fault_of(module.get_function("add"), (1,), (8,), (x, 16))
    four = module.get_function("four")
    four((1,), (1,), (x, 3))
    fault_of(four, (1,), (1,), (x, 4))
    copy, source = module.get_function("copy"), np.ones(10, np.uint8)
    copy((1,), (1,), (x, source, 10))
    fault_of(copy, (1,), (1,), (x, source, 11))
    fault_of(copy, (1,), (1,), (source, x, 11))
    sine, y = module.get_function("sine"), np.zeros(2, np.float32)
    sine((1,), (1,), (y, 1))
    fault_of(sine, (1,), (1,), (y, 2))


def test_null(module: kspec.RawModule) -> None:
    assert "a null pointer" in str(fault_of(module.get_function("put"), (1,), (1,), (None, 0)))


def test_an_array_that_is_no_argument(module: kspec.RawModule) -> None:
    put, x, other = module.get_function("put"), np.zeros(4, np.float32), np.zeros(4, np.float32)
    distance = (other.ctypes.data - x.ctypes.data) // 4
    put((1,), (1,), (other, 0))  # it was one in the last launch
    assert fault_of(put, (1,), (1,), (x, distance)).kind == "illegal-address"
    put((1,), (1,), (x, distance), sanitize="none")
    assert other[0] == 1


class TestReadOnly:
    def test_reads(self, module: kspec.RawModule) -> None:
        x, y = np.arange(4, dtype=np.float32), np.zeros(1, np.float32)
        x.flags.writeable = False
        for name in ("get", "get_const"):
            for _ in range(3):
                module.get_function(name)((1,), (1,), (x, y, 3))
            assert y[0] == 3
            fault_of(module.get_function(name), (1,), (1,), (x, y, 4))

    def test_writes(self, module: kspec.RawModule) -> None:
        x = np.arange(4, dtype=np.float32)
        put = module.get_function("put")
        put((1,), (1,), (x, 0))
        x.flags.writeable = False
        fault = fault_of(put, (1,), (1,), (x, 3))
        assert "write of 4 bytes at offset 12 of argument 0" in str(fault)
        assert "which is read-only" in str(fault)
        assert x.tolist() == [1, 1, 2, 3]


def test_parameters_beyond_the_limit_of_cuda() -> None:
    # Not in the module: where there is a GPU, that is compiled by NVRTC too, which refuses it.
    code = """
    struct Large { float values[9000]; };
    extern "C" __global__ void take_large(Large s, float* y) { y[0] = s.values[0]; }
    """
    large = np.zeros(1, [("values", np.float32, (9000,))])
    with pytest.raises(kspec.LaunchError, match=r"take_large: its parameters have 36008 bytes"):
        kspec.RawKernel(code, "take_large")((1,), (1,), (large, np.zeros(1, np.float32)))


def test_a_thread_with_a_small_stack(module: kspec.RawModule) -> None:
    fits = np.zeros(1, [("values", np.float32, (7000,))])
    fits["values"] = np.arange(7000)
    results: list[Any] = []

    def call() -> None:
        x, y = np.arange(64, dtype=np.float32), np.zeros(4, np.float32)
        module.get_function("turn")((1,), (64,), (x,))
        module.get_function("take")((1,), (4,), (fits, y))
        results.extend((x.tolist(), y.tolist()))

    call()  # compile with a large one
    before = threading.stack_size(64 * 1024)
    try:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert results[2:] == results[:2] == [list(range(63, -1, -1)), [0, 1, 2, 3]]


CALLS = textwrap.dedent("""
    import multiprocessing, resource, numpy as np, kspec
    code = 'extern "C" __global__ void put(float* x, long long i) { x[i] = i; }'
    put = kspec.RawKernel(code, "put")

    def calls():
        x = np.zeros(1000, np.float32)
        put((4,), (64,), (x, 999))
        assert x[999] == 999
        for index in (1000, -1, 10**9):
            try:
                put((4,), (64,), (x, index))
            except kspec.HostFault as fault:
                assert fault.kind == "illegal-address" and fault.line, fault
            else:
                raise AssertionError(index)
""")


def run_python(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_process_with_few_addresses() -> None:
    limit = "resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))"
    run_python(f"{CALLS}\n{limit}\ncalls()")


def test_a_process_that_forks() -> None:
    fork = """
        calls()
        child = multiprocessing.get_context("fork").Process(target=calls)
        child.start()
        child.join(60)
        assert child.exitcode == 0, child.exitcode
        calls()
    """
    run_python(CALLS + textwrap.dedent(fork))


@pytest.mark.parametrize("value", [3, 1.5, [1], True])
def test_a_mode_that_is_no_text(value: Any) -> None:
    with pytest.raises(CheckOptionError, match=r"not a checking mode; give some of init, memory"):
        kspec.Checks(value)


def test_none_stands_alone() -> None:
    with pytest.raises(CheckOptionError, match="mixes 'none' with others"):
        kspec.Checks("none,race")
    assert kspec.Checks("bounds") == kspec.Checks()


def test_elementwise_kernels_with_raw_operands() -> None:
    shifted = kspec.ElementwiseKernel("raw T x, int64 by", "T y", "y = x[i + by]", "shifted_by")
    x = np.arange(100, dtype=np.float32)
    assert shifted(x, 0, size=100).tolist() == x.tolist()
    fault = fault_of(shifted, x, 1, size=100)
    assert "0 bytes past the end of" in str(fault)
    assert "thread (" in str(fault)


def test_reduction_kernels_with_raw_operands() -> None:
    gather = kspec.ReductionKernel(
        "raw T x, int64 k", "T y", "x[k]", "a + b", "y = a", "0", "gather"
    )
    x = np.arange(10, dtype=np.float64)
    index = np.arange(10)
    assert gather(x, index) == 45
    assert "past the end of" in str(fault_of(gather, x, index + 1))


def test_random_kernels() -> None:
    outcomes = list(fuzz_bounds.run(seed=20, kernels=30))
    assert outcomes.count("fault") > 10
    assert outcomes.count("right") > 5


@pytest.mark.slow
def test_many_random_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    # A part of what `python -m tests.host.fuzz_bounds` runs, which takes ten minutes.
    monkeypatch.setattr("sys.argv", ["fuzz_bounds", "--kernels", "300"])
    assert fuzz_bounds.main() == 0
