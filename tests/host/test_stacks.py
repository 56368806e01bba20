"""The stacks of threads: CUDA's 512 KiB of local memory, and a fault beyond, never a wrong result."""

from __future__ import annotations

import pathlib
import resource

import numpy as np
import pytest

import kspec
from kspec.compiler.host import find_compiler
from tests.host.checked import fault_of

CODE = r"""
template <int BYTES> __device__ void keep(int* out) {
  int a[BYTES / 4];
  for (int i = 0; i < BYTES / 4; i += 64) a[i] = threadIdx.x + i;
  __syncthreads();  // the other threads have theirs now
  int wrong = 0;
  for (int i = 0; i < BYTES / 4; i += 64) wrong += a[i] != threadIdx.x + i;
  out[threadIdx.x] = wrong;
}
extern "C" __global__ void some(int* out) { keep<1000>(out); }
extern "C" __global__ void most(int* out) { keep<300 * 1024>(out); }
extern "C" __global__ void all(int* out) { keep<512 * 1024>(out); }
extern "C" __global__ void more(int* out) { keep<2 * 1024 * 1024>(out); }
extern "C" __global__ void far_more(int* out) { keep<40 * 1024 * 1024>(out); }
__device__ __noinline__ int plain(int* x, int depth) {
  volatile int a[9];
  a[depth % 9] = depth;
  return depth ? plain(x, depth - 1) + a[depth % 9] : x[0];
}
__device__ __noinline__ int printing(int* x, int depth) {
  volatile int a[9];
  a[depth % 9] = depth;
  printf("%d %f", depth, depth / 3.0);
  return depth ? printing(x, depth - 1) + a[depth % 9] : x[0];
}
__device__ int* volatile last;
__device__ __noinline__ int allocating(int* x, int depth) {
  int* a = (int*)malloc(4);
  last = a;
  *a = depth;
  int sum = depth ? allocating(x, depth - 1) + *a : x[0];
  free(a);
  return sum;
}
extern "C" __global__ void recurse(int* x, int depth, int kind) {
  x[1] = kind == 0 ? plain(x, depth) : kind == 1 ? printing(x, depth) : allocating(x, depth);
}
"""
MODES = ("bounds", "none", "memory")


@pytest.fixture(scope="module")
def module() -> kspec.RawModule:
    return kspec.RawModule(code=CODE)


def has_line(fault: kspec.HostFault) -> bool:
    # clang's code that makes room on the stack has none.
    return bool(fault.line) or find_compiler().kind != "gcc"


@pytest.mark.parametrize("mode", MODES)
def test_local_memory_of_threads_that_wait(module: kspec.RawModule, mode: str) -> None:
    for name in ("most", "all"):
        out = np.full(16, -1, np.int32)
        module.get_function(name)((1,), (16,), (out,), sanitize=mode)
        assert not out.any()
    for name in ("more", "far_more"):
        fault = fault_of(module.get_function(name), (1,), (16,), (out,), sanitize=mode)
        assert fault.kind == "stack-overflow"
        assert "a thread used more than 1024 KiB of stack" in str(fault)
        assert has_line(fault)
    out = np.full(1024, -1, np.int32)
    module.get_function("some")((1,), (1024,), (out,), sanitize=mode)
    assert not out.any()


def resident_bytes() -> int:
    fields = pathlib.Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def test_many_deep_stacks_give_their_memory_back(module: kspec.RawModule) -> None:
    out = np.full(1024, -1, np.int32)
    module.get_function("some")((1,), (1024,), (out,), sanitize="none")
    before = resident_bytes()
    module.get_function("all")((1,), (1024,), (out,), sanitize="none")  # uses 512 MiB
    assert not out.any()
    assert resident_bytes() - before < 300 << 20


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("kind", "name"), [(0, "plain"), (1, "printing"), (2, "allocating")])
def test_recursion(
    module: kspec.RawModule, mode: str, kind: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    x = np.array([5, 0], np.int32)
    kernel = module.get_function("recurse")
    for depth in (0, 1, 1000):
        kernel((1,), (1,), (x, np.int32(depth), np.int32(kind)), sanitize=mode)
        assert x[1] == 5 + depth * (depth + 1) // 2
    # The end of the stack comes in the function, or in what it calls.
    for depth in (60_000, 60_001, 200_000):
        fault = fault_of(kernel, (1,), (1,), (x, np.int32(depth), np.int32(kind)), sanitize=mode)
        assert fault.kind == "stack-overflow"
        assert has_line(fault)
    kernel((1,), (1,), (x, np.int32(10), np.int32(kind)), sanitize=mode)
    assert x[1] == 60
    assert name != "printing" or "10 3.333333" in capsys.readouterr().out


def test_arrays_of_threads_that_were_stopped_are_closed() -> None:
    """Beside them, the arrays of the next launch would have no bounds."""
    source = """extern "C" __global__ void stop(int* x, int last) {
      int l[1500];
      for (int k = 0; k < 1500; k++) l[k] = k + x[0];
      __syncthreads();
      if (threadIdx.x == last) __trap();
      __syncthreads();
      x[1] = l[x[0]];
    }
    extern "C" __global__ void reach(int* x, long long i) {
      int l[4] = {x[0], 1, 2, 3};
      l[i] = 7;
      x[1] = l[x[0]];
    }"""
    module = kspec.RawModule(code=source)
    x = np.zeros(2, np.int32)
    assert fault_of(module.get_function("stop"), (1,), (64,), (x, np.int32(63))).kind == "trap"
    reach = module.get_function("reach")
    for index in range(-60_000, 60_000, 997):
        fault = fault_of(reach, (1,), (1,), (x, np.int64(index)))
        assert fault.kind == "illegal-address", index
